"""Errors as problem details (RFC 9457): a status, and a sentence that speaks of the request's fields."""

import json
import re
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from klazy.base.checks import InvalidInput
from klazy.live.state import Overtaken
from klazy.live.store import StoreFailed
from klazy.serve.schemas import UNKNOWN_FIELD

MEDIA_TYPE = "application/problem+json"
# Letters of a wrong value that an answer repeats.
VALUE_LETTERS = 60
# Pydantic's words for what is wrong with a field, where its own do not follow the field's name.
FIELD_RULES = {
    "missing": "is required",
    "float_type": "must be a number",
    "int_type": "must be an integer",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_attributes_type": "must be an object",
    "model_type": "must be an object",
}
# The status of an error of klazy's, the first one that fits.
ERROR_STATUSES = {StoreFailed: 503, Overtaken: 409, InvalidInput: 422}
# When to send a request again that may succeed then.
SOON = {"Retry-After": "1"}


class Problem(HTTPException):
    """A request that is answered with an error; ``more`` are further members of the answer."""

    def __init__(
        self, status: int, detail: str, *, headers: dict[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(status, detail, headers)
        self.more = more


def make_response(problem: Problem) -> Response:
    """Return the answer to a request that failed."""
    status = problem.status_code
    members = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": problem.detail,
        **problem.more,
    }
    return Response(
        json.dumps(members), status, headers=dict(problem.headers or {}), media_type=MEDIA_TYPE
    )


def explain_failure(failed: Exception) -> Problem:
    """Return the problem that an exception is answered with."""
    if isinstance(failed, Problem):
        return failed
    if isinstance(failed, RequestValidationError):
        return explain_invalid(list(failed.errors()))
    for kind, status in ERROR_STATUSES.items():
        if isinstance(failed, kind):
            return Problem(status, str(failed), headers=SOON if status == 503 else None)
    return Problem(500, "The service failed; its log says why. Nothing was changed.")


def explain_invalid(errors: list[Any]) -> Problem:
    """Return what is wrong with the fields of a request; of several errors, the one deepest within it."""
    error = max(errors, key=lambda error: len(error["loc"]))
    if error["type"] == "json_invalid":
        reason = error.get("ctx", {}).get("error", error["msg"])
        return Problem(
            400, f"The body must be a JSON object, got {reason}. /openapi.json describes it."
        )
    if error["type"] == UNKNOWN_FIELD:
        place = ".".join(str(part) for part in error["loc"][1:])
        inside = f"{place}: " if place else ""
        return Problem(422, f"{inside}{error['msg']}. /openapi.json describes them.")
    field = _name_field(error["loc"])
    rule = FIELD_RULES.get(error["type"], re.sub(r"^\w+ should", "must", error["msg"]))
    if error["type"] != "missing":
        rule += f", got {shorten_value(json.dumps(error.get('input'), default=repr))}"
    return Problem(422, f"{field} {rule}. /openapi.json describes the fields.")


def _name_field(loc: tuple[str | int, ...]) -> str:
    """Return where a value is, such as ``row.servers``, without the names of the types that Pydantic tried."""
    parts = [str(part) for part in loc[1:] if "[" not in str(part)]
    if parts[1:] and parts[-1] in ("str", "int"):
        parts.pop()
    return ".".join(parts) or str(loc[0])


def shorten_value(text: str) -> str:
    """Return the beginning of a text that an answer repeats."""
    return text if len(text) <= VALUE_LETTERS else f"{text[:VALUE_LETTERS]}..."


def refuse_unknown(name: str) -> Problem:
    """Return the answer to a request for an agent that does not exist."""
    return Problem(404, f"No agent named {name!r}. GET /agents lists the existing ones.")


def refuse_deleted(name: str) -> Problem:
    """Return the answer to a request for an agent that was deleted."""
    return Problem(410, f"The agent {name!r} was deleted. An admin can restore it.")
