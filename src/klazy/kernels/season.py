"""The season of a leader, and the forecasts that its experts get: the twin of Season in klazy.learners.seasonal.

All numbers are plain here. Those in the lanes of a block are WIDTH apart.
"""

import math
from typing import Any

from klazy.kernels import codes
from klazy.kernels.codes import SEASON_PLACES
from klazy.kernels.lane import beyond, called, local, own_place, wait
from klazy.kernels.rules import AHEAD, FALL, PERIODS, PLAN, RISE
from klazy.kernels.slots import DEPTH, IS_LONG, OUTLOOK, THREADS, WIDTH, D, limit

# Of seven and eight coordinates as constants, loops over lags would gather what loops over coordinates find together.
NARROW = 6
ALONG_ROOM = SEASON_PLACES + 1  # projections of the sums at all lags, and at one more


def find_ring(season, d):
    """Return the sums up to each of the last rounds."""
    return beyond(season, codes.SEASON_HEAD + d + SEASON_PLACES)


def find_lap(n, rows):
    """Return the last round that was written to the first row of a ring."""
    return n - n % rows


def find_place(t, lap, rows):
    """Return the row of round t in the ring; ``lap`` is what find_lap gives for the present round."""
    place = t % codes.SEASON_ROWS
    if IS_LONG:  # A remainder would take longer.
        place = t - lap
        if place < 0:
            place += rows
    return place


def find_sums(ring, t, lap, rows, d):
    """Return the sums up to round t, one of those in the ring."""
    return beyond(ring, find_place(t, lap, rows) * (DEPTH * d))


@called
def observe_season(season, rows, g, apart, dim):
    """Update the season with the moments g of a round; ``rows`` is the length of the ring, ``apart`` scratch.

    The threads of a GPU's block share a season: each updates some of the lags, and the first one everything else.
    """
    d = D if D > 0 else dim
    if D > 0:
        apart = local(D)  # It stays in registers.
    n = int(season[codes.SEASON_SEEN]) + 1
    given = int(season[codes.SEASON_GIVEN])
    known = int(season[codes.SEASON_PERIOD])
    mean = beyond(season, codes.SEASON_HEAD)
    covariances = beyond(mean, d)
    ring = find_ring(season, d)
    lap = find_lap(n, rows)
    before = find_sums(ring, n - 1, lap, rows, d)
    now = find_sums(ring, n, lap, rows, d)
    pace = 1.0 / min(
        n, codes.SEASON_MEMORY
    )  # the pace of averages in which the last rounds count most
    offset = 0.0
    product = 0.0
    for i in range(d):
        summed = before[i] + g[i]
        row = summed - before[i]
        middle = mean[i] + pace * (row - mean[i])
        apart[i] = row - middle
        offset += apart[i] * middle
        product += apart[i] * summed
    wait()  # until all have read
    if own_place() == 0:
        season[codes.SEASON_SEEN] = n
        for i in range(DEPTH * d):
            now[i] = before[i] + g[i]
        if given == 0:
            for i in range(d):
                mean[i] += pace * ((now[i] - before[i]) - mean[i])
    if given == 0 and D <= NARROW and THREADS == 1:
        place = find_place(n - 1, lap, rows)
        correlate_lags(covariances, ring, place, rows, n, apart, product, offset, d)
    elif given == 0:
        for lag in range(own_place(), min(codes.SEASON_LAGS, n - 1) + 1, THREADS):
            if THREADS > 1 and lag > 0:  # A single thread has it from the lag before.
                product = project(find_sums(ring, n - lag, lap, rows, d), apart, d)
            earlier = project(find_sums(ring, n - lag - 1, lap, rows, d), apart, d)
            covariances[lag] = (1.0 - pace) * covariances[lag] + pace * (
                product - earlier - offset
            )
            product = earlier
    wait()  # until all have written
    found = known
    if given > 0:
        if n == given:
            found = given
    elif n % codes.SEASON_EVERY == 0:
        found = find_period(covariances, beyond(ring, rows * (DEPTH * d)), n, known)
    if found != known:
        if own_place() == 0:
            season[codes.SEASON_PERIOD] = found
            season[codes.SEASON_CHANGED] = n
        wait()


def correlate_lags(covariances, ring, place, rows, n, apart, product, offset, d):
    """Update the covariances of all lags by one thread; ``place`` is the row of the round before."""
    lags = min(codes.SEASON_LAGS, n - 1) + 1
    pace = 1.0 / min(n, codes.SEASON_MEMORY)
    along = local(ALONG_ROOM)
    along[0] = product
    straight = min(lags, place + 1)
    project_back(ring, place, 0, straight, apart, along, d)
    project_back(ring, place + rows, straight, lags, apart, along, d)
    for lag in range(lags):
        change = along[lag] - along[lag + 1] - offset
        covariances[lag] = (1.0 - pace) * covariances[lag] + pace * change


def project_back(ring, place, first, end, apart, along, d):
    """Project the sums of some lags, whose rows are next to each other, so that in few dimensions the loop vectorises."""
    for lag in range(first, end):
        along[lag + 1] = project(beyond(ring, (place - lag) * (DEPTH * d)), apart, d)


def project(sums, apart, d):
    """Project sums onto the difference of this round from the mean."""
    along = 0.0
    for i in range(d):
        along += apart[i] * sums[i]
    return along


@called
def find_period(covariances, shared, n, current):
    """Find the lag at which autocorrelations come back highest, 0 if they do not; ``shared`` is scratch of several threads.

    A lag counts by how far its correlation has risen above the lowest of shorter lags, if it falls by half of that again within
    half a period more. The rise must be prominent, and several standard errors. The current period stays as long as it rises
    nearly as far as any; else it is the first lag that does. Of its neighbours the highest wins.
    """
    if covariances[0] <= 0.0:
        return 0
    r = shared
    if THREADS == 1:
        r = local(SEASON_PLACES)
    for lag in range(own_place(), min(codes.SEASON_LAGS, n // 3) + 1, THREADS):
        r[lag] = correlation(covariances, lag, n)
    wait()
    return choose_period(r, n, current)


def correlation(covariances, lag, n):
    """Return the autocorrelation at a lag; until memory is full, longer lags sum fewer products."""
    share = covariances[lag] / covariances[0]
    if n <= codes.SEASON_MEMORY:
        share *= n / (n - lag)
    return share


def choose_period(r, n, current):
    """Find the period, given the autocorrelations up to a third of the rounds."""
    lags = min(codes.SEASON_LAGS, n // 3)
    lowest = 1.0
    best = 0.0
    for lag in range(1, lags):
        rise = r[lag] - lowest
        lowest = min(lowest, r[lag])
        if lag > 1 and rise > best:
            after = r[lag + 1]
            for later in range(lag + 2, min(lag + lag // 2, lags) + 1):
                after = min(after, r[later])
            if r[lag] - after > 0.5 * rise:
                best = rise
    if best < max(
        codes.SEASON_PROMINENT, codes.SEASON_ERRORS / math.sqrt(min(n, codes.SEASON_MEMORY))
    ):
        return 0
    lowest = min(1.0, r[1])
    near = 0
    for lag in range(2, lags):
        rises = r[lag] - lowest >= codes.SEASON_KEEPS * best
        lowest = min(lowest, r[lag])
        if rises and (near == 0 or lag == current):
            near = lag
    found = near
    for lag in range(max(2, near - near // 4), min(near + near // 4, lags - 1) + 1):
        if r[lag] > r[found] + codes.SEASON_EQUAL:
            found = lag
    return found


def knows_period(given, season):
    """Return True if experts that were given this period, or none (0), know their period."""
    knows = season[codes.SEASON_PERIOD] > 0.0
    if given > 0.0:
        knows = season[codes.SEASON_SEEN] >= given
    return knows


@called
def look_ahead(q, given, season, plans, rows, outlook, v, dim):
    """Write forecasts for the experts of a block, which know a period, into ``outlook``; ``v`` is scratch."""
    d = D if D > 0 else dim
    n = int(season[codes.SEASON_SEEN])
    period = int(season[codes.SEASON_PERIOD])
    changed = int(season[codes.SEASON_CHANGED])
    if given > 0.0:
        period = int(given)
        changed = period
    ring = find_ring(season, d)
    lap = find_lap(n, rows)
    for lane in range(WIDTH):
        s = beyond(q, codes.OWN * WIDTH + lane)
        ahead = int(s[AHEAD * WIDTH])
        count = min(int(s[PERIODS * WIDTH]), min(n, rows - 1) // period)
        out = beyond(outlook, lane)
        if ahead > 0:
            forecast_mean(ring, n, lap, rows, period, count, ahead, out, d)
        else:
            value = beyond(q, (codes.FIELDS + d) * WIDTH + lane)
            is_new = changed == n
            rise = s[RISE * WIDTH]
            fall = s[FALL * WIDTH]
            kept = beyond(plans, int(s[PLAN * WIDTH]))
            plan(ring, n, lap, rows, period, count, is_new, value, kept, rise, fall, out, v, d)


def forecast_mean(ring, n, lap, rows, period, count, ahead, out, d):
    """Write the mean of the next rounds, each the mean of its phase over the last periods."""
    whole = ahead // period
    rest = ahead % period
    last = find_sums(ring, n, lap, rows, d)
    first = find_sums(ring, n - count * period, lap, rows, d)
    total = out  # Beyond small dimensions a block is one expert, whose numbers are next to each other.
    if D > 0:
        total = local(OUTLOOK)  # It stays in registers.
    for i in range(DEPTH * d):
        total[i] = whole * (last[i] - first[i])
    for back in range(1, count + 1):
        end = find_sums(ring, n - back * period + rest, lap, rows, d)
        begin = find_sums(ring, n - back * period, lap, rows, d)
        for i in range(DEPTH * d):
            total[i] += end[i] - begin[i]
    for i in range(DEPTH * d):
        out[i * WIDTH] = total[i] / (count * ahead)


def plan(ring, n, lap, rows, period, count, is_new, value, kept, rise, fall, out, v, d):
    """Write the next round with all that follows until the same phase of the next period, or a part of a period later.

    Forecasts of the rounds of a part stay as they are until more periods are averaged, so what these rounds are worth is
    ``kept`` from round to round.
    """
    part = max(1, min(period, codes.SEASON_ROWS) // codes.SEASON_PARTS)
    left = part - n % part
    renews = left == part or is_new
    if renews:
        for i in range(d):
            v[i] = 0.0
        for ahead in range(left + period, left, -1):
            foresee(ring, n, lap, rows, period, count, ahead, v, d)
            limit(v, rise, fall, d)
        for i in range(d):
            value[i * WIDTH] = v[i]
    renews = renews or kept[codes.PART_END] != n + left or kept[codes.PART_PERIODS] != count
    if renews or kept[codes.PART_RISE] != rise or kept[codes.PART_FALL] != fall:
        kept[codes.PART_END] = n + left
        kept[codes.PART_PERIODS] = count
        kept[codes.PART_RISE] = rise
        kept[codes.PART_FALL] = fall
        for i in range(d):
            v[i] = value[i * WIDTH]
        for ahead in range(left, 1, -1):
            foresee(ring, n, lap, rows, period, count, ahead, v, d)
            limit(v, rise, fall, d)
            later = beyond(kept, codes.PART_HEAD + (n + ahead) % part * d)
            for i in range(d):
                later[i] = v[i]
    later = beyond(kept, codes.PART_HEAD + (n + 2) % part * d)
    for i in range(d):
        v[i] = later[i] if left > 1 else value[i * WIDTH]
    foresee(ring, n, lap, rows, period, count, 1, v, d)
    for i in range(d):
        out[i * WIDTH] = v[i]


@called
def foresee(ring, n, lap, rows, period, count, ahead, v, dim):
    """Add the forecast of a round to ``v``."""
    d = D if D > 0 else dim
    t = n + 1 + (ahead - 1) % period
    share = 1.0 / count
    if D > 0:
        total = local(D)  # in registers
        for i in range(d):
            total[i] = 0.0
        for back in range(1, count + 1):
            end = find_sums(ring, t - back * period, lap, rows, d)
            begin = find_sums(ring, t - back * period - 1, lap, rows, d)
            for i in range(d):
                total[i] += end[i] - begin[i]
        for i in range(d):
            v[i] += share * total[i]
    else:
        for back in range(1, count + 1):
            end = find_sums(ring, t - back * period, lap, rows, d)
            begin = find_sums(ring, t - back * period - 1, lap, rows, d)
            for i in range(d):
                v[i] += share * (end[i] - begin[i])


def clip_each(v, rise, fall, d):
    for i in range(d):
        v[i] = min(max(v[i], -rise), fall)


def shorten(v, rise, fall, d):
    square = 0.0
    for i in range(d):
        square += v[i] * v[i]
    size = math.sqrt(square)
    if size > rise:
        for i in range(d):
            v[i] *= rise / size


def stay_near_least(v, rise, fall, d):
    least = v[0]
    for i in range(1, d):
        least = min(least, v[i])
    for i in range(d):
        v[i] = min(v[i], (least + rise) + fall)


def choose_limit(set_code: int, is_straight: bool) -> Any:
    """Choose C of the definition of Seasonal, for a set and a kind of movement."""
    if is_straight:
        return shorten
    return stay_near_least if set_code in (codes.SIMPLEX, codes.CAPPED_SIMPLEX) else clip_each
