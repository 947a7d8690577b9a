"""The plan of a learner for demand, and the levels to which it moves: ``step`` runs it as plain Python, kernels compiled.

All numbers are plain, in one vector whose arrays klazy.learners.planning lists. Levels are roots of demands.
"""

import math

from klazy.kernels import codes
from klazy.kernels.codes import (
    PLAN_BINS,
    PLAN_FEATURES,
    PLAN_SEGMENTS,
    REGRESSION_BANDS,
    REGRESSION_SLOTS,
)
from klazy.kernels.lane import beyond, called, exact, local
from klazy.kernels.regression import eliminate
from klazy.kernels.season import find_period
from klazy.kernels.slots import WIDTH, D

FEATURE_SQUARE = PLAN_FEATURES * PLAN_FEATURES
SHORT_SEGMENTS = REGRESSION_SLOTS.bit_length() - 1
# Places of the arrays that do not grow with the dimension, counted from the end of the means.
SQUARES_PLACE = 0
MISSES = SQUARES_PLACE + PLAN_SEGMENTS
SPREADS = MISSES + PLAN_SEGMENTS
PRODUCTS = SPREADS + PLAN_SEGMENTS
MATRICES = PRODUCTS + PLAN_SEGMENTS * PLAN_FEATURES
COEFFICIENTS = MATRICES + PLAN_SEGMENTS * FEATURE_SQUARE
COUNTS = COEFFICIENTS + PLAN_SEGMENTS * PLAN_FEATURES
DISTRIBUTION = COUNTS + PLAN_BINS
FORESIGHT = DISTRIBUTION + PLAN_BINS + 1
REMEMBERED = PLAN_FEATURES + 1  # numbers of a coordinate in a slot

# ---- places among the numbers of the rule

PLAN_AHEAD = 0
PLAN_RISE = 1
PLAN_FALL = 2
PLAN_SHORT = 3
PLAN_EXCESS = 4


# ---- where the arrays of the vector begin


def find_shared(known, d):
    """Return the arrays that do not grow with the dimension; the forecasts follow them."""
    return beyond(known, codes.PLAN_HEAD + d + REGRESSION_BANDS + d * REGRESSION_BANDS)


def find_middle(known, d):
    """Return the mean of sums of a few rounds; their autocovariances follow it."""
    return beyond(find_shared(known, d), FORESIGHT + d * PLAN_SEGMENTS)


def find_slots(known, d):
    """Return the slots of all segments."""
    return beyond(find_middle(known, d), d + codes.SEASON_PLACES)


def find_segment_slot(known, d, j, number):
    """Return the slot of a round in a segment: features and forecast of each coordinate."""
    place = j * REGRESSION_SLOTS + number % REGRESSION_SLOTS
    return beyond(find_slots(known, d), place * d * REMEMBERED)


def find_root_sums(known, d, t):
    """Return the sums up to round t, one of those in the ring."""
    place = t & (int(known[codes.PLAN_ROWS]) - 1)
    slots = PLAN_SEGMENTS * REGRESSION_SLOTS * d * REMEMBERED
    return beyond(find_slots(known, d), slots + place * d)


# ---- a round


def count_apart(j):
    """Return every how many rounds a segment learns."""
    return 1 << max(j - SHORT_SEGMENTS, 0)


def find_start(j):
    """Return after how many rounds a segment begins; it ends after 1 << j."""
    return (1 << j) >> 1


@exact
def take_root(level):
    """Return the root of a level, below zero for one below zero."""
    return math.copysign(math.sqrt(abs(level)), level)


@called
@exact
def observe_plan(known, row, period, dim):
    """Learn from a row, and forecast the rounds ahead; ``period`` is 0 while none is known."""
    d = D if D > 0 else dim
    n = int(known[codes.PLAN_SEEN]) + 1
    known[codes.PLAN_SEEN] = n
    add_roots(known, row, n, d)
    if n % codes.PLAN_STRIDE == 0:
        correlate(known, n // codes.PLAN_STRIDE, d)
    given = int(known[codes.PLAN_GIVEN])
    if given > 0 and given <= n:
        period = given
    elif period == 0:
        period = int(known[codes.PLAN_PERIOD])
    for j in range(PLAN_SEGMENTS):
        if n % count_apart(j) == 0:
            learn_segment(known, n, j, d)
    for j in range(PLAN_SEGMENTS):
        if n % count_apart(j) == 0:
            test_segment(known, row, n, j, d)
    if n >= codes.REGRESSION_GROWTH * known[codes.PLAN_SOLVED] + 1.0:
        known[codes.PLAN_SOLVED] = n
        for j in range(PLAN_SEGMENTS):
            solve_segment(known, n, j, d)
        count_up(find_shared(known, d))
    for i in range(d):
        forecast_segments(known, n, i, period, d)


@exact
def add_roots(known, row, n, d):
    """Update the sums and the means with the roots of a row."""
    sums = beyond(known, codes.PLAN_HEAD)
    norms = beyond(sums, d)
    means = beyond(norms, REGRESSION_BANDS)
    ring = find_root_sums(known, d, n)
    pace = 1.0
    for k in range(REGRESSION_BANDS):
        norms[k] += pace * (1.0 - norms[k])
        pace *= 0.5
    for i in range(d):
        number = take_root(row[i])
        sums[i] += number
        ring[i] = sums[i]
        mean = beyond(means, i * REGRESSION_BANDS)
        pace = 1.0
        for k in range(REGRESSION_BANDS):
            mean[k] += pace * (number - mean[k])
            pace *= 0.5


@called
@exact
def correlate(known, n, d):
    """Look for a period in sums of a few rounds, of which this is number n."""
    pace = 1.0 / min(n, codes.SEASON_MEMORY)
    middle = find_middle(known, d)
    covariances = beyond(middle, d)
    now = find_root_sums(known, d, codes.PLAN_STRIDE * n)
    before = find_root_sums(known, d, codes.PLAN_STRIDE * (n - 1))
    offset = 0.0
    product = 0.0
    for i in range(d):
        middle[i] += pace * (now[i] - before[i] - middle[i])
    for i in range(d):
        apart = now[i] - before[i] - middle[i]
        offset += apart * middle[i]
        product += now[i] * apart
    for lag in range(min(codes.SEASON_LAGS, n - 1) + 1):
        sums = find_root_sums(known, d, codes.PLAN_STRIDE * (n - lag - 1))
        earlier = 0.0
        for i in range(d):
            earlier += sums[i] * (now[i] - before[i] - middle[i])
        covariances[lag] = (1.0 - pace) * covariances[lag] + pace * (product - earlier - offset)
        product = earlier
    if n % codes.SEASON_EVERY == 0:
        current = int(known[codes.PLAN_PERIOD]) // codes.PLAN_STRIDE
        known[codes.PLAN_PERIOD] = (
            1.0 * codes.PLAN_STRIDE * find_period(covariances, covariances, n, current)
        )


@called
@exact
def learn_segment(known, n, j, d):
    """Add the pair of features and target that ends with round n."""
    past = n - (1 << j)
    if past > 0:
        rounds = (1 << j) - find_start(j)
        slot = find_segment_slot(known, d, j, past // count_apart(j))
        before = find_root_sums(known, d, past)
        middle = find_root_sums(known, d, n - rounds)
        now = find_root_sums(known, d, n)
        shared = find_shared(known, d)
        products = beyond(shared, PRODUCTS + j * PLAN_FEATURES)
        matrix = beyond(shared, MATRICES + j * FEATURE_SQUARE)
        square = 0.0
        targets = local(PLAN_FEATURES)
        for a in range(PLAN_FEATURES):
            targets[a] = 0.0
        for i in range(d):
            target = (now[i] - middle[i]) / rounds - before[i] / past
            square += target * target
            for a in range(PLAN_FEATURES):
                targets[a] += slot[i * REMEMBERED + a] * target
        shared[SQUARES_PLACE + j] += square
        for a in range(PLAN_FEATURES):
            products[a] += targets[a]
            for b in range(a + 1):
                added = 0.0
                for i in range(d):
                    added += slot[i * REMEMBERED + a] * slot[i * REMEMBERED + b]
                matrix[a * PLAN_FEATURES + b] += added


@called
@exact
def test_segment(known, row, n, j, d):
    """Compare round n with what was forecast for it."""
    apart = count_apart(j)
    lag = (find_start(j) + (1 << j) + 1) // 2
    past = n - lag
    if past > 0:
        slot = find_segment_slot(known, d, j, past // apart)
        shared = find_shared(known, d)
        spread = shared[SPREADS + j]
        missed = 0.0
        for i in range(d):
            error = take_root(row[i]) - slot[i * REMEMBERED + PLAN_FEATURES]
            missed += abs(error)
            if spread > 0.0:
                place = (error / spread - codes.PLAN_LOW) / codes.PLAN_BIN
                shared[COUNTS + int(min(max(place, 0.0), PLAN_BINS - 1.0))] += 1.0
        shared[MISSES + j] += missed
        tests = n // apart - lag // apart
        shared[SPREADS + j] = codes.PLAN_SPREAD * (shared[MISSES + j] / (tests * d))


@called
@exact
def solve_segment(known, n, j, d):
    """Find the coefficients of a segment."""
    apart = count_apart(j)
    pairs = n // apart - (1 << j) // apart
    shared = find_shared(known, d)
    square = shared[SQUARES_PLACE + j]
    if pairs > 0 and square > codes.SMALLEST_VARIATION:
        rounds = min((1 << j) - find_start(j), REGRESSION_SLOTS // 2)
        ridge = rounds * (square / (pairs * d))
        rows = local(FEATURE_SQUARE)
        b = local(PLAN_FEATURES)
        for at in range(FEATURE_SQUARE):
            rows[at] = shared[MATRICES + j * FEATURE_SQUARE + at]
        for c in range(PLAN_FEATURES):
            rows[c * PLAN_FEATURES + c] += ridge
            b[c] = shared[PRODUCTS + j * PLAN_FEATURES + c]
        eliminate(rows, b, PLAN_FEATURES)
        for c in range(PLAN_FEATURES):
            shared[COEFFICIENTS + j * PLAN_FEATURES + c] = b[c]


@exact
def count_up(shared):
    """Compute the distribution of errors from their counts."""
    total = 0.0
    for at in range(PLAN_BINS):
        total += shared[COUNTS + at]
    summed = 0.0
    for at in range(PLAN_BINS):
        summed += shared[COUNTS + at]
        shared[DISTRIBUTION + at + 1] = summed / total


@called
@exact
def forecast_segments(known, n, i, period, d):
    """Forecast a coordinate in all segments, and store the forecast of those that learn in this round."""
    norms = beyond(known, codes.PLAN_HEAD + d)
    mean = beyond(norms, REGRESSION_BANDS + i * REGRESSION_BANDS)
    average = known[codes.PLAN_HEAD + i] / n
    shared = find_shared(known, d)
    features = local(PLAN_FEATURES)
    for k in range(REGRESSION_BANDS):
        features[k] = mean[k] / norms[k]
    for k in range(REGRESSION_BANDS - 1):
        features[k] -= features[k + 1]
    features[REGRESSION_BANDS - 1] -= average
    for j in range(PLAN_SEGMENTS):
        features[REGRESSION_BANDS] = 0.0
        if period > 0:
            features[REGRESSION_BANDS] = find_season(known, n, i, j, period, average, d)
        forecast = average
        for k in range(PLAN_FEATURES):
            forecast += shared[COEFFICIENTS + j * PLAN_FEATURES + k] * features[k]
        shared[FORESIGHT + i * PLAN_SEGMENTS + j] = forecast
        if n % count_apart(j) == 0:
            slot = beyond(find_segment_slot(known, d, j, n // count_apart(j)), i * REMEMBERED)
            for k in range(PLAN_FEATURES):
                slot[k] = features[k]
            slot[PLAN_FEATURES] = forecast


@called
@exact
def find_season(known, n, i, j, period, average, d):
    """Return the mean of a segment in past periods, less the mean of all rounds."""
    rows = int(known[codes.PLAN_ROWS])
    rounds = (1 << j) - find_start(j)
    total = 0.0
    count = 0
    begin = n - ((1 << j) + period - 1) // period * period + find_start(j)
    for _ in range(codes.PLAN_PERIODS):
        if begin >= 0 and n - begin < rows:
            end = find_root_sums(known, d, begin + rounds)
            total += (end[i] - find_root_sums(known, d, begin)[i]) / rounds
            count += 1
        begin -= period
    if count > 0:
        total = total / count - average
    return total


# ---- the level to which an expert moves


@called
@exact
def find_slope(forecasts, shared, terms, sharpest, root):
    """Return what one more unit at a level costs in the next round and all that are planned."""
    segments = int(terms[PLAN_AHEAD * WIDTH])
    short = terms[PLAN_SHORT * WIDTH]
    both = short + terms[PLAN_EXCESS * WIDTH]
    value = 0.0
    cost = 0.0
    for back in range(segments):
        j = segments - 1 - back
        spread = shared[SPREADS + j]
        if spread >= 0.0:
            place = (
                (root - forecasts[j]) / max(spread, sharpest) - codes.PLAN_LOW
            ) / codes.PLAN_BIN
            place = min(max(place, 0.0), 1.0 * PLAN_BINS)
            at = min(int(place), PLAN_BINS - 1)
            below = shared[DISTRIBUTION + at]
            chance = below + (place - at) * (shared[DISTRIBUTION + at + 1] - below)
            cost = both * chance - short
            if j > 0:
                value = value + ((1 << j) - find_start(j)) * cost
                value = min(max(value, 0.0 - terms[PLAN_RISE * WIDTH]), terms[PLAN_FALL * WIDTH])
    return cost + value


@called
@exact
def find_level(forecasts, shared, terms, low, high, root):
    """Find the level nearest to one at which neither rising nor falling pays; all levels are roots.

    The slope rises with the level. It is searched in steps that double, and then by false position: ``missing`` is how much is
    missing on the near side of the level, ``over`` how much is too much on its far side.
    """
    sharpest = codes.PLAN_SHARPEST * (high - low)
    slope = find_slope(forecasts, shared, terms, sharpest, root)
    target = terms[PLAN_FALL * WIDTH]
    way = -1.0
    end = low
    if slope < 0.0 - terms[PLAN_RISE * WIDTH]:
        target = 0.0 - terms[PLAN_RISE * WIDTH]
        way = 1.0
        end = high
    elif slope <= target:
        return root
    spread = max(shared[SPREADS], sharpest)
    near = root
    missing = way * (target - slope)
    far = near
    over = 0.0 - missing
    step = 0.5 * spread
    searching = True
    while searching:
        far = near + way * step
        if way * (end - far) <= 0.0:
            far = end
        over = way * (find_slope(forecasts, shared, terms, sharpest, far) - target)
        searching = over < 0.0 and far != end
        if searching:
            near = far
            missing = 0.0 - over
            step *= 2.0
    if over <= 0.0:
        return far
    last = 0.0
    turn = 0
    while turn < codes.PLAN_TURNS and over > 0.0 and abs(far - near) > codes.PLAN_NEAR * spread:
        turn += 1
        trial = far - (far - near) * (over / (over + missing))
        value = way * (find_slope(forecasts, shared, terms, sharpest, trial) - target)
        if value < 0.0:
            near = trial
            missing = 0.0 - value
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


@exact
def choose_level(shared, terms, i, level, least, most):
    """Return the next level of a coordinate between its bounds: the present one, unless another pays."""
    low = take_root(least)
    high = take_root(most)
    if shared[SPREADS] < 0.0 or low >= high:
        return level
    root = take_root(level)
    forecasts = beyond(shared, FORESIGHT + i * PLAN_SEGMENTS)
    found = find_level(forecasts, shared, terms, low, high, root)
    if found == root:
        return level
    return min(max(found * abs(found), least), most)


@called
@exact
def lend_levels(q, known, outlook, p, d):
    """Write the next levels of the experts of a block into ``outlook``; an empty lane repeats the first."""
    shared = find_shared(known, d)
    for lane in range(WIDTH):
        terms = beyond(q, codes.OWN * WIDTH + lane)
        x = beyond(q, codes.FIELDS * WIDTH + lane)
        is_empty = lane > 0 and q[codes.PRIOR * WIDTH + lane] == -math.inf
        for i in range(d):
            level = outlook[i * WIDTH]
            if not is_empty:
                level = choose_level(shared, terms, i, x[i * WIDTH], p[i], p[d + i])
            outlook[i * WIDTH + lane] = level
