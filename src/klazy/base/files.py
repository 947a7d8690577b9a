"""Files that survive a crash: atomic writes, and locks that end with their process."""

import os
import time
from importlib import import_module
from pathlib import Path
from typing import Any
from weakref import WeakSet


def write_durably(path: Path, data: bytes) -> None:
    """Replace a file in one step: a crash leaves the old file or all of ``data``, and afterwards ``data`` is on disk.

    The incomplete file has a unique name, so several processes may write the same file at once; the last one wins. A link is
    replaced, and its target stays as it is.
    """
    path = path.absolute()
    partial = path.with_name(f"{path.name}.{os.urandom(4).hex()}.partial")
    try:
        with open(partial, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    # Make the name durable, too; systems without O_DIRECTORY have no way to ask for it.
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def lock_file(path: Path, *, wait: bool) -> Any:
    """Open a file and lock it; without ``wait``, fail if another process holds the lock.

    The system releases the lock when the file is closed or the process ends. A forked process finds the file closed.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    file = os.fdopen(descriptor, "r+b", buffering=0)
    try:
        if os.name == "nt":
            _lock_by_range(file, wait)
        else:
            _lock_by_file(file, wait)
    except BaseException:
        file.close()
        raise
    _LOCKED.add(file)
    return file


def _lock_by_file(file: Any, wait: bool) -> None:
    """Lock a file on POSIX systems."""
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock_by_range(file: Any, wait: bool) -> None:
    """Lock one byte far beyond the content on Windows, where no other process can read locked bytes."""
    system: Any = import_module("msvcrt")
    file.seek(_LOCKED_BYTE)
    while True:
        try:
            system.locking(file.fileno(), system.LK_NBLCK, 1)
            break
        except OSError as held:
            if not wait:
                raise BlockingIOError(*held.args) from held
            time.sleep(GLANCE)
    file.seek(0)


_LOCKED_BYTE = 1 << 40
GLANCE = 0.05  # seconds between two attempts to lock a file
_LOCKED: WeakSet[Any] = WeakSet()


def _close_inherited() -> None:
    """Close the locked files of the parent in a forked process, which would hold its locks."""
    for file in list(_LOCKED):
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)
