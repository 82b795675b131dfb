"""What this machine says: limits, process trees, pressure, disks, kernel log, GPUs.

Every reader takes the directory it reads from (``/proc``, ``/sys/fs/cgroup``), so that machines we do
not have are tested from fixtures. A reader that cannot see returns ``None``, and says why where asked;
it never raises for what a machine may simply lack.
"""
