"""Errors as problem details (RFC 9457), with klazy's sentences."""

import json
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from klazy.base.checks import Refused, refusal
from klazy.live.overtaken import Overtaken
from klazy.live.store import StoreFailed

MEDIA_TYPE = "application/problem+json"
SHOWN = 60  # letters of a wrong value that an answer repeats


class Problem(HTTPException):
    """A request that is answered with an error; ``more`` are further members of the answer."""

    def __init__(
        self, status: int, detail: str, *, headers: dict[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(status, detail, headers)
        self.more = more


def make_response(problem: HTTPException) -> Response:
    """The answer to a request that failed."""
    about = {
        "type": "about:blank",
        "title": HTTPStatus(problem.status_code).phrase,
        "status": problem.status_code,
        "detail": problem.detail,
    }
    if isinstance(problem, Problem):
        about |= problem.more
    return Response(
        json.dumps(about), problem.status_code, headers=dict(problem.headers or {}), media_type=MEDIA_TYPE
    )


def explain(failed: Exception) -> Problem:
    """What went wrong with a request, by the kind of exception."""
    if isinstance(failed, Problem):
        return failed
    if isinstance(failed, StoreFailed):
        return Problem(503, str(failed), headers={"Retry-After": "1"})
    if isinstance(failed, Overtaken):
        return Problem(409, str(failed))
    if isinstance(failed, Refused):
        return Problem(422, str(failed))
    return Problem(500, "The service failed; its log says why. Nothing was changed.")


def shorten(text: str) -> str:
    """The beginning of a text that an answer repeats."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def explain_invalid(errors: list[Any]) -> Problem:
    """The first thing that is wrong with a request's parts, in klazy's words."""
    first = errors[0]
    if first["type"] == "json_invalid":
        remedy = "send a JSON object, as /openapi.json describes it"
        reason = first.get("ctx", {}).get("error", first["msg"])
        return Problem(400, str(refusal("The service", "a body that is JSON", "body", reason, remedy)))
    place = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    value = shorten(repr(first.get("input")))
    wanted = first["msg"][:1].lower() + first["msg"][1:]
    remedy = "/openapi.json describes what it takes"
    return Problem(422, str(refusal("The service", f"{place} as described ({wanted})", place, value, remedy)))


def refuse_unknown(name: str) -> Problem:
    """There is no such agent."""
    remedy = "GET /agents lists them"
    return Problem(404, str(refusal("The service", "an agent that is there", "name", repr(name), remedy)))


def refuse_deleted(name: str) -> Problem:
    """There was one."""
    remedy = "an admin may restore it"
    return Problem(
        410, str(refusal("The service", "an agent that was not deleted", "name", repr(name), remedy))
    )
