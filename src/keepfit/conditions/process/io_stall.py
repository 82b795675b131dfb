"""Storage did not answer.

## What happened
The training waited for a disk or a network file system that did not deliver: a throttled volume, a
dead NFS server, a failing device.

## How keepfit knows
*likely*: it stopped stepping while I/O pressure (PSI, all tasks waiting) stood above 40 %, or its
threads waited uninterruptibly in the kernel's I/O or file-system code.

## What to do
Copy hot data to a local disk; look at the volume's limits; `dmesg` for a server that does not
respond.
"""

from __future__ import annotations

import re

from ...facts import Attempt, Evidence, Remedy
from ..catalogue import Condition

PRESSURE = 40.0
_IO = re.compile(
    r"io_schedule|wait_on_page|folio_wait|nfs|rpc_|fuse|ext4|xfs|btrfs|blk_|submit_bio|rq_qos|jbd2|filemap"
)


def because(attempt: Attempt, cause: str) -> Evidence | None:
    stall = attempt.stall
    if cause != "hang" or stall is None:
        return None
    waits = [name for name in stall.waiting_in if _IO.search(name)]
    if waits:
        return Evidence("samples", f"threads waited in the kernel's I/O: {', '.join(waits[:3])}", "likely")
    if stall.io_pressure >= PRESSURE and stall.swap_in_rate == 0:
        return Evidence("samples", f"I/O pressure stood at {stall.io_pressure:.0f} %", "likely")
    return None


CONDITION = Condition(
    code="KF513",
    name="io-stall",
    title="storage did not answer",
    root="io_stall",
    because=because,
    remedies=(Remedy("keep hot data on a local disk", "and look at the volume's limits"),),
)
