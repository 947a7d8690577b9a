"""How the threads of a block learn together what their experts share, for linear costs.

It is in memory that all threads share. Of a season each thread updates some of the lags (:mod:`klazy.kernels.season`), of a
regression some of the coordinates and one horizon (:mod:`klazy.kernels.regression`).
"""

from klazy.kernels import codes
from klazy.kernels.codes import REGRESSION_BANDS, REGRESSION_HORIZONS
from klazy.kernels.cuda import local, own_place, pointer, wait
from klazy.kernels.regression import (
    add_row,
    add_square,
    copy_slots,
    find_features,
    forecast,
    is_due,
    learn_pair,
    solve,
)
from klazy.kernels.season import choose_period, correlation, find_lap, find_ring, find_sums
from klazy.kernels.slots import THREADS, VECTOR, D


def count_shared_room(size: int) -> int:
    """Return the numbers that a block needs for what is shared: itself, and one for each lag of a season."""
    return size + codes.SEASON_PLACES if size else 0


def observe_together(season, rows, g, apart, dim):
    """Do what ``observe_season`` does, with all threads of a block."""
    d = D if D > 0 else dim
    place = own_place()
    n = int(season[codes.SEASON_SEEN]) + 1
    given = int(season[codes.SEASON_GIVEN])
    known = int(season[codes.SEASON_PERIOD])
    mean = pointer(season, codes.SEASON_HEAD)
    covariances = pointer(mean, d)
    ring = find_ring(season, d)
    lap = find_lap(n, rows)
    before = find_sums(ring, n - 1, lap, rows, d)
    now = find_sums(ring, n, lap, rows, d)
    sums = local(VECTOR)
    middle = local(VECTOR)
    pace = 1.0 / min(n, codes.SEASON_MEMORY)
    offset = 0.0
    product = 0.0
    for i in range(d):
        sums[i] = before[i] + g[i]
        row = sums[i] - before[i]
        middle[i] = mean[i] + pace * (row - mean[i])
        apart[i] = row - middle[i]
        offset += apart[i] * middle[i]
        product += apart[i] * sums[i]
    wait()  # until all have read
    if place == 0:
        season[codes.SEASON_SEEN] = n
        for i in range(d):
            now[i] = sums[i]
            if given == 0:
                mean[i] = middle[i]
    if given == 0:
        for lag in range(place, min(codes.SEASON_LAGS, n - 1) + 1, THREADS):
            later = product
            if lag > 0:
                later = project(find_sums(ring, n - lag, lap, rows, d), apart, d)
            earlier = project(find_sums(ring, n - lag - 1, lap, rows, d), apart, d)
            covariances[lag] = (1.0 - pace) * covariances[lag] + pace * (later - earlier - offset)
    wait()  # until all have written
    found = known
    if given > 0:
        if n == given:
            found = given
    elif n % codes.SEASON_EVERY == 0:
        found = 0
        if covariances[0] > 0.0:
            r = pointer(ring, rows * d)
            for lag in range(place, min(codes.SEASON_LAGS, n // 3) + 1, THREADS):
                r[lag] = correlation(covariances, lag, n)
            wait()
            found = choose_period(r, n, known)
    if found != known:
        if place == 0:
            season[codes.SEASON_PERIOD] = found
            season[codes.SEASON_CHANGED] = n
        wait()


def project(sums, apart, d):
    """Project sums onto the difference of this round from the mean."""
    along = 0.0
    for i in range(d):
        along += apart[i] * sums[i]
    return along


def regress_together(known, row, dim):
    """Do what ``observe_regression`` does, with all threads of a block."""
    d = D if D > 0 else dim
    place = own_place()
    n = int(known[codes.REGRESSION_SEEN]) + 1
    solves = is_due(known, n)
    wait()  # until all have read
    if place == 0:
        known[codes.REGRESSION_SEEN] = n
        if solves:
            known[codes.REGRESSION_SOLVED] = n
        add_row(known, row, n, d)
    wait()
    for h in range(place, REGRESSION_HORIZONS, THREADS):
        learn_pair(known, n, h, d)
    wait()
    for i in range(place, d, THREADS):
        find_features(known, n, i, d)
    wait()
    for a in range(place, REGRESSION_BANDS, THREADS):
        add_square(known, n, a, d)
    wait()
    if solves:
        for h in range(place, REGRESSION_HORIZONS, THREADS):
            solve(known, n, h, d)
    wait()
    for i in range(place, d, THREADS):
        forecast(known, n, i, d)
    wait()
    if place == 0:
        copy_slots(known, n, d)
    wait()
