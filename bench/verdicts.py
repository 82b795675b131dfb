"""Every victim of the zoo, its verdict, and whether any wrong one was said with confidence."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests import stage
from tests.zoo import ZOO, complaints, perform

from . import tables


def main() -> None:
    rows, right, confident_and_wrong, skipped = [], 0, 0, 0
    for victim in ZOO:
        reasons = [why for need in victim.needs if (why := stage.WHY_NOT[need]())]
        if reasons:
            skipped += 1
            rows.append([victim.id, victim.expected.cause, "skipped", "", reasons[0]])
            continue
        with tempfile.TemporaryDirectory() as scratch:
            outcome = perform(victim, Path(scratch))
            said, wrong = outcome.why(), complaints(victim, outcome)
        right += not wrong
        confident_and_wrong += said["cause"] != victim.expected.cause and said["confidence"] in ("certain", "likely")
        roots = ", ".join(said["because"])
        rows.append(
            [
                victim.id,
                victim.expected.cause,
                said["cause"],
                said["confidence"],
                roots or "-",
                "; ".join(wrong) or "right",
            ]
        )
    header = ("VICTIM", "EXPECTED", "SAID", "CONFIDENCE", "BECAUSE", "")
    rows = [[*row, *[""] * (len(header) - len(row))] for row in rows]
    note = (
        f"{right} of {len(ZOO) - skipped} right, {skipped} skipped; "
        f"wrong with confidence certain or likely: {confident_and_wrong} (wanted: 0)"
    )
    tables.show("Verdicts of the zoo", header, rows, note)


if __name__ == "__main__":
    main()
