"""What is read of agents without playing: lists, histories, and how they did beside what would have been best."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from klazy.base.checks import Array
from klazy.costs import Costs, LinearCosts
from klazy.hindsight import best_fixed
from klazy.hindsight.offline import find_best
from klazy.hindsight.optimum import GapNotReached
from klazy.learners import Learner
from klazy.live.history import describe_round
from klazy.live.overview import summarize
from klazy.live.records import DELETE, FREEZE, GUARDS, RESTORE, RESUME, Row
from klazy.live.rows import Terms
from klazy.live.store import Listed, Store
from klazy.serve.problems import Problem, refuse_unknown

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Result = TypeVar("Result")
CHANGES = {FREEZE: "freeze", RESUME: "resume", GUARDS: "guards", DELETE: "delete", RESTORE: "restore"}


class Reader:
    """A way into the store for reading alone, with threads of its own; one of them reads at a time."""

    def __init__(self, store: Store, threads: int) -> None:
        self._store = store
        self._pool = ThreadPoolExecutor(threads, "reader")
        self._lock = Lock()
        self._busy = Lock()

    def close(self) -> None:
        """Let go of the store."""
        self._pool.shutdown(cancel_futures=True)
        self._store.close()

    async def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """What ``work`` returns, in one of these threads."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    def read(self, ask: Callable[[Store], Result]) -> Result:
        """What ``ask`` finds in the store."""
        with self._lock:
            self._store.require_place()
            return ask(self._store)

    def find(self, name: str) -> Listed:
        """The agent of this name."""
        found = self.read(lambda store: store.find_agent(name))
        if found is None:
            raise refuse_unknown(name)
        return found

    def read_configurations(self, names: list[str]) -> set[str]:
        """How agents are configured; many are alike."""
        found = self.read(lambda store: store.find_agents(names))
        for name in names:
            if name not in found:
                raise refuse_unknown(name)
        return {agent.configuration for agent in found.values()}

    def summarize(self, name: str) -> dict[str, Any]:
        """An agent in a few plain values."""
        agent = self.find(name)
        return self.read(lambda store: summarize(store, agent))

    def read_terms(self, agent: Listed) -> Terms:
        """What the agent's rounds cost, and how they are named."""
        about = json.loads(agent.configuration)
        return Terms.rebuild(Learner.from_dict(about["learner"]), about)

    def list_names(self) -> list[str]:
        """All agents by name."""
        return sorted(agent.name for agent in self.read(lambda store: store.list_agents()))

    def read_rounds(self, name: str, last: int) -> list[Row]:
        """The last rounds, the oldest first, or fewer if they are large; freezes and other changes are left out."""
        return self._read_page(name, last, None)[0][-last:]

    def describe_page(self, name: str, last: int, before: int | None) -> dict[str, Any]:
        """The last rounds before round ``before`` as JSON values, and what to ask for those before them."""
        rows, has_more = self._read_page(name, last, before)
        return {"rounds": [describe(row) for row in rows], "before": rows[0].t if has_more else None}

    def _read_page(self, name: str, last: int, before: int | None) -> tuple[list[Row], bool]:
        agent = self.find(name)
        return self.read(lambda store: store.read_rounds(agent.id, last, before))

    def read_changes(self, name: str, last: int) -> list[dict[str, Any]]:
        """The latest changes that were no rounds, the latest first."""
        agent = self.find(name)
        rows = self.read(lambda store: store.find_changes(agent.id, last))
        return [
            {
                "t": row.t,
                "time": spell_time(row.at),
                "change": CHANGES.get(row.kind, ""),
                "note": row.note or "",
            }
            for row in rows
        ]

    def compare(self, name: str, last: int, with_optimum: bool) -> dict[str, Any]:
        """What the last rounds cost beside the best fixed point of each moment, and beside the certified optimum on request."""
        agent = self.find(name)
        rounds = self.read_rounds(name, last)
        if with_optimum and not self._busy.acquire(blocking=False):
            said = "The service works out one optimum at a time, got another one under way; try again in a moment."
            raise Problem(503, said, headers={"Retry-After": "2"})
        try:
            return _compare(json.loads(agent.configuration), rounds, with_optimum)
        finally:
            if with_optimum:
                self._busy.release()


def _compare(configuration: dict[str, Any], rounds: list[Row], with_optimum: bool) -> dict[str, Any]:
    cost = np.cumsum([row.hitting + row.switching for row in rounds])
    found: dict[str, Any] = {
        "t": [row.t for row in rounds],
        "cost": cost.tolist(),
        "fixed": None,
        "optimum": None,
    }
    if not rounds:
        return found
    learner: Any = Learner.from_dict(configuration["learner"])
    terms = Terms.rebuild(learner, configuration)
    costs = _gather_costs(terms, rounds, learner.domain.dim)
    movement: Any = terms.movement or learner.own_movement
    if with_optimum or (costs.family is not None and costs.family.is_exact):  # found at once
        try:
            best = best_fixed(costs, learner.domain, gap=1e-3)
        except GapNotReached as failed:
            raise Problem(503, str(failed)) from None
        path = np.tile(best.x, (len(rounds), 1))
        paid = costs.values(path)
        if costs.family is not None:  # A row may carry the point away, and coming back is charged.
            stand = costs.family.drift(costs.arrays()[0], path)
            paid = paid + movement.weight * movement.distance(path - stand)
        found["fixed"] = {"x": best.x.tolist(), "cost": np.cumsum(paid).tolist()}
    if with_optimum:
        optimum = find_best(costs, learner.domain, movement, gap=1e-3)
        found["optimum"] = {"cost": optimum.cost, "lower_bound": optimum.lower_bound, "gap": optimum.gap}
    return found


def _gather_costs(terms: Terms, rounds: list[Row], dim: int) -> Costs:
    """What the rounds would have cost elsewhere: by their rows, or else by their gradients."""
    if terms.costs is None or any(row.row is None for row in rounds):
        return LinearCosts(np.array([_read_gradient(row, dim) for row in rounds]))
    return terms.costs.costs([terms.parse(row.row or "") for row in rounds])


def _read_gradient(row: Row, dim: int) -> Array:
    """What a round was told; one that was told nothing costs nothing."""
    return np.frombuffer(row.numbers, "<f8")[:dim] if row.numbers else np.zeros(dim)


def describe(row: Row) -> dict[str, Any]:
    """A round as JSON values."""
    about = describe_round(row)
    about["time"] = None if row.at is None else spell_time(row.at)
    about["row"] = None if row.row is None else json.loads(row.row)
    return about


def spell_time(at: float | None) -> str | None:
    """Seconds since 1970 as a time, to the microsecond."""
    if at is None:
        return None
    return (EPOCH + timedelta(microseconds=round(at * 1e6))).isoformat(timespec="microseconds")
