"""The regression of an autoregressive learner, which ``step`` runs as plain Python and kernels run compiled.

All numbers are plain, in one vector whose arrays klazy.learners.autoregressive lists. Features are next to each other, and so
are horizons, so that loops over them vectorise. The threads of a GPU's block share a regression: they stand in rows and
columns, and each updates some of the numbers of a table.
"""

from klazy.kernels import codes
from klazy.kernels.codes import REGRESSION_BANDS, REGRESSION_HORIZONS, REGRESSION_SLOTS
from klazy.kernels.lane import beyond, called, exact, local, own_place, wait
from klazy.kernels.rules import AHEAD
from klazy.kernels.slots import COLUMNS, THREADS, WIDTH, D

SQUARE = REGRESSION_BANDS * REGRESSION_BANDS
SMOOTHED_ROOM = REGRESSION_BANDS + 1
SLOT_ROOM = (
    1 + REGRESSION_BANDS + REGRESSION_HORIZONS
)  # Numbers that are remembered for each coordinate.
# Horizons up to REGRESSION_SLOTS rounds share the first spacing of pairs, every longer one has its own.
SHORT_HORIZONS = REGRESSION_SLOTS.bit_length() - 2
SPACING_COUNT = REGRESSION_HORIZONS - SHORT_HORIZONS


# ---- where the arrays of the vector begin


def find_means(known, d):
    """Return the exponential means, a row for each coordinate; the sums and the norms are before them."""
    return beyond(known, codes.REGRESSION_HEAD + d + REGRESSION_BANDS)


def find_squares(known, d):
    """Return the sums of squared targets, one for each horizon."""
    return beyond(find_means(known, d), d * REGRESSION_BANDS)


def find_errors(known, d):
    """Return the sums of squared errors, one for each horizon."""
    return beyond(find_squares(known, d), REGRESSION_HORIZONS)


def find_products(known, d):
    """Return the products of features and targets, a row for each horizon."""
    return beyond(find_errors(known, d), REGRESSION_HORIZONS)


def find_matrix(known, d):
    """Return the products of any two features."""
    return beyond(find_products(known, d), REGRESSION_HORIZONS * REGRESSION_BANDS)


def find_coefficients(known, d):
    """Return the coefficients, a row for each feature."""
    return beyond(find_matrix(known, d), SQUARE)


def find_forecasts(known, d):
    """Return the forecasts, a row for each coordinate."""
    return beyond(find_coefficients(known, d), REGRESSION_BANDS * REGRESSION_HORIZONS)


def find_slot(known, d, spacing, number):
    """Return the sums, features and forecasts of the round with this number, among the rounds of one spacing."""
    place = spacing * REGRESSION_SLOTS + number % REGRESSION_SLOTS
    first = d * REGRESSION_HORIZONS + place * SLOT_ROOM * d
    return beyond(find_forecasts(known, d), first)


# ---- a round


def own_row():
    """Return the row of this thread, always 0 on a processor; there are THREADS // COLUMNS."""
    return own_place() // COLUMNS


def own_column():
    """Return the column of this thread, always 0 on a processor; COLUMNS is a power of two."""
    return own_place() & (COLUMNS - 1)


@called
@exact
def observe_regression(known, row, dim):
    """Learn from a row, and forecast the mean of the next ones for every horizon."""
    d = D if D > 0 else dim
    n = int(known[codes.REGRESSION_SEEN]) + 1
    solves = n >= codes.REGRESSION_GROWTH * known[codes.REGRESSION_SOLVED] + 1.0
    add_row(known, row, d)
    wait()
    for h in range(own_row(), REGRESSION_HORIZONS, THREADS // COLUMNS):
        learn_pair(known, n, h, d)
    wait()  # for features take the place of those that pairs began with
    for i in range(own_row(), d, THREADS // COLUMNS):
        find_features(known, n, i, d)
    wait()
    for a in range(own_row(), REGRESSION_BANDS, THREADS // COLUMNS):
        add_square(known, n, a, d)
    if solves:
        wait()
        for h in range(own_place(), REGRESSION_HORIZONS, THREADS):
            solve_horizon(known, n, h, d)
        wait()
    for i in range(own_row(), d, THREADS // COLUMNS):
        forecast(known, n, i, d)
    wait()
    copy_slots(known, n, d)
    if own_place() == 0:
        known[codes.REGRESSION_SEEN] = n
        if solves:
            known[codes.REGRESSION_SOLVED] = n


@exact
def add_row(known, row, d):
    """Update the sums and the means with a row."""
    sums = beyond(known, codes.REGRESSION_HEAD)
    norms = beyond(sums, d)
    means = find_means(known, d)
    if own_row() == 0:
        for k in range(own_column(), REGRESSION_BANDS, COLUMNS):
            norms[k] += (1.0 - norms[k]) / (1 << k)
    middle = 0.0
    if known[codes.REGRESSION_CENTRED] > 0.0:
        for i in range(d):
            middle += row[i]
        middle /= d
    for i in range(own_row(), d, THREADS // COLUMNS):
        number = row[i] - middle
        if own_column() == 0:
            sums[i] += number
        mean = beyond(means, i * REGRESSION_BANDS)
        for k in range(own_column(), REGRESSION_BANDS, COLUMNS):
            mean[k] += (number - mean[k]) / (1 << k)


@exact
def find_features(known, n, i, d):
    """Write the sum and the features of a coordinate into the round's slot."""
    sums = beyond(known, codes.REGRESSION_HEAD)
    norms = beyond(sums, d)
    mean = beyond(find_means(known, d), i * REGRESSION_BANDS)
    slot = find_slot(known, d, 0, n)
    feature = beyond(slot, d + i * REGRESSION_BANDS)
    slot[i] = sums[i]
    if COLUMNS > 1:
        for k in range(own_column(), REGRESSION_BANDS, COLUMNS):
            slower = sums[i] / n
            if k + 1 < REGRESSION_BANDS:
                slower = mean[k + 1] / norms[k + 1]
            feature[k] = mean[k] / norms[k] - slower
    else:  # every quotient once
        smoothed = local(SMOOTHED_ROOM)
        smoothed[REGRESSION_BANDS] = sums[i] / n
        for k in range(REGRESSION_BANDS):
            smoothed[k] = mean[k] / norms[k]
        for k in range(REGRESSION_BANDS):
            feature[k] = smoothed[k] - smoothed[k + 1]


@exact
def learn_pair(known, n, h, d):
    """Learn from the features of an earlier round and what came after it, for one horizon, where such a pair is due."""
    horizon = 2 << h
    j = max(h - SHORT_HORIZONS, 0)
    if n % (1 << j) == 0 and n > horizon:
        slot = find_slot(known, d, j, (n - horizon) >> j)
        features = beyond(slot, d)
        expected = beyond(features, d * REGRESSION_BANDS)
        sums = beyond(known, codes.REGRESSION_HEAD)
        products = beyond(find_products(known, d), h * REGRESSION_BANDS)
        square = 0.0
        errors = 0.0
        for i in range(d):
            mean = (sums[i] - slot[i]) / horizon
            target = mean - slot[i] / (n - horizon)
            error = mean - expected[i * REGRESSION_HORIZONS + h]
            square += target * target
            errors += error * error
            feature = beyond(features, i * REGRESSION_BANDS)
            for k in range(own_column(), REGRESSION_BANDS, COLUMNS):
                products[k] += feature[k] * target
        if own_column() == 0:
            find_squares(known, d)[h] += square
            find_errors(known, d)[h] += errors


@exact
def add_square(known, n, a, d):
    """Add the products of a feature of the round with all before it, summed over the coordinates."""
    row = beyond(find_matrix(known, d), a * REGRESSION_BANDS)
    features = beyond(find_slot(known, d, 0, n), d)
    if COLUMNS > 1:
        for b in range(own_column(), a + 1, COLUMNS):
            added = 0.0
            for i in range(d):
                added += features[i * REGRESSION_BANDS + a] * features[i * REGRESSION_BANDS + b]
            row[b] += added
    else:  # in an order that vectorises
        sums = local(REGRESSION_BANDS)
        for b in range(REGRESSION_BANDS):
            sums[b] = 0.0
        for i in range(d):
            feature = beyond(features, i * REGRESSION_BANDS)
            for b in range(REGRESSION_BANDS):
                sums[b] += feature[a] * feature[b]
        for b in range(a + 1):
            row[b] += sums[b]


def copy_slots(known, n, d):
    """Remember the round in the slots of other spacings, too."""
    slot = find_slot(known, d, 0, n)
    for j in range(1, SPACING_COUNT):
        if n % (1 << j) == 0:
            to = find_slot(known, d, j, n >> j)
            for at in range(own_place(), SLOT_ROOM * d, THREADS):
                to[at] = slot[at]


@called
@exact
def solve_horizon(known, n, h, d):
    """Find the coefficients of one horizon by elimination."""
    j = max(h - SHORT_HORIZONS, 0)
    pairs = (n >> j) - ((2 << h) >> j)
    square = find_squares(known, d)[h]
    if pairs > 0 and square > codes.SMALLEST_VARIATION:
        matrix = find_matrix(known, d)
        trace = 0.0
        for c in range(REGRESSION_BANDS):
            trace += matrix[c * REGRESSION_BANDS + c]
        ridge = max(
            min(2 << h, REGRESSION_SLOTS) * (square / (pairs * d)), codes.REGRESSION_LEAST * trace
        )
        share = pairs / n
        products = beyond(find_products(known, d), h * REGRESSION_BANDS)
        rows = local(SQUARE)
        b = local(REGRESSION_BANDS)
        for at in range(SQUARE):
            rows[at] = share * matrix[at]
        for c in range(REGRESSION_BANDS):
            rows[c * REGRESSION_BANDS + c] += ridge
            b[c] = products[c]
        eliminate(rows, b, REGRESSION_BANDS)
        coefficients = find_coefficients(known, d)
        for c in range(REGRESSION_BANDS):
            coefficients[c * REGRESSION_HORIZONS + h] = b[c]


@exact
def eliminate(rows, b, count):
    """Solve rows x = b for a positive definite matrix, which needs no pivots; only its lower triangle is read."""
    for c in range(count):
        for r in range(c + 1, count):
            row = beyond(rows, r * count)
            share = row[c] / rows[c * count + c]
            for k in range(c + 1, r + 1):
                row[k] -= share * rows[k * count + c]
            b[r] -= share * b[c]
    for back in range(count):
        c = count - 1 - back
        b[c] /= rows[c * count + c]
        for r in range(c):
            b[r] -= rows[c * count + r] * b[c]


@exact
def forecast(known, n, i, d):
    """Write the forecasts of a coordinate for all horizons, which are next to each other."""
    slot = find_slot(known, d, 0, n)
    features = beyond(slot, d + i * REGRESSION_BANDS)
    expected = beyond(slot, d + d * REGRESSION_BANDS + i * REGRESSION_HORIZONS)
    coefficients = find_coefficients(known, d)
    forecasts = beyond(find_forecasts(known, d), i * REGRESSION_HORIZONS)
    mean = known[codes.REGRESSION_HEAD + i] / n
    if COLUMNS > 1:
        for h in range(own_column(), REGRESSION_HORIZONS, COLUMNS):
            number = mean
            for k in range(REGRESSION_BANDS):
                number += coefficients[k * REGRESSION_HORIZONS + h] * features[k]
            forecasts[h] = number
            expected[h] = number
    else:  # in an order that vectorises
        out = local(REGRESSION_HORIZONS)
        for h in range(REGRESSION_HORIZONS):
            out[h] = mean
        for k in range(REGRESSION_BANDS):
            for h in range(REGRESSION_HORIZONS):
                out[h] += coefficients[k * REGRESSION_HORIZONS + h] * features[k]
        for h in range(REGRESSION_HORIZONS):
            forecasts[h] = out[h]
            expected[h] = out[h]


@exact
def has_evidence(known, d):
    """Return True if forecasts of some horizon were better than the mean of all rows by some times their own noise."""
    n = int(known[codes.REGRESSION_SEEN])
    squares = find_squares(known, d)
    errors = find_errors(known, d)
    found = False
    for h in range(1, REGRESSION_HORIZONS, 2):
        j = max(h - SHORT_HORIZONS, 0)
        pairs = (n >> j) - ((2 << h) >> j)
        saved = (squares[h] - errors[h]) * (max(pairs, 0) * d)
        if saved > codes.REGRESSION_EVIDENCE * min(2 << h, REGRESSION_SLOTS) * squares[h]:
            found = True
    return found


def lend_forecasts(q, known, outlook, d):
    """Write the forecasts for the experts of a block, each for its own horizon, into ``outlook``."""
    forecasts = find_forecasts(known, d)
    for lane in range(WIDTH):
        h = int(q[(codes.OWN + AHEAD) * WIDTH + lane])
        for i in range(d):
            outlook[i * WIDTH + lane] = forecasts[i * REGRESSION_HORIZONS + h]
