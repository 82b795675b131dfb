"""False alarms: healthy trainings of many kinds under keepfit, and everything that was said about them."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests import stage

from . import tables


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        process = stage.start(Path(folder), stage.victim("healthy_runs.py", *sys.argv[1:]))
        outcome = stage.finish(process, Path(folder), seconds=1800)
        trained = outcome.stdout.count("trained ")
        rows = []
        for finding in outcome.events("finding"):
            rows.append([finding["severity"], finding["code"], finding["message"][:110]])
        looks = len([report for report in outcome.events("report") if report.get("kind") == "health"])
        failed = [event for event in outcome.events("agent") if event.get("state") == "failed"]
    header = ("SEVERITY", "CODE", "SAID")
    errors = sum(row[0] == "error" for row in rows)
    warnings = sum(row[0] == "warning" for row in rows)
    note = (
        f"{trained} trainings, {looks} looks at their health; errors {errors} (wanted 0), warnings {warnings} "
        f"(wanted ≤ 1): {tables.verdict(not errors and warnings <= 1 and outcome.status == 0)}; failures {len(failed)}"
    )
    tables.show("Healthy trainings", header, rows or [["", "", "nothing"]], note)


if __name__ == "__main__":
    main()
