"""A directory that is ours alone, and what is in it: reached from it, never through a link, never waiting for anybody.

A record is data. Whoever else can write where it lies could lead us anywhere: a link in place of a file, a FIFO that
nobody feeds, a directory that was made for us. So a directory is used only where it belongs to us and nobody else can
write to it, and of the files in it only regular ones that belong to us too.

Standard library only: the agent imports this too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
MOST_NAMES = 100_000  # in one directory: more than that nobody of ours has written


def lift(fd: int) -> int:
    """Where a descriptor is put once it is open. The agent has it out of reach of what a program does with its own."""
    return fd


class NotOurs(OSError):
    """A directory or a file that somebody else has made, or can change."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(errno.EPERM, why, path)


class Folder:
    """An open directory. `path` is for people, and for those who can open nothing but a path."""

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self.path = path

    @classmethod
    def open(cls, path: str) -> Folder:
        """The path itself may be a link: whoever named it chose it. OSError, NotOurs among them, where it cannot be."""
        return cls._checked(lift(os.open(path, _DIRECTORY)), path)

    @classmethod
    def _checked(cls, fd: int, path: str) -> Folder:
        why = _why_not_ours(os.fstat(fd))
        if why is not None:
            os.close(fd)
            raise NotOurs(path, why)
        return cls(fd, path)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.close()

    # --- directories ----------------------------------------------------------------------------------

    def folder(self, name: str) -> Folder:
        """A directory in it."""
        return self._checked(lift(os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self._fd)), self._path(name))

    def make(self, name: str) -> Folder:
        """A new directory in it, whatever the umask; FileExistsError where there is something of that name."""
        os.mkdir(name, 0o700, dir_fd=self._fd)
        if os.stat(name, dir_fd=self._fd, follow_symlinks=False).st_mode & 0o777 != 0o700:
            os.chmod(name, 0o700, dir_fd=self._fd)
        return self.folder(name)

    def names(self) -> list[str]:
        """What is in it, in order."""
        found = []
        with os.scandir(self._fd) as entries:
            for entry in entries:
                found.append(entry.name)
                if len(found) >= MOST_NAMES:
                    break
        return sorted(found)

    def folders(self) -> Iterator[Folder]:
        """The directories in it that are ours, in the order of their names."""
        for name in self.names():
            try:
                yield self.folder(name)
            except OSError:
                continue

    def strangers(self) -> int:
        """How many directories in it are not ours alone."""
        found = 0
        for name in self.names():
            try:
                self.folder(name)
            except NotOurs:
                found += 1
            except OSError:
                continue
        return found

    # --- files ----------------------------------------------------------------------------------------

    def open_file(self, name: str, flags: int = os.O_RDONLY) -> int:
        """A descriptor of a regular file that belongs to us; a new one can be read by nobody else."""
        asked = flags & ~os.O_TRUNC  # not before it is known what would be cut
        safe = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = lift(os.open(name, asked | safe, 0o600, dir_fd=self._fd))
        try:
            known = os.fstat(fd)
            if not stat.S_ISREG(known.st_mode):
                raise NotOurs(self._path(name), "not a regular file")
            if known.st_uid != os.geteuid():
                raise NotOurs(self._path(name), f"belongs to user {known.st_uid}")
            if flags & os.O_CREAT and known.st_mode & 0o777 != 0o600:
                os.fchmod(fd, 0o600)
            if flags & os.O_TRUNC:
                os.ftruncate(fd, 0)
        except OSError:
            os.close(fd)
            raise
        return fd

    def read(self, name: str, most: int) -> bytes:
        """The beginning of a file, up to `most` bytes."""
        fd = self.open_file(name)
        try:
            pieces = []
            while most > 0 and (piece := os.read(fd, min(most, 1 << 20))):
                pieces.append(piece)
                most -= len(piece)
            return b"".join(pieces)
        finally:
            os.close(fd)

    def write(self, name: str, content: bytes) -> None:
        """A file, whole or not at all."""
        beside = f"{name}.new"
        fd = self.open_file(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            while content:
                content = content[os.write(fd, content) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(beside, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def stat(self, name: str) -> os.stat_result:
        """Of what has that name itself, not of what it may lead to."""
        return os.stat(name, dir_fd=self._fd, follow_symlinks=False)

    def holds(self, name: str) -> bool:
        """Whether there is a regular file of that name."""
        try:
            return stat.S_ISREG(self.stat(name).st_mode)
        except OSError:
            return False

    def rename(self, name: str, to: str) -> None:
        os.rename(name, to, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def remove(self, name: str) -> None:
        """A directory with all that is in it, or a file, or a link (and not what it leads to); as far as that goes."""
        import shutil

        with contextlib.suppress(OSError, RecursionError):  # as deep as that nobody of ours has made one
            if stat.S_ISDIR(self.stat(name).st_mode):
                shutil.rmtree(f"/proc/self/fd/{self._fd}/{name}", ignore_errors=True)
            else:
                os.unlink(name, dir_fd=self._fd)

    def size(self) -> int:
        """Bytes on disk of all that is in it."""
        total = 0
        with contextlib.suppress(OSError, RecursionError):
            for _, _, files, fd in os.fwalk(".", dir_fd=self._fd):
                for name in files:
                    with contextlib.suppress(OSError):
                        total += os.stat(name, dir_fd=fd, follow_symlinks=False).st_blocks * 512
        return total

    @property
    def inode(self) -> int:
        """Its number in the file system: a copy has another one."""
        return os.fstat(self._fd).st_ino

    def room(self) -> os.statvfs_result:
        return os.statvfs(self._fd)

    def flush(self) -> None:
        os.fsync(self._fd)

    def _path(self, name: str) -> str:
        return os.path.join(self.path, name)


def _why_not_ours(known: os.stat_result) -> str | None:
    if known.st_uid != os.geteuid():
        return f"belongs to user {known.st_uid}, and keepfit runs as user {os.geteuid()}"
    writers = known.st_mode & _OTHERS_WRITE
    if writers & stat.S_IWOTH or (writers and not _is_private(known.st_gid)):
        return f"can be written to by others (mode {stat.S_IMODE(known.st_mode):04o})"
    return None


def _is_private(gid: int) -> bool:
    """Whether a group is its user's own, as many systems make one for each: with his name, and nobody else in it."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and gid == user.pw_gid and set(group.gr_mem) <= {user.pw_name}
