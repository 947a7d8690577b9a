"""``python -m klazy`` and the ``klazy`` command."""

import sys

from klazy.base.checks import Refused


def main() -> None:
    """Run the command; what it refuses is one line and exit status 2."""
    try:
        from klazy.cli import app
    except ModuleNotFoundError as missing:
        sys.exit(f"klazy's command needs {missing.name}, which is not installed; pip install 'klazy[cli]'.")
    try:
        app()
    except Refused as wrong:
        print(wrong, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
