"""Forecasts learned by regression: means of the rounds to come, from means of the rounds before over many windows.

What is known is one vector, so that a leader and its kernel have it once for all experts. The numbers of
:mod:`klazy.kernels.codes` are the places in it; :mod:`klazy.kernels.regression` is the twin, which adds in the same order.
"""

import numpy as np

from klazy.base.checks import Array, InvalidInput
from klazy.kernels import codes

BANDS = codes.REGRESSION_BANDS
HORIZONS = 2 ** np.arange(1, 1 + codes.REGRESSION_HORIZONS)
SLOTS = codes.REGRESSION_SLOTS
# Horizons of up to SLOTS rounds learn in every round, longer ones SLOTS times per horizon.
SPACINGS = np.maximum(HORIZONS // SLOTS, 1)
# What a row adds to the mean with each window.
PACES = 0.5 ** np.arange(BANDS)


class Regression:
    r"""Forecasts the mean of the next H rows, for H = 2, 4, 8, ..., 256, from all rows so far.

    With the mean of all rows :math:`\bar g(t)` and exponential means :math:`e_k(t)` of pace :math:`2^{-k}`, the features of a
    coordinate are the bands :math:`f_k = e_k - e_{k+1}`, the last of which ends at :math:`\bar g`. The forecast is

    .. math:: F_H(t) = \bar g(t) + \sum_k b_{H,k}\, f_k(t),

    in which :math:`b_H` is the ridge regression of all coordinates together of what the H rows after round s were on average,
    less :math:`\bar g(s)`, on the features of round s. The ridge is Bayes' rule for coefficients of variance 1, with the
    targets' mean square as noise; targets overlap, so it counts H times. All horizons share the products of the features,
    of all rounds so far. Coefficients are solved for anew when the rounds have grown by a fiftieth.

    Parameters
    ----------
    dim : int
        The numbers of a row.
    centred : bool
        Whether what all coordinates share does not count, as on simplices.
    """

    def __init__(self, dim: int, centred: bool) -> None:
        self.dim = dim
        self.centred = centred
        count = len(HORIZONS)
        shapes = {
            "sums": (dim,),
            "norms": (BANDS,),
            "means": (dim, BANDS),
            "squares": (count,),
            "errors": (count,),
            "products": (count, BANDS),
            "matrix": (BANDS, BANDS),
            "coefficients": (BANDS, count),
            "forecasts": (dim, count),
            "slots": (len(set(SPACINGS)), SLOTS, dim * (1 + BANDS + count)),
        }
        self.places: dict[str, tuple[slice, tuple[int, ...]]] = {}
        self.size = codes.REGRESSION_HEAD
        for name, shape in shapes.items():
            first = self.size
            self.size += int(np.prod(shape))
            self.places[name] = slice(first, self.size), shape

    def read(self, known: Array, name: str) -> Array:
        """Return one of the arrays in the vector, not a copy."""
        place, shape = self.places[name]
        return known[place].reshape(shape)

    def init(self) -> Array:
        """Return the vector before the first round."""
        known = np.zeros(self.size)
        known[codes.REGRESSION_CENTRED] = self.centred
        return known

    def observe(self, known: Array, row: Array, period: int = 0) -> Array:
        """Return the vector after another round with this row; a period changes nothing."""
        known = known.copy()
        n = int(known[codes.REGRESSION_SEEN]) + 1
        known[codes.REGRESSION_SEEN] = n
        if self.centred:
            row = row - np.cumsum(row)[-1] / self.dim
        sums = self.read(known, "sums")
        norms = self.read(known, "norms")
        means = self.read(known, "means")
        sums += row
        norms += PACES * (1.0 - norms)
        means += PACES * (row[:, None] - means)
        smoothed = means / norms
        average = (sums / n)[:, None]
        features = smoothed - np.hstack((smoothed[:, 1:], average))
        self._learn(known, n)
        squares = np.cumsum(features[:, :, None] * features[:, None], axis=0)[-1]
        self.read(known, "matrix")[:] += np.tril(squares)
        if n >= codes.REGRESSION_GROWTH * known[codes.REGRESSION_SOLVED] + 1.0:
            known[codes.REGRESSION_SOLVED] = n
            self._solve(known, n)
        forecasts = self.read(known, "forecasts")
        forecasts[:] = average
        for feature, coefficients in zip(features.T, self.read(known, "coefficients"), strict=True):
            forecasts += feature[:, None] * coefficients
        self._remember(known, n, features)
        return known

    def _learn(self, known: Array, n: int) -> None:
        """Add the pairs of features and target that end with round n, and the errors of what was forecast."""
        sums = self.read(known, "sums")
        slots = self.read(known, "slots")
        for h, (horizon, spacing) in enumerate(zip(HORIZONS, SPACINGS, strict=True)):
            if n % spacing == 0 and n > horizon:
                slot = slots[_log2(spacing), (n - horizon) // spacing % SLOTS]
                past, earlier, expected = np.split(slot, [self.dim, self.dim * (1 + BANDS)])
                mean = (sums - past) / horizon
                target = mean - past / (n - horizon)
                error = mean - expected.reshape(self.dim, -1)[:, h]
                added = earlier.reshape(self.dim, BANDS) * target[:, None]
                self.read(known, "squares")[h] += np.cumsum(target * target)[-1]
                self.read(known, "errors")[h] += np.cumsum(error * error)[-1]
                self.read(known, "products")[h] += np.cumsum(added, axis=0)[-1]

    def _remember(self, known: Array, n: int, features: Array) -> None:
        """Remember the round for the targets that begin with it."""
        now = (self.read(known, "sums"), features.ravel(), self.read(known, "forecasts").ravel())
        for spacing in set(SPACINGS):
            if n % spacing == 0:
                slot = self.read(known, "slots")[_log2(spacing), n // spacing % SLOTS]
                slot[:] = np.concatenate(now)

    def _solve(self, known: Array, n: int) -> None:
        """Find the coefficients of all horizons."""
        squares = self.read(known, "squares")
        matrix = self.read(known, "matrix")
        least = codes.REGRESSION_LEAST * np.cumsum(matrix.diagonal())[-1]
        for h, (horizon, spacing) in enumerate(zip(HORIZONS, SPACINGS, strict=True)):
            pairs = n // spacing - horizon // spacing
            if pairs > 0 and squares[h] > codes.SMALLEST_VARIATION:
                noise = squares[h] / (pairs * self.dim)
                ridge = max(min(horizon, SLOTS) * noise, least)
                penalised = (pairs / n) * matrix + ridge * np.eye(BANDS)
                products = self.read(known, "products")[h]
                self.read(known, "coefficients")[:, h] = eliminate(penalised, products)

    def forecast(self, known: Array, horizon: int) -> Array:
        """Return the forecast of the mean of the next rows, for a horizon that is a power of two."""
        return self.read(known, "forecasts")[:, place_of(horizon)]

    def skill(self, known: Array, horizon: int) -> float:
        """Return the share of the squared errors of the mean of all rows that forecasts have saved, each made beforehand."""
        h = place_of(horizon)
        square = self.read(known, "squares")[h]
        return 0.0 if square == 0.0 else float(1.0 - self.read(known, "errors")[h] / square)

    def describe_skill(self, known: Array, horizon: int | None = None) -> str:
        """Write how good forecasts for a horizon have been, by default for the one where they were best."""
        if not self.read(known, "squares").any():
            return ""
        horizons = HORIZONS if horizon is None else [horizon]
        skills = [max(self.skill(known, int(each)), 0.0) for each in horizons]
        best = int(np.argmax(skills))
        return (
            f" Forecasts by regression for {horizons[best]} rounds, each compared with what came after it, have been better "
            f"than the mean of all rounds by {skills[best]:.2f} (0: no better, 1: exact)."
        )

    def has_evidence(self, known: Array) -> bool:
        """Return True if forecasts of some horizon were better than the mean of all rows by some times their own noise.

        That is what they saved over the mean squared target, each target counted as often as it overlaps others.
        """
        n = int(known[codes.REGRESSION_SEEN])
        squares = self.read(known, "squares")
        errors = self.read(known, "errors")
        pairs = np.maximum(n // SPACINGS - HORIZONS // SPACINGS, 0)
        saved = (squares - errors) * (pairs * self.dim)
        return bool((saved > codes.REGRESSION_EVIDENCE * np.minimum(HORIZONS, SLOTS) * squares)[1::2].any())

    def check(self, known: Array) -> None:
        """Reject what this regression could not have left: kernels trust these numbers."""
        n, solved, centred = known[: codes.REGRESSION_HEAD].tolist()
        if not 0 <= solved <= n or n % 1 or centred != self.centred:
            head = known[: codes.REGRESSION_HEAD]
            raise InvalidInput(
                f"state.regression must come from a trace or agent of this learner, got {head}."
            )


def place_of(horizon: int) -> int:
    """Return the place of a horizon among those that are forecast."""
    return _log2(horizon) - 1


def _log2(power: int) -> int:
    return int(power).bit_length() - 1


def eliminate(matrix: Array, products: Array) -> Array:
    """Solve matrix b = products by elimination, which needs no pivots for a positive definite matrix."""
    rows = matrix.copy()
    b = products.copy()
    for c in range(len(b)):
        shares = rows[c + 1 :, c] / rows[c, c]
        rows[c + 1 :, c + 1 :] -= shares[:, None] * rows[c + 1 :, c]
        b[c + 1 :] -= shares * b[c]
    for c in reversed(range(len(b))):
        b[c] /= rows[c, c]
        b[:c] -= rows[c, :c] * b[c]
    return b
