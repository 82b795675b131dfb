"""What a scheduler says when it ends a job: the words and signals that tell why."""

from __future__ import annotations

import re
import time

from ...facts import Attempt, Evidence
from ..reading import died_by, log_evidence, passed_on, said

SIGTERM, SIGXCPU, SIGKILL, SIGUSR1 = 15, 24, 9, 10

TIME_LIMIT = re.compile(r"DUE TO TIME LIMIT|TERM_RUNLIMIT|walltime .* exceeded limit|TIMEOUT \*\*\*", re.IGNORECASE)
PREEMPTION = re.compile(
    r"DUE TO PREEMPTION|TERM_OWNER|TERM_PREEMPT|preempted by|spot instance interruption", re.IGNORECASE
)
SCHEDULERS = (
    "slurmstepd",
    "slurmd",
    "slurmctld",
    "sbatchd",
    "res",
    "pbs_mom",
    "kubelet",
    "containerd-shim",
    "conmon",
)
NEAR_END = 180.0  # seconds: Slurm's grace before the time limit and after it


def ended_politely(attempt: Attempt) -> bool:
    """By SIGTERM, or by itself after keepfit had passed one on."""
    if died_by(attempt, SIGTERM) or passed_on(attempt, SIGTERM):
        return True
    sent = any(notice.signal == SIGTERM for notice in attempt.notices)
    return sent and not (attempt.exit is not None and attempt.exit.status == 0)


def announced(attempt: Attempt, words: re.Pattern[str]) -> Evidence | None:
    line = said(attempt, words, (SIGTERM, SIGKILL, SIGUSR1))
    if line is None and attempt.error is not None:
        text = next((text for text in reversed(attempt.output.splitlines()) if words.search(text)), None)
        line = text.strip() if text else None
    return log_evidence(line) if line else None


def by_scheduler(attempt: Attempt) -> Evidence | None:
    """A SIGTERM whose sender is a scheduler's daemon, or that came from outside a pod."""
    for notice in attempt.notices:
        if notice.signal != SIGTERM:
            continue
        if notice.sender_name in SCHEDULERS:
            return Evidence("scheduler", f"SIGTERM was sent by {notice.sender_name} (pid {notice.sender})", "likely")
        if not notice.sender and "KUBERNETES_SERVICE_HOST" in attempt.environment:
            return Evidence("scheduler", "SIGTERM came from outside the pod", "likely")
    return None


def job_at_its_end(attempt: Attempt, now: float | None = None) -> bool:
    """Whether the job's own end time (Slurm tells it) was at hand."""
    end = attempt.environment.get("SLURM_JOB_END_TIME", "")
    return end.isdigit() and abs(float(end) - (time.time() if now is None else now)) < NEAR_END
