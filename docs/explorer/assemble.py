"""The explorer as one file that needs nothing beside it: ``python docs/explorer/assemble.py explorer.html`` writes it."""

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent


def assembled() -> str:
    """page.html with the style and the scripts that it names put inside it, in its order."""
    page = (HERE / "page.html").read_text(encoding="utf-8")
    page = re.sub(
        r'<link rel="stylesheet" href="([\w.]+)">',
        lambda named: f"<style>\n{_text(named[1])}</style>",
        page,
    )
    return re.sub(
        r'<script src="([\w.]+)"></script>',
        lambda named: f"<script>\n{_text(named[1])}</script>",
        page,
    )


def _text(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(assembled(), encoding="utf-8")
