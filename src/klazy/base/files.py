"""Files that survive a crash: written whole or not at all, and locks that die with their owner."""

import os
from pathlib import Path
from typing import Any

from klazy.base.checks import refusal


def write_durably(path: Path, data: bytes) -> None:
    """Replace a file in one step: a crash leaves what was there or all of ``data``, and after this ``data`` is on disk."""
    partial = Path(f"{path}.partial")
    with open(partial, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    sync_folder(path.absolute().parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable; systems without O_DIRECTORY have no way to ask for it."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def lock_file(path: Path, owner: str, *, wait: bool) -> Any:
    """Open a file and lock it: at once or not at all, unless one may ``wait`` for it.

    The system lets go of it when it is closed or the process ends, however it ends.
    """
    try:
        import fcntl
    except ImportError:
        raise refusal(
            owner, "the file locks of POSIX systems", "path", path, "use it on Linux or macOS"
        ) from None
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    file = os.fdopen(descriptor, "r+b", buffering=0)
    how = fcntl.LOCK_EX
    if not wait:
        how |= fcntl.LOCK_NB
    try:
        fcntl.flock(file, how)
    except BaseException:
        file.close()
        raise
    return file
