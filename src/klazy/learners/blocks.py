"""An ensemble's state as the blocks that its kernel works on; :mod:`klazy.kernels.codes` names the places."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from klazy.base.checks import Array
from klazy.kernels import codes
from klazy.learners.base import Descent
from klazy.sets import ConvexSet

META = (codes.LOG_W, codes.MOVED, codes.LOSSES)  # of each expert, in the order of the arguments below
_PROGRAM = slice(codes.SCHEDULE_LANE // codes.LANES, None)
_STATE = slice(codes.T_LANE // codes.LANES, codes.SCHEDULE_LANE // codes.LANES)


def lanes_of(experts: Sequence[Descent[Any]]) -> np.ndarray:
    """Which expert lies in which lane, of shape (blocks, LANES); an empty lane, -1 - i, repeats its block's first expert i.

    The experts of a block share rule, schedule and memory rule.
    """
    kinds: dict[Any, list[int]] = {}
    for i, expert in enumerate(experts):
        program = expert.program()
        kinds.setdefault((expert.code, program[codes.SCHEDULE], program[codes.MEMORY_RULE]), []).append(i)
    blocks = [
        kind[first : first + codes.LANES]
        for kind in kinds.values()
        for first in range(0, len(kind), codes.LANES)
    ]
    return np.array([block + [-1 - block[0]] * (codes.LANES - len(block)) for block in blocks])


def aligned(n: int) -> Array:
    """Room for n numbers that begins at a multiple of a vector's size; a live agent does without."""
    room = np.zeros(n + codes.LANES)
    first = -(room.ctypes.data // room.itemsize) % codes.LANES
    return room[first : first + n]


def packed(
    experts: Sequence[Descent[Any]], lanes: np.ndarray, states: Sequence[Any], log_prior: Array, *meta: Array
) -> Array:
    """The blocks, one after the other."""
    domain = experts[0].domain
    d = domain.dim
    blocks = []
    for block in lanes:
        numbers = np.zeros((codes.FIELDS, codes.LANES))
        vectors = np.zeros((codes.LANES, codes.BLOCK_VECTORS, d))
        for lane, i in enumerate(np.maximum(block, -1 - block)):
            flat = experts[i].pack(states[i])
            program = experts[i].program()[: codes.SET]
            t = flat[codes.T_SLOT]
            k = program[codes.SLACK]
            sigma = (
                program[codes.SCHEDULE_A] if program[codes.SCHEDULE] == codes.CONSTANT else 1.0
            )  # else set every round
            numbers[_rows(META), lane] = [values[i] for values in meta]
            numbers[_STATE, lane] = (
                t, flat[codes.ENERGY_SLOT], flat[codes.SIGMA_SLOT], sigma, 1.0 / sigma, (t - 1.0) % k, -np.inf, experts[i].code,
            )  # fmt: skip
            numbers[_PROGRAM, lane] = program
            vectors[lane] = flat[codes.HEAD : codes.HEAD + codes.BLOCK_VECTORS * d].reshape(-1, d)
        prior, log_w, w = _rows((codes.PRIOR, codes.LOG_W, codes.W))
        numbers[prior] = np.where(block >= 0, log_prior[block], -np.inf)
        numbers[log_w, block < 0] = -np.inf
        numbers[w] = np.exp(numbers[log_w])
        blocks += [
            numbers.ravel(),
            (vectors.transpose(1, 2, 0) if _side_by_side(domain) else vectors).ravel(),
        ]
    return np.concatenate(blocks)


def unpacked(
    experts: Sequence[Descent[Any]], lanes: np.ndarray, flat: Array
) -> tuple[tuple[Any, ...], Array]:
    """The experts' states, and their log weights, movements and summed losses as rows."""
    domain = experts[0].domain
    d = domain.dim
    size = codes.LANES * codes.FIELDS
    states: dict[int, Any] = {}
    meta = np.empty((len(META), len(experts)))
    for block, numbers in zip(lanes, flat.reshape(len(lanes), -1), strict=True):
        shape = (
            (codes.BLOCK_VECTORS, d, codes.LANES)
            if _side_by_side(domain)
            else (codes.LANES, codes.BLOCK_VECTORS, d)
        )
        fields = numbers[:size].reshape(codes.FIELDS, codes.LANES)
        vectors = numbers[size:].reshape(shape)
        vectors = vectors.transpose(2, 0, 1) if _side_by_side(domain) else vectors
        for lane, i in enumerate(block[block >= 0]):
            meta[:, i] = fields[_rows(META), lane]
            one = np.zeros(codes.HEAD + codes.VECTORS * d)
            slots = [codes.T_SLOT, codes.ENERGY_SLOT, codes.SIGMA_SLOT]
            one[slots] = fields[_rows((codes.T_LANE, codes.ENERGY_LANE, codes.OLD_SIGMA)), lane]
            one[codes.HEAD : codes.HEAD + codes.BLOCK_VECTORS * d] = vectors[lane].ravel()
            states[int(i)] = experts[i].unpack(one)
    return tuple(states[i] for i in range(len(experts))), meta


def _rows(fields: Sequence[int]) -> list[int]:
    """The rows of these fields, where a block's numbers are a matrix."""
    return [field // codes.LANES for field in fields]


def _side_by_side(domain: ConvexSet) -> bool:
    return codes.unrolled(domain.code, domain.dim)
