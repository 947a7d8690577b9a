"""Numbers up to the stated limits: whatever is accepted leaves a state that is finite, in its set, and taken back."""

import json
import os
from typing import Any

import numpy as np
import pytest
from audit import amount, record
from hypothesis import given, settings
from hypothesis import strategies as st

import klazy as kl
from cases import COMPILED_SETS, EVERY_LEARNER, LEARNERS, RELUCTANT, SCHEDULES, SETS
from klazy.base.checks import LARGEST, Array
from klazy.kernels.layout import find_missing_part
from klazy.learners.base import describe_state, is_finite, rebuild_state

JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT") == "1"
INSIDE = 1e-12  # far below the set's own tolerance of 1e-9: a state that klazy wrote is always taken back
ROUNDS = 12
SIZES = st.floats(-57, 58).map(
    lambda exponent: 10.0**exponent
)  # the sets of cases.py hold numbers from 0.1 to 4


def resize(domain: Any, by: float) -> Any:
    """The set, larger by a factor; limits on coordinates stay within the largest number."""
    if isinstance(domain, kl.L2Ball | kl.L1Ball):
        center = None if domain.center is None else by * domain.center
        return domain.replace(radius=by * domain.radius, center=center)
    if isinstance(domain, kl.Box):
        return kl.Box(by * domain.lower, by * domain.upper)
    if isinstance(domain, kl.Simplex):
        return domain.replace(total=by * domain.total)
    if isinstance(domain, kl.CappedSimplex):
        return domain.replace(
            total=by * domain.total,
            cap=by * np.asarray(domain.cap),
            floor=by * np.asarray(domain.floor),
        )
    if isinstance(domain, kl.Polytope):
        return domain.replace(b=by * domain.b)
    return domain.replace(sets=tuple(resize(member, by) for member in domain.sets))


def draw_gradient(rng: np.random.Generator, d: int) -> Array:
    """Entries of one size or of many, all the same, or at the limit."""
    size = 10.0 ** rng.uniform(-60, 60)
    kind = rng.integers(5)
    if kind == 0:
        g = rng.normal(size=d) * size
    elif kind == 1:
        g = rng.normal(size=d) * 10.0 ** rng.uniform(-60, 60, d)
    elif kind == 2:
        g = np.full(d, size)
    elif kind == 3:
        g = LARGEST * rng.choice([-1.0, 0.0, 1.0], d)
    else:
        g = size + rng.uniform(size=d)
    return np.clip(g, -LARGEST, LARGEST)


def hold_to_limits(learner: Any, engine: str, seed: int) -> None:
    """Play some rounds and see that every state is finite, inside and taken back."""
    rng = np.random.default_rng(seed)
    agent = kl.Agent(learner, engine=engine)
    d = learner.domain.dim
    for _ in range(ROUNDS):
        hint = draw_gradient(rng, d) if learner.accepts_hints and rng.integers(3) == 0 else None
        g = draw_gradient(rng, d)
        with np.errstate(all="ignore"):
            x = agent.update(g, next_hint=hint)
        assert is_finite(agent.state)
        assert float(learner.domain.violation(x)) <= INSIDE
    told = json.loads(json.dumps(describe_state(agent.state)))
    again = kl.Agent(learner, engine=engine, state=rebuild_state(learner.init(), told))
    assert np.array_equal(again.x, agent.x)


def resize_schedule(
    schedule: kl.types.Schedule, domain: kl.types.ConvexSet, size: float
) -> kl.types.Schedule:
    """The schedule with this size; a scale-free one knows the set."""
    if isinstance(schedule, kl.ScaleFree):
        return kl.ScaleFree(domain.scale, move_cost=size)
    if isinstance(schedule, kl.Constant):
        return kl.Constant(size)
    if isinstance(schedule, kl.contrib.Proportional):
        return kl.contrib.Proportional(size)
    return schedule.replace(c=size)


# Each rule on another set: kernels take seconds to compile. `make test` tries all of them uncompiled.
SMALL = [
    domain for domain in COMPILED_SETS if domain.dim == 5 or isinstance(domain, kl.CappedSimplex)
]
PAIRS = [(SMALL[i % len(SMALL)], name) for i, name in enumerate([*LEARNERS, "SAder"])]
# On these sets a move that pays is searched for by splitting, which takes seconds a round at the limits, or warns. OnlineNewton
# searches on most sets, and squares of such gradients leave nothing of what curves less.
SEARCHED = (kl.Polytope, kl.Intersection)
BY_FORECAST = {*RELUCTANT, "Reluctant with hints", "Seasonal"}
ALL = [
    (domain, name)
    for domain in SETS
    for name in EVERY_LEARNER
    if not (isinstance(domain, SEARCHED) and name in BY_FORECAST) and name != "OnlineNewton"
]


@pytest.mark.parametrize("engine", ["compiled", "step"])
@given(data=st.data())
@settings(max_examples=amount(60, 100_000))
def test_whatever_is_accepted_leaves_a_state_that_is_taken_back(engine, data):
    compiles = engine == "compiled" and not JIT_OFF
    domain, name = data.draw(st.sampled_from(PAIRS if compiles else ALL))
    size = data.draw(SIZES)
    domain = resize(domain, size)
    schedule = resize_schedule(data.draw(st.sampled_from(SCHEDULES)), domain, data.draw(SIZES))
    learner = EVERY_LEARNER[name](domain, schedule)
    if find_missing_part(learner) is not None:
        engine = "step"
    hold_to_limits(learner, engine, data.draw(st.integers(0, 2**32)))
    record(
        f"limits-{engine}",
        "runs of 12 rounds at the limits",
        amount(60, 100_000),
        "finite and inside",
    )
