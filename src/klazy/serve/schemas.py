"""What requests and answers contain, as OpenAPI describes it."""

from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError


def read_integer(value: Any) -> Any:
    """Make 12.0 an integer, which it is in JSON; leave all else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def show_example(**values: Any) -> ConfigDict:
    """Return the configuration of a model with this example."""
    return ConfigDict(json_schema_extra={"examples": [values]})


# The type of the error about a field that a body does not have.
UNKNOWN_FIELD = "unknown_field"
Integer = Annotated[int, BeforeValidator(read_integer)]
Row = dict[str, float | None] | list[float | None]
Id = Annotated[
    str | int | None,
    Field(description="The same round sent again with the same id is played once."),
]
Current = Annotated[Integer | None, Field(description="Play the round only if it is this one.")]
Late = Annotated[
    Integer | None,
    Field(
        description="The round that it is of, if it waits for feedback; the current round then goes on."
    ),
]
Vector = Annotated[list[float], BeforeValidator(np.ndarray.tolist)]
EXAMPLE_SET = {"class": "klazy.Simplex", "dim": 3}
EXAMPLE_LEARNER = {"class": "klazy.KLazyGD", "domain": EXAMPLE_SET, "sigma": 2.0, "k": 8}


class _Body(BaseModel):
    """A body in which every value has its own type: neither "1" nor true is a number."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, body: Any) -> Any:
        """Reject a field that it does not have, and name those that it has."""
        unknown = body.keys() - cls.model_fields.keys() if isinstance(body, dict) else ()
        if unknown:
            about = {"field": min(unknown), "known": ", ".join(cls.model_fields)}
            message = "{field} is not a known field. The fields are {known}"
            raise PydanticCustomError(UNKNOWN_FIELD, message, about)
        return body


class Limits(_Body):
    """What the next decision must be between: by name, in order, or one number for all; null for no limit."""

    model_config = show_example(upper={"eu": 0.0})
    lower: Row | float | None = None
    upper: Row | float | None = None


NextLimits = Annotated[
    Limits | None,
    Field(
        description="What the decision that this request returns must be between; the agent must have guards."
    ),
]


NextMoveCost = Annotated[
    float | None,
    Field(
        description="What a unit of movement costs in the move to the next decision, if that is not as usual."
    ),
]


class _Feedback(_Body):
    """Feedback of a round, by default of the current one."""

    id: Id = None
    t: Current = None
    round: Late = None


class Update(_Feedback):
    """A gradient of the round's cost at the decision played."""

    model_config = show_example(g=[1.0, 0.0, 0.0], id="2026-11-16T12:00")
    g: list[float] = Field(
        description="A gradient of the round's cost, one number per coordinate."
    )
    next_hint: list[float] | None = Field(
        None, description="A guess of the gradient of the next round."
    )
    next_limits: NextLimits = None
    next_move_cost: NextMoveCost = None
    gradient: bool = Field(
        False, description="Confirm that g is a gradient, to an agent that expects rows of data."
    )


class Observe(_Feedback):
    """The row of data of the round."""

    model_config = show_example(row={"eu": 57.0, "us": 31.0}, id="2026-11-16T12:00")
    row: Row = Field(
        description="Its numbers by column name, or in the order of the columns; null where one is missing."
    )
    next_forecast: Row | None = Field(
        None,
        description="A forecast of the row that the next decision meets, or the decision advised for it.",
    )
    next_limits: NextLimits = None
    next_move_cost: NextMoveCost = None


class Cost(_Body):
    """The cost of the round's decision, for agents that learn from costs alone."""

    model_config = show_example(cost=[3.5], t=12)
    cost: list[float] = Field(
        description="The cost of each of the agent's probes, the decision first."
    )
    t: Integer = Field(
        description="The round whose decision had this cost; it must be the current one."
    )
    id: Id = None


class Advance(_Body):
    """The end of a round whose feedback is not known yet."""

    model_config = show_example(id="2026-11-16T12:00")
    id: Id = None
    t: Current = None


class GiveUp(_Body):
    """The end of the wait for the feedback of a round."""

    model_config = show_example(round=12)
    round: Integer = Field(description="One of the pending rounds.")
    id: Id = None


class AgentRound(_Feedback):
    """A round of one of many agents: its gradient or its row."""

    model_config = show_example(agent="eu-west", g=[1.0, 0.0, 0.0], id="2026-11-16T12:00")
    agent: str
    g: list[float] | None = None
    gradient: bool = False
    row: Row | None = None
    next_hint: list[float] | None = None
    next_forecast: Row | None = None
    next_limits: NextLimits = None
    next_move_cost: NextMoveCost = None


class Rounds(_Body):
    """Rounds of many agents, of which all are played or none."""

    rounds: list[AgentRound] = Field(min_length=1, max_length=10_000)


class Create(_Body):
    """A new agent: its learner, as ``to_dict`` returns it; or what ``Agent.save`` or ``klazy replay --emit`` wrote."""

    model_config = show_example(
        learner=EXAMPLE_LEARNER, guards={"class": "klazy.Guards", "per_round": 0.1}
    )
    learner: dict[str, Any] | None = Field(
        None, description="A learner of klazy, as to_dict returns it."
    )
    guards: dict[str, Any] | None = Field(None, description="Guards, as to_dict returns them.")
    costs: dict[str, Any] | None = Field(
        None, description="The cost family of a row, as to_dict returns it."
    )
    columns: list[str] | dict[str, str] | None = Field(
        None, description="The names of a row's entries."
    )
    movement: dict[str, Any] | str | None = Field(None, description="What moving costs.")
    origin: dict[str, Any] | None = Field(None, description="Where it was tuned.")
    fill: str | None = Field(
        None,
        description="What to do with missing cells of a row: forward, zero or drop. Default: reject it.",
    )
    per: float | list[float] | None = Field(
        None,
        description="How many units of a row are one unit of a decision, in all columns or in each.",
    )
    lead: Integer | None = Field(None, description="How many rounds later a decision acts.")
    delay: Integer | None = Field(None, description="How many rounds late a row comes.")
    forecast: list[str] | None = Field(
        None,
        description="The names of entries of a row that forecast the row which the next decision meets, or advise that one.",
    )
    engine: str = Field("auto", description="auto, compiled or step.")
    format: Integer | None = Field(None, description="Of a saved agent.")
    checksum: str | None = Field(None, description="Of a saved agent.")
    agent: dict[str, Any] | None = Field(None, description="A saved agent.")


class Reason(_Body):
    """Why something is done; the history records it."""

    model_config = show_example(reason="the link to server 4 is down")
    reason: str = Field("", max_length=1000)


class Answer(BaseModel):
    """The decision to play now."""

    model_config = show_example(agent="eu-west", t=2, x=[0.0, 0.5, 0.5], repeated=False)
    agent: str
    t: int = Field(description="The round that the decision is for.")
    x: list[float]
    decision: dict[str, float] | None = Field(
        None, description="The same by name, where there are names."
    )
    repeated: bool = Field(
        False, description="True if the id was known: this is the decision made then."
    )
    dropped: bool = Field(
        False, description="True if the row was dropped for a missing cell: the round goes on."
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
        description="Rounds that wait for feedback, with their points."
    )
    probes: list[list[float]] = Field(description="The points whose costs POST .../cost expects.")


class Summaries(BaseModel):
    """A page of agents, by name; ``next`` is the name after which the next page begins."""

    agents: list[dict[str, Any]]
    next: str | None


class Reasons(BaseModel):
    """Why an agent plays its decision. Numbers that are not finite are null."""

    model_config = ConfigDict(from_attributes=True)
    t: int
    x: Vector
    own: Vector
    since: int | None
    y: Vector | None
    normal: Vector | None
    drift: float | None
    margin: float | None
    words: list[str]


class Round(BaseModel):
    """The feedback of a round, the decision that followed, and their costs."""

    t: int
    time: str | None
    id: str | None
    row: Any = None
    gradient: list[float]
    next_hint: list[float] | None
    hitting: float
    decision: list[float]
    switching: float
    guards: str | None
    round: int | None = None


class History(BaseModel):
    """Rounds, the oldest first; ask for those before them with ``before``."""

    rounds: list[Round]
    before: int | None


class Trouble(BaseModel):
    """An error (RFC 9457). ``detail`` is a sentence for people. Nothing was changed."""

    model_config = show_example(
        type="about:blank",
        title="Unprocessable Content",
        status=422,
        detail="g must be a list, got null. /openapi.json describes the fields.",
    ) | ConfigDict(extra="allow")
    type: str
    title: str
    status: int
    detail: str
