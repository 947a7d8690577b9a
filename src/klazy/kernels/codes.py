"""Integer codes by which sets, cost families, rules, schedules and movement costs reach compiled code.

This module imports nothing, so naming a code does not load Numba. A class without a code has no kernel.
"""

# sets; the layout of each one's parameters is beside its code
L2_BALL = 0  # radius, centre[d]
L1_BALL = 1  # radius, centre[d]
BOX = 2  # lower[d], upper[d]
SIMPLEX = 3  # total
CAPPED_SIMPLEX = 4  # total, floor[d], cap[d]
PRODUCT = 5  # number of blocks, then (code, first coordinate, end, first parameter) per block, then their parameters

# update rules; each one's state is scalars t, energy, sigma and the vectors x, a, b
GD = 0
K_LAZY = 1  # a = anchor, b = gradient sum
FTRL = 2  # a = anchor, b = dual state p
MEMORY = 3  # a = normal n, b = hint in force
CENTRED = 4  # a = centre
ENSEMBLE = 5  # many of the above, in blocks
RULES_OF_EXPERTS = (GD, K_LAZY, FTRL, MEMORY, CENTRED)  # which kernels of ensembles know

# how an ensemble finds its rate
GIVEN_RATE = 0
SELF_TUNED = 1
KEEP = 2
RESTART = 3

# what a memory rule keeps of the normal
FORGET = 0
FULL = 1
CLOCK = 2
DECAY = 3
CLIP = 4
EVENT = 5

# schedules with their two parameters
CONSTANT = 0  # s
SQRT = 1  # c, offset
DOUBLING = 2  # c
SCALE_FREE = 3  # movement weight, D^2 + 2 D P

# cost families: data of shape (T, d), one number per round, parameters
LINEAR = 0
QUADRATIC = 1  # targets; weights
PINBALL = 2  # demands; -; price of falling short[d], price of excess[d]
LOG_WEALTH = 3  # price relatives
HINGE = 4  # features; labels
LOGISTIC = 5  # features; labels

# movement costs
MOVE_L2 = 0
MOVE_WEIGHTED = 1  # weight[d] of the squares
MOVE_ABSOLUTE = 2  # price up[d], price down[d]
MOVE_FEE = 3  # tolerance

LARGEST_GRADIENT = 1e150  # of a live agent, and
SMALLEST_SIGMA = 1e-150  # so that no step, square or sum of squares overflows
SMALLEST_VARIATION = 1e-150  # below it an ensemble has no rate, so that no rate overflows

# where each thing lies in the flat arrays that a kernel gets
T_SLOT, ENERGY_SLOT, SIGMA_SLOT, DIM_SLOT, BLOCKS_SLOT, HEAD = range(
    6
)  # state: these scalars, then vectors of length d
VECTORS = 6  # x, a, b, the hint for the next round, and two of scratch
SCHEDULE, SCHEDULE_A, SCHEDULE_B, SLACK, MEMORY_RULE, MEMORY_A, SET = range(
    7
)  # program; the set's parameters at the end

# an ensemble's state: the head (V as energy, the budget as sigma), x, then blocks of experts that share rule, schedule and
# memory rule; a block is FIELDS numbers for each of its experts, field by field, then their vectors
LANES = 4  # experts in a block; empty lanes repeat the block's first expert with no weight
FIELDS = 21
(
    PRIOR, LOG_W, W, MOVED, LOSSES, LOSS, SHRUNK,  # of the meta learner, the last two scratch: where each field begins
    T_LANE, ENERGY_LANE, OLD_SIGMA, SIGMA, STEP, PHASE, GUESS,  # of the expert's state; SIGMA and STEP if they are constant
    RULE, SCHEDULE_LANE, A_LANE, B_LANE, SLACK_LANE, MEMORY_LANE, KAPPA_LANE,  # its rule, and its program but for the set
) = range(0, FIELDS * LANES, LANES)  # fmt: skip
BLOCK_VECTORS = 3  # x, a, b
# an ensemble's program: these numbers, 2 d prices of its movement cost, the set's parameters
RATE_RULE, RATE, MOVE, MOVE_WEIGHT, NOISE_A, NOISE_B, SET_CODE, PRICES = range(8)


def first_block(d: int) -> int:
    """Where an ensemble's blocks begin: after head and x, at a multiple of the lanes, so that no vector is split in memory."""
    return -(-(HEAD + d) // LANES) * LANES


UNROLLED_DIM = (
    8  # up to this dimension, on these sets, loops are unrolled and thresholds come from a sorting network
)
UNROLLED_SETS = (L2_BALL, L1_BALL, BOX, SIMPLEX)


def unrolled(set_code: int | None, d: int) -> bool:
    """Whether kernels on this set are specialised on its dimension; an ensemble's experts are then lanes, else rows."""
    return d <= UNROLLED_DIM and set_code in UNROLLED_SETS


def code_of(part: object) -> int | None:
    """The code of a set, rule, schedule, cost family or movement; None if its class, or a subclass of it, has no kernel.

    A code is not inherited: a subclass may compute something else.
    """
    return getattr(part, "code", None) if "code" in vars(type(part)) else None
