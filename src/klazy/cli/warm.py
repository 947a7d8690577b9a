"""``klazy warm``: compile kernels ahead of time."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer

import klazy as kl
from klazy.base.checks import InvalidInput, one_of
from klazy.base.install import CACHE_REMEDY
from klazy.base.progress import show_progress
from klazy.cli.terminal import Json, flag, option, print_table
from klazy.live.store import open_store

LEARNERS: dict[str, Callable[[Any], Any]] = {
    "KLazyGD": lambda domain: kl.KLazyGD(domain, 1.0, k=2),
    "GD": lambda domain: kl.GD(domain, 1.0),
    "LazyGD": lambda domain: kl.LazyGD(domain, 1.0),
    "auto": kl.auto,
}
WARMED_DOMAINS: dict[str, Callable[[int], Any]] = {
    "simplex": kl.Simplex,
    "box": lambda dim: kl.Box(np.zeros(dim), np.ones(dim)),
    "ball": kl.L2Ball,
}
COMMON = (["KLazyGD", "auto"], ["simplex", "box"])
SQLITE = b"SQLite format 3"  # the first bytes of a store
SHARED_DIM = 9  # from nine coordinates on, one kernel serves all dimensions

# A name, and the call that compiles kernels and returns the engine.
Job = tuple[str, Callable[[], str]]


def warm(
    agents: Annotated[
        list[Path] | None,
        typer.Argument(help="Agent files, as klazy replay --emit writes them, or stores."),
    ] = None,
    learner: Annotated[
        list[str] | None,
        option(f"One of {', '.join(LEARNERS)}; may be repeated.", "common ones"),
    ] = None,
    domain: Annotated[
        list[str] | None,
        option(f"One of {', '.join(WARMED_DOMAINS)}; may be repeated.", "common ones"),
    ] = None,
    dim: Annotated[
        list[int] | None,
        option("A dimension; from 9 on all share one kernel.", "9 and more", min=1),
    ] = None,
    runs: Annotated[
        bool, flag("--runs", "For learners, also compile what klazy.run needs.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compile kernels ahead of time, so that the first decision of a service is not seconds late.

    Name the files or stores of your agents, or learners, sets and dimensions. Without any of these, common ones are compiled.
    Kernels that exist are only loaded. Your other processes find them in the folder that klazy doctor shows.

    \b
    Examples:
      klazy warm agent.json
      klazy warm decisions.db
      klazy warm --learner auto --domain simplex --dim 3 --dim 7 --runs
      klazy warm --json
    """  # fmt: skip
    from klazy.kernels.binding import cache_folder, find_cache_obstacle, list_kernels

    jobs = list(_list_agents(agents or []))
    if not agents or learner or domain or dim:
        jobs += _list_common(learner or COMMON[0], domain or COMMON[1], dim or [SHARED_DIM], runs)
    obstacle = find_cache_obstacle()
    if obstacle is not None:
        raise InvalidInput(
            f"Kernels cannot be stored in {cache_folder()}: {obstacle}. S{CACHE_REMEDY[1:]}."
        )
    done = []
    with show_progress("compiling") as report_progress:
        for at, (what, compile_kernels) in enumerate(jobs):
            report_progress(at / len(jobs), what)
            before = len(list_kernels(current=True))
            start = perf_counter()
            engine = compile_kernels()
            seconds = round(perf_counter() - start, 2)
            new = len(list_kernels(current=True)) - before
            done.append({"what": what, "engine": engine, "new_kernels": new, "seconds": seconds})
    if as_json:
        count = len(list_kernels(current=True))
        print(json.dumps({"warmed": done, "folder": str(cache_folder()), "kernels": count}))
    else:
        print_table(done)


def _list_agents(files: list[Path]) -> Iterator[Job]:
    for file in files:
        if not file.is_file():
            raise InvalidInput(
                f"There is no file {file}. Name a store, or a file that `klazy replay --emit` or Agent.save wrote."
            )
        with open(file, "rb") as opened:
            is_store = opened.read(len(SQLITE)) == SQLITE
        if is_store:
            yield from _list_stored(file)
        else:
            yield str(file), lambda file=file: kl.Agent.load(file).engine


def _list_stored(file: Path) -> Iterator[Job]:
    """List the agents of a store, one for each learner with a kernel."""
    with open_store(file, read_only=True) as store:
        agents = store.list_agents()
    known = set()
    for agent in agents:
        about = json.loads(agent.configuration)
        learner = kl.types.Learner.from_dict(about["learner"])
        if about["engine"] == "compiled" and learner not in known:
            known.add(learner)
            yield f"{agent.name} of {file}", lambda learner=learner: kl.Agent(learner).engine


def _list_common(
    learners: list[str], domains: list[str], dims: list[int], runs: bool
) -> Iterator[Job]:
    for learner in learners:
        one_of(learner, "--learner", tuple(LEARNERS))
    for domain in domains:
        one_of(domain, "--domain", tuple(WARMED_DOMAINS))
    for learner, domain, dim in product(learners, domains, dims):
        made = LEARNERS[learner](WARMED_DOMAINS[domain](dim))
        yield f"{learner} on {domain} of dimension {dim}", partial(_decide, made, runs)


def _decide(learner: Any, runs: bool) -> str:
    """Decide once as an agent, as a fleet and, if ``runs``, in a run; return the engine."""
    agent = kl.Agent(learner)
    rows = np.zeros((2, learner.domain.dim))
    if runs:
        kl.run(learner, rows, record="totals")
    agent.update(rows[0])
    if agent.engine == "compiled":
        kl.Fleet(learner, 1).update(rows[:1])
    return agent.engine
