"""Forecasts learned by regression: means of the rounds to come, from means of the rounds before over many windows.

What is known is one vector, so that a leader and its kernel have it once for all experts. The numbers of
:mod:`klazy.kernels.codes` are the places in it; :mod:`klazy.kernels.regression` is the twin, which adds in the same order.
"""

import numpy as np

from klazy.base.checks import Array, InvalidInput
from klazy.kernels import codes

BANDS = codes.REGRESSION_BANDS
HORIZONS = 2 ** np.arange(codes.REGRESSION_HORIZONS)
SLOTS = codes.REGRESSION_SLOTS
# Horizons up to SLOTS rounds learn in every round, longer ones eight times per horizon.
SHORT = SLOTS.bit_length() - 1
SPACINGS = 2 ** np.arange(len(HORIZONS) - SHORT)
# What a row adds to the mean with each window.
PACES = 0.5 ** np.arange(BANDS)


class Regression:
    r"""Forecasts the mean of the next H rows, for H = 1, 2, 4, ..., 1024, from all rows so far.

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
            "products": (count, BANDS),
            "matrix": (BANDS, BANDS),
            "coefficients": (BANDS, count),
            "forecasts": (dim, count),
            "slots": (len(SPACINGS), SLOTS, dim * (1 + BANDS)),
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
        self._learn(known, n, features)
        if n >= codes.REGRESSION_GROWTH * known[codes.REGRESSION_SOLVED] + 1.0:
            known[codes.REGRESSION_SOLVED] = n
            self._solve(known, n)
        forecasts = self.read(known, "forecasts")
        forecasts[:] = average
        for feature, coefficients in zip(features.T, self.read(known, "coefficients"), strict=True):
            forecasts += feature[:, None] * coefficients
        return known

    def _learn(self, known: Array, n: int, features: Array) -> None:
        """Add the pairs of features and target that end with round n, and remember its features for later ones."""
        sums = self.read(known, "sums")
        slots = self.read(known, "slots")
        for h, horizon in enumerate(HORIZONS):
            j = max(h - SHORT, 0)
            if n % SPACINGS[j] == 0 and n > horizon:
                past, earlier = self._read_slot(slots[j, (n - horizon) // SPACINGS[j] % SLOTS])
                target = (sums - past) / horizon - past / (n - horizon)
                self.read(known, "squares")[h] += np.cumsum(target * target)[-1]
                self.read(known, "products")[h] += np.cumsum(earlier * target[:, None], axis=0)[-1]
        squares = np.cumsum(features[:, :, None] * features[:, None], axis=0)[-1]
        self.read(known, "matrix")[:] += np.tril(squares)
        for j, spacing in enumerate(SPACINGS):
            if n % spacing == 0:
                slots[j, n // spacing % SLOTS] = np.concatenate((sums, features.ravel()))

    def _read_slot(self, slot: Array) -> tuple[Array, Array]:
        """Return the sums and the features that are remembered of a round."""
        return slot[: self.dim], slot[self.dim :].reshape(self.dim, BANDS)

    def _solve(self, known: Array, n: int) -> None:
        """Find the coefficients of all horizons."""
        squares = self.read(known, "squares")
        for h, horizon in enumerate(HORIZONS):
            j = max(h - SHORT, 0)
            pairs = n // SPACINGS[j] - horizon // SPACINGS[j]
            if pairs > 0 and squares[h] > codes.SMALLEST_VARIATION:
                ridge = min(horizon, SLOTS) * (squares[h] / (pairs * self.dim))
                matrix = (pairs / n) * self.read(known, "matrix") + ridge * np.eye(BANDS)
                self.read(known, "coefficients")[:, h] = eliminate(matrix, self.read(known, "products")[h])

    def forecast(self, known: Array, horizon: int) -> Array:
        """Return the forecast of the mean of the next rows, for a horizon that is a power of two."""
        return self.read(known, "forecasts")[:, horizon.bit_length() - 1]

    def check(self, known: Array) -> None:
        """Reject what this regression could not have left: kernels trust these numbers."""
        n, solved, centred = known[: codes.REGRESSION_HEAD].tolist()
        if not 0 <= solved <= n or n % 1 or centred != self.centred:
            head = known[: codes.REGRESSION_HEAD]
            raise InvalidInput(
                f"state.regression must come from a trace or agent of this learner, got {head}."
            )


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
