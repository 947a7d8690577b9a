"""The integers by which parts are named in compiled code, and the places of their numbers. It imports nothing heavy.

A class without a code, or a learner without a rule, has no kernel and runs through ``step``.
"""

import math

UNKNOWN = math.nan  # A part returns it for an unknown code.

# ---- codes

# sets; the layout of each one's parameters follows its code
L2_BALL = 0  # radius, centre[d]
L1_BALL = 1  # radius, centre[d]
BOX = 2  # lower[d], upper[d]
SIMPLEX = 3  # total
CAPPED_SIMPLEX = 4  # total, floor[d], cap[d]
# A product: the number of parts, then (code, first coordinate, end, first parameter) of each, then their parameters
PRODUCT = 5

SET_NAMES = ("L2Ball", "L1Ball", "Box", "Simplex", "CappedSimplex", "Product")  # by their codes

# how an ensemble finds its rate
GIVEN_RATE = 0
SELF_TUNED_RATE = 1

# what a memory rule keeps of the normal
FORGET = 0
FULL = 1
CLOCK = 2
DECAY = 3
CLIP = 4
EVENT = 5

# schedules with their two parameters A and B
CONSTANT = 0  # s
SQRT = 1  # c, offset
DOUBLING = 2  # c
SCALE_FREE = 3  # move cost, D^2 + 2 D P
PROPORTIONAL = 4  # mu

# cost families: data of shape (T, d), one number per round, parameters
LINEAR = 0
QUADRATIC = 1  # targets; weights
PINBALL = 2  # demands; -; price of falling short[d], price of excess[d]
LOG_WEALTH = 3  # price relatives
HINGE = 4  # features times label
LOGISTIC = 5  # features times label

# movement costs
MOVE_L2 = 0
MOVE_WEIGHTED = 1  # weight[d] of the squares
MOVE_ABSOLUTE = 2  # price up[d], price down[d]
MOVE_FEE = 3  # tolerance
MOVE_SQUARED = 4
MOVE_IMPACT = 5  # scale[d]

RESOLUTION = 1e-12  # Losses are exact to this share of the largest products in them.
SMALLEST_VARIATION = 1e-150  # Below it an ensemble has no rate, because the rate would overflow.

# ---- places

LANES = 8  # rows side by side in a block, up to UNROLLED_DIM; beyond, a block is one row
LINE = 8  # numbers in a cache line
MOMENTS = 2  # Most vectors of what a rule averages, and of the first scratch of a round.
MOVE_ROOM = 4  # vectors of the second scratch of a round
# Vectors behind a row: a hint, both scratches, the moments of a row.
SCRATCH = 1 + MOMENTS + MOVE_ROOM + MOMENTS
UNROLLED_DIM = 8  # up to this dimension kernels know it as a constant, so that loops are unrolled

# the fields of a row, the numbers of one learner before its vectors (:mod:`klazy.kernels.layout`)
T = 0
ENERGY = 1
OLD_SIGMA = 2
SIGMA = (
    3  # The sigma of a constant schedule; else what multiplies the sigmas that a batch shares.
)
STEP = 4  # 1 / SIGMA
DIM = 5
START = 6  # the round in which the next phase starts
GUESS = 7  # the threshold of the last projection
RULE = 8
SCHEDULE = 9
A = 10
B = 11
SLACK = 12  # rounds in a phase
MEMORY = 13
KAPPA = 14
MOVED = 15  # what the move to the present point cost
PRIOR = 16  # from here on what an ensemble knows of an expert; logarithms are -inf in a lane that is empty
LOG_W = 17
W = 18
LOSSES = 19
LOSS = 20  # scratch, like the next one
SHRUNK = 21
OWN = 22  # the rule's own parameters and scalars
OWN_ROOM = 10
FIELDS = OWN + OWN_ROOM  # a multiple of LINE, so that vectors begin at cache lines

# the head of an ensemble, with T and DIM where a row has them; then x, and blocks from the next line on
V = 1
BLOCKS = 2
BLOCK_SIZE = 3
HEAD = 6

# an ensemble's program, after its blocks: these numbers, 2 d prices of its movement cost, the set's parameters
RATE_RULE = 0
RATE = 1
MOVE = 2
MOVE_WEIGHT = 3
NOISE_A = 4
NOISE_B = 5
PRICES = 6

# what a leader knows, between an ensemble's head and its blocks: these numbers, the ensemble's point, a row with the 2 d
# parameters of its family, and boards, each with a number of every lane
PLACE = 0  # the lane of the expert that is followed
SINCE = 1
EXCESS = 2
GUARDING = 3
MARK = 4
CAUTION = 5
REACH = 6  # the price of crossing the set
GUARDED = 7  # whether there is a guard
SHARED = (
    8  # the place of what all experts share, counted from here: a regression, plans, a season
)
SEASON = 9  # the place of the season, counted from there
RING = 10  # rounds in the season's ring
PLANS = 11  # the place of the plans, counted from what is shared
MIXED = 12

# the boards
BEHIND = 0
SQUARES = 1
ORDER = 2  # the expert's place in the list; infinite in a lane that is empty
SCORE = 3  # scratch
FORGETS = 4  # 1 for an expert that forgets
BOARDS = 5

# the vector of a season: these numbers, the mean row, autocovariances by lag, and a ring of sums of moments
SEASON_SEEN = 0  # rounds
SEASON_PERIOD = 1  # 0 while none is known
SEASON_CHANGED = 2  # the round in which the period changed
SEASON_GIVEN = 3  # the period if it was given, else 0
SEASON_HEAD = 4
SEASON_LAGS = 512  # the longest lag that is looked at
SEASON_PLACES = SEASON_LAGS + 1
SEASON_ROWS = 1024  # rounds in the ring, unless a longer period is given
SEASON_LONGEST = 10080  # rounds of a period that is given: a week of minutes
SEASON_NUMBERS = (
    8 * SEASON_LONGEST
)  # most numbers of a longer ring, unless a single period needs more
SEASON_MEMORY = 2048  # rounds over which autocovariances are averaged
SEASON_EVERY = 32  # rounds between two searches for a period
SEASON_PROMINENT = 0.1  # A correlation must rise by at least this,
SEASON_ERRORS = 4.0  # and by at least this many standard errors.
SEASON_KEEPS = (
    0.8  # A shorter or present period with this share of the highest rise is preferred.
)
SEASON_EQUAL = 1e-9  # correlations that differ by less are equal
SEASON_PARTS = 4  # Parts of a period, or of SEASON_ROWS of it: the far end of a plan is made anew after each.

# a plan for the rounds of a part: these numbers, then for each of its rounds what it and all later ones are worth
PART_END = 0  # the last round of the part
PART_PERIODS = 1  # past periods that were averaged
PART_RISE = 2
PART_FALL = 3
PART_HEAD = 4

# the vector of a regression: these numbers, then the arrays that klazy.learners.autoregressive lists
REGRESSION_SEEN = 0  # rounds
REGRESSION_SOLVED = 1  # the round in which coefficients were found
REGRESSION_CENTRED = 2  # whether rows are centred
REGRESSION_HEAD = 3
REGRESSION_BANDS = 11  # features: windows of 1, 2, 4, ..., 1024 rounds
REGRESSION_HORIZONS = 8  # 2, 4, 8, ..., 256 rounds
REGRESSION_SLOTS = 8  # rounds that are remembered for each spacing of pairs
REGRESSION_EVIDENCE = (
    6.0  # Forecasts must have saved so many times their noise, or experts that forget wait.
)
REGRESSION_GROWTH = 1.02  # Rounds grow by this factor from one solution to the next.
# The least ridge, relative to all squared features, for targets that are all alike.
REGRESSION_LEAST = 1e-9

# the vector of a plan: these numbers, then the arrays that klazy.learners.planning lists
PLAN_SEEN = 0  # rounds
PLAN_SOLVED = 1  # the round in which coefficients were found
PLAN_GIVEN = 2  # the period if it was given, else 0
PLAN_ROWS = 3  # rounds in the ring, a power of two
PLAN_PERIOD = 4  # a long period that it has found itself, 0 while there is none
PLAN_HEAD = 5
PLAN_SEGMENTS = 9  # Parts of the rounds ahead: 1, 2, 3 to 4, 5 to 8, ..., 129 to 256.
PLAN_FEATURES = REGRESSION_BANDS + 1
PLAN_PERIODS = 4  # past periods that are averaged
PLAN_LEAST_ROWS = 4096  # rows in the ring, at least
PLAN_NUMBERS = 65536  # most numbers of a longer ring, unless a single period needs more
PLAN_STRIDE = 4  # rounds that are summed when it looks for a long period
PLAN_BINS = 112  # Bins of errors, each an eighth wide; the first begins at PLAN_LOW.
PLAN_BIN = 0.125
PLAN_LOW = -6.0
PLAN_PRIOR = 20.0  # errors that are counted as if they had been seen
PLAN_SPREAD = 1.2533  # The standard deviation of a normal number, in multiples of its mean size.
PLAN_SHARPEST = 1e-6  # A share of the box: no forecast counts as better.
PLAN_NEAR = 1e-3  # A level is found to this share of a standard deviation.
PLAN_TURNS = 60  # Most steps of this search.


def constant_dim(d: int) -> int:
    """Return the dimension that a kernel knows as a constant, or 0 for one that takes any."""
    return d if d <= UNROLLED_DIM else 0


def first_block(d):
    """Return the place at which the blocks of an ensemble begin."""
    return -(-(HEAD + d) // LINE) * LINE


def first_board(d):
    """Return the place at which the boards begin, in what a leader knows."""
    return -(-(MIXED + 4 * d) // LINE) * LINE


def code_of(part: object) -> int | None:
    """Return the code of a set, memory, schedule, cost family or movement; None without a kernel. Costs have their family's.

    A code is not inherited: a subclass may compute something else.
    """
    part = getattr(part, "family", part)
    return getattr(part, "code", None) if "code" in vars(type(part)) else None
