"""The settings of a service."""

from dataclasses import dataclass, field
from typing import Any

from klazy.base.checks import InvalidInput

# The environment variable with the folder in which several workers store their counters.
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
LOG_LEVELS = ("debug", "info", "warning", "error")


def _set(default: Any, help: str, **more: Any) -> Any:
    """Make a field with what the help of its option says, and its bounds."""
    return field(default=default, metadata={"help": help, **more})


@dataclass(frozen=True)
class Settings:
    """A service and its limits. Each field is an option of ``klazy serve``, described by the field's metadata."""

    store: str = _set("decisions.db", "An SQLite file, or a postgresql:// URL.")
    host: str = _set("127.0.0.1", "The address to listen on.")
    port: int = _set(8321, "The port to listen on; 0 for any free one.", min=0, max=65535)
    workers: int = _set(1, "Number of processes that serve.", min=1, max=64)
    sync: str = _set(
        "always",
        "always: a round survives a power loss. batch: it survives a kill, and is faster.",
    )
    insecure: bool = _set(False, "Ask for no tokens; on a loopback address only.")
    rate: float = _set(5000.0, "Maximum requests per second, per token and worker.", min=1.0)
    body: int = _set(4 << 20, "Maximum bytes in a request.", min=1000)
    dim: int = _set(10_000, "Maximum coordinates of an agent.", min=1)
    numbers: int = _set(
        200_000, "Maximum numbers in an agent's state: windows times coordinates.", min=1
    )
    agents: int = _set(10_000, "Maximum agents in the store.", min=1)
    patience: float = _set(10.0, "Seconds until a request must be complete.", min=0.1)
    budget: float = _set(
        30.0, "Maximum seconds of processor time for the rounds of a request.", min=0.1
    )
    proxy: str = _set(
        "",
        "Addresses of proxies, separated by commas, whose X-Forwarded headers say who asks.",
        envvar="FORWARDED_ALLOW_IPS",
        show_default="none",
    )
    log_level: str = _set("info", "debug, info, warning or error.")

    def __post_init__(self) -> None:
        """Reject settings that would open the service to everyone, and unknown levels."""
        if self.log_level not in LOG_LEVELS:
            raise InvalidInput(
                f"--log-level must be debug, info, warning or error, got {self.log_level}."
            )
        if self.insecure and self.host not in LOOPBACK:
            raise InvalidInput(
                f"--insecure needs a loopback host, got {self.host}. Leave --insecure out, or use --host 127.0.0.1."
            )
