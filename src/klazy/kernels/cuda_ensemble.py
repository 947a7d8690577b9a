"""The driver of ensembles and leaders on a GPU: a block of threads for each, one expert to a thread; it returns only sums.

All that is not an expert's, such as the ensemble's point and its rate, every thread knows for itself, and finds the same.
"""

import math
from typing import Any

import numpy as np
from numba import cuda, float64

from klazy.kernels import codes
from klazy.kernels.binding import once
from klazy.kernels.codes import HEAD, first_block, first_board
from klazy.kernels.cuda import (
    BLOCK,
    THREAD,
    WARP,
    broadcast,
    compile_cuda,
    count_box,
    largest,
    local,
    near,
    own_place,
    pointer,
    smallest,
    total,
)
from klazy.kernels.cuda_batch import LARGEST_DIM
from klazy.kernels.ensemble import WORK, board, choose_family, choose_forecasts, play_on
from klazy.kernels.round import choose_scratch, link_round
from klazy.kernels.rules import RULES
from klazy.kernels.slots import LEADS, THREADS, VECTOR, D, distance

TILE_ROUNDS = 64  # rounds in shared memory
SHARED_BYTES = 48 * 1024  # that a block may share without asking
MOST_EXPERTS = 512  # threads of a block
MOST_COLUMNS = 16  # of threads that share a table: more than a regression has features
# Registers of a thread where a block has several warps: with fewer blocks at once all would wait for each other.
REGISTERS = 96

# Compile-time parameters of this driver alone.
OWN_WIDTH = 0  # Numbers of an expert next to its point, for each coordinate.
BLOCK_ROOM = 0  # Numbers of an expert.
LEAD_ROOM = 0  # Numbers of what a leader knows.
WORK_ROOM = 0
TILE_ROOM = 0
IS_WEIGHTED = False
BOX_ROOM = 0  # Numbers that threads share to fold vectors.
IS_NEAR = False  # Whether they also share a regression.


def play_ensembles(
    data, dim, move, size, known_size, weights, prices, memory, marks, who, which, shared, curves
):
    """Play all rounds of ensembles: block b plays sequence ``which[b]`` with number ``who[b]`` in ``memory``.

    Each has ``size`` numbers there (:mod:`klazy.kernels.layout`), the last ``known_size`` of which are what its experts share.
    ``shared`` has room for those of every block. ``curves`` is as in a batch.
    """
    d = D if D > 0 else dim
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    number = cuda.blockIdx.x
    tile = cuda.shared.array(TILE_ROOM, float64)
    image = pointer(memory, who[number] * size)
    length = codes.FIELDS + (1 + OWN_WIDTH) * d
    head = local(HEAD)
    q = local(BLOCK_ROOM)
    lead = local(LEAD_ROOM)
    work = local(WORK_ROOM)
    X = local(VECTOR)
    step = local(VECTOR)
    for i in range(HEAD):
        head[i] = image[i]
    for i in range(d):
        X[i] = image[HEAD + i]
    for i in range(WORK * d):
        work[i] = 0.0
    first = first_block(d)
    if LEADS:
        boards = first_board(d)
        room = -(-threads // codes.LINE) * codes.LINE
        for i in range(codes.MIXED + 4 * d):
            lead[i] = image[first + i]
        for which_board in range(codes.BOARDS):
            lead[boards + which_board * codes.LINE] = image[
                first + boards + which_board * room + thread
            ]
        first += boards + codes.BOARDS * room
    for i in range(length):
        q[i] = image[first + i * threads + thread]
    program = pointer(image, first + length * threads)
    known = pointer(shared, number * count_shared_room(known_size))
    for i in range(thread, known_size, threads):
        known[i] = image[size - known_size + i]
    plans = known
    season = known
    if LEADS:
        plans = pointer(known, int(lead[codes.PLANS]))
        season = pointer(known, int(lead[codes.SEASON]))
        if IS_NEAR:
            known = near(known, BOX_ROOM)
            for i in range(thread, int(lead[codes.PLANS]), threads):
                known[i] = image[size - known_size + i]
    price_p = pointer(prices, 0)
    rounds = marks[marks.size - 1]
    sequence = pointer(data, which[number] * rounds * d)
    hits = 0.0
    paids = 0.0
    pending = 0.0
    row = 0
    for point in range(marks.size):
        while row < marks[point]:
            n = min(TILE_ROUNDS, marks[point] - row)
            cuda.syncthreads()
            for at in range(thread, n * d, threads):
                tile[at] = sequence[row * d + at]
            cuda.syncthreads()
            hit = 0.0
            paid = 0.0
            for j in range(n):
                g = pointer(tile, j * d)
                for i in range(d):
                    hit += g[i] * X[i]
                    step[i] = X[i]
                weight = weights[0]
                if IS_WEIGHTED:
                    weight = weights[row + j]
                paid += weight * pending
                play_on(
                    q, 1, length, lead, known, plans, season, X, g, d, head, program, work, False
                )
                for i in range(d):
                    step[i] = X[i] - step[i]
                pending = distance(step, d, move, price_p)
                head[codes.T] += 1.0
            row += n
            hits += hit
            paids += paid
        if thread == 0:
            curves[2 * point * cuda.gridDim.x + number] = hits
            curves[(2 * point + 1) * cuda.gridDim.x + number] = paids


# ---- exchanges between threads that are not reductions


def read_thread(blocks, length, place, x, d):
    """Do what ``read_expert`` does, for the threads of a block."""
    return broadcast(pointer(blocks, codes.FIELDS), blocks[codes.MOVED], place, x, d)


def change_thread(lead, count, d, most):
    """Do what ``change`` does, for the threads of a block: follow the first expert whose score is at most this."""
    behind = board(lead, codes.BEHIND, count, d)
    order = board(lead, codes.ORDER, count, d)
    scores = board(lead, codes.SCORE, count, d)
    mine = np.inf
    if scores[0] <= most:
        mine = order[0]
    first = smallest(mine)
    base = 0.0
    place = 0.0
    if mine == first and first < np.inf:
        base = behind[0]
        place = 1.0 * own_place()
    base = total(base)
    behind[0] -= base
    lead[codes.PLACE] = total(place)


def diameter_of_threads(blocks, count, length, d, move, prices, delta):
    """Return the largest distance between two experts' points."""
    widest = 0.0
    for other in range(THREADS):
        broadcast(pointer(blocks, codes.FIELDS), 0.0, other, delta, d)
        for i in range(d):
            delta[i] = blocks[codes.FIELDS + i] - delta[i]
        widest = max(widest, distance(delta, d, move, prices))
    return largest(widest)


def count_box_bytes(d: int, threads: int, regression: int) -> tuple[int, bool]:
    """Return the bytes that a block shares beside its rows, and whether a regression of this size is among them."""
    room = d if d <= codes.UNROLLED_DIM else LARGEST_DIM
    box = 8 * count_box(room, threads)
    is_near = box + 8 * (regression + TILE_ROUNDS * room) <= SHARED_BYTES
    return (box + 8 * regression if is_near else box), is_near


def count_shared_room(size: int) -> int:
    """Return the numbers that a block needs for what its experts share: itself, and one for each lag of a season."""
    return size + codes.SEASON_PLACES if size else 0


def count_threads(experts: int) -> int:
    """Count the threads of a block for this number of experts: full warps."""
    return -(-experts // WARP) * WARP


@once
def ensemble_kernel(
    set_code: int,
    rules: tuple[int, ...],
    d: int,
    threads: int,
    leads: bool,
    weighted: bool,
    is_long: bool,
    is_near: bool,
) -> Any:
    """Make the kernel of ensembles with experts of these rules on one set; see :func:`play_ensembles` for its arguments.

    ``is_long`` is as for kernels of the processor, ``is_near`` says whether a regression is in the memory that a block shares.
    """
    known = list(RULES.values())
    width = max(known[rule].width for rule in rules)
    warps = threads // WARP
    room = d or LARGEST_DIM
    chosen = link_round(BLOCK, set_code, rules, d)
    chosen |= {
        "WARPS": warps,
        "THREADS": threads,
        "COLUMNS": math.gcd(threads, MOST_COLUMNS),
        "ROOM": room,
        "WIDTH": 1,
        "OWN_WIDTH": width,
        "VECTOR": room,
        "BLOCK_ROOM": codes.FIELDS + (1 + width) * room,
        "LEAD_ROOM": first_board(room) + codes.BOARDS * codes.LINE,
        "WORK_ROOM": WORK * room,
        "TILE_ROOM": TILE_ROUNDS * room,
        "IS_WEIGHTED": weighted,
        "BOX_ROOM": count_box(d or LARGEST_DIM, threads),
        "IS_NEAR": is_near,
        "IS_LINEAR": True,
        **choose_scratch(room),
        **choose_family(codes.LINEAR if leads else None, THREAD),
        "read_expert": read_thread,
        "change": change_thread,
        "diameter": diameter_of_threads,
        **choose_forecasts(set_code, rules, room, 1, is_long),
    }
    registers = REGISTERS if warps > 1 else None
    key = (set_code, d, warps, int(leads), int(weighted), int(is_long), int(is_near), *rules)
    return compile_cuda(play_ensembles, BLOCK, key, registers=registers, **chosen)
