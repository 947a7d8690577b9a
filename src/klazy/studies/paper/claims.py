"""The gains that the paper prints, beside what they are here."""

from collections.abc import Sequence
from typing import NamedTuple

from klazy.studies.paper.section import Row


class Claim(NamedTuple):
    """In ``experiment``, ``better`` has ``printed`` per cent less of ``quantity`` than ``worse``."""

    experiment: str
    better: str
    worse: str
    quantity: str
    printed: str

    def measure(self, rows: Sequence[Row]) -> float | None:
        """The gain in per cent, from the rows of the experiment; None where there is nothing positive to gain from."""
        measured = {}
        for row in rows:
            if row["experiment"] == self.experiment:
                measured[row["learner"]] = _measure_quantities(row)[self.quantity]
        if measured[self.worse] <= 0.0:
            return None
        return 100.0 * (1.0 - measured[self.better] / measured[self.worse])

    def rounds_to_printed(self, gain: float | None) -> bool:
        """Whether ``gain``, rounded to the printed digits, is the printed number."""
        digits = len(self.printed.partition(".")[2])
        return gain is not None and f"{gain:.{digits}f}" == self.printed


CLAIMS = (
    Claim("stochastic", "k=300", "GD", "total regret", "45"),
    Claim("ensemble-stochastic", "SAder-k", "SAder", "dynamic regret", "8.5"),
    Claim("ensemble-stochastic", "SAder-k", "SAder", "movement beyond the comparator's", "11.4"),
    Claim("ensemble-corrupted", "SAder-k", "SAder", "dynamic regret", "23"),
    Claim("ensemble-corrupted", "SAder-k", "SAder", "movement beyond the comparator's", "74"),
)


def _measure_quantities(row: Row) -> dict[str, float]:
    net = row["total_regret"] - row["dynamic_regret"]
    return {
        "total regret": row["total_regret"],
        "dynamic regret": row["dynamic_regret"],
        "movement beyond the comparator's": net,
    }
