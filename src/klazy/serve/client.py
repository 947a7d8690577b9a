"""Agents of a service: the methods of :class:`~klazy.Agent`, over HTTP."""

from __future__ import annotations

import json
import math
import random
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import httpx
import numpy as np
from numpy.typing import ArrayLike

from klazy.base.cells import is_missing
from klazy.base.checks import Array, InvalidInput, real_array, vector
from klazy.families import Family
from klazy.learners import Learner
from klazy.live.agent import Controls
from klazy.live.explain import Explanation
from klazy.live.guards import Guards
from klazy.live.inspection import make_frame, parse_time
from klazy.live.records import CHANGE_NAMES, DELETE
from klazy.live.rows import NextLimits
from klazy.live.state import Overtaken
from klazy.movement import Movement
from klazy.serve.creating import check_path_name

if TYPE_CHECKING:
    import polars

# After these answers the same request may succeed.
RETRIED = (408, 429, 502, 503, 504)
# Rounds of a history in one request.
PAGE = 1000
# The field of a round with the limits of the next decision.
LIMITS = "next_limits"
Id = str | int | None


class Client:
    """Talk to a service that ``klazy serve`` runs.

    Every round has an id, a random one if you give none, so that a request whose answer was lost is sent again without
    being played twice.

    Parameters
    ----------
    url : str
        Where the service is: ``"https://decisions.example.com"``.
    token : str, optional
        What ``klazy tokens add`` printed.
    timeout : float, optional
        Seconds to wait for an answer. Default: 30.
    retries : int, optional
        How often a request is sent again after a failure that may pass. Default: 5.

    Raises
    ------
    ValueError
        If the service rejects a request; nothing has changed then.
    PermissionError
        If the token is wrong, or not enough.
    ConnectionError
        If the service does not answer, or not well, after all retries.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8321", token="klazy_...")
    >>> client
    Client('http://127.0.0.1:8321')
    """

    def __init__(
        self, url: str, token: str | None = None, *, timeout: float = 30.0, retries: int = 5
    ) -> None:
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise InvalidInput(f"url must be like 'http://127.0.0.1:8321', got {url!r}.")
        self.url = url.rstrip("/")
        self._retries = retries
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout)

    def agent(
        self,
        name: str,
        learner: Learner[Any] | str | Path | None = None,
        *,
        costs: Family | None = None,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        movement: Movement | str | None = None,
        guards: Guards | None = None,
        fill: str | None = None,
        per: float | Sequence[float] | None = None,
        lead: int | None = None,
        delay: int | None = None,
        forecast: str | Sequence[str] | None = None,
        engine: str = "auto",
    ) -> RemoteAgent:
        """Get an agent of the service; with a learner, create it if it does not exist.

        Parameters
        ----------
        name : str
            Which agent.
        learner : Learner, str or Path, optional
            For a new agent: its learner, or the file that :meth:`Agent.save` or ``klazy replay --emit`` wrote.
        costs, columns, movement, guards, fill, per, lead, delay, forecast, engine : optional
            As in :class:`~klazy.Agent`, for a new agent.

        Returns
        -------
        RemoteAgent
            It has the methods of an :class:`~klazy.Agent`.
        """
        remote = RemoteAgent(self, name)
        if isinstance(learner, str | Path):
            self.ask("PUT", remote.place, json.loads(Path(learner).read_bytes()))
        elif learner is not None:
            about = {"learner": learner, "costs": costs, "movement": movement, "guards": guards}
            about |= {
                "columns": columns,
                "engine": engine,
                "fill": fill,
                "lead": lead,
                "delay": delay,
            }
            about["per"] = None if per is None else np.asarray(per).tolist()
            about["forecast"] = None if forecast is None else np.atleast_1d(forecast).tolist()
            self.ask("PUT", remote.place, about)
        return remote

    def agents(self) -> list[dict[str, Any]]:
        """List all agents that the token may see.

        Returns
        -------
        list of dict
            For each its name, learner, rounds, what they cost, and so on.
        """
        page = self.ask("GET", "/agents")
        found = page["agents"]
        while page["next"] is not None:
            page = self.ask("GET", f"/agents?after={quote(page['next'], safe='')}")
            found += page["agents"]
        return found

    def update_many(self, rounds: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """End rounds of many agents in one request: all of them or, if one is rejected, none.

        Parameters
        ----------
        rounds : iterable of dict
            Each with the name of its ``agent``, its gradient ``g`` or its ``row``, and, if you like, an ``id``, ``next_hint``
            with a gradient or ``next_forecast`` with a row, ``next_limits`` or ``next_move_cost``.

        Returns
        -------
        list of dict
            For each the ``agent``, the round ``t`` that comes next, and its decision ``x``.
        """
        sent = [_make_plain({"id": uuid.uuid4().hex, **one}) for one in rounds]
        answers = self.ask("POST", "/rounds", {"rounds": sent})["answers"]
        return [answer | {"x": np.array(answer["x"])} for answer in answers]

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request until it is answered.

        Parameters
        ----------
        method : str
            Such as ``"GET"``.
        path : str
            Such as ``"/agents"``.
        body : optional
            A JSON value to send; configurations in it are sent as their ``to_dict``. Default: nothing.

        Returns
        -------
        dict or list
            The answer.

        Raises
        ------
        ValueError
            If the service rejects it.
        PermissionError
            If the token is wrong, or not enough.
        ConnectionError
            If no answer comes after all retries.
        """
        options = {}
        if body is not None:
            content = json.dumps(body, default=_describe)
            options = {"content": content, "headers": {"Content-Type": "application/json"}}
        failure: Exception | None = None
        for attempt in range(self._retries + 1):
            if attempt:
                time.sleep(min(2.0, 0.05 * 2**attempt) * random.uniform(0.5, 1.0))
            try:
                answer = self._http.request(method, path, **options)
            except httpx.TransportError as failed:
                failure = failed
                continue
            if answer.is_success:
                return answer.json()
            failure = _read_error(answer)
            if answer.status_code not in RETRIED:
                raise failure
        raise ConnectionError(
            f"The service at {self.url} does not answer. {type(failure).__name__}: {failure}"
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"


class RemoteAgent(Controls):
    """An agent of a service, with the methods of :class:`~klazy.Agent`. :meth:`Client.agent` makes it.

    Parameters
    ----------
    client : Client
        The service.
    name : str
        Which agent.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = check_path_name(name)
        self.place = f"/agents/{quote(name, safe='')}"

    def _get(self, path: str) -> Any:
        return self._client.ask("GET", f"{self.place}{path}")

    def _post(self, path: str, **body: Any) -> Any:
        """Send the values that are not None."""
        given = {name: value for name, value in body.items() if value is not None}
        return self._client.ask("POST", f"{self.place}/{path}", _make_plain(given))

    def _end(
        self, path: str, id: Id, retry: bool, t: int | None, round: int | None, **body: Any
    ) -> Any:
        """Send the end of a round, with a random id if there is none, so that it can be sent again."""
        if round is not None:
            t = None
        elif t is None and not retry:
            t = self.t
        return self._post(
            path, id=uuid.uuid4().hex if id is None else id, t=t, round=round, **body
        )

    @property
    def about(self) -> dict[str, Any]:
        """The agent's learner, guards, decision and costs, and whether it is frozen or deleted."""
        return self._get("")

    @property
    def learner(self) -> Learner[Any]:
        """The learner."""
        return Learner.from_dict(self.about["learner"])

    @property
    def guards(self) -> Guards | None:
        """The limits on its decisions, if there are any."""
        about = self.about["guards"]
        return None if about is None else Guards.from_dict(about)

    @property
    def t(self) -> int:
        """The round about to be played."""
        return self._get("/decision")["t"]

    @property
    def x(self) -> Array:
        """The point to play now."""
        return np.array(self._get("/decision")["x"])

    @property
    def decision(self) -> Any:
        """The point to play now, by name where names are known."""
        return _read_decision(self._get("/decision"))

    @property
    def hitting(self) -> float:
        """The operating cost of all rounds."""
        return self.about["hitting"]

    @property
    def switching(self) -> float:
        """The switching cost of all rounds, move cost included."""
        return self.about["switching"]

    @property
    def probes(self) -> tuple[Array, ...]:
        """The points whose costs :meth:`observe_cost` expects: the one to play, and perhaps another one."""
        return tuple(np.array(x) for x in self.about["probes"])

    @property
    def pending(self) -> dict[int, Array]:
        """The rounds that wait for their feedback, each with the point played in it, the oldest first."""
        return {int(round): np.array(x) for round, x in self.about["pending"].items()}

    def update(
        self,
        g: ArrayLike,
        *,
        id: Id = None,
        retry: bool = True,
        gradient: bool = False,
        t: int | None = None,
        round: int | None = None,
        next_hint: ArrayLike | None = None,
        next_limits: NextLimits | None = None,
        next_move_cost: float | None = None,
    ) -> Array:
        """End the round with a gradient of its cost; a rejected one changes nothing.

        Parameters
        ----------
        g, id, gradient, round, next_hint, next_limits, next_move_cost : optional
            As in :meth:`Agent.update`.
        retry : bool, optional
            Whether the gradient goes to the current round, whichever it is. Default: True. If False, give ``t``.
        t : int, optional
            The round that the gradient is of: :class:`~klazy.types.Overtaken` if another one is the current round.

        Returns
        -------
        ndarray
            The next point.
        """
        body = {
            "g": vector(g, "g"),
            "gradient": gradient or None,
            "next_hint": None if next_hint is None else vector(next_hint, "next_hint"),
            LIMITS: next_limits,
            "next_move_cost": next_move_cost,
        }
        return np.array(self._end("update", id, retry, t, round, **body)["x"])

    def observe(
        self,
        row: Any,
        *,
        id: Id = None,
        retry: bool = True,
        t: int | None = None,
        round: int | None = None,
        next_forecast: Any = None,
        next_limits: NextLimits | None = None,
        next_move_cost: float | None = None,
    ) -> Any:
        """End the round with its row of data; a rejected one changes nothing.

        Parameters
        ----------
        row : dict or array_like
            The numbers of the round by column name, or in the order of the columns; None or NaN where one is missing, if the
            agent was made with ``fill``.
        id, retry, t, round : optional
            As in :meth:`update`.
        next_forecast : dict or array_like, optional
            A forecast of the row that the returned decision meets, as in :meth:`Agent.observe`.
        next_limits : tuple, optional
            What the decision that this call returns must be between, ``(lower, upper)``, as in :meth:`Agent.observe`.
        next_move_cost : float, optional
            What a unit of movement costs in the move to that decision, as in :meth:`Agent.observe`.

        Returns
        -------
        dict or ndarray
            The next decision, by name where names are known.
        """
        body = {
            "row": row,
            "next_forecast": next_forecast,
            LIMITS: next_limits,
            "next_move_cost": next_move_cost,
        }
        return _read_decision(self._end("observe", id, retry, t, round, **body))

    def observe_cost(self, value: ArrayLike, *, t: int | None = None, id: Id = None) -> Any:
        """End the round with the cost of its decision; the learner must be a :class:`~klazy.contrib.Bandit`.

        Parameters
        ----------
        value : float or array_like
            The cost of the decision; with two points, that of each of :attr:`probes`.
        t : int, optional
            The round whose decision had this cost: :class:`~klazy.types.Overtaken` if another one is the current round.
            Default: the current one; give it where several processes play.
        id : str or int, optional
            As in :meth:`update`.

        Returns
        -------
        dict or ndarray
            The next decision, by name where names are known.
        """
        cost = vector(np.atleast_1d(np.asarray(value, dtype=float)), "value")
        return _read_decision(self._end("cost", id, False, t, None, cost=cost))

    def advance(self, *, id: Id = None, retry: bool = True, t: int | None = None) -> Any:
        """End the round before its feedback is known; the learner must be a :class:`~klazy.contrib.Delayed`.

        Parameters
        ----------
        id, retry, t : optional
            As in :meth:`update`.

        Returns
        -------
        dict or ndarray
            The next decision, by name where names are known.
        """
        return _read_decision(self._end("advance", id, retry, t, None))

    def give_up(self, round: int, *, id: Id = None) -> None:
        """Stop waiting for the feedback of a round; the learner does not learn from it.

        Parameters
        ----------
        round : int
            One of :attr:`pending`.
        id : str or int, optional
            As in :meth:`update`.
        """
        self._end("give-up", id, True, None, round)

    def _change(self, kind: int, reason: str) -> None:
        if kind == DELETE:
            self._client.ask("DELETE", f"{self.place}?reason={quote(reason, safe='')}")
        else:
            self._post(CHANGE_NAMES[kind], reason=reason)

    def refresh(self) -> Array:
        """Ask for the point to play now.

        Returns
        -------
        array
            The point.
        """
        return self.x

    def explain(self) -> Explanation:
        """Explain why it plays ``x``.

        Returns
        -------
        Explanation
            As of :meth:`Agent.explain`.
        """
        found = self._get("/explain")
        found["words"] = tuple(found["words"])
        for name in ("x", "own", "y", "normal"):
            if found[name] is not None:
                found[name] = np.array(found[name])
        for name in ("drift", "margin"):
            if found[name] is None:
                found[name] = float("nan")
        return Explanation(**found)

    def history(self, last: int | None = None) -> polars.DataFrame:
        """Load the rounds that the store has.

        Parameters
        ----------
        last : int, optional
            Only this many rounds. Default: all that are stored.

        Returns
        -------
        polars.DataFrame
            The columns of :meth:`Agent.history`.
        """
        rounds: list[dict[str, Any]] = []
        before = ""
        while last is None or len(rounds) < last:
            wanted = PAGE if last is None else min(PAGE, last - len(rounds))
            page = self._get(f"/history?last={wanted}{before}")
            rounds = page["rounds"] + rounds
            if page["before"] is None:
                break
            before = f"&before={page['before']}"
        for one in rounds:
            one["time"] = parse_time(one["time"])
            one["row"] = None if one["row"] is None else json.dumps(one["row"])
        frame = make_frame(rounds)
        # A page may be longer than asked for.
        return frame if last is None else frame.tail(last)

    def __repr__(self) -> str:
        return f"RemoteAgent({self._client.url!r}, {self.name!r})"


def _read_decision(answer: dict[str, Any]) -> Any:
    return np.array(answer["x"]) if answer["decision"] is None else answer["decision"]


def _make_plain(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON values of a round's fields; NaN is sent as it is, for the service to judge."""
    plain = {name: _make_value(value) for name, value in body.items() if name != LIMITS}
    limits = body.get(LIMITS)
    if limits is not None:
        if not isinstance(limits, tuple | list) or len(limits) != 2:
            raise InvalidInput(f"{LIMITS} must be (lower, upper), got {limits!r}.")
        lower, upper = (_make_side(_make_value(side)) for side in limits)
        plain[LIMITS] = {"lower": lower, "upper": upper}
    return plain


def _make_side(side: Any) -> Any:
    """Return one side of limits for JSON, which has no infinity: None stands for no limit."""
    if isinstance(side, dict):
        return {name: _make_side(value) for name, value in side.items()}
    if isinstance(side, list):
        return [_make_side(value) for value in side]
    return side if side is not None and math.isfinite(side) else None


def _make_value(value: Any) -> Any:
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, Mapping):
        return {
            str(name): None if is_missing(cell) else float(cell) for name, cell in value.items()
        }
    if value is None or isinstance(value, str | int | float):
        return value
    # A Series of pandas has this method.
    if hasattr(value, "to_dict"):
        return _make_value(value.to_dict())
    if isinstance(value, list | tuple) and any(cell is None for cell in value):
        value = [np.nan if cell is None else cell for cell in value]
    return real_array(value, "row", limit=float("inf")).tolist()


def _describe(value: Any) -> Any:
    """Describe what JSON does not know: configurations, and other mappings and sequences than its own."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return dict(value) if isinstance(value, Mapping) else list(value)


def _read_error(answer: httpx.Response) -> Exception:
    """Return the error that an answer describes."""
    try:
        detail = str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        detail = f"it answered {answer.status_code}"
    if answer.status_code in (401, 403):
        return PermissionError(detail)
    if answer.status_code == 409 and answer.request.method == "POST":
        return Overtaken(detail)
    if answer.status_code in RETRIED or answer.status_code >= 500:
        return ConnectionError(detail)
    return InvalidInput(detail)
