"""Pressure (PSI), swap traffic and network errors: how the machine around the training feels."""

from __future__ import annotations

from ..quick import dataclass
from . import procfs


@dataclass(frozen=True)
class Pressure:
    """Shares of the last ten seconds, in per cent, in which work waited. `full`: all of it waited."""

    some: float = 0.0
    full: float = 0.0


def parse_psi(text: bytes) -> Pressure:
    shares = {}
    for line in text.decode(errors="replace").splitlines():
        words = line.split()
        for word in words[1:]:
            key, _, value = word.partition("=")
            if key == "avg10":
                try:
                    shares[words[0]] = float(value)
                except ValueError:
                    continue
    return Pressure(shares.get("some", 0.0), shares.get("full", 0.0))


def read(resource: str, proc: str = "/proc") -> Pressure | None:
    """PSI of `memory`, `io` or `cpu`; None where the kernel has it switched off."""
    text = procfs.read_bytes(f"{proc}/pressure/{resource}")
    return parse_psi(text) if text else None


def swapped_in(proc: str = "/proc") -> int:
    """Bytes read back from swap since boot."""
    for line in (procfs.read_bytes(f"{proc}/vmstat") or b"").splitlines():
        if line.startswith(b"pswpin "):
            return int(line.split()[1]) * procfs.PAGE
    return 0


def network_errors(proc: str = "/proc") -> dict[str, int]:
    """Errors and drops per interface since boot (loopback too: a stalled local server shows there)."""
    found = {}
    for line in (procfs.read_bytes(f"{proc}/net/dev") or b"").decode(errors="replace").splitlines():
        name, colon, rest = line.partition(":")
        words = rest.split()
        if colon and len(words) >= 12 and all(word.isdigit() for word in words):
            # receive: bytes packets errs drop …; transmit starts at the ninth number.
            found[name.strip()] = int(words[2]) + int(words[3]) + int(words[10]) + int(words[11])
    return found
