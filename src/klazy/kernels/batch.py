"""The driver of a batch: many runs over one sequence of linear costs, side by side in registers; it returns only their sums.

The runs of a block share rule, schedule and memory. If they share also the offset of a schedule that does not depend on the
gradients, their sigmas differ by a factor only, and the kernel makes them once for all.
"""

import math
from typing import Any

from numba import float64, int64, types

from klazy.kernels import codes
from klazy.kernels.binding import FLOAT, compile_kernel, link, local, once, pointer
from klazy.kernels.coded import fill_sigmas, next_sigma
from klazy.kernels.lane import anywhere, load, peek, spread, store
from klazy.kernels.register import REGISTER
from klazy.kernels.round import count_phases, link_round, play_block
from klazy.kernels.rules import describe_kernel
from klazy.kernels.sequence import input1, input2, squared_norm
from klazy.kernels.slots import IS_SHARED, MOVE_CODE, U_ROOM, Y_ROOM, D

# A run stores its sums in fields that only ensembles use otherwise: those of the last few rounds, and of all before.
HIT = codes.LOSS
HITS = codes.LOSSES
PAID = codes.W
PAIDS = codes.LOG_W
STRETCH = 64  # rounds whose sums are separate, and whose sigmas are made before they are played
GROUP = 4  # blocks that play a round one after the other: while one waits for a root, the next has work


def play_batch(data, weights, schedule, offset, program, blocks, marks, curves):
    """Play T rounds of every block; ``curves`` gets the sums over the first ``marks[m]`` rounds, T at last, of shape
    (blocks, marks, 2, lanes). ``program`` is 2 d prices, then the set's parameters, then d zeros."""
    count = blocks.shape[0]
    length = blocks.shape[1]
    points = marks.size
    prices = pointer(program, 0)
    p = pointer(program, 2 * D)
    zero = pointer(program, program.size - D)
    out = pointer(curves, 0)
    sigmas = local(STRETCH)
    steps = local(STRETCH)
    y = local(Y_ROOM)
    u = local(U_ROOM)
    for first in range(0, count, GROUP):
        n = min(GROUP, count - first)
        row = 0
        for point in range(points):
            while row < marks[point]:
                rounds = min(STRETCH, marks[point] - row)
                fill_sigmas(schedule, 1.0, offset, row + 1.0, rounds, sigmas, steps)
                for j in range(rounds):
                    t = row + j + 1.0
                    g = pointer(data, (row + j) * D)
                    weight = weights[row + j if weights.size > 1 else 0]
                    for b in range(n):
                        q = pointer(blocks, (first + b) * length)
                        starts, ends = count_phases(q, t)
                        if IS_SHARED:
                            sigma = load(q, codes.SIGMA) * sigmas[j]
                            step = load(q, codes.STEP) * steps[j]
                        else:
                            square = 0.0
                            if int(peek(q, codes.SCHEDULE)) == codes.SCALE_FREE:
                                square = squared_norm(g, D)
                            store(q, codes.T, spread(t))
                            sigma, step = next_sigma(q, square, math.sqrt(square))
                        store(q, PAID, load(q, PAID) + load(q, codes.MOVED) * weight)
                        if IS_SHARED or anywhere(step > 0.0):
                            hit, moved = play_block(
                                q,
                                g,
                                zero,
                                y,
                                u,
                                p,
                                D,
                                sigma,
                                step,
                                starts,
                                ends,
                                MOVE_CODE,
                                prices,
                            )
                            store(q, HIT, load(q, HIT) + hit)
                            store(q, codes.MOVED, moved)
                row += rounds
                for b in range(n):
                    q = pointer(blocks, (first + b) * length)
                    store(q, HITS, load(q, HITS) + load(q, HIT))
                    store(q, PAIDS, load(q, PAIDS) + load(q, PAID))
                    store(q, HIT, spread(0.0))
                    store(q, PAID, spread(0.0))
            for b in range(n):
                q = pointer(blocks, (first + b) * length)
                sums = pointer(out, ((first + b) * points + point) * 2 * codes.LANES)
                store(sums, 0, load(q, HITS))
                store(sums, 1, load(q, PAIDS))


BATCH_SIGNATURE = types.void(
    input2, input1, int64, float64, input1, float64[:, ::1], types.Array(int64, 1, "C", readonly=True),
    float64[:, :, :, ::1],
)  # fmt: skip


@once
def batch_kernel(set_code: int, rule: int, move: int, d: int, is_shared: bool) -> Any:
    """Make the kernel of runs of one rule on one set under one movement cost; see :func:`play_batch` for its arguments."""
    chosen = link_round(REGISTER, set_code, (rule,), d)
    chosen |= {"MOVE_CODE": move, "IS_SHARED": is_shared, "fill_sigmas": link(fill_sigmas, FLOAT)}
    key = (set_code, rule, move, d, int(is_shared))
    about = describe_kernel(rule, set_code)
    return compile_kernel(play_batch, REGISTER, BATCH_SIGNATURE, key, about=about, **chosen)
