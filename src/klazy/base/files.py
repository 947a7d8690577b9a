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
    """The file, open and locked: at once or not at all, unless one may ``wait`` for it.

    The system lets go of it when it is closed or the process ends, however it ends.
    """
    try:
        import fcntl
    except ImportError:
        raise refusal(
            owner, "the file locks of POSIX systems", "path", path, "use it on Linux or macOS"
        ) from None
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        file.close()
        raise
    return file
