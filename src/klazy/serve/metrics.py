"""Metrics for Prometheus: the counters of this worker or, with several workers, of all together."""

import os
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from klazy.live.guards import split_guards
from klazy.live.inspection import Tally
from klazy.serve.settings import METRICS_FOLDER
from klazy.serve.worker import RoundResult
from klazy.sinks.metrics import Latest, make_families

COUNTERS = {
    "rounds": ("Rounds ended by this service.", ["agent"]),
    "repeated": ("Rounds delivered again and not played.", ["agent"]),
    "movement_paid": ("What moving has cost.", ["agent"]),
    "guards_binding": ("Rounds in which a guard acted.", ["agent", "guard"]),
    "store_went_back": ("Times that acknowledged rounds were no longer there.", ["agent"]),
    "refusals": ("Requests that were rejected.", ["route", "status"]),
}
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Counters of one worker."""

    def __init__(self) -> None:
        self._own = CollectorRegistry()
        self._counters = {
            name: Counter(f"klazy_{name}", about, labels, registry=self._own)
            for name, (about, labels) in COUNTERS.items()
        }
        # The counters of each agent's rounds and movement: to look them up takes longer than to count.
        self._of_rounds: dict[str, tuple[Counter, Counter]] = {}
        about = "How long requests took."
        self._seconds = Histogram(
            "klazy_request_seconds", about, ["route"], buckets=BUCKETS, registry=self._own
        )

    def count_round(self, agent: str, played: RoundResult) -> None:
        """Count a round that was answered."""
        if played.repeated:
            self._counters["repeated"].labels(agent).inc()
            return
        counters = self._of_rounds.get(agent)
        if counters is None:
            counters = self._of_rounds[agent] = (
                self._counters["rounds"].labels(agent),
                self._counters["movement_paid"].labels(agent),
            )
        rounds, paid = counters
        rounds.inc()
        paid.inc(played.moved)
        if played.guards:
            for guard in split_guards(played.guards):
                self._counters["guards_binding"].labels(agent, guard).inc()

    def count_loss(self, agent: str) -> None:
        """Count an agent whose acknowledged rounds are gone."""
        self._counters["store_went_back"].labels(agent).inc()

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._seconds.labels(route).observe(seconds)
        if status >= 400:
            self._counters["refusals"].labels(route, str(status)).inc()

    def write(self, latest: Latest, tallies: Sequence[Tally]) -> bytes:
        """Return all metrics in Prometheus's form; ``latest`` has the rounds of each agent, and when the last one ended."""
        registry = self._own
        if METRICS_FOLDER in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)
        agents: Any = SimpleNamespace(collect=lambda: make_families(latest, tallies))
        return generate_latest(registry) + generate_latest(agents)
