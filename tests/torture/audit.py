"""How much a torture test does, and a record of what it did.

`make test` runs a sample of each; `make torture` runs all of them whole, which takes hours, and `make torture SHARE=0.1`
a tenth of each.
"""

import json
import os
from datetime import date
from pathlib import Path

from klazy.base.files import write_durably

SHARE = float(os.environ.get("KLAZY_TORTURE", "0"))  # of the whole
FULL = SHARE >= 1.0
RECORDS = Path(__file__).parents[2] / "build" / "torture"


def amount(sample: int, full: int) -> int:
    """How often a test tries, or in which steps: ``sample`` in `make test`, ``full`` in `make torture`."""
    if FULL:
        return full
    return max(sample, round(SHARE * full))


def record(name: str, what: str, tried: int, outcome: str) -> None:
    """Keep what a test has done, for the table of docs/reliability.md; ``outcome`` is a short sentence.

    A sample does not replace the record of more.
    """
    file = RECORDS / f"{name}.json"
    if (
        SHARE == 0.0
        and file.exists()
        and json.loads(file.read_text(encoding="utf-8"))["tried"] > tried
    ):
        return
    RECORDS.mkdir(parents=True, exist_ok=True)
    about = {
        "what": what,
        "tried": tried,
        "outcome": outcome,
        "full": FULL,
        "date": date.today().isoformat(),
    }
    write_durably(file, json.dumps(about).encode())  # other workers read and write it, too
