"""What looking ahead is worth: baselines that see f_t, or more, beside learners that do not."""

import numpy as np

from klazy import show
from klazy.contrib import (
    OBD,
    ROBD,
    AveragingHorizon,
    LookAhead,
    LookAheadSAder,
    RecedingHorizon,
    run_ahead,
)
from klazy.costs import Costs, QuadraticCosts
from klazy.game.regret import competitive_ratio
from klazy.game.run import run
from klazy.game.trace import Trace
from klazy.hindsight import offline_optimum
from klazy.hindsight.optimum import Optimum
from klazy.learners import GD, KLazyGD
from klazy.learners.presets import ensemble_auto
from klazy.movement import L2Movement
from klazy.sets import Box, ConvexSet
from klazy.studies.paper.definitions import Settings, make_experiment
from klazy.studies.paper.section import Row, Section

WINDOW = 5
# At 1 the greedy baseline would be indifferent to gradients of norm 1, and its number chance.
WEIGHT = L2Movement(0.5)
SIGMA = 2.0


def report_foresight(settings: Settings) -> Section:
    """The worst case of the paper with shorter phases, and tracking a random walk, whose costs are positive."""
    shorter = 30 if settings.quick else 5  # planning takes milliseconds a round
    rounds = 50 if settings.quick else 200
    made = make_experiment("worst-case", shorter=shorter)
    rng = np.random.default_rng(settings.seed)
    walk = np.cumsum(rng.normal(scale=0.3, size=(rounds, 2)), axis=0)
    box = Box(walk.min(axis=0), walk.max(axis=0))
    games: dict[str, tuple[ConvexSet, Costs]] = {
        f"worst case, phases of {made.scenario.costs.T // 5}": (made.scenario.domain, made.scenario.costs),
        "tracking": (box, QuadraticCosts(walk)),
    }
    about = f"Movement weight {WEIGHT.weight:g}, from the set's start; GD and k=10 at sigma = {SIGMA:g}, which nobody tuned. "
    about += "Where the projection does not bind, GD and k=10 play the same points."
    rows = []
    text = [about]
    figures = {}
    for name, (domain, costs) in games.items():
        found = _play_all(name, domain, costs)
        rows += found
        text.append(_describe(name, found))
        bars = {row["player"]: row["above_optimum"] for row in found}
        figure = show.draw_bars({name: bars}, "cost above the optimum")
        caption = (
            f"Cost above the optimum on the {name} sequence. Names with a + see the cost of a round first."
        )
        file = name.split(",")[0].replace(" ", "-")
        figures[file] = (figure, caption)
    return Section("What looking ahead is worth", text, {"foresight": rows}, figures)


def _play_all(name: str, domain: ConvexSet, costs: Costs) -> list[Row]:
    """Learners, and baselines whose names begin with a plus."""
    optimum = offline_optimum(costs, domain, WEIGHT, x0=domain.start)
    start = domain.start
    learners = {
        "GD": GD(domain, SIGMA),
        "k=10": KLazyGD(domain, SIGMA, 10),
        "ensemble_auto": ensemble_auto(domain, WEIGHT),
    }
    ahead: dict[str, LookAhead] = {
        "+ greedy": RecedingHorizon(domain),
        f"+ receding {WINDOW}": RecedingHorizon(domain, WINDOW),
        f"+ averaging {WINDOW}": AveragingHorizon(domain, WINDOW),
        "+ OBD": OBD(domain),
        "+ R-OBD": ROBD(domain),
        "+ SAder": LookAheadSAder(domain),
    }
    traces = {
        label: run(learner, costs, movement=WEIGHT, x0=start, engine="step")
        for label, learner in learners.items()
    }
    traces |= {label: run_ahead(player, costs, movement=WEIGHT, x0=start) for label, player in ahead.items()}
    return [
        {"game": name, "player": label, "sees": _describe_sight(ahead.get(label)), "switching": trace.totals.switching,
         "cost": trace.totals.cost, "above_optimum": trace.totals.cost - optimum.cost,
         "competitive_ratio_at_most": _bound_ratio(trace, optimum)}
        for label, trace in traces.items()
    ]  # fmt: skip


def _describe_sight(player: LookAhead | None) -> str:
    if player is None:
        return "f_1, ..., f_{t-1}"
    if player.window == 0:
        return "f_1, ..., f_{t}"
    return f"f_1, ..., f_{{t+{player.window}}}"


def _bound_ratio(trace: Trace, optimum: Optimum) -> float | None:
    """Where costs are positive."""
    if trace.hitting.min() < 0.0:
        return None
    return competitive_ratio(trace, optimum)


def _describe(name: str, rows: list[Row]) -> str:
    order = sorted(rows, key=lambda row: row["above_optimum"])
    said = ", ".join(f"{row['player']}: {row['above_optimum']:.4g}" for row in order)
    return f"{name.capitalize()}, cost above the optimum; those with a + see f_t or more before they play. {said}."
