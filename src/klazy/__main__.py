"""``python -m klazy`` and the ``klazy`` command."""

import os
import sys
from typing import NoReturn

from klazy.base.checks import InvalidInput
from klazy.base.install import MissingPackage, make_missing
from klazy.base.signals import end_at_signals

# For the processes that a command starts: no module of the current folder hides an installed one, and the process that cleans
# up after a stopped command is silent.
ENVIRONMENT = {"PYTHONSAFEPATH": "1", "PYTHONWARNINGS": "ignore:resource_tracker"}


def main() -> None:
    """Run the command; a rejected input is one line and exit status 2.

    Ctrl-C and SIGTERM end it at once: its files are written completely or not at all.
    """
    os.environ.update(ENVIRONMENT)
    try:
        # Imported later, polars would handle Ctrl-C itself.
        import polars  # noqa: F401

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
    except (InvalidInput, MissingPackage) as wrong:
        say(str(wrong), file=sys.stderr)
        sys.exit(2)
    # The disk may be full, for example.
    except OSError as failed:
        where = "standard output" if failed.filename is None else failed.filename
        say(f"Cannot read or write {where}: {failed.strerror or repr(failed)}.", file=sys.stderr)
        _end(2)


def _end(status: int) -> NoReturn:
    """Exit even if the output cannot be written."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)


if __name__ == "__main__":
    if not sys.flags.safe_path:
        # `python -m` puts the current folder first.
        sys.path.append(sys.path.pop(0))
    main()
