"""The tables of a study: a recipe or a rule by name, and a grid for each of its keys, which its signature names."""

import difflib
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Tag,
    TypeAdapter,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError

from klazy.base.checks import Refused
from klazy.studies.sweep import catalogue
from klazy.studies.sweep.axes import AXES, Scalars
from klazy.studies.sweep.catalogue import RECIPES, RULES, Entry, Point

OWN = "own"
SHOWN = 200  # letters of a value in a message


def make_complaint(message: str, **values: Any) -> PydanticCustomError:
    """A complaint that ends up beside its key."""
    return PydanticCustomError("study", message, values)  # pyright: ignore[reportArgumentType]


def show(value: Any) -> str:
    """A value in a message, in part if it is long; some are too deep or have too many digits to be written at all."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):
        return f"a large {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def refuse_unknown(data: Any, known: list[str], required: list[str]) -> None:
    """Complain of a key that is not known, or of one that is not there."""
    if not isinstance(data, dict):
        return
    for key in data:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise make_complaint(
                "no key {key}, got {key}={value} ({hint}keys are {known})",
                key=key,
                value=show(data[key]),
                hint=hint,
                known=", ".join(known),
            )
    for key in required:
        if key not in data:
            raise make_complaint("a key {key} (keys are {known})", key=key, known=", ".join(known))


def is_own(name: Any) -> bool:
    """Whether this names a recipe or rule as ``module:function``."""
    return isinstance(name, str) and ":" in name


def refuse_empty(data: Any) -> Any:
    """Refuse an empty list."""
    if isinstance(data, list | tuple) and not data:
        raise PydanticCustomError("empty", "Input should be a list with something in it")
    return data


class StrictModel(BaseModel):
    """A table of a study, every key of which is known."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, data: Any) -> Any:
        required = [key for key, field in cls.model_fields.items() if field.is_required()]
        refuse_unknown(data, list(cls.model_fields), required)
        return data


class Spec(BaseModel):
    """A recipe or a rule, and the values of each of its parameters."""

    @property
    def kind(self) -> str:
        return "recipe" if "recipe" in type(self).model_fields else "rule"

    @property
    def name(self) -> str:
        return getattr(self, self.kind)

    @property
    def axes(self) -> dict[str, tuple[Any, ...]]:
        """The values of every key that has any."""
        given = {key: values for key, values in self if key != self.kind and values is not None}
        if self.model_extra is None:
            return given
        return _convert(given, catalogue.find_entry(self.name, self.kind))

    def list_points(self) -> Iterator[Point]:
        """Every combination of values."""
        axes = self.axes
        for values in itertools.product(*axes.values()):
            yield dict(zip(axes, values, strict=True))

    @model_validator(mode="after")
    def _check_values(self) -> "Spec":
        """Own keys must be in the signature; a learner's values must be such that there is a learner with them."""
        try:
            keys = catalogue.find_entry(self.name, self.kind).parameters
        except Refused as unknown:
            raise make_complaint("{kind} to be {what}", kind=self.kind, what=str(unknown)) from None
        refuse_unknown(self.model_extra or {}, list(keys), [])
        try:
            axes = self.axes
        except ValidationError as found:
            error = found.errors()[0]
            said = error["msg"].removeprefix("Input should be ")
            raise make_complaint(
                "{key} to be {said}, got {value}", key=found.title, said=said, value=show(error["input"])
            ) from None
        refuse_unknown(axes, list(keys), [key for key, value in keys.items() if value.required])
        if {"sigma", "c"} <= set(keys) and len({"sigma", "c"} & set(axes)) != 1:
            raise make_complaint("either sigma, for a constant one, or c, for sigma_t = sqrt(t / c)")
        if self.kind == "rule" and self.name in RULES:
            self._try_values(axes)
        return self

    def _try_values(self, axes: dict[str, tuple[Any, ...]]) -> None:
        """Build a learner with every value of every key once."""
        first = {key: values[0] for key, values in axes.items()}
        points = [first]
        for key, values in axes.items():
            points += [first | {key: value} for value in values[1:]]
        for point in points:
            try:
                catalogue.check_point(self.name, point)
            except Refused as refused:
                raise make_complaint(
                    "values that {name} accepts: {why}", name=self.name, why=str(refused).rstrip(".")
                ) from None


def _convert(given: dict[str, tuple[Any, ...]], entry: Entry) -> dict[str, tuple[Any, ...]]:
    """The values of somebody's own keys in the types of the signature, with its defaults."""
    typed: dict[str, tuple[Any, ...]] = {}
    for key, parameter in entry.parameters.items():
        if key in given:
            axis = TypeAdapter(AXES.get(parameter.type, Scalars))
            try:
                typed[key] = axis.validate_python(list(given[key]))
            except ValidationError as found:
                raise ValidationError.from_exception_data(key, found.errors()) from None  # pyright: ignore[reportArgumentType]
        elif not parameter.required and isinstance(parameter.default, bool | int | float | str):
            typed[key] = (parameter.default,)
    return typed


def _make_model(kind: str, name: str, entry: Entry) -> Any:
    fields: dict[str, Any] = {kind: (Literal[name], ...)}
    for key, parameter in entry.parameters.items():
        axis = AXES.get(parameter.type, Scalars)
        if parameter.required:
            fields[key] = (axis, ...)
        elif parameter.default is None:
            fields[key] = (axis, None)
        else:
            fields[key] = (axis, (parameter.default,))
    return create_model(name, __base__=(StrictModel, Spec), **fields)


def _make_own_model(kind: str) -> Any:
    """A table whose keys are those of a function that klazy does not know."""

    class Own(Spec):
        model_config = ConfigDict(extra="allow", frozen=True)
        __pydantic_extra__: dict[str, Scalars]  # pyright: ignore[reportIncompatibleVariableOverride]

    fields: dict[str, Any] = {kind: (str, ...)}
    return create_model("Own", __base__=Own, **fields)


def _join_models(kind: str, known: dict[str, Entry]) -> Any:
    """Any table of this kind."""
    models: Any = Annotated[_make_own_model(kind), Tag(OWN)]
    for name, entry in known.items():
        models |= Annotated[_make_model(kind, name, entry), Tag(name)]

    def find_tag(data: Any) -> Any:
        name = data.get(kind) if isinstance(data, dict) else getattr(data, kind, None)
        if is_own(name) or (isinstance(name, str) and catalogue.is_installed(name, kind)):
            return OWN
        return name

    allowed = f"{kind} to be one of {', '.join(known)}, or module:function for one's own"
    return Annotated[models, Discriminator(find_tag, custom_error_type=kind, custom_error_message=allowed)]


if TYPE_CHECKING:
    Recipe = Rule = Spec
else:
    Recipe = _join_models("recipe", RECIPES)
    Rule = _join_models("rule", RULES)
