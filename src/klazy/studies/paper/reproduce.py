"""All parts of the reproduction by name, and how they are made: in parallel, each stored as soon as it is done, never twice."""

import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from klazy.base import parallel
from klazy.base.checks import InvalidInput, integer, one_of
from klazy.base.options import write_option
from klazy.studies.paper import definitions, experiments, extras, illustrations
from klazy.studies.paper.definitions import EXPERIMENTS, PRESETS, PaperSettings
from klazy.studies.paper.section import REPORT_TEXT, Row, Section, Stored, make_section_key
from klazy.studies.results import ResultStore, ResultWriter, make_value_rows

STORE = "store"  # the folder of what was made, within that of the reproduction


class Part(NamedTuple):
    """A part of the report: ``uses`` are the settings that it depends on, ``seconds`` its time relative to the others."""

    kind: str
    about: str
    title: str
    report: Callable[[Section, PaperSettings], None]
    words: Mapping[str, str]
    uses: Sequence[str] = ()
    seconds: float = 2.0

    def make(self, settings: PaperSettings) -> Section:
        made = Section(self.title, self.words)
        self.report(made, settings)
        return made


def _list_parts() -> Iterator[tuple[str, Part]]:
    """List the experiments, and the parts of text.toml, each reported by the function that has its name."""
    for name in EXPERIMENTS:
        # Only the stochastic sequences are drawn.
        uses = ("preset", "seed", "quick") if "stochastic" in name else ("preset", "quick")
        title = REPORT_TEXT["experiments"][name]["title"]
        report = partial(experiments.report_experiment, name)
        yield name, Part("experiment", title, title, report, REPORT_TEXT["experiment"], uses, 3.0)
    functions = vars(illustrations) | vars(extras)
    for name, words in REPORT_TEXT["parts"].items():
        report = functions[f"report_{name.replace('-', '_')}"]
        about = (words["kind"], words["about"], words["title"])
        yield name, Part(*about, report, words, words.get("uses", ()), words.get("seconds", 2.0))


PARTS: dict[str, Part] = dict(_list_parts())
# A quick look makes what the paper has, and the statements that short sequences can judge, unless parts are named.
FIRST_LOOK = [
    name for name, part in PARTS.items() if part.kind != "extra" or name == "statements"
]


class PaperJob(NamedTuple):
    """One part with its settings, the folders for its files and of the store, and the key of everything it is made from."""

    name: str
    settings: PaperSettings
    folder: Path
    store: Path
    key: str

    def make(self) -> "tuple[PaperJob, dict[str, Any]]":
        """Make the part, and return it as plain values."""
        return self, PARTS[self.name].make(self.settings).to_value()


def select_names(
    names: Iterable[str], among: Iterable[str] = PARTS, kind: str = "part"
) -> list[str]:
    """Return the names in the order of the reproduction, all of them if none is given."""
    chosen = list(names)
    known = list(among)
    for name in chosen:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.4)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            raise InvalidInput(f"No {kind} is named {name!r}. {hint}`klazy list` lists all.")
    return [name for name in known if name in chosen or not chosen]


def list_jobs(
    names: Iterable[str], presets: Sequence[str], settings: PaperSettings, out: Path
) -> list[PaperJob]:
    """List what to make: each experiment once per preset, the others once."""
    integer(settings.seeds, write_option("seeds"), "An interval needs several.", least=2)
    for preset in presets:
        one_of(preset, write_option("preset"), PRESETS)
    found = []
    for name in select_names(names):
        part = PARTS[name]
        folders = {PRESETS[0]: f"{part.kind}s"}
        if part.kind == "experiment":
            folders = {preset: preset for preset in presets}
        for preset, folder in folders.items():
            chosen = settings._replace(preset=preset)
            key = make_section_key(
                name, {setting: getattr(chosen, setting) for setting in part.uses}
            )
            found.append(PaperJob(name, chosen, out / folder / name, out / STORE, key))
    return found


def run_jobs(jobs: Sequence[PaperJob], workers: int | None = None) -> Iterator[PaperJob]:
    """Make the parts that are not stored yet, in parallel processes, the longest first; yield each job when it is done."""
    store = ResultStore(jobs[0].store)
    known = store.read_values()
    yield from (job for job in jobs if job.key in known)
    pending = [job for job in jobs if job.key not in known]
    pending.sort(key=lambda job: -PARTS[job.name].seconds)
    if not pending:
        return
    count = min(workers or os.cpu_count() or 1, len(pending))
    with ResultWriter(store, make_value_rows) as writer:
        for job, made in parallel.map_unordered(PaperJob.make, pending, count):
            writer.add((job.key, made))
            yield job


def load_sections(jobs: Sequence[PaperJob]) -> dict[tuple[str, str], Stored]:
    """Return the stored sections of these jobs, by part and preset; those that were not made are left out."""
    values = ResultStore(jobs[0].store).read_values()
    return {
        (job.name, job.settings.preset): Stored(job.folder, **values[job.key])
        for job in jobs
        if job.key in values
    }


def compute_results(names: Iterable[str], preset: str, settings: PaperSettings) -> list[Row]:
    """Return the rows of the experiments alone, without drawing or storing anything."""
    rows = []
    for name in select_names(names, EXPERIMENTS, "experiment"):
        made = definitions.make_experiment(
            name, preset, seed=settings.seed, shorter=settings.shorter
        )
        outcome = definitions.play_experiment(made)
        rows += [{"preset": preset, **row} for row in outcome.tabulate()]
    return rows


def group_results(preset: str, rows: Iterable[Row]) -> dict[str, Any]:
    """Return the rows of one preset as one object, experiment by experiment."""
    found: dict[str, Any] = {}
    for row in rows:
        u = {"switching": row["comparator_switching"], "hitting": row["comparator_hitting"]}
        entry = found.setdefault(
            row["experiment"], {"T": row["T"], "comparator": u, "learners": {}}
        )
        keys = ("switching", "hitting", "dynamic_regret", "total_regret")
        entry["learners"][row["learner"]] = {key: row[key] for key in keys}
    return {"preset": preset, "experiments": found}
