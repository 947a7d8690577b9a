"""The gains that the paper prints, next to what they are here."""

from collections.abc import Sequence
from typing import NamedTuple

from klazy.studies.paper.section import Row


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
        """The gain in per cent, from the rows of the experiment; None where there is nothing positive to gain from."""
        measured = {}
        for row in rows:
            if row["experiment"] == self.experiment:
                measured[row["learner"]] = _measure_quantities(row)[self.quantity]
        if measured[self.worse] <= 0.0:
            return None
        return 100.0 * (1.0 - measured[self.better] / measured[self.worse])

    def agrees(self, gain: float | None) -> bool:
        """Whether ``gain`` is within one unit of the last printed digit; the paper writes "up to" and "~"."""
        if gain is None:
            return False
        digits = len(self.printed.partition(".")[2])
        return abs(gain - float(self.printed)) < 10.0**-digits


ENSEMBLE_STOCHASTIC_GAIN = (
    "SAder-k improves both components (~8.5% in hitting costs, and 11.4% in improvement cost)"
)
ENSEMBLE_CORRUPTED_GAIN = "(~23% in hitting costs, and 74% in improvement cost)"
NET = "movement beyond the comparator's"
CLAIMS = (
    Claim(
        "stochastic", "k=300", "GD", "total regret", "45",
        "achieving improvements of up to 45%", "App. D.1, Fig. 8",
    ),
    Claim(
        "ensemble-stochastic", "SAder-k", "SAder", "dynamic regret", "8.5",
        ENSEMBLE_STOCHASTIC_GAIN, "App. D.4.1, Fig. 12",
    ),
    Claim("ensemble-stochastic", "SAder-k", "SAder", NET, "11.4", ENSEMBLE_STOCHASTIC_GAIN, "App. D.4.1, Fig. 12"),
    Claim(
        "ensemble-corrupted", "SAder-k", "SAder", "dynamic regret", "23",
        ENSEMBLE_CORRUPTED_GAIN, "App. D.4.2, Fig. 13",
    ),
    Claim("ensemble-corrupted", "SAder-k", "SAder", NET, "74", ENSEMBLE_CORRUPTED_GAIN, "App. D.4.2, Fig. 13"),
)  # fmt: skip


def _measure_quantities(row: Row) -> dict[str, float]:
    net = row["total_regret"] - row["dynamic_regret"]
    return {"total regret": row["total_regret"], "dynamic regret": row["dynamic_regret"], NET: net}
