"""Decisions as weights of the servers of an HAProxy, by its runtime API."""

import re
import socket
from collections.abc import Mapping
from contextlib import closing

from klazy.base.checks import InvalidInput
from klazy.sinks.base import Decision

# The largest weight that HAProxy takes.
LARGEST_WEIGHT = 256
TIMEOUT_SECONDS = 5.0
_NAME = re.compile(r"[\w.:-]+")


class HAProxyFailed(InvalidInput):
    """Raised when HAProxy does not do as it was asked."""


class HAProxy:
    """Weigh the servers of a backend as an agent decides; its columns are the names of the servers.

    The largest share gets weight 256, the others in proportion. ``get var proc.klazy_BACKEND`` says the status of the decision.

    Parameters
    ----------
    address : str
        Its runtime API: the path of a socket, or ``"host:port"``.
    backend : str
        The backend.

    Raises
    ------
    ValueError
        If the backend has a name that HAProxy does not allow.
    """

    def __init__(self, address: str, backend: str) -> None:
        if _NAME.fullmatch(backend) is None:
            raise InvalidInput(f"backend must be the name of a backend, got {backend!r}.")
        self._address = address
        self._backend = backend

    def apply(self, decision: Decision) -> None:
        """Set the weights, and check that HAProxy has them.

        Parameters
        ----------
        decision : Decision
            The decision.

        Raises
        ------
        HAProxyFailed
            If a server is not there, or HAProxy does not answer.
        """
        for name, weight in find_weights(decision.values).items():
            server = f"{self._backend}/{name}"
            answer = self._ask(f"set weight {server} {weight}")
            if answer:
                raise HAProxyFailed(f"HAProxy did not take weight {weight} of {server}: {answer}")
        # A note for people, which older versions do not take.
        variable = re.sub(r"\W", "_", f"klazy_{self._backend}")
        self._ask(f"experimental-mode on; set var proc.{variable} str({decision.status})")

    def _ask(self, command: str) -> str:
        """Return the answer to a command, which is empty where all is well."""
        try:
            with closing(self._connect()) as connection:
                connection.sendall(f"{command}\n".encode())
                parts = []
                while part := connection.recv(1 << 16):
                    parts.append(part)
        except OSError as failed:
            reason = failed.strerror or failed
            raise HAProxyFailed(
                f"HAProxy at {self._address} does not answer: {reason}."
            ) from None
        return b"".join(parts).decode(errors="replace").strip()

    def _connect(self) -> socket.socket:
        host, _, port = self._address.rpartition(":")
        if host and port.isdigit():
            return socket.create_connection((host, int(port)), TIMEOUT_SECONDS)
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(TIMEOUT_SECONDS)
        try:
            connection.connect(self._address)
        except OSError:
            connection.close()
            raise
        return connection


def find_weights(values: Mapping[str, float]) -> dict[str, int]:
    """Compute the weights of servers by their shares.

    >>> find_weights({"a": 0.5, "b": 0.25, "c": 0.0})
    {'a': 256, 'b': 128, 'c': 0}
    """
    largest = max(values.values())
    if min(values.values()) < 0.0 or largest <= 0.0:
        raise HAProxyFailed(
            f"Weights need shares that are not negative, and one above zero, got {dict(values)}."
        )
    for name in values:
        if _NAME.fullmatch(name) is None:
            raise HAProxyFailed(f"A column must have the name of a server, got {name!r}.")
    return {name: round(LARGEST_WEIGHT * share / largest) for name, share in values.items()}
