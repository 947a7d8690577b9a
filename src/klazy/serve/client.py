"""An agent that lives in a service: the methods of :class:`~klazy.Agent`, over HTTP."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import httpx
import numpy as np
from numpy.typing import ArrayLike

from klazy.base.cells import is_missing
from klazy.base.checks import Array, Refused, real_array, refusal, vector
from klazy.families import Family
from klazy.learners import Learner
from klazy.live.explain import Explanation
from klazy.live.guards import Guards
from klazy.live.overtaken import Overtaken
from klazy.movement import Movement

if TYPE_CHECKING:
    import polars

OWNER = "Client"
AGAIN = (408, 429, 502, 503, 504)  # answers after which the same request may succeed
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PAGE = 1000  # rounds of a history in one request


class Client:
    """Talk to a service that ``klazy serve`` runs.

    Every round carries an id, one of the client's own if you give none, so that a request whose answer was lost is sent
    again without being taken twice.

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
        If the service refuses what it was sent; nothing has changed then.
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
            raise refusal(
                OWNER, "the URL of a service", "url", repr(url), "write Client('http://127.0.0.1:8321')"
            )
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
        engine: str = "auto",
    ) -> RemoteAgent:
        """Get an agent of the service; with a learner it is made, if it is not there.

        Parameters
        ----------
        name : str
            Which agent.
        learner : Learner, str or Path, optional
            For a new agent: its learner, or the file that :meth:`Agent.save` or ``klazy replay --emit`` wrote.
        costs, columns, movement, guards, fill, engine : optional
            As in :class:`~klazy.Agent`, for a new agent.

        Returns
        -------
        RemoteAgent
            It has the methods of an :class:`~klazy.Agent`.
        """
        remote = RemoteAgent(self, name)
        if isinstance(learner, str | Path):
            about = json.loads(Path(learner).read_bytes())
            self.ask("PUT", remote.place, about)
        elif learner is not None:
            parts = {"costs": costs, "movement": movement, "guards": guards}
            about: dict[str, Any] = {"learner": learner.to_dict(), "engine": engine, "fill": fill}
            for part, value in parts.items():
                about[part] = value if value is None or isinstance(value, str) else value.to_dict()
            if columns is not None:
                about["columns"] = dict(columns) if isinstance(columns, Mapping) else list(columns)
            self.ask("PUT", remote.place, about)
        return remote

    def agents(self) -> list[dict[str, Any]]:
        """List all agents that the token may see.

        Returns
        -------
        list of dict
            For each its name, learner, rounds, what they cost, and so on.
        """
        found: list[dict[str, Any]] = []
        after: str | None = ""
        while after is not None:
            page = self.ask("GET", f"/agents?after={quote(after, safe='')}")
            found += page["agents"]
            after = page["next"]
        return found

    def update_many(self, rounds: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """End rounds of many agents in one request: all of them or, if one is refused, none.

        Parameters
        ----------
        rounds : iterable of dict
            Each with the name of its ``agent``, its gradient ``g`` or its ``row``, and, if you like, an ``id``.

        Returns
        -------
        list of dict
            For each the ``agent``, the round ``t`` that comes next, and its decision ``x``.
        """
        sent = []
        for one in rounds:
            plain = {name: _make_plain(value) for name, value in one.items()}
            sent.append({"id": _make_id(), **plain})
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
            What to send, as JSON holds it. Default: nothing.

        Returns
        -------
        dict or list
            The answer.

        Raises
        ------
        ValueError
            If the service refuses it.
        PermissionError
            If the token is wrong, or not enough.
        ConnectionError
            If no answer comes after all retries.
        """
        content = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        failure = ""
        for attempt in range(self._retries + 1):
            if attempt:
                time.sleep(min(2.0, 0.05 * 2**attempt) * random.uniform(0.5, 1.0))
            try:
                answer = self._http.request(method, path, content=content, headers=headers)
            except httpx.TransportError as failed:
                failure = f"{type(failed).__name__}: {failed}"
                continue
            if answer.status_code not in AGAIN:
                return _read(answer)
            failure = _read_detail(answer)
        raise ConnectionError(f"{OWNER} needs a service that answers, got url={self.url}; {failure}")

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"


class RemoteAgent:
    """An agent of a service, with the methods of :class:`~klazy.Agent`. :meth:`Client.agent` makes it.

    Parameters
    ----------
    client : Client
        The service.
    name : str
        Which agent.
    """

    def __init__(self, client: Client, name: str) -> None:
        if "/" in name:
            raise refusal(
                OWNER, "a name that can be a part of a path", "name", repr(name), "use - in its place"
            )
        self._client = client
        self.name = name
        self.place = f"/agents/{quote(name, safe='')}"

    @property
    def about(self) -> dict[str, Any]:
        """What the service knows of it: learner, guards, decision, costs, whether it is frozen or deleted."""
        return self._client.ask("GET", self.place)

    @property
    def learner(self) -> Learner[Any]:
        """Who decides."""
        return Learner.from_dict(self.about["learner"])

    @property
    def guards(self) -> Guards | None:
        """The limits on what it plays, if there are any."""
        about = self.about["guards"]
        return None if about is None else Guards.from_dict(about)

    @property
    def t(self) -> int:
        """The round about to be played."""
        return self._decide()["t"]

    @property
    def x(self) -> Array:
        """The point to play now."""
        return np.array(self._decide()["x"])

    @property
    def decision(self) -> Any:
        """The point to play now, by name where names are known."""
        return _name(self._decide())

    @property
    def hitting(self) -> float:
        """What all rounds have charged."""
        return self.about["hitting"]

    @property
    def switching(self) -> float:
        """What all moves have cost, price included."""
        return self.about["switching"]

    def _decide(self) -> dict[str, Any]:
        return self._client.ask("GET", f"{self.place}/decision")

    def update(
        self,
        g: ArrayLike,
        hint: ArrayLike | None = None,
        *,
        id: str | int | None = None,
        retry: bool = True,
        gradient: bool = False,
        t: int | None = None,
        round: int | None = None,
    ) -> Array:
        """End the round with a gradient of its cost; a refused one changes nothing.

        Parameters
        ----------
        g, hint, id, gradient, round : optional
            As in :meth:`Agent.update`.
        retry : bool, optional
            Whether the gradient goes to whichever round is under way. Default: True. If False, give ``t``.
        t : int, optional
            The round that the gradient is of: :class:`~klazy.types.Overtaken` if another one is under way.

        Returns
        -------
        ndarray
            The next point.
        """
        body = {
            "g": vector(g, "g", "Agent.update").tolist(),
            "id": _make_id() if id is None else _make_plain(id),
        }
        if hint is not None:
            body["hint"] = vector(hint, "hint", "Agent.update").tolist()
        if gradient:
            body["gradient"] = True
        body |= self._choose_round(retry, t, round)
        return np.array(self._client.ask("POST", f"{self.place}/update", body)["x"])

    def observe(
        self,
        row: Any,
        hint: Any = None,
        *,
        id: str | int | None = None,
        retry: bool = True,
        t: int | None = None,
        round: int | None = None,
    ) -> Any:
        """End the round with its row of data; a refused one changes nothing.

        Parameters
        ----------
        row : dict or array_like
            The numbers of the round by column name, or in the order of the columns; None or NaN where one is missing, if the
            agent was made with ``fill``.
        hint : dict or array_like, optional
            A forecast of the next round's row, for a learner that accepts hints.
        id, retry, t, round : optional
            As in :meth:`update`.

        Returns
        -------
        dict or ndarray
            The next decision, by name where names are known.
        """
        body = {"row": _make_plain(row), "id": _make_id() if id is None else _make_plain(id)}
        if hint is not None:
            body["hint"] = _make_plain(hint)
        body |= self._choose_round(retry, t, round)
        return _name(self._client.ask("POST", f"{self.place}/observe", body))

    @property
    def probes(self) -> tuple[Array, ...]:
        """The points whose costs :meth:`observe_cost` takes: the one to play, and perhaps one to try beside it."""
        return tuple(np.array(x) for x in self.about["probes"])

    def observe_cost(self, value: ArrayLike, *, t: int | None = None, id: str | int | None = None) -> Any:
        """End the round with what its decision cost; the learner must be a :class:`~klazy.contrib.Bandit`.

        Parameters
        ----------
        value : float or array_like
            The cost of the decision; with two points, that of each of :attr:`probes`.
        t : int, optional
            The round whose decision cost this: :class:`~klazy.types.Overtaken` if another one is under way. Default: the one
            under way; give it where several processes play.
        id : str or int, optional
            As in :meth:`update`.

        Returns
        -------
        dict or ndarray
            The next decision, by name where names are known.
        """
        cost = vector(np.atleast_1d(np.asarray(value, dtype=float)), "value", "Agent.observe_cost").tolist()
        body = {"cost": cost, "t": self.t if t is None else int(t)}
        body["id"] = _make_id() if id is None else _make_plain(id)
        return _name(self._client.ask("POST", f"{self.place}/cost", body))

    @property
    def pending(self) -> dict[int, Array]:
        """The rounds that wait for their feedback, each with the point played in it, the oldest first."""
        return {int(round): np.array(x) for round, x in self.about["pending"].items()}

    def advance(self, *, id: str | int | None = None, retry: bool = True, t: int | None = None) -> Any:
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
        body = {"id": _make_id() if id is None else _make_plain(id)} | self._choose_round(retry, t, None)
        return _name(self._client.ask("POST", f"{self.place}/advance", body))

    def give_up(self, round: int, *, id: str | int | None = None) -> None:
        """Wait no more for the feedback of a round; it is not learned from.

        Parameters
        ----------
        round : int
            One of :attr:`pending`.
        id : str or int, optional
            As in :meth:`update`.
        """
        body = {"round": int(round), "id": _make_id() if id is None else _make_plain(id)}
        self._client.ask("POST", f"{self.place}/give-up", body)

    def _choose_round(self, retry: bool, t: int | None, round: int | None) -> dict[str, int]:
        if round is not None:
            return {"round": int(round)}
        if t is not None:
            return {"t": int(t)}
        return {} if retry else {"t": self.t}

    def freeze(self, reason: str = "") -> None:
        """Play the present point until :meth:`resume`, while the learner goes on learning; the agent must have guards.

        Parameters
        ----------
        reason : str, optional
            What the service keeps as the reason.
        """
        self._client.ask("POST", f"{self.place}/freeze", {"reason": reason})

    def resume(self, reason: str = "") -> None:
        """Let the point follow the learner again from the next round on.

        Parameters
        ----------
        reason : str, optional
            What the service keeps as the reason.
        """
        self._client.ask("POST", f"{self.place}/resume", {"reason": reason})

    def delete(self, reason: str = "") -> None:
        """Take no more rounds until :meth:`restore`; the service keeps history and name.

        Parameters
        ----------
        reason : str, optional
            What the service keeps as the reason.
        """
        self._client.ask("DELETE", f"{self.place}?reason={quote(reason, safe='')}")

    def restore(self, reason: str = "") -> None:
        """Take rounds again, after :meth:`delete`.

        Parameters
        ----------
        reason : str, optional
            What the service keeps as the reason.
        """
        self._client.ask("POST", f"{self.place}/restore", {"reason": reason})

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
        found = self._client.ask("GET", f"{self.place}/explain")
        arrays = {}
        for name in ("x", "own", "y", "normal"):
            arrays[name] = None if found[name] is None else np.array(found[name])
        numbers = {}
        for name in ("drift", "margin"):
            numbers[name] = float("nan") if found[name] is None else found[name]
        return Explanation(
            **arrays, **numbers, t=found["t"], since=found["since"], words=tuple(found["words"])
        )

    def history(self, last: int | None = None) -> polars.DataFrame:
        """Load what the store keeps of the rounds.

        Parameters
        ----------
        last : int, optional
            Only so many rounds. Default: all that are kept.

        Returns
        -------
        polars.DataFrame
            The columns of :meth:`Agent.history`.
        """
        from klazy.live.history import make_frame

        rounds: list[dict[str, Any]] = []
        before = None
        while last is None or len(rounds) < last:
            wanted = PAGE if last is None else min(PAGE, last - len(rounds))
            path = f"{self.place}/history?last={wanted}"
            page = self._client.ask("GET", path if before is None else f"{path}&before={before}")
            rounds = page["rounds"] + rounds
            before = page["before"]
            if before is None:
                break
        kept = rounds if last is None else rounds[-last:]  # a page may be longer
        return make_frame([_read_round(one) for one in kept])

    def __repr__(self) -> str:
        return f"RemoteAgent({self._client.url!r}, {self.name!r})"


def _name(answer: dict[str, Any]) -> Any:
    return np.array(answer["x"]) if answer["decision"] is None else answer["decision"]


def _read_round(one: dict[str, Any]) -> dict[str, Any]:
    """A round as a store describes it."""
    at = one["time"]
    micros = None if at is None else (datetime.fromisoformat(at) - EPOCH) // timedelta(microseconds=1)
    return one | {"time": micros, "row": None if one["row"] is None else json.dumps(one["row"])}


def _make_id() -> str:
    return uuid.uuid4().hex


def _make_plain(value: Any) -> Any:
    """A value as JSON holds it; NaN is sent as it is, and the service says what it thinks of it."""
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, Mapping):
        return {str(name): None if is_missing(cell) else float(cell) for name, cell in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    if hasattr(value, "to_dict"):  # a Series
        return _make_plain(value.to_dict())
    if isinstance(value, list | tuple) and any(cell is None for cell in value):
        value = [np.nan if cell is None else cell for cell in value]
    return real_array(value, "row", OWNER, limit=float("inf")).tolist()


def _read_detail(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"it answered {answer.status_code}"


def _read(answer: httpx.Response) -> Any:
    """What was answered; a refusal is raised."""
    if answer.is_success:
        return answer.json()
    said = _read_detail(answer)
    if answer.status_code in (401, 403):
        raise PermissionError(said)
    if answer.status_code == 409 and "came too late" in said:
        raise Overtaken(said)
    if answer.status_code >= 500:
        raise ConnectionError(said)
    raise Refused(said)
