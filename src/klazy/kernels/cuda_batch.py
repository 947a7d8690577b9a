"""The driver of a batch on a GPU: a thread for each run, many sequences of linear costs at once; it returns only sums.

A block of threads plays one sequence, whose rounds it brings into its own fast memory a tile at a time, with what all its runs
share of them: sigmas up to a factor, or the sizes of the gradients.
"""

import math
from typing import Any

from numba import cuda, float64

from klazy.kernels import codes
from klazy.kernels.binding import once
from klazy.kernels.coded import next_sigma, sigma_at
from klazy.kernels.cuda import SIMULATED, THREAD, compile_cuda, local, pointer
from klazy.kernels.round import choose_scratch, count_phases, link_round, play_block
from klazy.kernels.rules import RULES
from klazy.kernels.sequence import squared_norm
from klazy.kernels.slots import IS_SHARED, MOVE_CODE, U_ROOM, Y_ROOM, D

BLOCK_THREADS = 4 if SIMULATED else 128  # threads of a block
LARGEST_DIM = 64  # the largest dimension for which a thread has memory
ROUNDS = 8 if SIMULATED else 512  # rounds of a tile, up to UNROLLED_DIM
NUMBERS = 4096  # numbers of a tile in higher dimensions

# Compile-time parameters of this driver alone.
RUN_ROOM = 0  # Numbers of a run.
OWN_WIDTH = 0  # Numbers of the rule's own, for each coordinate.
TILE = 0  # Rounds of a tile.
TILE_ROOM = 0  # Numbers of a tile.
RULE_CODE = 0
SCHEDULE_CODE = 0
MEMORY_CODE = 0
IS_WEIGHTED = False  # Whether the price of movement changes from round to round.


def play_runs(data, dim, offset, weights, program, rows, marks, who, which, curves):
    """Play all rounds of the runs ``who[place]``, by their places in ``rows``; block b plays sequence ``which[b]`` of ``data``.

    ``curves`` gets the sums over the first ``marks[m]`` rounds, of shape (marks, 2, places). ``program`` is as in the batch of
    the processor.
    """
    d = D if D > 0 else dim
    thread = cuda.threadIdx.x
    place = cuda.grid(1)
    places = who.size
    length = codes.FIELDS + (1 + OWN_WIDTH) * d
    tile = cuda.shared.array(TILE_ROOM, float64)
    first = cuda.shared.array(TILE, float64)
    second = cuda.shared.array(TILE, float64)
    prices = pointer(program, 0)
    p = pointer(program, 2 * d)
    zero = pointer(program, program.size - d)
    start = pointer(rows, who[place] * length)
    q = local(RUN_ROOM)
    y = local(Y_ROOM)
    u = local(U_ROOM)
    for i in range(length):
        q[i] = start[i]
    q[codes.RULE] = RULE_CODE
    q[codes.SCHEDULE] = SCHEDULE_CODE
    q[codes.MEMORY] = MEMORY_CODE
    q[codes.MOVED] = 0.0
    rounds = marks[marks.size - 1]
    sequence = pointer(data, which[cuda.blockIdx.x] * rounds * d)
    hits = 0.0
    paids = 0.0
    row = 0
    t = q[codes.START]
    for point in range(marks.size):
        while row < marks[point]:
            n = min(TILE, marks[point] - row)
            cuda.syncthreads()
            for at in range(thread, n * d, cuda.blockDim.x):
                tile[at] = sequence[row * d + at]
            cuda.syncthreads()
            for j in range(thread, n, cuda.blockDim.x):
                if SCHEDULE_CODE == codes.SCALE_FREE:
                    square = squared_norm(pointer(tile, j * d), d)
                    first[j] = square
                    second[j] = math.sqrt(square)
                elif IS_SHARED:
                    sigma = sigma_at(SCHEDULE_CODE, 1.0, offset, row + j + 1.0)
                    first[j] = sigma
                    second[j] = 1.0 / sigma
            cuda.syncthreads()
            hit = 0.0
            paid = 0.0
            for j in range(n):
                starts, ends = count_phases(q, t)
                if IS_SHARED:
                    sigma = q[codes.SIGMA] * first[j]
                    step = q[codes.STEP] * second[j]
                else:
                    q[codes.T] = t
                    sigma, step = next_sigma(q, first[j], second[j])
                if IS_WEIGHTED:
                    paid += q[codes.MOVED] * weights[row + j]
                else:
                    paid += q[codes.MOVED]
                if IS_SHARED or step > 0.0:
                    g = pointer(tile, j * d)
                    dot, moved = play_block(
                        q, g, zero, y, u, p, d, sigma, step, starts, ends, MOVE_CODE, prices
                    )
                    hit += dot
                    q[codes.MOVED] = moved
                t += 1.0
            row += n
            hits += hit
            paids += paid
        curves[2 * point * places + place] = hits
        if IS_WEIGHTED:
            curves[(2 * point + 1) * places + place] = paids
        else:
            curves[(2 * point + 1) * places + place] = paids * weights[0]


@once
def runs_kernel(
    set_code: int,
    rule: int,
    schedule: int,
    memory: int,
    move: int,
    d: int,
    shared: bool,
    weighted: bool,
) -> Any:
    """Make the kernel of runs of one kind on one set under one movement cost; see :func:`play_runs` for its arguments."""
    width = list(RULES.values())[rule].width
    room = d or LARGEST_DIM
    tile = ROUNDS if d else min(ROUNDS, NUMBERS // LARGEST_DIM)
    chosen = link_round(THREAD, set_code, (rule,), d)
    chosen |= {
        "RUN_ROOM": codes.FIELDS + (1 + width) * room,
        **choose_scratch(room),
        "OWN_WIDTH": width,
        "TILE": tile,
        "TILE_ROOM": tile * room,
        "MOVE_CODE": move,
        "RULE_CODE": float(rule),
        "SCHEDULE_CODE": schedule,
        "MEMORY_CODE": float(memory),
        "IS_SHARED": shared,
        "IS_WEIGHTED": weighted,
    }
    key = (set_code, rule, schedule, memory, move, d, int(shared), int(weighted))
    return compile_cuda(play_runs, THREAD, key, **chosen)
