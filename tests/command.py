"""The ``klazy`` command, called in this process: no Python has to start and no kernel to be loaded again."""

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest

from klazy.__main__ import main


class Ended(NamedTuple):
    """How a command ended, and what it printed."""

    status: int | str | None
    stdout: str
    stderr: str


def call_klazy(*arguments: object, folder: Path | str = ".") -> Ended:
    """``klazy`` with these arguments, called in ``folder``."""
    out = io.StringIO()
    err = io.StringIO()
    with (
        contextlib.chdir(folder),
        patch.object(sys, "argv", ["klazy", *map(str, arguments)]),
        patch.object(sys, "path", sys.path.copy()),
        patch.dict(os.environ),
        patch("klazy.__main__.end_at_signals"),  # this process is not the command's
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    return Ended(ended.value.code, out.getvalue(), err.getvalue())
