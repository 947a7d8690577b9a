"""What the extras share: the two sequences with equal and with random phases, and regrets from totals alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from klazy.base.checks import Array
from klazy.game.batch import run_batch
from klazy.learners import Learner
from klazy.movement import L2Movement
from klazy.schedules import Sqrt
from klazy.sequences import Scenario, corrupted, stochastic
from klazy.studies.paper.definitions import Settings

SEQUENCES = {"stochastic": (stochastic, 4000), "corrupted": (corrupted, 2000)}  # with the length of a phase
SIGMA = {"stochastic": Sqrt(60.0), "corrupted": Sqrt(16.0)}  # as printed


def count_draws(settings: Settings) -> int:
    """How many sequences with random phases are drawn."""
    return 2 if settings.quick else 8


def draw_scenario(name: str, settings: Settings, index: int | None = None) -> Scenario:
    """One of the two sequences with equal phases, or the one of this index with random ones."""
    make, longest = SEQUENCES[name]
    length = longest // settings.shorter
    if index is None:
        return make(settings.seed, length=length)
    seed = np.random.SeedSequence(settings.seed).spawn(index + 1)[-1]
    return make(seed, length=length, random_phases=True)


def measure_regrets(learners: Sequence[Learner[Any]], scenario: Scenario, weight: float = 1.0) -> Array:
    """Dynamic regret and net movement of each learner, of shape (n, 2), with movement weight lambda."""
    movement = L2Movement(weight)
    u = np.asarray(scenario.comparator)
    theirs = [scenario.costs.values(u).sum(), movement.paid(u).sum()]
    batch = run_batch(learners, scenario.costs, movement=movement)
    return np.column_stack((batch.hitting, batch.switching)) - theirs
