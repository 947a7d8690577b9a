"""``python -m klazy`` and the ``klazy`` command."""

import os
import sys
from typing import NoReturn

from klazy.base.checks import Refused, refusal
from klazy.base.install import MissingPackage, make_missing
from klazy.base.signals import end_at_signals

# For the processes that a command starts: no module of the current folder comes before an installed one, and the one that
# cleans up after a command that was stopped does so silently.
ENVIRONMENT = {"PYTHONSAFEPATH": "1", "PYTHONWARNINGS": "ignore:resource_tracker"}


def main() -> None:
    """Run the command; what it refuses is one line and exit status 2.

    Ctrl-C and SIGTERM end it at once, whatever it is doing: its files are written whole or not at all.
    """
    os.environ.update(ENVIRONMENT)
    try:
        import polars  # noqa: F401  which would take Ctrl-C for itself if it came later

        from klazy.cli import app
        from klazy.cli.terminal import say

        end_at_signals()
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as missing:
        sys.exit(str(make_missing("klazy's command", missing.name, "cli")))
    try:
        try:
            app(prog_name="klazy")
        finally:
            sys.stdout.flush()
    except (Refused, MissingPackage) as wrong:
        say(str(wrong), file=sys.stderr)
        sys.exit(2)
    except OSError as failed:  # a full disk, say
        say(str(_explain(failed)), file=sys.stderr)
        _end(2)


def _explain(failed: OSError) -> Refused:
    where = "standard output" if failed.filename is None else failed.filename
    return refusal(
        "klazy", "files that it can read and write", "file", where, failed.strerror or repr(failed)
    )


def _end(status: int) -> NoReturn:
    """Exit, though what was printed cannot be written."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)


if __name__ == "__main__":
    if not sys.flags.safe_path:
        sys.path.append(sys.path.pop(0))  # the current folder, which `python -m` puts first
    main()
