"""Decisions and costs as gauges, which Prometheus scrapes and autoscalers read."""

import time
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    disable_created_metrics,
    start_http_server,
)
from prometheus_client.core import GaugeMetricFamily

from klazy.base.checks import InvalidInput
from klazy.live.inspection import Tallies, Tally
from klazy.live.store import Store, open_store

disable_created_metrics()
Latest = Sequence[tuple[str, int, float | None]]


def look_at(store: Store, tallies: Tallies) -> tuple[Latest, list[Tally]]:
    """Return what :func:`make_families` needs of a store, all of it as it is at one moment."""
    with store.one_moment():
        return store.list_latest(), tallies.look(store)


def make_families(latest: Latest, tallies: Iterable[Tally]) -> Iterator[GaugeMetricFamily]:
    """Describe agents as Prometheus has it; ``latest`` has the rounds of each, and when the last one ended."""
    of_agent = ["agent"]
    rounds = GaugeMetricFamily(
        "klazy_agent_rounds", "Rounds that an agent has ended.", labels=of_agent
    )
    idle = GaugeMetricFamily(
        "klazy_agent_idle_seconds", "Time since an agent ended its last round.", labels=of_agent
    )
    for name, t, at in latest:
        rounds.add_metric([name], t)
        if at is not None:
            idle.add_metric([name], max(0.0, time.time() - at))
    yield from (rounds, idle)
    decision = GaugeMetricFamily(
        "klazy_decision", "What to play now.", labels=["agent", "column"]
    )
    operating = GaugeMetricFamily(
        "klazy_operating_cost", "What all rounds have cost.", labels=of_agent
    )
    switching = GaugeMetricFamily(
        "klazy_switching_cost", "What all moves have cost.", labels=of_agent
    )
    fixed = GaugeMetricFamily(
        "klazy_fixed_cost",
        "What never moving would have paid for the same rounds.",
        labels=of_agent,
    )
    frozen = GaugeMetricFamily("klazy_frozen", "1 if the decision is frozen.", labels=of_agent)
    guards = GaugeMetricFamily(
        "klazy_guard_at_work",
        "1 for each guard that acted on the last move.",
        labels=["agent", "guard"],
    )
    for tally in tallies:
        for column, value in tally.decision.items():
            decision.add_metric([tally.name, column], value)
        if tally.knows_costs:
            operating.add_metric([tally.name], tally.hitting)
            switching.add_metric([tally.name], tally.switching)
        if tally.fixed is not None:
            fixed.add_metric([tally.name], tally.fixed)
        frozen.add_metric([tally.name], tally.frozen)
        for guard in tally.guards:
            guards.add_metric([tally.name, guard], 1.0)
    yield from (decision, operating, switching, fixed, frozen, guards)


class LiveMetrics:
    """The metrics of a process that follows sources: of its agents in a store, and of its sources and sinks.

    Parameters
    ----------
    store : str
        The store.
    names : sequence of str
        The agents that it plays.
    """

    def __init__(self, store: str, names: Sequence[str]) -> None:
        self._store: Store = open_store(store, read_only=True)
        self._names = frozenset(names)
        self._tallies = Tallies(names)
        self._lock = Lock()
        self._registry = CollectorRegistry()
        registered: Any = {"registry": self._registry}
        self.source_up = Gauge(
            "klazy_source_up", "1 if the source answered last.", ["agent"], **registered
        )
        self.refused = Counter(
            "klazy_rows_refused", "Rows that were refused.", ["agent"], **registered
        )
        of_sink = ["agent", "sink"]
        self.failures = Counter(
            "klazy_sink_failures", "Attempts of a sink that failed.", of_sink, **registered
        )
        self.behind = Gauge(
            "klazy_sink_behind",
            "1 if a sink does not have the newest decision.",
            of_sink,
            **registered,
        )
        registered["registry"].register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Describe the agents, whenever Prometheus asks."""
        # Scrapes come in threads of their own.
        with self._lock:
            latest, tallies = look_at(self._store, self._tallies)
            yield from make_families([each for each in latest if each[0] in self._names], tallies)

    def serve(self, address: str) -> int:
        """Serve them at ``host:port``, or at ``:port`` of all addresses; return the port."""
        host, _, port = address.rpartition(":")
        try:
            server, _ = start_http_server(
                int(port), host.strip("[]") or "0.0.0.0", self._registry
            )
        except (ValueError, OverflowError):
            raise InvalidInput(
                f"The address for metrics must be host:port or :port, got {address}."
            ) from None
        except OSError as failed:
            reason = failed.strerror or failed
            raise InvalidInput(
                f"Metrics cannot be served at {address}: {reason}. Choose another."
            ) from None
        return server.server_port
