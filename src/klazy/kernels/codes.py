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

# where each thing lies in the flat arrays that a kernel gets
T_SLOT, ENERGY_SLOT, SIGMA_SLOT, DIM_SLOT, HEAD = range(5)  # state: these scalars, then vectors of length d
VECTORS = 6  # x, a, b, the hint for the next round, and two of scratch
SCHEDULE, SCHEDULE_A, SCHEDULE_B, SLACK, MEMORY_RULE, MEMORY_A, SET = range(7)  # program; the set's parameters at the end


def code_of(part: object) -> int | None:
    """The code of a set, rule, schedule, cost family or movement; None if its class, or a subclass of it, has no kernel.

    A code is not inherited: a subclass may compute something else.
    """
    return getattr(part, "code", None) if "code" in vars(type(part)) else None
