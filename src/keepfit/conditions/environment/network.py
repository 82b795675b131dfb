"""The network failed.

## What happened
A connection was refused, reset or timed out, or a name could not be resolved: a data server, a
download, a remote file system, another rank.

## How keepfit knows
*certain*: the exception that ended it is one of the connection errors. *likely*: its last lines say
so. Errors that the network interfaces counted meanwhile are shown beside.

## What to do
Retry with a pause at the place where it is read; keep a local copy of what every epoch needs.
"""

from __future__ import annotations

import re

from ...facts import Attempt, Evidence, Remedy
from ..catalogue import SPECIFIC, Condition, Diagnosis
from ..reading import at, by_exit, error_evidence, error_strength, failed, is_a, log_evidence, said

_TYPES = (
    "ConnectionResetError",
    "ConnectionRefusedError",
    "ConnectionAbortedError",
    "gaierror",
    "URLError",
    "RemoteDisconnected",
    "IncompleteRead",
    "NewConnectionError",
    "MaxRetryError",
    "ReadTimeout",
    "ConnectTimeout",
    "ProtocolError",
    "UnavailableError",
)
_NUMBERS = frozenset({100, 101, 103, 104, 110, 111, 112, 113})  # ENETDOWN … EHOSTUNREACH
_TEXT = re.compile(
    r"Connection (?:reset by peer|refused|timed out|aborted)|Network is unreachable|No route to host|"
    r"Temporary failure in name resolution|Name or service not known|Read timed out|curl: \((?:6|7|28|56)\)"
)


def autopsy(attempt: Attempt) -> Diagnosis | None:
    if not failed(attempt):
        return None
    error, line = attempt.error, said(attempt, _TEXT)
    named = is_a(error, *_TYPES) or (error is not None and error.errno in _NUMBERS)
    timed_out = is_a(error, "TimeoutError") and error is not None and "timed out" in error.message
    if not named and not timed_out and line is None:
        return None
    evidence = [error_evidence(error) if error else log_evidence(line or ""), by_exit(attempt)]
    for name, count in attempt.network_errors.items():
        evidence.append(Evidence("samples", f"{count} errors or drops on interface {name} meanwhile", "possible"))
    confidence = error_strength(error) if error else "likely"
    return Diagnosis(confidence, "a network connection failed", tuple(evidence), at(error.frame) if error else {})


CONDITION = Condition(
    code="KF405",
    name="network-failed",
    title="a network connection failed",
    cause="network",
    specificity=SPECIFIC,
    autopsy=autopsy,
    remedies=(
        Remedy(
            "retry where it is read, or keep a local copy",
            "a lost connection then costs a pause, not the run",
        ),
    ),
)
