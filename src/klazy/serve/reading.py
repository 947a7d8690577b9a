"""Read agents without playing them: lists, histories, and a comparison with the best decisions in hindsight."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import numpy as np

from klazy.base.checks import Array
from klazy.costs import Costs, LinearCosts
from klazy.hindsight import best_fixed
from klazy.hindsight.offline import find_best
from klazy.hindsight.optimum import GapNotReached
from klazy.learners import Learner
from klazy.live.inspection import describe_round, format_time, read_spec, summarize
from klazy.live.records import CHANGE_NAMES, AgentRow, Row, parse_row
from klazy.live.rows import RowSpec
from klazy.live.store import Store
from klazy.serve.access import Grant
from klazy.serve.problems import Problem, refuse_unknown

# A page of agents ends after this time.
LIST_SECONDS = 2.0
Result = TypeVar("Result")


class Page(NamedTuple):
    """Some of ``total`` agents, and the name after which the next page begins, if there is one."""

    total: int
    shown: list[dict[str, Any]]
    next: str | None


class Reader:
    """A connection that only reads, with threads of its own; one of them reads at a time."""

    def __init__(self, store: Store, threads: int) -> None:
        self._store = store
        self._pool = ThreadPoolExecutor(threads, "reader")
        self._lock = Lock()
        self._busy = Lock()

    def close(self) -> None:
        """Close the store."""
        self._pool.shutdown(cancel_futures=True)
        self._store.close()

    async def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Return what ``work`` returns, in one of these threads."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    def read(self, ask: Callable[[Store], Result]) -> Result:
        """Return what ``ask`` finds in the store."""
        with self._lock:
            self._store.require_place()
            return ask(self._store)

    def read_agent(self, name: str, ask: Callable[[Store, AgentRow], Result]) -> Result:
        """Return what ``ask`` finds in the store about the agent of this name."""

        def find_and_ask(store: Store) -> Result:
            agent = store.find_agent(name)
            if agent is None:
                raise refuse_unknown(name)
            return ask(store, agent)

        return self.read(find_and_ask)

    def read_configurations(self, names: list[str]) -> set[str]:
        """Return the configurations of agents; many are alike."""
        found = self.read(lambda store: store.find_agents(names))
        for name in names:
            if name not in found:
                raise refuse_unknown(name)
        return {agent.configuration for agent in found.values()}

    def summarize(self, name: str) -> dict[str, Any]:
        """Return an agent in a few plain values."""
        return self.read_agent(name, summarize)

    def read_names(self, name: str, dim: int) -> list[str]:
        """Return the names of an agent's coordinates; its learner need not be known here."""
        about = json.loads(self.read_agent(name, lambda _, agent: agent.configuration))
        names = about.get("names") or about.get("columns")
        return names or [f"x{i + 1}" for i in range(dim)]

    def read_spec(self, name: str) -> tuple[Learner[Any], RowSpec]:
        """Return an agent's learner, and the costs and the names of its rows."""
        return read_spec(self.read_agent(name, lambda _, agent: agent.configuration))

    def list_page(
        self, grant: Grant, after: str, limit: int, describe: Callable[[str], dict[str, Any]]
    ) -> Page:
        """Describe a page of the agents that the holder of a token may see, by name."""
        names = self.find_names(grant)
        later = [name for name in names if name > after]
        shown: list[dict[str, Any]] = []
        until = monotonic() + LIST_SECONDS
        for name in later[:limit]:
            shown.append(describe(name))
            if monotonic() > until:
                break
        following = later[len(shown) - 1] if len(later) > len(shown) else None
        return Page(len(names), shown, following)

    def find_names(self, grant: Grant, search: str = "", order: str = "name") -> list[str]:
        """Return the names of the agents that the holder of a token may see, in an order of the page of all agents."""
        wanted = search.casefold()
        found = [
            (name, t, at)
            for name, t, at in self.read(lambda store: store.list_latest())
            if wanted in name.casefold() and grant.allows("reader", name)
        ]
        found.sort()
        if order == "rounds":
            found.sort(key=lambda agent: -agent[1])
        elif order != "name":
            found.sort(key=lambda agent: agent[2] or 0.0, reverse=order == "latest")
        return [name for name, _, _ in found]

    def read_rounds(self, name: str, last: int) -> list[Row]:
        """Return the last rounds, the oldest first, or fewer if they are large; freezes and other changes are left out."""
        return self._read_page(name, last, None)[0][-last:]

    def describe_page(self, name: str, last: int, before: int | None) -> dict[str, Any]:
        """Return the last rounds before round ``before`` as JSON values, and how to ask for those before them."""
        rows, has_more = self._read_page(name, last, before)
        return {
            "rounds": [describe_row(row) for row in rows],
            "before": rows[0].t if has_more else None,
        }

    def _read_page(self, name: str, last: int, before: int | None) -> tuple[list[Row], bool]:
        return self.read_agent(
            name, lambda store, agent: store.read_rounds(agent.id, last, before)
        )

    def read_changes(self, name: str, last: int) -> list[dict[str, Any]]:
        """Return the latest freezes, deletes and other changes, the latest first."""
        changes = []
        for row in self.read_agent(name, lambda store, agent: store.find_changes(agent.id, last)):
            kind = CHANGE_NAMES.get(row.kind, "")
            changes.append(
                {"t": row.t, "time": format_time(row.at), "change": kind, "note": row.note or ""}
            )
        return changes

    def compare(self, name: str, last: int, with_optimum: bool) -> dict[str, Any]:
        """Compare the last rounds with the best fixed point and, on request, with the certified optimum."""
        rounds = self.read_rounds(name, last)
        learner, spec = self.read_spec(name)
        if with_optimum and not self._busy.acquire(blocking=False):
            detail = "The service is computing another optimum. Try again in a moment."
            raise Problem(503, detail, headers={"Retry-After": "2"})
        try:
            return _compare(learner, spec, rounds, with_optimum)
        finally:
            if with_optimum:
                self._busy.release()


def _compare(
    learner: Any, spec: RowSpec, rounds: list[Row], with_optimum: bool
) -> dict[str, Any]:
    cost = np.cumsum([row.hitting + row.switching for row in rounds])
    t = [row.t for row in rounds]
    found: dict[str, Any] = {"t": t, "cost": cost.tolist(), "fixed": None, "optimum": None}
    if not rounds:
        return found
    costs = _gather_costs(spec, rounds, learner.domain.dim)
    movement: Any = spec.movement or learner.own_movement
    # An exact best fixed point is found at once.
    if with_optimum or (costs.family is not None and costs.family.is_exact):
        try:
            best = best_fixed(costs, learner.domain, gap=1e-3)
        except GapNotReached as failed:
            raise Problem(503, str(failed)) from None
        path = np.tile(best.x, (len(rounds), 1))
        paid = costs.values(path)
        # A row may carry the point away, and coming back is charged.
        if costs.family is not None:
            stand = costs.family.drift(costs.arrays()[0], path)
            paid = paid + movement.weight * movement.distance(path - stand)
        found["fixed"] = {"x": best.x.tolist(), "cost": np.cumsum(paid).tolist()}
    if with_optimum:
        optimum = find_best(costs, learner.domain, movement, gap=1e-3)
        found["optimum"] = {
            "cost": optimum.cost,
            "lower_bound": optimum.lower_bound,
            "gap": optimum.gap,
        }
    return found


def _gather_costs(spec: RowSpec, rounds: list[Row], dim: int) -> Costs:
    """Return the costs of the rounds: from their rows, or else from their gradients."""
    if spec.costs is None or any(row.row is None for row in rounds):
        return LinearCosts(np.array([_read_gradient(row, dim) for row in rounds]))
    return spec.costs.costs([spec.scale(parse_row(row.row or "")) for row in rounds])


def _read_gradient(row: Row, dim: int) -> Array:
    """Return the gradient of a round; one without feedback costs nothing."""
    return np.frombuffer(row.numbers, "<f8")[:dim] if row.numbers else np.zeros(dim)


def describe_row(row: Row) -> dict[str, Any]:
    """Return a round as JSON values."""
    about = describe_round(row)
    about["time"] = format_time(row.at)
    about["row"] = None if row.row is None else json.loads(row.row)
    return about
