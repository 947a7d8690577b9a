"""The options that say where decisions go, as ``klazy live`` has them."""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from klazy.base.checks import InvalidInput
from klazy.base.install import make_missing
from klazy.cli.terminal import option, say
from klazy.live.agent import Agent

if TYPE_CHECKING:
    from klazy.sinks import Sink
    from klazy.sinks.metrics import LiveMetrics

Text = str | None
OUTLET_OPTIONS: dict[str, Any] = {
    "metrics": Annotated[
        Text,
        option("Serve metrics for Prometheus at this HOST:PORT, or at :PORT of all addresses."),
    ],
    "haproxy": Annotated[
        Text, option("Set weights of this HAProxy: the path of its socket, or HOST:PORT.")
    ],
    "backend": Annotated[Text, option("The backend whose servers are the columns.")],
    "webhook": Annotated[Text, option("Post each changed decision to this URL.")],
    "webhook_secret": Annotated[
        Text, option("Sign posts with this secret.", envvar="KLAZY_WEBHOOK_SECRET")
    ],
    "sink": Annotated[
        list[str] | None, option("A sink of another package, as NAME:TEXT. May be repeated.")
    ],
}


class Outlets:
    """Where the decisions of one agent go: sinks, and metrics of which it is one agent among several."""

    def __init__(
        self, name: str, sinks: "Mapping[str, Sink]", metrics: "LiveMetrics | None" = None
    ) -> None:
        self._name = name
        self._metrics = metrics
        self._failing: set[str] = set()
        self._deliveries: dict[str, Any] = {}
        if metrics is not None:
            metrics.source_up.labels(name).set(1)
            metrics.refused.labels(name)
        if sinks:
            from klazy.sinks import Delivery

            for sink, opened in sinks.items():
                self._deliveries[sink] = Delivery(opened, partial(self._note, sink))
                if metrics is not None:
                    metrics.failures.labels(name, sink)

    def give(self, agent: Agent, id: str, *, is_away: bool = False) -> None:
        """Give all sinks the present decision of the agent."""
        if self._metrics is not None:
            self._metrics.source_up.labels(self._name).set(not is_away)
        if not self._deliveries:
            return
        from klazy.sinks import Decision

        acted = agent.acted
        status = "following"
        if is_away:
            status = "away"
        elif "frozen" in acted:
            status = "frozen"
        elif acted:
            status = "held"
        decision = Decision(self._name, agent.t, id, agent.decision, status, acted)
        for sink, delivery in self._deliveries.items():
            delivery.give(decision)
            if self._metrics is not None:
                self._metrics.behind.labels(self._name, sink).set(delivery.is_behind)

    def refuse(self) -> None:
        """Count a row that was refused."""
        if self._metrics is not None:
            self._metrics.refused.labels(self._name).inc()

    def close(self) -> None:
        """Try once more what sinks do not have, and end."""
        for delivery in self._deliveries.values():
            delivery.close()

    def _note(self, sink: str, failed: Exception | None) -> None:
        """Report when a sink begins to fail and when it works again, and count."""
        if self._metrics is not None:
            if failed is not None:
                self._metrics.failures.labels(self._name, sink).inc()
            self._metrics.behind.labels(self._name, sink).set(failed is not None)
        if failed is not None and sink not in self._failing:
            self._failing.add(sink)
            reason = str(failed) or type(failed).__name__
            say(
                f"{self._name}: {sink} failed, and is tried again with the newest decision: {reason}",
                file=sys.stderr,
            )
        elif failed is None and sink in self._failing:
            self._failing.discard(sink)
            say(f"{self._name}: {sink} has the newest decision again.", file=sys.stderr)


def open_sinks(given: Mapping[str, Any]) -> "dict[str, Sink]":
    """Open the sinks that options name, each under its name."""
    if (given["haproxy"] is None) != (given["backend"] is None):
        raise InvalidInput(
            "--haproxy and --backend go together. Write --haproxy /run/haproxy.sock --backend web."
        )
    sinks: dict[str, Sink] = {}
    if not (given["haproxy"] or given["webhook"] or given["sink"]):
        return sinks
    try:
        from klazy.sinks import HAProxy, Webhook, open_installed_sink
    except ModuleNotFoundError as missing:
        raise make_missing("A sink", missing.name, "cli,serve") from missing
    if given["haproxy"] is not None:
        sinks["haproxy"] = HAProxy(given["haproxy"], given["backend"])
    if given["webhook"] is not None:
        sinks["webhook"] = Webhook(given["webhook"], given["webhook_secret"])
    for text in given["sink"] or ():
        sinks[text.partition(":")[0]] = open_installed_sink(text)
    return sinks


def open_metrics(
    address: str | None, store: str | Path | None, names: list[str]
) -> "LiveMetrics | None":
    """Serve the metrics of these agents, if that is asked for; their store must be there."""
    if address is None:
        return None
    if store is None:
        raise InvalidInput(
            "--metrics needs a store, so that costs survive a restart. Add --state decisions.db."
        )
    try:
        from klazy.sinks.metrics import LiveMetrics
    except ModuleNotFoundError as missing:
        raise make_missing("--metrics", missing.name, "cli,serve") from missing
    metrics = LiveMetrics(str(store), names)
    port = metrics.serve(address)
    say(f"Metrics at port {port}.", file=sys.stderr)
    return metrics
