"""What a service is told when it starts."""

from dataclasses import dataclass

from klazy.base.checks import refusal

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Settings:
    """A service and its limits.

    ``rate`` is how many requests a second each token may send to each worker; ``body`` the bytes of a request, ``body_seconds``
    the time in which all of it must have come; ``budget`` the seconds of processor time that its rounds may take; ``dim``,
    ``numbers`` (of an agent's state) and ``agents`` what a store of this service may hold; ``proxy`` addresses of proxies,
    separated by commas, that say who asks.
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
        """These settings, unless they would open the service to everyone."""
        if self.insecure and self.host not in LOOPBACK:
            remedy = "leave --insecure out, or use --host 127.0.0.1"
            raise refusal("serve", "a loopback host without tokens", "host", self.host, remedy)
        return self
