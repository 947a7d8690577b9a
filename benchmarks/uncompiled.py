"""Time `auto` on sets without a kernel, for docs/benchmarks.md: python benchmarks/uncompiled.py."""

import time

import numpy as np

import klazy as kl

DIM = 5
ROUNDS = 60
LENGTH = 20  # rounds of a phase
REPEATS = 2
AIM = 20.0  # milliseconds a round
MOVEMENTS = ("l2", "l1", "tv", "fee", "squared")


def list_sets() -> dict[str, kl.types.ConvexSet]:
    """Return the sets of the table, by name."""
    unit = np.eye(DIM)
    sides = np.vstack((unit, -unit, np.ones((1, DIM))))
    bounds = np.concatenate((np.ones(DIM), np.zeros(DIM), [2.0]))
    box = kl.Box(np.full(DIM, -0.6), np.full(DIM, 0.6))
    return {
        "polytope with 11 sides": kl.Polytope(sides, bounds),
        "intersection of ball and box": kl.Intersection([kl.L2Ball(DIM), box]),
        "intersection of l1 ball and box": kl.Intersection([kl.L1Ball(DIM), box]),
        "intersection of ball and simplex": kl.Intersection(
            [kl.L2Ball(DIM, 0.7), kl.Simplex(DIM)]
        ),
    }


def draw_phases() -> np.ndarray:
    """Draw noisy gradients whose mean changes every few rounds."""
    rng = np.random.default_rng(7)
    means = rng.normal(size=(-(-ROUNDS // LENGTH), DIM))
    return np.repeat(means, LENGTH, axis=0)[:ROUNDS] + rng.normal(size=(ROUNDS, DIM))


def time_round(domain: kl.types.ConvexSet, movement: str, costs: np.ndarray) -> float:
    """Return the milliseconds of a round of `auto`, the least of a few runs."""
    learner = kl.auto(domain, movement)
    best = np.inf
    for _ in range(REPEATS):
        began = time.process_time()
        kl.run(learner, costs, engine="step")
        best = min(best, time.process_time() - began)
    return 1e3 * best / len(costs)


def of_uncompiled_sets() -> list[str]:
    """Return the lines of the table."""
    costs = draw_phases()
    lines = [f"| set | {' | '.join(MOVEMENTS)} |", "|---|" + "--:|" * len(MOVEMENTS)]
    for name, domain in list_sets().items():
        cells = []
        for movement in MOVEMENTS:
            spent = time_round(domain, movement, costs)
            missed = " (missed)" if spent > AIM else ""
            cells.append(f"{spent:.1f}{missed}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    print("\n".join(of_uncompiled_sets()))
