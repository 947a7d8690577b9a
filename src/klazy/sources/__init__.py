"""Where rows come from, when not from a file: systems that are asked for what is new."""

from klazy.base.spans import parse_span
from klazy.sources.base import (
    RowSource,
    SourceAway,
    TimedRow,
    follow,
    open_installed_source,
    read_frame,
)
from klazy.sources.prometheus import Prometheus

__all__ = [
    "Prometheus",
    "RowSource",
    "SourceAway",
    "TimedRow",
    "follow",
    "open_installed_source",
    "parse_span",
    "read_frame",
]
