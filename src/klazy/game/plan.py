"""How runs are grouped: which of them are alike, and what those share that are played side by side on a CPU or a GPU."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array, InvalidInput, integer
from klazy.costs import Costs
from klazy.game.game import count_axes
from klazy.kernels import codes
from klazy.kernels.layout import RULE_CODES, write_rows
from klazy.kernels.rules import RULES
from klazy.movement import Movement


def split_sequences(costs: Any) -> list[Any] | None:
    """Return the sequences in ``costs``, or None if it is one: what comes first in a list says which."""
    if isinstance(costs, Sequence) and costs:
        is_many = isinstance(costs[0], Costs) or count_axes(costs[0]) == 2
    else:
        is_many = count_axes(costs) == 3
    return list(costs) if is_many else None


def find_distinct(objects: Sequence[Any]) -> tuple[list[Any], np.ndarray]:
    """Return the distinct objects, by identity, and the number of each object among them."""
    distinct = {id(each): each for each in objects}
    numbers = {key: number for number, key in enumerate(distinct)}
    return list(distinct.values()), np.array([numbers[id(each)] for each in objects], dtype=int)


def number_equal(objects: Sequence[Any]) -> np.ndarray:
    """Return a number for each object, the same for equal ones; comparing sets takes time, so that each is compared once."""
    distinct, place = find_distinct(objects)
    numbers: dict[Any, int] = {}
    equal = [numbers.setdefault(each, len(numbers)) for each in distinct]
    return np.array(equal, dtype=int)[place]


def find_places(numbers: np.ndarray) -> list[np.ndarray]:
    """Return where each of the numbers 0, 1, ... is."""
    ends = np.cumsum(np.bincount(numbers))
    return np.split(np.argsort(numbers, kind="stable"), ends[:-1])


def list_sequences(learners: Sequence[Any], costs: Any) -> list[tuple[Any, np.ndarray]]:
    """Return the distinct sequences, each with the learners that play it."""
    count = len(learners)
    sequences = split_sequences(costs)
    if sequences is None:
        return [(costs, np.arange(count))]
    if len(sequences) != count:
        raise InvalidInput(
            f"costs must be one sequence, or one for each of {count} learners, got {len(sequences)}."
        )
    distinct, number = find_distinct(sequences)
    return list(zip(distinct, find_places(number), strict=True))


class RunKind(NamedTuple):
    """What runs that are played side by side share; with ``is_shared`` also their sigmas, but for a factor."""

    is_shared: bool
    rule: int
    schedule: int
    memory: int
    ring: int
    offset: float = 0.0


def group_runs(rows: Array, few: float) -> dict[RunKind, np.ndarray]:
    """Return the runs of each kind, in the order of their slacks, so that the phases of neighbours end together.

    Offsets that fewer than ``few`` runs have are not worth a kind of their own: these runs compute their sigmas alone.
    """
    with_ring = [code for name, code in RULE_CODES.items() if RULES[name].ring]
    rings = np.where(np.isin(rows[:, codes.RULE], with_ring), rows[:, codes.OWN], 0.0)
    about = np.column_stack(
        (rows[:, [codes.RULE, codes.SCHEDULE, codes.MEMORY]], rings, rows[:, codes.B])
    )
    distinct, place = np.unique(about, axis=0, return_inverse=True)
    groups = find_places(place.ravel())
    kinds: dict[RunKind, np.ndarray] = {}
    rare: dict[RunKind, list[RunKind]] = {}
    for (rule, schedule, memory, ring, offset), runs in zip(
        distinct.tolist(), groups, strict=True
    ):
        kind = RunKind(True, int(rule), int(schedule), int(memory), int(ring), offset)
        kinds[kind] = runs
        if schedule == codes.SCALE_FREE or (schedule == codes.SQRT and len(runs) < few):
            rare.setdefault(kind._replace(is_shared=False, offset=0.0), []).append(kind)
    for alone, some in rare.items():
        if len(some) > 1 or alone.schedule == codes.SCALE_FREE:
            kinds[alone] = np.concatenate([kinds.pop(kind) for kind in some])
    return {
        kind: runs[np.argsort(rows[runs, codes.SLACK], kind="stable")]
        for kind, runs in kinds.items()
    }


def write_program(learners: Sequence[Any], movement: Movement) -> tuple[Array, Array]:
    """Return the rows of learners on one set, and the numbers that a kernel needs of the set and the movement cost."""
    domain = learners[0].domain
    d = domain.dim
    rows = write_rows(learners, [learner.init() for learner in learners])
    prices = np.resize(movement.prices(d), 2 * d)
    return rows, np.concatenate((prices, domain.parameters(), np.zeros(d)))


def make_marks(checkpoints: Any, T: int) -> np.ndarray:
    """Return the rounds after which sums are recorded."""
    remedy = "Use 200 for a curve, 0 for totals."
    points = min(integer(checkpoints, "checkpoints", remedy, least=0), T)
    return np.arange(1, points + 1) * T // points if points else np.array([T])
