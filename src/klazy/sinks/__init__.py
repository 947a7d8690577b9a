"""Where decisions go: into systems that act on them, and into Prometheus."""

from klazy.sinks.base import STATUSES, Decision, Delivery, Sink, open_installed_sink
from klazy.sinks.haproxy import HAProxy
from klazy.sinks.webhook import Webhook, sign

__all__ = [
    "STATUSES",
    "Decision",
    "Delivery",
    "HAProxy",
    "Sink",
    "Webhook",
    "open_installed_sink",
    "sign",
]
