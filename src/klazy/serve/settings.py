"""The settings of a service."""

from dataclasses import dataclass

from klazy.base.checks import InvalidInput

# The environment variable with the folder in which several workers store their counters.
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Settings:
    """A service and its limits.

    ``rate`` is the number of requests per second that each token may send to each worker; ``body`` the bytes of a request,
    ``body_seconds`` the time in which all of it must arrive; ``budget`` the seconds of processor time for the rounds of a
    request; ``dim``, ``numbers`` (of an agent's state) and ``agents`` limit what a store may contain; ``proxy`` has the
    addresses of proxies, separated by commas, whose headers name the caller.
    """

    store: str
    host: str = "127.0.0.1"
    port: int = 8321
    workers: int = 1
    sync: str = "always"
    insecure: bool = False
    rate: float = 5000.0
    body: int = 4 << 20
    body_seconds: float = 10.0
    header_seconds: float = 10.0
    budget: float = 30.0
    dim: int = 10_000
    numbers: int = 200_000
    agents: int = 10_000
    log_level: str = "info"
    proxy: str = ""

    def check(self) -> "Settings":
        """Return these settings, unless they would open the service to everyone."""
        if self.insecure and self.host not in LOOPBACK:
            raise InvalidInput(
                f"--insecure needs a loopback host, got {self.host}. Leave --insecure out, or use --host 127.0.0.1."
            )
        return self
