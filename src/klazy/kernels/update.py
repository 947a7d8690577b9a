"""The driver of a live agent: one round of one learner."""

import math
from typing import Any

import numpy as np
from numba import float64, int64

from klazy.base.checks import LARGEST
from klazy.kernels.binding import FLOAT, compile_kernel, once, pointer
from klazy.kernels.codes import DIM, FIELDS, GUESS, MOMENTS, MOVE_L2, MOVE_ROOM, SCRATCH
from klazy.kernels.layout import constant_dim
from klazy.kernels.round import advance, link_round
from klazy.kernels.sequence import (
    choose_rule,
    count_vectors,
    squared_distance,
    squared_norm,
    take_moments,
)

SIGNATURE = int64(float64[::1], float64[::1])

# What a kernel chooses.
D = 0  # the dimension where it is a constant of the kernel, else 0
HINT = -1  # which of these is the hint in force, if there is one
TELLS_ROWS = False  # whether the rule is told rows instead of gradients


def gradient_fits(g, d):
    """Whether a live agent can take this gradient: d numbers, none NaN, none so large that a square might overflow."""
    if g.ndim != 1 or g.size != d:
        return False
    fits = True
    for i in range(d):
        fits = fits and abs(g[i]) <= LARGEST
    return fits


def update(memory, g):
    """One round of the learner in ``memory``; returns 1 and changes nothing if the gradient does not fit."""
    d = D if D > 0 else int(memory[DIM])
    if not gradient_fits(g, d):
        return 1
    q = pointer(memory, 0)
    own = pointer(memory, FIELDS + d)
    h = pointer(own, count_vectors(q) * d)
    y = pointer(h, d)
    u = pointer(y, MOMENTS * d)
    p = pointer(h, SCRATCH * d)
    gradient = pointer(g, 0)
    if TELLS_ROWS:
        gradient = pointer(u, MOVE_ROOM * d)
        take_moments(pointer(g, 0), gradient, d)
    square = squared_norm(gradient, d)
    if HINT >= 0:
        square = squared_distance(gradient, pointer(own, HINT * d), d)
    q[GUESS] = -np.inf  # so that a saved agent goes on bit for bit
    advance(q, gradient, h, y, u, p, d, square, math.sqrt(square), MOVE_L2, 1.0, p)
    return 0


def update_kernel(set_code: int, rule: int, d: int) -> Any:
    """The kernel of one round, which no other thread sees half done."""
    return _update_kernel(set_code, rule, constant_dim(d))


@once
def _update_kernel(set_code: int, rule: int, constant_d: int) -> Any:
    chosen = choose_rule(rule, constant_d) | link_round(FLOAT, set_code, (rule,), constant_d)
    return compile_kernel(update, FLOAT, SIGNATURE, (set_code, rule, constant_d), nogil=False, **chosen)
