"""``klazy warm``: compile kernels before somebody waits for them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

import klazy as kl
from klazy.base.checks import one_of, refusal
from klazy.base.install import CACHE_REMEDY
from klazy.cli.terminal import Json, print_table, show_progress

LEARNERS: dict[str, Callable[[Any], Any]] = {
    "KLazyGD": lambda domain: kl.KLazyGD(domain, 1.0, k=2),
    "GD": lambda domain: kl.GD(domain, 1.0),
    "LazyGD": lambda domain: kl.LazyGD(domain, 1.0),
    "auto": kl.auto,
}
DOMAINS: dict[str, Callable[[int], Any]] = {
    "simplex": kl.Simplex,
    "box": lambda dim: kl.Box(np.zeros(dim), np.ones(dim)),
    "ball": kl.L2Ball,
}
COMMON = (["KLazyGD", "auto"], ["simplex", "box"])
SQLITE = b"SQLite format 3"  # how a store begins
MANY = 9  # from nine coordinates on, one kernel serves all dimensions


class Job(NamedTuple):
    """What is to be warmed: its name, and the call that compiles its kernels and returns the engine that it has."""

    what: str
    compile: Callable[[], str]


def warm(
    agents: Annotated[
        list[Path] | None, typer.Argument(help="Agent files, as klazy replay --emit writes them, or stores.")
    ] = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(help=f"One of {', '.join(LEARNERS)}; may be repeated.", show_default="common ones"),
    ] = None,
    domain: Annotated[
        list[str] | None,
        typer.Option(help=f"One of {', '.join(DOMAINS)}; may be repeated.", show_default="common ones"),
    ] = None,
    dim: Annotated[
        list[int] | None,
        typer.Option(min=1, help="A dimension; from 9 on all share one kernel.", show_default="9 and more"),
    ] = None,
    runs: Annotated[
        bool,
        typer.Option("--runs", help="For learners, also compile what klazy.run needs."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Compile kernels ahead, so that the first decision of a service is not seconds late.

    Name the files or stores of your agents, or learners, sets and dimensions. Without any of these, common ones are compiled.
    What is there already is only loaded. Other processes of this user find the kernels in the folder that klazy doctor names.

    \b
    Examples:
      klazy warm agent.json
      klazy warm decisions.db
      klazy warm --learner auto --domain simplex --dim 3 --dim 7 --runs
      klazy warm --json
    """  # fmt: skip
    from klazy.kernels.binding import cache_folder, find_obstacle, list_kernels

    jobs = list(_list_agents(agents or []))
    if not agents or learner or domain or dim:
        jobs += _list_common(learner or COMMON[0], domain or COMMON[1], dim or [MANY], runs)
    obstacle = find_obstacle()
    if obstacle is not None:
        remedy = f"{obstacle}; {CACHE_REMEDY}"
        raise refusal("warm", "a folder that keeps kernels", "folder", cache_folder(), remedy)
    done = []
    with show_progress() as bar:
        task = bar.add_task("compiling", total=len(jobs))
        for job in jobs:
            bar.update(task, description=job.what)
            done.append(_compile(job))
            bar.advance(task)
    kept = len(list_kernels(current=True))
    if as_json:
        print(json.dumps({"warmed": done, "folder": str(cache_folder()), "kernels": kept}))
    else:
        print_table(done)


def _compile(job: Job) -> dict[str, Any]:
    from klazy.kernels.binding import list_kernels

    before = set(list_kernels(current=True))
    start = perf_counter()
    engine = job.compile()
    seconds = perf_counter() - start
    new = len(set(list_kernels(current=True)) - before)
    return {"what": job.what, "engine": engine, "new_kernels": new, "seconds": round(seconds, 2)}


def _list_agents(files: list[Path]) -> Iterator[Job]:
    for file in files:
        if not file.is_file():
            remedy = "name a file that klazy replay --emit or Agent.save wrote, or a store"
            raise refusal("warm", "the file of an agent", "agent", file, remedy)
        if _is_store(file):
            yield from _list_stored(file)
        else:
            yield Job(str(file), lambda file=file: kl.Agent.load(file).engine)


def _is_store(file: Path) -> bool:
    with open(file, "rb") as opened:
        return opened.read(len(SQLITE)) == SQLITE


def _list_stored(file: Path) -> Iterator[Job]:
    """The agents of a store, one for each kind of learner that kernels play."""
    from klazy.live.store import Store

    store = Store(file, read_only=True, owner="warm")
    try:
        agents = store.list_agents()
    finally:
        store.close()
    known = set()
    for agent in agents:
        about = json.loads(agent.configuration)
        learner = kl.types.Learner.from_dict(about["learner"])
        if about["engine"] == "compiled" and learner not in known:
            known.add(learner)
            yield Job(f"{agent.name} of {file}", lambda learner=learner: kl.Agent(learner).engine)


def _list_common(learners: list[str], domains: list[str], dims: list[int], runs: bool) -> Iterator[Job]:
    for learner in learners:
        one_of(learner, "learner", "warm", tuple(LEARNERS))
    for domain in domains:
        one_of(domain, "domain", "warm", tuple(DOMAINS))
    for learner in learners:
        for domain in domains:
            for dim in dims:
                made = LEARNERS[learner](DOMAINS[domain](dim))
                yield Job(f"{learner} on {domain} of dimension {dim}", lambda made=made: _decide(made, runs))


def _decide(learner: Any, runs: bool) -> str:
    """Decide once as an agent, as a fleet and, if asked for, in a run."""
    agent = kl.Agent(learner)
    rows = np.zeros((2, learner.domain.dim))
    if runs:
        kl.run(learner, rows, record="totals")
    agent.update(rows[0])
    if agent.engine == "compiled":
        kl.Fleet(learner, 1).update(rows[:1])
    return agent.engine
