"""Every slack k up to 2000, on equal and on random phases: a clock may fall into step with the costs, or be hurt by them."""

from dataclasses import dataclass

import numpy as np

from klazy import show
from klazy.base.checks import Array
from klazy.learners import Decay, KLazyGD, MemoryGD
from klazy.studies.paper.definitions import Settings
from klazy.studies.paper.extras.common import SEQUENCES, SIGMA, count_draws, draw_scenario, measure_regrets
from klazy.studies.paper.section import Row, Section

LONGEST = 2000
PRINTED = {"stochastic": (65, 150, 300, 1500), "corrupted": (50, 150, 500, 1500)}


@dataclass(frozen=True, eq=False)
class _BySlack:
    """Total regrets by slack, and by memory m of Decay: the first row is of equal phases, each other of one random draw."""

    slacks: np.ndarray
    by_slack: Array
    memories: np.ndarray
    by_memory: Array

    @property
    def equal(self) -> Array:
        return self.by_slack[0]

    @property
    def random(self) -> Array:
        return self.by_slack[1:].mean(axis=0)


def report_resonance(settings: Settings) -> Section:
    """Total regret of k-lazyGD by slack, at the printed sigma."""
    rows = []
    text = []
    figures = {}
    for name in SEQUENCES:
        found = _play_slacks(name, settings)
        rows += _tabulate(name, found)
        text.append(_describe(name, found))
        caption = f"Total regret by slack on the {name} sequence, sigma as printed. The band holds all random draws."
        figures[name] = (_draw(found), caption)
    return Section("Resonance: which slack wins depends on the phases", text, {"slacks": rows}, figures)


def _play_slacks(name: str, settings: Settings) -> _BySlack:
    step = 40 if settings.quick else 1
    count = 20 if settings.quick else 80
    slacks = np.arange(1, LONGEST + 1, step)
    memories = np.unique(np.geomspace(1, LONGEST, count).astype(int))
    by_slack = []
    by_memory = []
    sigma = SIGMA[name]
    for index in (None, *range(count_draws(settings))):
        scenario = draw_scenario(name, settings, index)
        lazy = [KLazyGD(scenario.domain, sigma, k) for k in slacks.tolist()]
        forgetful = [MemoryGD(scenario.domain, sigma, Decay(m)) for m in memories.tolist()]
        by_slack.append(measure_regrets(lazy, scenario).sum(axis=1))
        by_memory.append(measure_regrets(forgetful, scenario).sum(axis=1))
    return _BySlack(slacks, np.array(by_slack), memories, np.array(by_memory))


def _draw(found: _BySlack) -> "show.Figure":
    by_memory = found.by_memory[1:].mean(axis=0)
    decay = np.interp(found.slacks, found.memories, by_memory)  # straight from one played to the next
    lines = {"equal phases": found.equal, "random phases": found.random, "Decay, random": decay}
    bands = {"random phases": (found.by_slack[1:].min(axis=0), found.by_slack[1:].max(axis=0))}
    levels = {"GD, equal": float(found.equal[0])}
    return show.draw_lines(
        found.slacks, lines, "slack k, or memory m", "total regret", bands=bands, levels=levels, log="xy"
    )


def _tabulate(name: str, found: _BySlack) -> list[Row]:
    columns = {
        "k": found.slacks,
        "equal_phases": found.equal,
        "random_phases": found.random,
        "random_least": found.by_slack[1:].min(axis=0),
        "random_most": found.by_slack[1:].max(axis=0),
    }
    rows = []
    for i in range(len(found.slacks)):
        values = {column: line[i].item() for column, line in columns.items()}
        rows.append({"sequence": name} | values)
    return rows


def _describe(name: str, found: _BySlack) -> str:
    k = found.slacks
    equal = found.equal
    random = found.random
    best = int(equal.argmin())
    robust = int(random.argmin())
    drawn = len(found.by_slack) - 1
    m = int(found.by_memory[1:].mean(axis=0).argmin())
    at = {slack: (equal[i], random[i]) for i, slack in enumerate(k.tolist()) if slack in PRINTED[name]}
    printed = "; ".join(f"k={slack}: {a:.4g} and {b:.4g}" for slack, (a, b) in at.items())
    if printed:
        printed = f"The printed slacks on equal and on random phases: {printed}. "
    return (
        f"On the {name} sequence with equal phases the best slack is k={k[best]} with a total regret of {equal[best]:.5g} "
        f"(GD: {equal[0]:.5g}). On random phases ({drawn} draws of lengths from half to one and a half times the printed one, "
        f"so that the clock's offset is random too) that slack has {random[best]:.5g} on average (GD: {random[0]:.5g}), and "
        f"the best is k={k[robust]} with {random[robust]:.5g}. Of {len(k)} slacks {int((equal < equal[0]).sum())} beat GD on "
        f"equal phases and {int((random < random[0]).sum())} on random ones. {printed}"
        f"Decay, which has no clock, has at its best memory for random phases, m={found.memories[m]}, "
        f"{found.by_memory[1:, m].mean():.5g} on them and {found.by_memory[0, m]:.5g} on the equal ones."
    )
