"""Forecasts of demand, round by round as far ahead as a decision matters, and what one more unit costs in each round.

What is known is one vector, so that a leader and its kernel have it once for all experts. The numbers of
:mod:`klazy.kernels.codes` are the places in it; :mod:`klazy.kernels.plan` is the twin, which adds in the same order.
"""

import math
from typing import NamedTuple

import numpy as np

from klazy.base.checks import Array, InvalidInput
from klazy.kernels import codes
from klazy.kernels.codes import PLAN_BINS, PLAN_FEATURES, PLAN_SEGMENTS
from klazy.learners.regression import BANDS, PACES, SLOTS, eliminate
from klazy.learners.season import find_period

# The segments of the rounds ahead: after which round each begins, and with which it ends.
ENDS = 2 ** np.arange(PLAN_SEGMENTS)
STARTS = ENDS // 2
LENGTHS = ENDS - STARTS
# How far ahead the round in the middle of a segment is, for which its forecast is tested.
LAGS = (STARTS + ENDS + 1) // 2
# Segments of up to SLOTS rounds ahead learn in every round, others when an eighth of their way has passed.
SEGMENT_SPACINGS = np.maximum(ENDS // SLOTS, 1)
EDGES = codes.PLAN_LOW + codes.PLAN_BIN * np.arange(PLAN_BINS + 1)


class Foresight(NamedTuple):
    """What a plan expects of one coordinate, on the scale of roots: the forecast and the spread of each segment, and how
    errors are distributed, in units of the spread."""

    forecasts: Array
    spreads: Array
    distribution: Array


class Terms(NamedTuple):
    """How many segments are planned ahead, what a unit up and a unit down counts, what a unit too little and too much costs,
    and the ends of the box, as roots."""

    segments: int
    rise: float
    fall: float
    short: float
    excess: float
    low: float
    high: float


class Plan:
    r"""Forecasts the demand of the rounds ahead in segments: 1, 2, 3 to 4, 5 to 8, ..., 129 to 256.

    All numbers are roots of demands, :math:`y = \pm\sqrt{|c|}`, whose noise depends less on their level. A segment is forecast
    by a regression of all coordinates together, as :class:`~klazy.learners.regression.Regression` has it, on differences of
    exponential means, and on the season: the mean of the same rounds of up to four past periods, once a period is known. The
    errors of past forecasts say how certain they are: each segment has a spread, and all share one distribution of errors in
    units of it. It begins as the standard normal one.

    Parameters
    ----------
    dim : int
        The numbers of a row.
    given : int
        The period, 0 if it is given with each round.
    """

    def __init__(self, dim: int, given: int = 0) -> None:
        self.dim = dim
        self.given = given
        # All past periods that are averaged, where that takes not too much memory, but at least one.
        fitting = max(given + int(ENDS[-1]), codes.PLAN_NUMBERS // dim - 1)
        longest = min(codes.PLAN_PERIODS * given, codes.SEASON_LONGEST, fitting)
        self.rows = max(codes.PLAN_LEAST_ROWS, 1 << longest.bit_length())
        shapes = {
            "sums": (dim,),
            "norms": (BANDS,),
            "means": (dim, BANDS),
            "squares": (PLAN_SEGMENTS,),
            "misses": (PLAN_SEGMENTS,),
            "spreads": (PLAN_SEGMENTS,),
            "products": (PLAN_SEGMENTS, PLAN_FEATURES),
            "matrices": (PLAN_SEGMENTS, PLAN_FEATURES, PLAN_FEATURES),
            "coefficients": (PLAN_SEGMENTS, PLAN_FEATURES),
            "counts": (PLAN_BINS,),
            "distribution": (PLAN_BINS + 1,),
            "forecasts": (dim, PLAN_SEGMENTS),
            "middle": (dim,),
            "covariances": (codes.SEASON_PLACES,),
            "slots": (PLAN_SEGMENTS, SLOTS, dim, PLAN_FEATURES + 1),
            "ring": (self.rows, dim),
        }
        self.places: dict[str, tuple[slice, tuple[int, ...]]] = {}
        self.size = codes.PLAN_HEAD
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
        from scipy.special import ndtr

        known = np.zeros(self.size)
        known[codes.PLAN_GIVEN] = self.given
        known[codes.PLAN_ROWS] = self.rows
        self.read(known, "spreads")[:] = -1.0
        self.read(known, "counts")[:] = codes.PLAN_PRIOR * np.diff(ndtr(EDGES))
        self._count_up(known)
        return known

    def observe(self, known: Array, row: Array, period: int = 0) -> Array:
        """Return the vector after another round with this row, or these moments; ``period`` is 0 while none is known."""
        known = known.copy()
        n = int(known[codes.PLAN_SEEN]) + 1
        known[codes.PLAN_SEEN] = n
        row = row[: self.dim]
        roots = np.where(row < 0.0, -1.0, 1.0) * np.sqrt(np.abs(row))
        sums = self.read(known, "sums")
        norms = self.read(known, "norms")
        means = self.read(known, "means")
        sums += roots
        self.read(known, "ring")[n % self.rows] = sums
        norms += PACES * (1.0 - norms)
        means += PACES * (roots[:, None] - means)
        if n % codes.PLAN_STRIDE == 0:
            self._correlate(known, n // codes.PLAN_STRIDE)
        if 0 < self.given <= n:
            period = self.given
        elif period == 0:
            period = int(known[codes.PLAN_PERIOD])
        due = np.flatnonzero(n % SEGMENT_SPACINGS == 0).tolist()
        for j in due:
            self._learn(known, n, j)
        for j in due:
            self._test(known, n, j, roots)
        if n >= codes.REGRESSION_GROWTH * known[codes.PLAN_SOLVED] + 1.0:
            known[codes.PLAN_SOLVED] = n
            self._solve(known, n)
            self._count_up(known)
        smoothed = means / norms
        average = sums / n
        bands = smoothed - np.hstack((smoothed[:, 1:], average[:, None]))
        for j in range(PLAN_SEGMENTS):
            features = np.column_stack((bands, self._find_season(known, n, j, period, average)))
            forecast = average.copy()
            for feature, coefficient in zip(features.T, self.read(known, "coefficients")[j], strict=True):
                forecast += coefficient * feature
            self.read(known, "forecasts")[:, j] = forecast
            if j in due:
                slot = self.read(known, "slots")[j, n // SEGMENT_SPACINGS[j] % SLOTS]
                slot[:] = np.column_stack((features, forecast))
        return known

    def _correlate(self, known: Array, n: int) -> None:
        """Look for a period in sums of a few rounds, of which this is number n, as Season does in rows."""
        pace = 1.0 / min(n, codes.SEASON_MEMORY)
        lags = min(codes.SEASON_LAGS, n - 1)
        sums = self.read(known, "ring")[codes.PLAN_STRIDE * (n - np.arange(lags + 2)) % self.rows]
        middle = self.read(known, "middle")
        middle += pace * (sums[0] - sums[1] - middle)
        apart = sums[0] - sums[1] - middle
        products = np.cumsum(sums * apart, axis=1)[:, -1]
        offset = np.cumsum(apart * middle)[-1]
        covariances = self.read(known, "covariances")
        covariances *= 1.0 - pace
        covariances[: lags + 1] += pace * (products[:-1] - products[1:] - offset)
        if n % codes.SEASON_EVERY == 0:
            current = int(known[codes.PLAN_PERIOD]) // codes.PLAN_STRIDE
            known[codes.PLAN_PERIOD] = codes.PLAN_STRIDE * find_period(covariances, n, current)

    def _learn(self, known: Array, n: int, j: int) -> None:
        """Add the pair of features and target that ends with round n."""
        past = n - ENDS[j]
        if past > 0:
            features = self.read(known, "slots")[j, past // SEGMENT_SPACINGS[j] % SLOTS, :, :-1]
            ring = self.read(known, "ring")
            before = ring[past % self.rows]
            target = (ring[n % self.rows] - ring[(n - LENGTHS[j]) % self.rows]) / LENGTHS[j] - before / past
            self.read(known, "squares")[j] += np.cumsum(target * target)[-1]
            self.read(known, "products")[j] += np.cumsum(features * target[:, None], axis=0)[-1]
            squares = np.cumsum(features[:, :, None] * features[:, None], axis=0)[-1]
            self.read(known, "matrices")[j] += np.tril(squares)

    def _test(self, known: Array, n: int, j: int, roots: Array) -> None:
        """Compare round n with what was forecast for it."""
        past = n - LAGS[j]
        if past > 0:
            errors = roots - self.read(known, "slots")[j, past // SEGMENT_SPACINGS[j] % SLOTS, :, -1]
            spreads = self.read(known, "spreads")
            counts = self.read(known, "counts")
            if spreads[j] > 0.0:
                for error in errors:
                    place = (error / spreads[j] - codes.PLAN_LOW) / codes.PLAN_BIN
                    counts[int(min(max(place, 0.0), PLAN_BINS - 1.0))] += 1.0
            misses = self.read(known, "misses")
            misses[j] += np.cumsum(np.abs(errors))[-1]
            tests = n // SEGMENT_SPACINGS[j] - LAGS[j] // SEGMENT_SPACINGS[j]
            spreads[j] = codes.PLAN_SPREAD * (misses[j] / (tests * self.dim))

    def _solve(self, known: Array, n: int) -> None:
        """Find the coefficients of all segments."""
        for j in range(PLAN_SEGMENTS):
            pairs = n // SEGMENT_SPACINGS[j] - ENDS[j] // SEGMENT_SPACINGS[j]
            square = self.read(known, "squares")[j]
            if pairs > 0 and square > codes.SMALLEST_VARIATION:
                ridge = min(LENGTHS[j], SLOTS // 2) * (square / (pairs * self.dim))
                matrix = self.read(known, "matrices")[j] + ridge * np.eye(PLAN_FEATURES)
                self.read(known, "coefficients")[j] = eliminate(matrix, self.read(known, "products")[j])

    def _count_up(self, known: Array) -> None:
        """Make the distribution of errors of their counts."""
        summed = np.cumsum(self.read(known, "counts"))
        self.read(known, "distribution")[1:] = summed / summed[-1]

    def _find_season(self, known: Array, n: int, j: int, period: int, average: Array) -> Array:
        """Return the mean of a segment in past periods, less the mean of all rounds; 0 without a period."""
        total = np.zeros(self.dim)
        count = 0
        if period > 0:
            ring = self.read(known, "ring")
            first = -(-int(ENDS[j]) // period)
            for back in range(first, first + codes.PLAN_PERIODS):
                begin = n - back * period + int(STARTS[j])
                if begin >= 0 and n - begin < self.rows:
                    end = begin + LENGTHS[j]
                    total += (ring[end % self.rows] - ring[begin % self.rows]) / LENGTHS[j]
                    count += 1
        return total / count - average if count else total

    def foresee(self, known: Array, i: int) -> Foresight:
        """Return what is expected of a coordinate."""
        return Foresight(
            self.read(known, "forecasts")[i], self.read(known, "spreads"), self.read(known, "distribution")
        )

    def has_evidence(self, known: Array) -> bool:
        """Return True: demand of the last rounds always says something of the next ones."""
        return True

    def describe_skill(self, known: Array, horizon: int | None = None) -> str:
        """Write nothing: a plan has no single number that says how good it was."""
        return ""

    def check(self, known: Array) -> None:
        """Reject what this plan could not have left: kernels trust these numbers."""
        n, solved, given, rows, period = known[: codes.PLAN_HEAD].tolist()
        fits = 0 <= solved <= n and 0 <= period <= n and given == self.given and rows == self.rows
        if not fits or n % 1 or period % codes.PLAN_STRIDE:
            head = known[: codes.PLAN_HEAD]
            raise InvalidInput(
                f"state.regression must come from a trace or agent of this learner, got {head}."
            )


def take_root(level: float) -> float:
    """Return the root of a level, below zero for one below zero."""
    return math.copysign(math.sqrt(abs(level)), level)


def find_slope(expected: Foresight, terms: Terms, root: float) -> float:
    """Return what one more unit at a level costs in the next round and all that are planned."""
    spreads = np.maximum(expected.spreads, codes.PLAN_SHARPEST * (terms.high - terms.low))
    places = ((root - expected.forecasts) / spreads - codes.PLAN_LOW) / codes.PLAN_BIN
    places = np.minimum(np.maximum(places, 0.0), PLAN_BINS)
    at = np.minimum(places.astype(int), PLAN_BINS - 1)
    below = expected.distribution[at]
    chances = below + (places - at) * (expected.distribution[at + 1] - below)
    costs = (terms.short + terms.excess) * chances - terms.short
    value = 0.0
    for j in reversed(range(1, terms.segments)):
        if expected.spreads[j] >= 0.0:
            value = min(max(value + LENGTHS[j] * costs[j], -terms.rise), terms.fall)
    return float(costs[0] + value)


def find_level(expected: Foresight, terms: Terms, root: float) -> float:
    """Find the level nearest to one at which neither rising nor falling pays; all levels are roots.

    The slope rises with the level. It is searched in steps that double, and then by false position.
    """
    slope = find_slope(expected, terms, root)
    if -terms.rise <= slope <= terms.fall:
        return root
    target = terms.fall
    way = -1.0
    end = terms.low
    if slope < -terms.rise:
        target = -terms.rise
        way = 1.0
        end = terms.high
    # How much is missing on the near side of the level, and how much is too much on its far side.
    near = root
    missing = way * (target - slope)
    spread = max(expected.spreads[0], codes.PLAN_SHARPEST * (terms.high - terms.low))
    step = 0.5 * spread
    while True:
        far = near + way * step
        if way * (end - far) <= 0.0:
            far = end
        over = way * (find_slope(expected, terms, far) - target)
        if over >= 0.0 or far == end:
            break
        near = far
        missing = -over
        step *= 2.0
    if over <= 0.0:
        return far
    last = 0.0
    for _ in range(codes.PLAN_TURNS):
        if over == 0.0 or abs(far - near) <= codes.PLAN_NEAR * spread:
            break
        trial = far - (far - near) * (over / (over + missing))
        value = way * (find_slope(expected, terms, trial) - target)
        if value < 0.0:
            near = trial
            missing = -value
            if last < 0.0:
                over *= 0.5
            last = -1.0
        else:
            far = trial
            over = value
            if last > 0.0:
                missing *= 0.5
            last = 1.0
    return far
