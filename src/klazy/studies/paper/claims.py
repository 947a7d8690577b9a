"""The gains that the paper prints, next to what they are here."""

from collections.abc import Sequence
from typing import NamedTuple

from klazy.studies.paper.section import REPORT_TEXT, Row


class Claim(NamedTuple):
    """In ``experiment``, ``better`` has ``printed`` per cent less of ``quantity`` than ``worse``, in the paper's own words."""

    experiment: str
    better: str
    worse: str
    quantity: str
    printed: str
    quotation: str
    where: str

    def measure(self, rows: Sequence[Row]) -> float | None:
        """Return the gain in per cent, from the rows of the experiment; None if ``worse`` has nothing positive to save."""
        measured = {
            row["learner"]: self._read(row)
            for row in rows
            if row["experiment"] == self.experiment
        }
        if measured[self.worse] <= 0.0:
            return None
        return 100.0 * (1.0 - measured[self.better] / measured[self.worse])

    def agrees(self, gain: float | None) -> bool:
        """Return True if ``gain`` is within one unit of the last printed digit; the paper writes "up to" and "~"."""
        digits = len(self.printed.partition(".")[2])
        return gain is not None and abs(gain - float(self.printed)) < 10.0**-digits

    def _read(self, row: Row) -> float:
        if self.quantity == "movement beyond the comparator's":
            return row["total_regret"] - row["dynamic_regret"]
        return row[self.quantity.replace(" ", "_")]


CLAIMS = tuple(Claim(**gain) for gain in REPORT_TEXT["gains"])
