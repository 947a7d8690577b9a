"""All parts of the reproduction by name, and how they are made: in parallel, kept as soon as they are done, never twice."""

import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from klazy.base import parallel
from klazy.base.checks import one_of, refusal
from klazy.studies.paper import illustrations
from klazy.studies.paper.definitions import EXPERIMENTS, PRESETS, Settings, make_experiment
from klazy.studies.paper.experiments import report_experiment
from klazy.studies.paper.extras import (
    budgets,
    fallback,
    foresight,
    memories,
    presets,
    rates,
    seeds,
    sigmas,
    slacks,
    statements,
)
from klazy.studies.paper.measure import play_experiment
from klazy.studies.paper.section import Row, Section, Stored, is_fresh, load_section, make_key, save_section


class Part(NamedTuple):
    """``uses`` are the settings that it depends on, ``seconds`` about how long it takes, relative to the others."""

    kind: str
    about: str
    make: Callable[[Settings], Section]
    uses: tuple[str, ...] = ("seed", "quick")
    seconds: float = 2.0


def _list_uses(name: str) -> tuple[str, ...]:
    """Only the stochastic sequences are drawn."""
    return ("preset", "seed", "quick") if "stochastic" in name else ("preset", "quick")


PARTS: dict[str, Part] = {
    **{
        name: Part("experiment", recipe.title, partial(report_experiment, name), _list_uses(name), 3.0)
        for name, recipe in EXPERIMENTS.items()
    },
    "geometry": Part(
        "illustration",
        "One greedy and one lazy step on the l1 and on the l2 ball",
        illustrations.report_geometry,
        (),
    ),
    "staleness": Part(
        "illustration",
        "Why a lazy point stays where it is: Proposition 3 in the plane",
        illustrations.report_staleness,
        (),
    ),
    "phases": Part(
        "illustration",
        "Which gradients an update adds up; small examples of the costs",
        illustrations.report_phases,
        ("seed",),
    ),
    "lower-bound": Part(
        "illustration",
        "The sequence of the lower bound, and its exact regret",
        illustrations.report_lower_bound,
        (),
    ),
    "ensemble": Part(
        "illustration",
        "What each expert of the ensemble adds up, and its weight",
        illustrations.report_ensemble,
        (),
    ),
    "fallback": Part(
        "extra",
        "Whether the ensemble falls back to greedy in the worst case",
        fallback.report_fallback,
        ("quick",),
    ),
    "statements": Part(
        "extra",
        "Theorems 1, 5 and 8 and others in their own form, and constants of their proofs",
        statements.report_statements,
        seconds=6.0,
    ),
    "resonance": Part(
        "extra",
        "Every slack up to 2000, on equal and on random phases",
        slacks.report_resonance,
        seconds=30.0,
    ),
    "best-sigma": Part(
        "extra", "Each learner at its own best constant sigma", sigmas.report_best_sigma, seconds=6.0
    ),
    "beta-rules": Part("extra", "The ensembles by rule for beta", rates.report_rates, seconds=5.0),
    "memories": Part(
        "extra", "Decay, ensemble_auto and SAder-k beside k-lazyGD", memories.report_memories, seconds=6.0
    ),
    "budgets": Part(
        "extra",
        "Regret against every comparator: the frontier of path lengths",
        budgets.report_budgets,
        seconds=20.0,
    ),
    "look-ahead": Part(
        "extra",
        "Baselines that see the costs first, beside learners",
        foresight.report_foresight,
        seconds=15.0,
    ),
    "presets": Part(
        "extra", "What the two presets differ in, and how much it matters", presets.report_presets
    ),
    "seeds": Part(
        "extra",
        "The stochastic experiments over many seeds",
        seeds.report_seeds,
        ("seed", "seeds", "quick"),
        15.0,
    ),
    "movement-weights": Part(
        "extra", "Movement weights from 0.1 to 30", sigmas.report_movement_weights, seconds=8.0
    ),
}

# What a quick look makes unless parts are named: what the paper has, and the statements that short sequences can judge.
FIRST_LOOK = [name for name, part in PARTS.items() if part.kind != "extra" or name == "statements"]


class Job(NamedTuple):
    """One part under some settings, the folder that it goes to, and the key of all that it is made from."""

    name: str
    settings: Settings
    folder: Path
    key: str

    def is_done(self) -> bool:
        return is_fresh(self.folder, self.key)

    def make(self) -> "Job":
        save_section(PARTS[self.name].make(self.settings), self.folder, self.key)
        return self

    def load(self) -> Stored:
        return load_section(self.folder)


def check_names(names: Iterable[str], among: Iterable[str] = PARTS, kind: str = "a part") -> list[str]:
    """The names in the order of the reproduction, all of them if none is given."""
    chosen = list(names)
    known = list(among)
    for name in chosen:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.4)
            remedy = "`klazy list` names all"
            if near:
                remedy = f"did you mean {near[0]!r}? {remedy}"
            raise refusal("reproduce", f"the name of {kind}", "name", repr(name), remedy)
    return [name for name in known if name in chosen or not chosen]


def list_jobs(names: Iterable[str], presets: Sequence[str], settings: Settings, out: Path) -> list[Job]:
    """What is to be made: each experiment once per preset, the others once."""
    if settings.seeds < 2:
        raise refusal(
            "reproduce", "seeds >= 2, for an interval", "seeds", settings.seeds, "give a larger number"
        )
    for preset in presets:
        one_of(preset, "preset", "reproduce", PRESETS)
    found = []
    for name in check_names(names):
        part = PARTS[name]
        folders = {PRESETS[0]: f"{part.kind}s"}
        if part.kind == "experiment":
            folders = {preset: preset for preset in presets}
        for preset, folder in folders.items():
            chosen = settings._replace(preset=preset)
            key = make_key(name, {setting: getattr(chosen, setting) for setting in part.uses})
            found.append(Job(name, chosen, out / folder / name, key))
    return found


def run_jobs(jobs: Sequence[Job], workers: int | None = None) -> Iterator[Job]:
    """Make what is not on disk already, in parallel processes, the longest first; each job is given back when it is done."""
    pending = [job for job in jobs if not job.is_done()]
    pending.sort(key=lambda job: -PARTS[job.name].seconds)
    yield from (job for job in jobs if job not in pending)
    if pending:
        count = min(workers or os.cpu_count() or 1, len(pending))
        with parallel.open_workers(jobs=count):
            yield from parallel.map_unordered(Job.make, pending)


def check_experiments(names: Iterable[str]) -> list[str]:
    """Names of experiments alone, all of them if none is given."""
    return check_names(names, EXPERIMENTS, "an experiment")


def compute_results(names: Iterable[str], preset: str, settings: Settings) -> list[Row]:
    """The rows of the experiments alone, nothing drawn and nothing kept."""
    rows = []
    for name in check_experiments(names):
        made = make_experiment(name, preset, seed=settings.seed, shorter=settings.shorter)
        outcome = play_experiment(made)
        rows += [{"preset": preset, **row} for row in outcome.tabulate()]
    return rows


def group_results(preset: str, rows: Iterable[Row]) -> dict[str, Any]:
    """The rows of one preset as one object, experiment by experiment."""
    found: dict[str, Any] = {}
    for row in rows:
        u = {"switching": row["comparator_switching"], "hitting": row["comparator_hitting"]}
        entry = found.setdefault(row["experiment"], {"T": row["T"], "comparator": u, "learners": {}})
        keys = ("switching", "hitting", "dynamic_regret", "total_regret")
        entry["learners"][row["learner"]] = {key: row[key] for key in keys}
    return {"preset": preset, "experiments": found}
