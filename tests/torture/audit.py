"""How much a torture test does, and a record of what it did.

`make test` runs a sample of each; `make torture` runs all of them whole, which takes hours.
"""

import json
import os
from datetime import date
from pathlib import Path

FULL = os.environ.get("KLAZY_TORTURE") == "full"
RECORDS = Path(__file__).parents[2] / "build" / "torture"


def amount(sample: int, full: int) -> int:
    """How often a test tries: ``sample`` in `make test`, ``full`` in `make torture`."""
    return full if FULL else sample


def record(name: str, what: str, tried: int, outcome: str) -> None:
    """Keep what a test has done, for the table of docs/reliability.md; ``outcome`` is a short sentence.

    A sample does not replace the record of a whole test.
    """
    file = RECORDS / f"{name}.json"
    if not FULL and file.exists() and json.loads(file.read_text(encoding="utf-8"))["full"]:
        return
    RECORDS.mkdir(parents=True, exist_ok=True)
    about = {"what": what, "tried": tried, "outcome": outcome, "full": FULL, "date": date.today().isoformat()}
    file.write_text(json.dumps(about), encoding="utf-8")
