"""What requests and answers hold, as OpenAPI describes it."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def read_whole(value: Any) -> Any:
    """Make 12.0 an integer, which it is in JSON; leave all else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(read_whole)]
Row = dict[str, float | None] | list[float | None]
Id = str | int
LEARNER = {
    "class": "klazy.KLazyGD",
    "domain": {"class": "klazy.Simplex", "dim": 3},
    "sigma": 2.0,
    "k": 8,
}
ANSWER = {"agent": "eu-west", "t": 2, "x": [0.0, 0.5, 0.5], "repeated": False}


LATE = "The round that it is of, if it waits for its feedback; the round under way then goes on."


class _Body(BaseModel):
    """A body in which nothing is taken for something else: neither "1" nor true is a number."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Update(_Body):
    """A gradient of the round's cost at the decision played."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"g": [1.0, 0.0, 0.0], "id": "2026-11-16T12:00"}]}
    )
    g: list[float] = Field(description="A gradient of the round's cost, one number per coordinate.")
    hint: list[float] | None = Field(None, description="A guess of the next gradient.")
    id: Id | None = Field(None, description="The same round sent again with the same id is taken once.")
    t: Whole | None = Field(None, description="Take the round only if it is this one.")
    gradient: bool = Field(False, description="Say that g is a gradient indeed, to an agent that takes rows.")
    round: Whole | None = Field(None, description=LATE)


class Observe(_Body):
    """The row of data of the round."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"row": {"eu": 57.0, "us": 31.0}, "id": "2026-11-16T12:00"}]},
    )
    row: Row = Field(
        description="Its numbers by column name, or in the order of the columns; null where one is missing."
    )
    hint: Row | None = Field(None, description="A forecast of the next round's row.")
    id: Id | None = Field(None, description="The same round sent again with the same id is taken once.")
    t: Whole | None = Field(None, description="Take the round only if it is this one.")
    round: Whole | None = Field(None, description=LATE)


class Cost(_Body):
    """What the decision of the round cost, for agents that are told no more."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"cost": [3.5], "t": 12}]})
    cost: list[float] = Field(description="The cost of each of the agent's probes, the decision first.")
    t: Whole = Field(description="The round whose decision cost this; refused if another one is under way.")
    id: Id | None = Field(None, description="The same round sent again with the same id is taken once.")


class Advance(_Body):
    """End the round before its feedback is known."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "2026-11-16T12:00"}]})
    id: Id | None = Field(None, description="The same round sent again with the same id is taken once.")
    t: Whole | None = Field(None, description="End the round only if it is this one.")


class GiveUp(_Body):
    """Wait no more for the feedback of a round."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"round": 12}]})
    round: Whole = Field(description="One of those that are pending.")
    id: Id | None = Field(None, description="The same request sent again with the same id is taken once.")


class AgentRound(_Body):
    """A round of one of many agents: its gradient or its row."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"agent": "eu-west", "g": [1.0, 0.0, 0.0], "id": "2026-11-16T12:00"}]
        },
    )
    agent: str
    g: list[float] | None = None
    hint: Row | None = None
    gradient: bool = False
    row: Row | None = None
    id: Id | None = None
    t: Whole | None = None
    round: Whole | None = None


class Rounds(_Body):
    """Rounds of many agents, which are taken all or not at all."""

    rounds: list[AgentRound] = Field(min_length=1, max_length=10_000)


class Create(_Body):
    """A new agent: its learner, as ``to_dict`` gives it; or what ``Agent.save`` or ``klazy replay --emit`` wrote."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"learner": LEARNER, "guards": {"class": "klazy.Guards", "per_round": 0.1}}]
        },
    )
    learner: dict[str, Any] | None = Field(None, description="A learner of klazy, as to_dict gives it.")
    guards: dict[str, Any] | None = Field(None, description="Guards, as to_dict gives them.")
    costs: dict[str, Any] | None = Field(
        None, description="What a row costs: a cost family, as to_dict gives it."
    )
    columns: list[str] | dict[str, str] | None = Field(None, description="The names of a row's entries.")
    movement: dict[str, Any] | str | None = Field(None, description="What moving costs.")
    origin: dict[str, Any] | None = Field(None, description="Where it was tuned.")
    fill: str | None = Field(
        None, description="What to do with missing cells of a row: forward, zero or drop. Default: refuse it."
    )
    engine: str = Field("auto", description="auto, compiled or step.")
    format: Whole | None = Field(None, description="Of a saved agent.")
    checksum: str | None = Field(None, description="Of a saved agent.")
    agent: dict[str, Any] | None = Field(None, description="A saved agent.")


class Reason(_Body):
    """Why something is done; the history keeps it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "the link to server 4 is down"}]})
    reason: str = Field("", max_length=1000)


class Answer(BaseModel):
    """The decision to play now."""

    model_config = ConfigDict(json_schema_extra={"examples": [ANSWER]})
    agent: str
    t: int = Field(description="The round that the decision is for.")
    x: list[float]
    decision: dict[str, float] | None = Field(None, description="The same by name, where there are names.")
    repeated: bool = Field(
        False, description="Whether the round's id was known: this is the decision made then."
    )
    dropped: bool = Field(
        False, description="Whether the row was left out, since a cell was missing: the round goes on."
    )


class Answers(BaseModel):
    """The decisions of many agents, in the order of the request."""

    answers: list[Answer]


class Summary(BaseModel):
    """An agent in a few plain values."""

    name: str
    t: int
    x: list[float]
    decision: dict[str, float] | None
    learner: dict[str, Any]
    engine: str
    created: str | None
    hitting: float
    switching: float
    guards: dict[str, Any] | None
    frozen: bool
    deleted: bool
    pending: dict[int, list[float]] = Field(
        description="Rounds that wait for their feedback, with their points."
    )
    probes: list[list[float]] = Field(description="The points whose costs an agent is told that takes costs.")


class Summaries(BaseModel):
    """A page of agents, by name; ``next`` is the name after which the next page begins."""

    agents: list[dict[str, Any]]
    next: str | None


class Reasons(BaseModel):
    """Why an agent plays what it plays."""

    t: int
    x: list[float]
    own: list[float]
    since: int | None
    y: list[float] | None
    normal: list[float] | None
    drift: float | None
    margin: float | None
    words: list[str]


class Round(BaseModel):
    """What a round was told, what was decided, what both cost."""

    t: int
    time: str | None
    id: str | None
    row: Any = None
    gradient: list[float]
    hint: list[float] | None
    hitting: float
    decision: list[float]
    switching: float
    guards: str | None
    round: int | None = None


class History(BaseModel):
    """Rounds, the oldest first; ``before`` is what to ask for those before them."""

    rounds: list[Round]
    before: int | None


class Trouble(BaseModel):
    """An error (RFC 9457). ``detail`` is a sentence for people. Nothing was changed."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank",
                    "title": "Unprocessable Content",
                    "status": 422,
                    "detail": "Agent.update needs finite numbers, got g[2]=nan; remove or fill NaN and inf.",
                }
            ]
        },
    )
    type: str
    title: str
    status: int
    detail: str
