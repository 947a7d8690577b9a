"""A study: which learners on which sequences, at which values, how often. All that it may say is checked here."""

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, Strict, ValidationError

from klazy.base.checks import Refused, refusal
from klazy.studies.sweep.axes import LARGEST, Weights
from klazy.studies.sweep.specs import OWN, Recipe, Rule, StrictModel, is_own, refuse_empty, show

POINTS = 200  # of a curve
REMEDY = "`klazy sweep --init` shows a study with every key"
Metric = Literal[
    "cost", "hitting", "switching", "dynamic_regret", "total_regret", "static_regret", "optimum_regret"
]
LABORIOUS = ("static_regret", "optimum_regret")  # found only if they are asked for
Whole = Annotated[int, Strict()]


class Study(StrictModel):
    """Describe a study: every learner at every value of its grid, on every sequence, at every price of movement, one run each.

    Parameters
    ----------
    name : str, optional
        Its title. Default: ``"a study"``.
    scenarios : list of dict
        What is played: recipes by name (``recipe = "phases_of_length"``), with grids for their keys.
    learners : list of dict
        Who plays: rules by name (``rule = "KLazyGD"``), with grids for their keys.
    movement : str, optional
        What moving costs: ``"l2"``, the default, ``"l1"`` or ``"tv"``.
    movement_weight : float or list of float, optional
        The prices of a unit of movement to try. Default: 1.
    seeds : int, optional
        How many sequences to draw of each scenario that is random. Default: 1.
    seed : int, optional
        What they are drawn from. Default: 0.
    metrics : list of str, optional
        What to show, the first in tables and figures: ``"cost"``, ``"hitting"``, ``"switching"``, ``"dynamic_regret"``,
        ``"total_regret"``, ``"static_regret"``, ``"optimum_regret"``; the last two are computed only if you name them.
        Default: ``"total_regret"``.
    record : str, optional
        ``"totals"``, the default, or ``"curves"``, which keeps 200 points of each run's running sums.
    device : str, optional
        What plays: ``"cpu"``, the default; ``"cuda"`` for a GPU; ``"auto"`` for a GPU where there is one. The rows and their
        keys are the same.

    Raises
    ------
    ValueError
        If a key is unknown, or a value is refused; the message names each.

    Examples
    --------
    >>> study = Study(scenarios=[{"recipe": "phases_of_length", "length": [5, 10], "T": 100}],
    ...               learners=[{"rule": "KLazyGD", "sigma": 2.0, "k": {"powers": [2, 0, 3]}}])
    >>> study.learners[0].axes["k"]
    (1, 2, 4, 8)
    """

    name: str = "a study"
    scenarios: Annotated[tuple[Recipe, ...], BeforeValidator(refuse_empty)]
    learners: Annotated[tuple[Rule, ...], BeforeValidator(refuse_empty)]
    movement: Literal["l2", "l1", "tv"] = "l2"
    movement_weight: Weights = (1.0,)
    seeds: Annotated[Whole, Field(ge=1)] = 1
    seed: Annotated[Whole, Field(ge=0, le=LARGEST)] = 0
    metrics: Annotated[tuple[Metric, ...], BeforeValidator(refuse_empty)] = ("total_regret",)
    record: Literal["totals", "curves"] = "totals"
    device: Literal["cpu", "cuda", "auto"] = "cpu"

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as found:
            raise _explain(found, "Study") from None

    def to_dict(self) -> dict[str, Any]:
        """Describe the study by plain values, from which the same study can be built.

        Returns
        -------
        dict
            Its keys and values.
        """
        return self.model_dump(mode="json", exclude_none=True)

    @classmethod
    def read(cls, path: Path | str, *, trust: bool = False) -> Self:
        """Read a study from a TOML file.

        Parameters
        ----------
        path : str or Path
            The file.
        trust : bool, optional
            Allow recipes and rules that are not klazy's own: they are code, and reading them runs it. Default: False.

        Returns
        -------
        Study
            The study.

        Raises
        ------
        ValueError
            If the file cannot be read, is not TOML, or holds no valid study.
        """
        path = Path(path)
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as failed:
            raise refusal(
                "sweep", "a study to read", "file", path, failed.strerror or "choose another"
            ) from failed
        except (ValueError, RecursionError) as failed:
            raise refusal("sweep", "a study in TOML", "file", path, f"{failed}; {REMEDY}") from failed
        return cls.from_file(data, path, trust=trust)

    @classmethod
    def from_file(cls, data: Any, path: Path, *, trust: bool) -> Self:
        """Build the study that a file holds.

        Parameters
        ----------
        data : dict
            What the file holds.
        path : Path
            The file, for messages.
        trust : bool
            Whether code that is not klazy's own may be run.

        Returns
        -------
        Study
            The study.

        Raises
        ------
        ValueError
            If it is no valid study, or names code without ``trust``.
        """
        if not isinstance(data, dict):
            raise refusal(str(path), "the keys of a study", "it", type(data).__name__, REMEDY)
        if not trust:
            _refuse_own(data, path)
        try:
            return cls(**data)
        except Refused as wrong:
            raise Refused(str(wrong).replace("Study needs", f"{path} needs")) from None


def _refuse_own(data: dict[str, Any], path: Path) -> None:
    """Refuse a study that names code, as ``module:function``: to import it is to run it."""
    for key, kind in (("scenarios", "recipe"), ("learners", "rule")):
        tables = data.get(key)
        if not isinstance(tables, list):
            continue
        for table in tables:
            name = table.get(kind) if isinstance(table, dict) else None
            if is_own(name):
                remedy = "add --trust if you know the code that it would run"
                raise refusal(str(path), f"trust for a {kind} that is not klazy's", kind, show(name), remedy)


def read_example() -> str:
    """A study with every key and what it means, which runs as it is."""
    return files("klazy.studies.sweep").joinpath("example.toml").read_text(encoding="utf-8")


def _explain(found: ValidationError, owner: str) -> Refused:
    """What is wrong with a study, a line each: the key, what it must be and what it is."""
    return Refused("\n".join(dict.fromkeys(str(_explain_error(owner, error)) for error in found.errors())))


def _explain_error(owner: str, error: Any) -> Refused:
    kind = error["type"]
    value = error["input"]
    words = [part for part in error["loc"] if isinstance(part, str) and part != OWN]
    index = next((part for part in error["loc"] if isinstance(part, int)), None)
    if words and words[0] in ("scenarios", "learners") and index is not None:
        owner = f"{owner}.{words[0]}[{index}]"
        if len(words) > 1:  # the name of the recipe or rule
            owner = f"{owner} ({words[1]})"
        words = words[2:]
    if kind == "study":
        return Refused(f"{owner} needs {error['msg']}; {REMEDY}.")
    key = kind if kind in ("recipe", "rule") else words[-1]
    if isinstance(value, dict) and key == kind:
        value = value.get(key)
    condition = error["msg"].replace("Input should be", f"{key} to be").replace("valid tuple", "list")
    return refusal(owner, condition, key, show(value), REMEDY)
