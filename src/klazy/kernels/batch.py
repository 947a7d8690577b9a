"""Many runs over one sequence of linear costs, side by side in the lanes of vector registers; only their sums are kept.

A block holds one run in each lane, in the layout of an ensemble's block (:mod:`klazy.kernels.codes`), so that sets, rules and
memories are those of :mod:`klazy.kernels.lanes`. The fields by which an ensemble weighs its experts hold a run's sums here.
"""

from typing import Any

from numba import float64, int64, types

from klazy.kernels import codes, lanes
from klazy.kernels.binding import bind, compiled, fused, local, once, pointer
from klazy.kernels.codes import LANES as L
from klazy.kernels.codes import MOVED, PHASE, SCHEDULE_LANE, SLACK_LANE, STEP
from klazy.kernels.lanes import AT
from klazy.kernels.parts import fill_sigmas, norm2
from klazy.kernels.simd import load, root, smallest, spread, store, where

HIT, HITS, PAID, PAIDS = (
    codes.LOSS,
    codes.LOSSES,
    codes.W,
    codes.LOG_W,
)  # sums of a few rounds, and of all before these
CHUNK = 64  # rounds whose sums are taken apart, and whose sigmas are made before they are played
GROUP = 4  # blocks that play a round one after the other: while one waits for a root, the next has work

# The parts of the templates below; bind() puts the chosen ones here, one set per kernel.
D = ROOM = 0  # the dimension; the room that a vector of every lane takes
project = charge = advance = proceed = lambda *parts: None


@fused
def never(square):
    """In place of the largest square, where it is known that none overflows."""
    return 0.0


def _charge(q, g, weight):
    """What the round costs each run, and what its move to the present point costs."""
    hits = spread(0.0)
    for i in range(D):
        hits = hits + load(q, AT + i * L) * g[i]
    store(q, HIT, load(q, HIT) + hits)
    store(q, PAID, load(q, PAID) + load(q, MOVED) * weight)


def _lazy(q, g, p, row, step, move, prices, nothing, due):
    """One round of k-lazy runs on one schedule, each with its own factor of 1 / sigma in STEP; PHASE holds the row in which a
    run's next phase starts, ``due[0]`` the first of them. See ``lanes._points`` for ``nothing``.
    """
    y, z, paid = local(ROOM), local(ROOM), spread(0.0)
    if due[0] == row:
        start = load(q, PHASE)
        starts = start == row
        for i in range(D):
            anchor = where(starts, load(q, AT + i * L), load(q, AT + (D + i) * L))
            store(q, AT + (D + i) * L, anchor + nothing)
            store(
                q, AT + (2 * D + i) * L, where(starts, spread(0.0), load(q, AT + (2 * D + i) * L)) + nothing
            )
        start = where(starts, start + load(q, SLACK_LANE), start)
        store(q, PHASE, start)
        due[0] = smallest(start)
    own = load(q, STEP) * step
    for i in range(D):
        g_sum = load(q, AT + (2 * D + i) * L) + g[i]
        store(q, AT + (2 * D + i) * L, g_sum)
        store(y, i * L, load(q, AT + (D + i) * L) - g_sum * own)
    project(y, z, p)
    for i in range(D):
        new = load(z, i * L)
        delta = new - load(q, AT + i * L)
        store(q, AT + i * L, new)
        paid = paid + delta * delta
    store(q, MOVED, root(paid))


def _any(q, g, p, row, step, move, prices, nothing, due):
    """One round of runs that share rule, schedule and memory rule, whatever these are."""
    square = norm2(g, D) if int(q[SCHEDULE_LANE]) == codes.SCALE_FREE else 0.0
    advance(q, g, p, square, square**0.5, move, 1.0, prices, nothing)


def _batch(data, weights, schedule, offset, move, program, nothing, blocks, marks, curves):
    """T rounds of every block; ``curves`` gets the sums over the first ``marks[m]`` rounds, T at last, of shape
    (blocks, marks, 2, lanes)."""
    count, size, points = blocks.shape[0], blocks.shape[1], marks.size
    prices, p, out = pointer(program, 0), pointer(program, 2 * D), pointer(curves, 0)
    sigmas, steps, dues = local(CHUNK), local(CHUNK), local(GROUP)
    for first in range(0, count, GROUP):
        n = min(GROUP, count - first)
        for b in range(n):
            dues[b] = 0.0
        row = 0
        for point in range(points):
            while row < marks[point]:
                rounds = min(CHUNK, marks[point] - row)
                fill_sigmas(schedule, 1.0, offset, row + 1.0, rounds, sigmas, steps)
                for j in range(rounds):
                    g, weight = pointer(data, (row + j) * D), weights[row + j if weights.size > 1 else 0]
                    for b in range(n):
                        q = pointer(blocks, (first + b) * size)
                        charge(q, g, weight)
                        proceed(q, g, p, float(row + j), steps[j], move, prices, nothing, pointer(dues, b))
                row += rounds
                for b in range(n):
                    q = pointer(blocks, (first + b) * size)
                    store(q, HITS, load(q, HITS) + load(q, HIT))
                    store(q, PAIDS, load(q, PAIDS) + load(q, PAID))
                    store(q, HIT, spread(0.0))
                    store(q, PAID, spread(0.0))
            for b in range(n):
                q, o = (
                    pointer(blocks, (first + b) * size),
                    pointer(out, ((first + b) * points + point) * 2 * L),
                )
                store(o, 0, load(q, HITS))
                store(o, L, load(q, PAIDS))


_rows, _numbers = types.Array(float64, 2, "C", readonly=True), types.Array(float64, 1, "C", readonly=True)
_ARGUMENTS = (
    _rows, _numbers, int64, float64, int64, _numbers, float64, float64[:, ::1], types.Array(int64, 1, "C", readonly=True),
    float64[:, :, :, ::1],
)  # fmt: skip


@once
def batch_kernel(set_code: int, d: int, lazy: bool) -> Any:
    """The kernel of k-lazy runs that share a schedule but for its scale and stay where no square overflows, or of any runs.

    ``data, weights``: gradients, and the movement's weight or weights. ``schedule, offset``: of all the blocks' runs, if lazy.
    ``move, program``: the movement's code; 2 d prices, then the set's parameters. ``nothing``: zero.
    """

    def made(template, **parts):
        return fused(bind(template, D=d, ROOM=d * L, **parts))

    far = {"largest": never} if lazy else {}
    project = made(lanes._PROJECTIONS[set_code], threshold=made(lanes._positive_parts), **far)
    if lazy:
        proceed = made(_lazy, project=project)
    else:
        proceed = made(_any, advance=made(lanes._advance, points=made(lanes._points), project=project))
    batch = bind(_batch, D=d, charge=made(_charge), proceed=proceed)
    return compiled(batch, types.void(*_ARGUMENTS), set_code, d, int(lazy))
