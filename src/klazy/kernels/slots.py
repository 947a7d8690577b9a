"""The slots of kernels: names that parts use, and that :func:`klazy.kernels.binding.link` fills for each kernel.

A part that needs the projection onto the set at hand calls ``threshold`` of this module. Which function that is
is decided when a kernel is linked; the docstring of each slot names the functions that can fill it. Inside a kernel, a
slot that was not filled is an undefined name. The constants are compile-time parameters: kernels override these defaults.
"""

# ---- compile-time parameters of all drivers

D = 0  # The dimension where it is a constant of the kernel, else 0.
WIDTH = 1  # Numbers in a lane.
ROOM = 0  # Numbers in a vector of every lane, where the dimension is a constant.
Y_ROOM = 0  # Numbers in the first scratch of a round.
U_ROOM = 0  # Numbers in the second scratch of a round.
SEEN_ROOM = 0  # Numbers in the moments of a row.
WORK_ROOM = 0  # Numbers in the scratch of a driver, where the dimension is a constant.
IS_BOX = False  # Whether the set is a box.
MAY_STAY = False  # Whether a rule of the kernel has an ``accept``.
MAY_PLACE = False  # Whether a rule of the kernel has a ``place``.
MUST_PLACE = False  # Whether every rule of the kernel has one.
KEEPS_SIGMA = False  # Whether a rule of the kernel needs the last sigma.
NEEDS_SIGMA = True  # Whether a rule of the kernel needs sigma, or phases.
IS_LINEAR = False  # Whether the costs are linear.
TELLS_ROWS = False  # Whether learners get rows of a cost family, not gradients.
DEPTH = 1  # Moments of each coordinate: two for demands, the mean and the mean square.

# ---- of runs of one rule

THE_RULE = 0  # The code of the rule.
VECTORS = 0  # Vectors that the rule keeps next to x.
ROW_ROOM = 0  # Numbers of a row that a run keeps in registers, where the dimension is a constant.
KEEPS_RING = False  # Whether a ring of further vectors follows, as many as the rule's first parameter says.
HINT = -1  # Which of the rule's vectors is the hint in force; -1 if there is none.
MOVE_CODE = 0  # The code of the movement, in a batch.
IS_SHARED = False  # Whether all runs of a batch have the same sigmas, up to a factor.

# ---- of ensembles and leaders

LEADS = False  # Whether the kernel plays leaders, not ensembles.
SEASONAL = -1  # The code of the rule of seasonal experts; -1 if there are none.
FORECASTS = False  # Whether a leader forecasts for some of its experts.
AUTOREGRESSIVE = -1  # The code of the rule of autoregressive experts; -1 if there are none.
PLANNING = -1  # The code of the rule of planning experts; -1 if there are none.
OUTLOOK = 0  # Numbers in the forecasts of a leader, for every lane.
VECTOR = 0  # Numbers of a vector, on a GPU.
THREADS = 1  # Threads of a block, on a GPU.
COLUMNS = 1  # Columns in which they stand where they share the work on a table.
IS_LONG = False  # Whether the ring of a season has another length than SEASON_ROWS.


# ---- what a set knows (klazy.kernels.domains)


def threshold(y, u, d, p, guess):
    """Find the pair (shift, theta) from which each coordinate of the projection of y follows: ``DOMAINS[code].threshold``."""


def coordinate(y, done, i, d, p, shift, theta):
    """Return coordinate i of the projection: ``DOMAINS[code].coordinate``, or ``done_coordinate``."""


def lowest(y, u, d, p):
    """Write the point of the set at which the linear function y is least into u: ``DOMAINS[code].lowest``."""


def positive_threshold(v, w, d, total, guess):
    """Find the threshold above which the entries of v sum to a total: ``sorted_threshold`` or ``newton_threshold``."""


def tangent(x, y, u, d, p):
    """Return the squared length of y, projected onto the directions in which the set extends: ``DOMAINS[code].tangent``."""


def trade(x, y, u, d, p, rise, fall):
    """Minimise <y, u> plus the cost of moving from x, coordinate by coordinate: ``DOMAINS[code].trade``."""


def balance(x, y, u, d, p, rise, fall):
    """Minimise half the squared distance to y plus the cost of moving from x: ``DOMAINS[code].balance``."""


def move_straight(x, y, u, d, p, price, far, curvature):
    """Move down y where Euclidean distance has a price: ``DOMAINS[code].move_straight``."""


def low_of(i, d, p):
    """Return the lower bound of a coordinate: ``simplex_low`` or ``capped_low``."""


def high_of(i, d, p):
    """Return the upper bound of a coordinate: ``simplex_high`` or ``capped_high``."""


def project_leaf(code, y, u, d, p):
    """Project onto one set of a product, by its code: a picker among ``project_into`` for each set."""


def lowest_leaf(code, y, u, d, p):
    """Write the lowest point of one set of a product into u: a picker among ``DOMAINS[code].lowest``."""


def tangent_leaf(code, x, y, u, d, p):
    """Return the tangent of one set of a product: a picker among ``DOMAINS[code].tangent``."""


def move_leaf(code, x, y, u, d, p, rise, fall):
    """Trade or balance on one set of a product: a picker among ``DOMAINS[code].trade`` or ``DOMAINS[code].balance``."""


# ---- what a rule does in a round (klazy.kernels.rules)


def propose(rule, x, own, s, g, h, y, d, sigma, step, old, starts):
    """Write the unconstrained point into y and return <g, x>: a picker among ``RULES[name].propose``."""


def accept(rule, x, own, s, z, d):
    """Return for which runs the projection z becomes the next point: a picker among ``RULES[name].accept``."""


def place(rule, x, s, y, u, d, p):
    """Write the next point into u and return which runs move: a picker among ``RULES[name].place``."""


def remember(rule, x, own, s, y, d, p, sigma, ends, memory, kappa):
    """Update the rule's own vectors after the move: a picker among ``RULES[name].remember``."""


def settle_done(x, y, u, d, p, shift, theta, move, prices):
    """Move x to the point in u and return the price before root and weight: ``settle`` with ``done_coordinate``."""


CODE = 0  # The code of the part that a picker calls as ``this``.


def this():
    """Do the work of the part that a picker picks by its code."""


def others():
    """Do the work of the parts with other codes: the next picker, or the last part."""


# ---- what a cost family knows (klazy.kernels.costs)


def reveal(row, extra, p, x, g, d):
    """Return the cost of x and write a gradient there into g: ``COSTS[code].reveal`` for the family of the costs."""


def tilt(row, extra, p, x, g, d):
    """Return the cost of x and write a gradient, for the family whose rows learners get: ``COSTS[code].reveal``."""


def take_moments(row, seen, d):
    """Write the moments that learners average over rounds into seen: ``COSTS[code].moments``."""


def apart(x, at, g, i, d):
    """Return by how much coordinate i costs more at x than at another point, over a lane: ``COSTS[code].apart``."""


def conclude(hits, at, g, d):
    """Return the difference of two costs from the sum over coordinates, over a lane: ``COSTS[code].conclude``."""


def apart_plain(x, at, g, i, d):
    """Do what ``apart`` does for plain numbers."""


def conclude_plain(hits, at, g, d):
    """Do what ``conclude`` does for plain numbers."""


# ---- what an ensemble or a leader does (klazy.kernels.ensemble, klazy.kernels.season)


def distance(delta, d, move, prices):
    """Return the price of a step of plain numbers, before its weight: ``price_of`` over one float64."""


def limit(v, rise, fall, d):
    """Bound what a plan says of later rounds by the price of moving: ``clip_each``, ``shorten`` or ``stay_near_least``."""
