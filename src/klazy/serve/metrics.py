"""What Prometheus is told. Counters are this worker's or, with several workers, those of all together."""

import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector

from klazy.serve.desk import Played

SHARED = "PROMETHEUS_MULTIPROC_DIR"  # the folder in which several workers keep their counters
disable_created_metrics()
Latest = list[tuple[str, int, float | None]]


class _Agents:
    """What the store says of each agent when it is asked."""

    def __init__(self, latest: Latest) -> None:
        self._latest = latest

    def collect(self) -> Iterable[Metric]:
        rounds = GaugeMetricFamily("klazy_agent_rounds", "Rounds that an agent has ended.", labels=["agent"])
        since = GaugeMetricFamily(
            "klazy_agent_idle_seconds", "Time since an agent ended its last round.", labels=["agent"]
        )
        now = time.time()
        for name, t, at in self._latest:
            rounds.add_metric([name], t)
            if at is not None:
                since.add_metric([name], max(0.0, now - at))
        return rounds, since


class Metrics:
    """Counters of one worker."""

    def __init__(self) -> None:
        self._own = CollectorRegistry()
        self._children: dict[str, tuple[Any, Any]] = {}  # counters of agents, which take long to find
        kind: dict[str, Any] = {"registry": self._own}
        self._rounds = Counter("klazy_rounds", "Rounds ended by this service.", ["agent"], **kind)
        self._repeated = Counter("klazy_repeated", "Rounds delivered again and not taken.", ["agent"], **kind)
        self._moved = Counter("klazy_movement_paid", "What moving has cost.", ["agent"], **kind)
        self._guards = Counter(
            "klazy_guards_binding", "Rounds in which a guard acted.", ["agent", "guard"], **kind
        )
        self._lost = Counter(
            "klazy_store_went_back", "Times that acknowledged rounds were no longer there.", ["agent"], **kind
        )
        self._refused = Counter("klazy_refusals", "Requests that were refused.", ["route", "status"], **kind)
        self._seconds = Histogram(
            "klazy_request_seconds",
            "How long requests took.",
            ["route"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0),
            **kind,
        )

    def count_round(self, agent: str, played: Played) -> None:
        """Count a round that was answered."""
        if played.repeated:
            self._repeated.labels(agent).inc()
            return
        known = self._children.get(agent)
        if known is None:
            known = self._children[agent] = (self._rounds.labels(agent), self._moved.labels(agent))
        rounds, moved = known
        rounds.inc()
        moved.inc(played.moved)
        if not played.guards:
            return
        for guard in played.guards.split(", "):
            if guard:
                self._guards.labels(agent, guard).inc()

    def count_loss(self, agent: str) -> None:
        """Count an agent whose acknowledged rounds are gone."""
        self._lost.labels(agent).inc()

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._seconds.labels(route).observe(seconds)
        if status >= 400:
            self._refused.labels(route, str(status)).inc()

    def write(self, read_latest: Callable[[], Latest]) -> bytes:
        """All of it in Prometheus's form."""
        registry = self._own
        if SHARED in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)
        agents: Any = CollectorRegistry()
        agents.register(_Agents(read_latest()))
        return generate_latest(registry) + generate_latest(agents)
