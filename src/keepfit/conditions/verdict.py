"""The verdict: every detector is asked, the most specific sure answer wins, and what was not seen is said."""

from __future__ import annotations

from dataclasses import replace

from ..blackbox.secrets import mask_text
from ..facts import (
    CONFIDENCE,
    Attempt,
    AttemptLine,
    Evidence,
    MemoryFacts,
    Record,
    Remedy,
    Verdict,
    Where,
)
from ..machine import interpreter
from .catalogue import BARE, Condition, Diagnosis, all_conditions
from .log_text import last_traceback

# At most this many lines of evidence are worth a person's attention.
MAX_EVIDENCE = 8


def judge(record: Record, conditions: tuple[Condition, ...] | None = None) -> Verdict:
    """Why this run ended as it did, from its record alone."""
    conditions = _in_question(record) if conditions is None else conditions
    attempt = prepared(record.last)
    if record.alive:
        return _running(record, attempt)
    condition, diagnosis = diagnose(attempt, conditions)
    cause = diagnosis.cause or condition.cause or "unknown"
    roots = _roots(attempt, cause, conditions)
    outcome = {"finished": "finished", "unknown": "unknown"}.get(cause, "died")
    made = Verdict(
        run=record.run,
        outcome=outcome,
        cause=cause,
        because=tuple(root for root, _, _ in roots),
        code=condition.code,
        confidence=diagnosis.confidence,
        summary=diagnosis.summary,
        where=_where(attempt, diagnosis),
        memory=_memory(attempt),
        evidence=(diagnosis.evidence + tuple(evidence for _, evidence, _ in roots))[:MAX_EVIDENCE],
        lacked=tuple(dict.fromkeys(record.lost + _lacked(attempt))),
        remedies=_remedies(attempt, condition, diagnosis, roots),
        attempts=tuple(_lines(record, conditions)),
        code_line=attempt.error.frame.code if attempt.error and attempt.error.frame else None,
    )
    return _without_secrets(made)


def _without_secrets(verdict: Verdict) -> Verdict:
    """What it quotes (output, messages, lines of code) may hold some."""
    return replace(
        verdict,
        summary=mask_text(verdict.summary),
        evidence=tuple(replace(item, says=mask_text(item.says)) for item in verdict.evidence),
        remedies=tuple(replace(item, how=mask_text(item.how)) for item in verdict.remedies),
        code_line=mask_text(verdict.code_line) if verdict.code_line else verdict.code_line,
    )


def _in_question(record: Record) -> tuple[Condition, ...]:
    """Status 0 and not a word about a training: it died of nothing, and the rest of the catalogue is not even loaded.

    (A training that keepfit ended because its numbers were lost ends with status 0, too.)
    """
    only, end = record.last, record.last.exit
    silent = not (record.findings or only.reports or only.danger or only.stall or only.error or only.child_deaths)
    if len(record.attempts) == 1 and end is not None and end.status == 0 and silent and only.agent != "awake":
        from .process.finished import CONDITION

        return (CONDITION,)
    return all_conditions()


def prepared(attempt: Attempt) -> Attempt:
    """The attempt with the exception read from its output, where the agent did not tell one."""
    if attempt.error is not None and attempt.error.told_by == "child" and attempt.exit and attempt.exit.signal:
        attempt = replace(attempt, error=None)  # a signal ended the command: a child's error did not
    if attempt.error is not None or attempt.alive:
        return attempt
    if attempt.exit is not None and (attempt.exit.status == 0 or attempt.exit.signal is not None):
        return attempt
    if attempt.ended_well:
        return attempt  # the agent saw no exception end it: a traceback in the output was handled
    return replace(attempt, error=last_traceback(attempt.stderr) or last_traceback(attempt.stdout))


def diagnose(attempt: Attempt, conditions: tuple[Condition, ...]) -> tuple[Condition, Diagnosis]:
    """The best answer of all detectors. One that fails is passed over: a verdict must always come."""
    answers: list[tuple[int, int, str, Condition, Diagnosis]] = []
    for condition in conditions:
        if condition.autopsy is None:
            continue
        try:
            found = condition.autopsy(attempt)
        except Exception:
            continue
        if found is not None:
            rank = CONFIDENCE.index(found.confidence)
            answers.append((condition.specificity, rank, condition.code, condition, found))
    # A weak specific answer does not beat a sure general one: what is only possible competes with the bare facts.
    answers.sort(key=lambda answer: (answer[0] if answer[1] < 2 else BARE, *answer[1:3]))
    _, _, _, condition, found = answers[0]
    return condition, found


def _roots(attempt: Attempt, cause: str, conditions: tuple[Condition, ...]) -> list[tuple[str, Evidence, Condition]]:
    found = []
    for condition in conditions:
        if condition.because is None or condition.root is None:
            continue
        try:
            evidence = condition.because(attempt, cause)
        except Exception:
            continue
        if evidence is not None:
            found.append((condition.root, evidence, condition))
    found.sort(key=lambda item: CONFIDENCE.index(item[1].strength))
    return found


def _remedies(
    attempt: Attempt, condition: Condition, diagnosis: Diagnosis, roots: list[tuple[str, Evidence, Condition]]
) -> tuple[Remedy, ...]:
    own = condition.remedies if diagnosis.remedies is None else diagnosis.remedies
    of_roots: tuple[Remedy, ...] = ()
    for _, _, root in roots:
        of_roots += (root.advice(attempt) if root.advice is not None else ()) + root.remedies
    return tuple(dict.fromkeys(of_roots + own))


def _where(attempt: Attempt, diagnosis: Diagnosis) -> Where:
    beat = attempt.last_beat
    frame = attempt.error.frame if attempt.error else None
    known = Where(
        attempt=attempt.n,
        epoch=beat.epoch if beat and beat.epoch >= 0 else None,
        step=beat.step if beat and beat.step >= 0 else None,
        phase=beat.phase if beat else None,
        file=frame.file if frame else None,
        line=frame.line if frame else None,
        pid=attempt.pid or None,
    )
    return replace(known, **diagnosis.where)


def _memory(attempt: Attempt) -> MemoryFacts:
    last = attempt.last_sample
    limit = attempt.limit
    return MemoryFacts(
        limit_bytes=limit.bytes if limit else 0,
        limit_source=limit.source if limit else "unknown",
        peak_bytes=attempt.peak,
        last_bytes=last.use if last else 0,
        forecast_bytes=_forecast(attempt),
        gpu=attempt.gpus,
    )


def _forecast(attempt: Attempt) -> int:
    """Of the first decision on a training step, before it; of several trainings the one that needs most."""
    decided = [each for each in attempt.splittings if each.step == "train" and not each.trial]
    first = {each.key: each.forecast for each in reversed(decided)}
    return max(first.values(), default=0)


_ISOLATED = "the agent: the interpreter was started with -I, -E or -S, which keep it out"


def _lacked(attempt: Attempt) -> tuple[str, ...]:
    lacked = list(attempt.lacked)
    if attempt.agent == "off":
        lacked.append("the agent: switched off by KEEPFIT_DISABLE=1")
    elif attempt.agent == "absent" and interpreter.keeps_out(interpreter.options(attempt.argv)):
        lacked.append(_ISOLATED)
    if attempt.kernel_log and not attempt.kernel_pids_are_ours:
        lacked.append("kernel log: in a container it names other pids than ours")
    return tuple(lacked)


def _lines(record: Record, conditions: tuple[Condition, ...]) -> list[AttemptLine]:
    lines = []
    for attempt in record.attempts:
        ready = prepared(attempt)
        condition, diagnosis = diagnose(ready, conditions)
        last = attempt.last_beat
        end = attempt.ended or (attempt.last_sample.time if attempt.last_sample else attempt.started)
        lines.append(
            AttemptLine(
                n=attempt.n,
                cause=diagnosis.cause or condition.cause or "unknown",
                changed=attempt.changed,
                seconds=round(max(0.0, end - attempt.started), 2),
                last_step=last.step if last and last.step >= 0 else None,
            )
        )
    return lines


def _running(record: Record, attempt: Attempt) -> Verdict:
    beat = attempt.last_beat
    doing = f", {beat.phase}" if beat else ""
    return Verdict(
        run=record.run,
        outcome="running",
        cause="unknown",
        because=(),
        code="KF599",
        confidence="unknown",
        summary=f"still running (pid {attempt.pid}{doing})",
        where=_where(attempt, Diagnosis("unknown", "", ())),
        memory=_memory(attempt),
        lacked=record.lost,
    )
