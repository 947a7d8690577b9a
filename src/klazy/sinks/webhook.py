"""Decisions by HTTP: each one that changed is posted, signed."""

import hashlib
import hmac
import json
import time
from dataclasses import asdict

import httpx

from klazy.base.checks import InvalidInput
from klazy.sinks.base import Decision

POST_SECONDS = 10.0
# The headers of the signature, of the time that it covers, and of the id by which a receiver knows a repeated post.
SIGNATURE_HEADER = "Klazy-Signature"
TIMESTAMP = "Klazy-Timestamp"
ROUND_ID = "Idempotency-Key"


class WebhookFailed(InvalidInput):
    """Raised when a post is answered, but not taken."""


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """Compute the signature of a post; a receiver compares it with the header ``Klazy-Signature``.

    Parameters
    ----------
    secret : str
        What sender and receiver share.
    timestamp : str
        The header ``Klazy-Timestamp``.
    body : bytes
        The body.

    Returns
    -------
    str
        HMAC-SHA256 of the timestamp, a point and the body.

    Examples
    --------
    >>> sign("secret", "1700000000", b"{}")[:20]
    'sha256=b8569b78799ff'
    """
    code = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256)
    return f"sha256={code.hexdigest()}"


class Webhook:
    """Post each decision that differs from the one before, in its values or its status.

    Parameters
    ----------
    url : str
        Where to.
    secret : str, optional
        Sign with this secret. Default: no signature.

    Raises
    ------
    ValueError
        If the URL is none.
    """

    def __init__(self, url: str, secret: str | None = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise InvalidInput(
                f"The webhook must be a URL, got {url}. Write https://example.com/decisions."
            )
        self._url = url
        self._secret = secret
        self._last: tuple[dict[str, float], str] | None = None

    def apply(self, decision: Decision) -> None:
        """Post a decision, unless the last one was the same.

        Parameters
        ----------
        decision : Decision
            The decision.

        Raises
        ------
        Exception
            If nobody answers.
        WebhookFailed
            If the answer is no success.
        """
        content = (decision.values, decision.status)
        if content == self._last:
            return
        body = json.dumps(asdict(decision)).encode()
        now = str(int(time.time()))
        name = f"{decision.agent}/{decision.round}/{decision.status}"
        headers = {"Content-Type": "application/json", TIMESTAMP: now, ROUND_ID: name}
        if self._secret is not None:
            headers[SIGNATURE_HEADER] = sign(self._secret, now, body)
        answer = httpx.post(self._url, content=body, headers=headers, timeout=POST_SECONDS)
        if not answer.is_success:
            # Paths and queries of webhooks are often secret.
            raise WebhookFailed(f"{answer.url.host} answered with status {answer.status_code}.")
        self._last = content
