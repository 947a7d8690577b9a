"""Seasons: a period that is given or found while rounds come, and forecasts of the rounds ahead.

A season is one vector, so that a leader and its kernel have it once for all experts that look for the same season. The numbers
of :mod:`klazy.kernels.codes` are the places in it; :mod:`klazy.kernels.season` is the twin.
"""

import math
from collections.abc import Sequence

import numpy as np

from klazy.base.checks import Array, InvalidInput
from klazy.kernels import codes


class Season:
    """Looks for a period in rows of ``dim`` numbers, and forecasts ``width`` moments of them, the first of which are the rows.

    Its vector: how many rows it saw, the period (0 if none is known), the round in which that changed, the
    period that was given (0 if none was); then the mean of the rows, their autocovariances by lag, and the sums of all moments
    up to each of the last ``rows`` rounds, in a ring. The ring is read by the length that it has: that of a leader may be
    longer than one of its experts needs.
    """

    def __init__(self, dim: int, width: int, period: int | None, rows: int = codes.SEASON_ROWS) -> None:
        self.dim = dim
        self.width = width
        self.given = period or 0
        self.rows = rows
        self.means = slice(codes.SEASON_HEAD, codes.SEASON_HEAD + dim)
        self.covariances = slice(self.means.stop, self.means.stop + codes.SEASON_PLACES)
        self.size = self.covariances.stop + rows * width

    def read_sums(self, known: Array) -> Array:
        """Return the ring: the sums up to round n in row n modulo its length."""
        return known[self.covariances.stop :].reshape(-1, self.width)

    def init(self) -> Array:
        """Return the vector before the first round."""
        known = np.zeros(self.size)
        known[codes.SEASON_GIVEN] = self.given
        return known

    def observe(self, known: Array, seen: Array) -> Array:
        """Return the vector after another round with these moments."""
        known = known.copy()
        n = int(known[codes.SEASON_SEEN]) + 1
        known[codes.SEASON_SEEN] = n
        sums = self.read_sums(known)
        rows = len(sums)
        sums[n % rows] = sums[(n - 1) % rows] + seen
        if self.given:
            if n == self.given:
                known[codes.SEASON_PERIOD] = self.given
                known[codes.SEASON_CHANGED] = n
            return known
        self._correlate(known, sums, n)
        if n % codes.SEASON_EVERY == 0:
            found = find_period(known[self.covariances], n, int(known[codes.SEASON_PERIOD]))
            if found != known[codes.SEASON_PERIOD]:
                known[codes.SEASON_PERIOD] = found
                known[codes.SEASON_CHANGED] = n
        return known

    def _correlate(self, known: Array, sums: Array, n: int) -> None:
        """Mean and autocovariances, of the last rounds above all; lags that were not there yet count as zero."""
        pace = 1.0 / min(n, codes.SEASON_MEMORY)
        rows = len(sums)
        row = (sums[n % rows] - sums[(n - 1) % rows])[: self.dim]
        mean = known[self.means]
        mean += pace * (row - mean)
        apart = row - mean
        lags = min(codes.SEASON_LAGS, n - 1)
        products = sums[(n - np.arange(lags + 2)) % rows, : self.dim] @ apart
        covariances = known[self.covariances]
        covariances *= 1.0 - pace
        covariances[: lags + 1] += pace * (products[:-1] - products[1:] - apart @ mean)

    def check(self, known: Array) -> None:
        """Reject what this season could not have left: kernels trust these numbers."""
        n, period, changed, given = known[: codes.SEASON_HEAD].tolist()
        longest = self.given or codes.SEASON_LAGS
        fits = n >= 0 and 0 <= period <= min(longest, n) and 0 <= changed <= n and given == self.given
        if not fits or any(number % 1 for number in (n, period, changed)):
            head = known[: codes.SEASON_HEAD]
            raise InvalidInput(f"state.season must come from a trace or agent of this learner, got {head}.")

    def count_periods(self, known: Array, period: int, most: int) -> int:
        """Count the past periods that a forecast can average."""
        rows = len(self.read_sums(known))
        return min(most, int(known[codes.SEASON_SEEN]) // period, (rows - 1) // period)

    def forecast(self, known: Array, period: int, periods: int, ahead: int) -> Array:
        """Forecast the moments of the next rounds, of shape (ahead, width): each is the mean of its phase over past periods."""
        n = int(known[codes.SEASON_SEEN])
        count = self.count_periods(known, period, periods)
        sums = self.read_sums(known)
        rounds = n + 1 + np.arange(ahead) % period
        moments = np.zeros((ahead, self.width))
        for back in range(1, count + 1):
            at = rounds - back * period
            moments += sums[at % len(sums)] - sums[(at - 1) % len(sums)]
        return moments / count

    def forecast_mean(self, known: Array, period: int, periods: int, ahead: int) -> Array:
        """Forecast the mean of the next rounds."""
        n = int(known[codes.SEASON_SEEN])
        count = self.count_periods(known, period, periods)
        sums = self.read_sums(known)
        whole, rest = divmod(ahead, period)
        total = whole * (sums[n % len(sums)] - sums[(n - count * period) % len(sums)])
        for back in range(1, count + 1):
            at = n - back * period
            total += sums[(at + rest) % len(sums)] - sums[at % len(sums)]
        return total / (count * ahead)


def count_ring_rows(width: int, period: int | None, periods: int) -> int:
    """Return how many rounds the ring has for means over ``periods`` periods of rows with ``width`` moments.

    A short period, or one that is looked for, has SEASON_ROWS. A longer one has as many of its periods as are averaged and as
    fit into SEASON_LONGEST rounds and SEASON_NUMBERS numbers, but at least one, and the sum before the first of them.
    """
    if period is None or period < codes.SEASON_ROWS:
        return codes.SEASON_ROWS
    fitting = min(codes.SEASON_LONGEST, codes.SEASON_NUMBERS // width) // period
    return 1 + period * max(1, min(periods, fitting))


def join_seasons(seasons: Sequence[Season]) -> Season | None:
    """Return the one season that serves all of these; None if they see rows of different widths.

    Its ring is the longest of theirs. It looks for a period if one of them does.
    """
    if len({season.width for season in seasons}) != 1:
        return None
    given = max(season.given for season in seasons)
    if any(season.given == 0 for season in seasons):
        given = 0
    return Season(seasons[0].dim, seasons[0].width, given, max(season.rows for season in seasons))


def find_period(covariances: Array, n: int, current: int) -> int:
    """Find the lag at which autocorrelations come back highest, 0 if they do not.

    A lag counts by how far its correlation has risen above the lowest of shorter lags, if it falls by half of that again within
    half a period more. The rise must be prominent, and several standard errors. The current period stays as long as it rises
    nearly as far as any; else it is the first lag that does. Of its neighbours the highest wins.
    """
    if covariances[0] <= 0.0:
        return 0
    lags = min(codes.SEASON_LAGS, n // 3)
    r = covariances[: lags + 1] / covariances[0]
    if n <= codes.SEASON_MEMORY:
        # As many products are missing in the sums.
        r *= n / (n - np.arange(lags + 1))
    rises = np.zeros(lags + 1)
    lowest = 1.0
    best = 0.0
    for lag in range(1, lags):
        rises[lag] = r[lag] - lowest
        lowest = min(lowest, r[lag])
        if lag > 1 and rises[lag] > best:
            after = r[lag + 1 : min(lag + lag // 2, lags) + 1].min()
            if r[lag] - after > 0.5 * rises[lag]:
                best = rises[lag]
    if best < max(codes.SEASON_PROMINENT, codes.SEASON_ERRORS / math.sqrt(min(n, codes.SEASON_MEMORY))):
        return 0
    near = current
    if not (0 < current < lags and rises[current] >= codes.SEASON_KEEPS * best):
        near = 2
        while rises[near] < codes.SEASON_KEEPS * best:
            near += 1
    found = near
    for lag in range(max(2, near - near // 4), min(near + near // 4, lags - 1) + 1):
        if r[lag] > r[found] + codes.SEASON_EQUAL:
            found = lag
    return found
