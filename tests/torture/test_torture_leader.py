"""The bound of a guarded leader, looked at after every round of random games and of games that are played against it."""

from typing import Any

import numpy as np
from audit import amount, record

import klazy as kl
from klazy.base.checks import Array

SETS = [kl.Box(-1.0, 1.0), kl.L2Ball(3), kl.Simplex(4), kl.Box([0.0, 0.0], [1.0, 5.0])]


def draw_experts(
    rng: np.random.Generator, domain: kl.types.ConvexSet
) -> list[kl.types.Learner[Any]]:
    """Two to six, from some that never move to some that jump to a vertex in every round."""
    experts: list[kl.types.Learner[Any]] = []
    for _ in range(rng.integers(2, 7)):
        start = domain.argmin_linear(rng.normal(size=domain.dim))
        sigma = 10.0 ** rng.uniform(-1.0, 2.0)
        kind = rng.integers(4)
        if kind == 0:
            sigma = 1e12
        if kind < 2:
            experts.append(kl.GD(domain, sigma, start=start))
        elif kind == 2:
            experts.append(kl.KLazyGD(domain, sigma, k=int(rng.integers(1, 9)), start=start))
        else:
            experts.append(
                kl.MemoryGD(domain, sigma, memory=kl.memories.Decay(10.0), start=start)
            )
    return experts


def draw_movement(rng: np.random.Generator) -> kl.types.Movement:
    weight = float(rng.choice([0.0, 0.01, 0.3, 5.0]))
    kinds = [
        kl.L2Movement(weight),
        kl.L1Movement(weight),
        kl.contrib.AsymmetricMovement(weight, up=2.0, down=0.3),
    ]
    return kinds[rng.integers(3)]


def hurt(rng: np.random.Generator, kind: int, state: Any, points: Array) -> Array:
    """A gradient: noise, waves, against the expert that is followed, against the point played, or for the second in line."""
    d = points.shape[1]
    noise = rng.normal(size=d)
    if kind == 0:
        return noise
    if kind == 1:
        return noise + 3.0 * np.sin(state.t / 7.0)
    if kind == 2:
        away = points[state.leader] - points.mean(axis=0)
    elif kind == 3:
        away = state.x - points[state.behind.argmax()]
    else:
        away = points[state.leader] - points[np.argsort(state.behind)[1]]
    away = away + 1e-3 * noise
    return away / np.linalg.norm(away) * rng.uniform(0.5, 1.0)


def test_a_guarded_leader_keeps_its_bound_after_every_round():
    games = amount(20, 3000)
    acted = 0
    least = np.inf
    for seed in range(games):
        rng = np.random.default_rng(seed)
        domain = SETS[rng.integers(len(SETS))]
        caution = float(rng.choice([0.0, 0.25, 1.0]))
        learner = kl.contrib.Leader(
            draw_experts(rng, domain), draw_movement(rng), caution=caution
        )
        T = int(rng.integers(20, 120))
        kind = int(rng.integers(5))
        scale = 10.0 ** rng.uniform(-2, 2)
        state = learner.init()
        rows = []
        worst = 0.0
        for _ in range(T):
            points = np.array([expert.x for expert in state.experts])
            g = scale * hurt(rng, kind, state, points)
            worst = max(worst, float(((points - state.mixed) @ g).max()))
            state = learner.step(state, g)
            rows.append(g)
            room = 2.0 * state.Delta + 4.0 * learner.reach + worst - state.excess
            assert room >= -1e-9 * scale * T, seed
        trace = kl.run(learner, np.array(rows), record="experts", engine="step")
        slack = kl.theory.certify_experts(trace).slack
        assert (slack >= -1e-9 * scale * T).all(), seed
        acted += bool(trace.guarding.any())
        least = min(least, float(slack.min()) / scale)
    assert acted >= games // 20  # else the guard was not tried
    outcome = f"none broken; the guard acted in {acted}, the least slack was {least:.2g}"
    record("leader", "bounds of guarded leaders in random and hostile games", games, outcome)
