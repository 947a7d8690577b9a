"""Forecasts by a model of another package that learns row by row, such as those of river and scikit-learn."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping, Sequence
from enum import Enum
from inspect import signature
from typing import Any

import numpy as np

from klazy.base.cells import is_missing
from klazy.base.checks import LARGEST, Array, InvalidInput, integer, number

# The inputs of a model for one row, by name.
Inputs = dict[str, float]


class Kind(Enum):
    """How a model is called."""

    SERIES = "learn_one and forecast"
    REGRESSOR = "learn_one and predict_one"
    BATCHES = "partial_fit and predict"


class Refit:
    """Fit a model anew every so many rows, to the last rows: for models that cannot learn row by row.

    Such are the models of statsforecast, with ``fit(y, X)`` and ``predict(h, X)``, and those of scikit-learn with ``fit(X, y)``
    and ``predict(X)``. :class:`Forecaster` takes the result.

    Parameters
    ----------
    model : object
        The model.
    every : int
        After how many rows it is fitted anew. In between, a time-series model forecasts further ahead.
    window : int
        To how many rows it is fitted, the last ones.

    Examples
    --------
    >>> class Mean:
    ...     def fit(self, y, X=None):
    ...         self.mean = y.mean()
    ...
    ...     def predict(self, h, X=None):
    ...         return {"mean": [self.mean] * h}
    >>> model = Refit(Mean(), every=2, window=3)
    >>> for y in (1.0, 2.0, 6.0, 4.0):
    ...     model.learn_one({}, y)
    ...     print(model.forecast(1, [{}]))
    [1.0]
    [1.0]
    [3.0]
    [3.0]
    """

    def __init__(self, model: Any, every: int, window: int) -> None:
        if not _has(model, "fit", "predict"):
            raise InvalidInput(f"model must have fit and predict, got {model!r}.")
        self.model = model
        self.every = integer(every, "every")
        self.window = integer(window, "window")
        self._pairs: deque[tuple[Inputs, float]] = deque(maxlen=self.window)
        # The inputs of the rows since the last fit; None before the first.
        self._since: list[Inputs] | None = None

    @property
    def is_series(self) -> bool:
        """Whether the model is one of time series, which is asked for a horizon."""
        return "h" in signature(self.model.predict).parameters

    def learn_one(self, x: Inputs, y: float) -> None:
        """Remember a row.

        Parameters
        ----------
        x : dict
            The inputs.
        y : float
            The target.
        """
        self._pairs.append((x, y))
        if self._since is not None:
            self._since.append(x)

    def forecast(self, horizon: int, xs: Sequence[Inputs]) -> list[float]:
        """Forecast the rows to come.

        Parameters
        ----------
        horizon : int
            How many.
        xs : sequence of dict
            The inputs of each.

        Returns
        -------
        list of float
            A forecast for each.
        """
        if self._since is None or len(self._since) >= self.every:
            known = [x for x, _ in self._pairs]
            self.model.fit(X=_make_matrix(known), y=np.array([y for _, y in self._pairs]))
            self._since = []
        if not self.is_series:
            return [float(mean) for mean in self.model.predict(_make_matrix(xs))]
        later = [*self._since, *xs]
        found = self.model.predict(h=len(later), X=_make_matrix(later))
        means = found["mean"] if isinstance(found, Mapping) else found
        return [float(mean) for mean in means[-horizon:]]

    def __repr__(self) -> str:
        return f"Refit({self.model!r}, every={self.every}, window={self.window})"


class Forecaster:
    """Forecast the next row by a model that learns from each row when it comes, so that it never looks ahead.

    The model is one of river, a regressor (``learn_one(x, y)``, ``predict_one(x)``) or of time series (``learn_one(y, x)``,
    ``forecast(horizon, xs)``); one of scikit-learn with ``partial_fit`` and ``predict``; any other with ``fit`` and ``predict``
    in a :class:`Refit`; or one of your own with such methods.

    When a row comes, the model learns the targets of this row from the features of the row before. Then it forecasts the
    targets of the next row from the features of this one. So a feature is what is known when its row comes; put what you know
    of the next row, such as its hour, into the row before. A regressor also has the last targets as features. A model of time
    series remembers them by itself.

    A row without its targets teaches nothing, and after a row in which any cell is missing there is no forecast.

    Parameters
    ----------
    model : object
        The model. Each target gets a copy, and the model itself stays as it is.
    targets : sequence of str
        The entries of a row that are forecast.
    features : sequence of str, optional
        Further entries of a row, numbers. Default: none.
    ahead : int, optional
        How many rows ahead it forecasts: 1, and the ``lead`` and ``delay`` of the agent. Default: 1.

    Attributes
    ----------
    learned : int
        How many rows it has learned from.
    failure : str
        Why there is no forecast yet, if the model failed to make one.

    Examples
    --------
    >>> class Habit:
    ...     def __init__(self):
    ...         self.last = {}
    ...
    ...     def learn_one(self, x, y):
    ...         self.last[x["next_is_weekend"]] = y
    ...
    ...     def predict_one(self, x):
    ...         return self.last[x["next_is_weekend"]]
    >>> forecaster = Forecaster(Habit(), ["load"], ["next_is_weekend"])
    >>> for load, weekend in ((9.0, 0), (8.0, 1), (2.0, 1), (3.0, 0)):
    ...     print(forecaster.observe({"load": load, "next_is_weekend": weekend}))
    None
    None
    {'load': 2.0}
    {'load': 8.0}
    """

    def __init__(
        self,
        model: Any,
        targets: Sequence[str],
        features: Sequence[str] = (),
        *,
        ahead: int = 1,
    ) -> None:
        self.targets = _check_names(targets, "targets")
        self.features = _check_names(features, "features")
        if not self.targets:
            raise InvalidInput("targets must have a name. Use targets=['demand'].")
        for name in self.features:
            if name in self.targets:
                raise InvalidInput(
                    f"features must not have the target {name!r}. The model knows it anyway: leave it out."
                )
        self.ahead = integer(ahead, "ahead")
        self._kind = _find_kind(model)
        try:
            self._models = [copy.deepcopy(model) for _ in self.targets]
        # A model may raise anything.
        except Exception as failed:
            raise InvalidInput(
                f"model must be one that can be copied, got {model!r}: {failed}."
            ) from failed
        is_series = self._kind is Kind.SERIES and getattr(model, "is_series", True)
        self._inputs = self.features if is_series else (*self.features, *self.targets)
        # The inputs of the last rows, the oldest first; None where a cell was missing.
        self._recent: deque[Inputs | None] = deque(maxlen=self.ahead)
        self._has_forecast = False
        self.learned = 0
        self.failure = ""

    def check_row(self, row: Mapping[str, Any]) -> None:
        """Check a row as :meth:`observe` would; nothing changes.

        Parameters
        ----------
        row : dict
            As in :meth:`observe`.

        Raises
        ------
        ValueError
            If a target or a feature is missing, or is no finite number.
        """
        self._read(row)

    def observe(self, row: Mapping[str, Any]) -> dict[str, float] | None:
        """Learn from a row, and forecast the next one. A rejected row changes nothing.

        Parameters
        ----------
        row : dict
            The targets and features of a row by name, and perhaps others. A missing cell is None, NaN or empty.

        Returns
        -------
        dict or None
            The forecast of the targets of the next row, or of the row that is ``ahead``; None if there is none.

        Raises
        ------
        ValueError
            If a target or a feature is not there, or is no finite number; or if the model fails.
        """
        cells = self._read(row)
        known = {name: value for name, value in cells.items() if value is not None}
        before = self._recent[0] if len(self._recent) == self.ahead else None
        x = {name: known[name] for name in self._inputs if name in known}
        self._recent.append(x if len(x) == len(self._inputs) else None)
        if before is not None and all(name in known for name in self.targets):
            for name, model in zip(self.targets, self._models, strict=True):
                self._learn(model, name, before, known[name])
            self.learned += 1
        # A model of time series is asked for all rows on the way.
        needed = self.ahead if self._kind is Kind.SERIES else 1
        xs = [x for x in list(self._recent)[-needed:] if x is not None]
        is_complete = len(known) == len(cells)
        if not is_complete or self.learned == 0 or len(xs) < needed:
            return None
        return self._forecast(xs)

    def _read(self, row: Mapping[str, Any]) -> dict[str, float | None]:
        """Return the numbers of a row, None where a cell is missing."""
        names = (*self.features, *self.targets)
        missing = [name for name in names if name not in row]
        if missing:
            raise InvalidInput(f"The row must have {list(names)}, but {missing} are missing.")
        return {
            name: None if is_missing(row[name]) else number(row[name], name) for name in names
        }

    def _learn(self, model: Any, name: str, x: Inputs, y: float) -> None:
        try:
            if self._kind is Kind.BATCHES:
                model.partial_fit(_make_matrix([x]), [y])
            elif self._kind is Kind.REGRESSOR:
                model.learn_one(x, y)
            else:
                model.learn_one(x=x, y=y)
        # A model may raise anything.
        except Exception as failed:
            raise _explain(name, failed) from failed

    def _forecast(self, xs: list[Inputs]) -> dict[str, float] | None:
        found = {}
        for name, model in zip(self.targets, self._models, strict=True):
            try:
                found[name] = self._ask(model, xs)
            # A model may raise anything.
            except Exception as failed:
                # Before its first forecast it may not have seen enough.
                if self._has_forecast:
                    raise _explain(name, failed) from failed
                self.failure = str(_explain(name, failed))
                return None
        self._has_forecast = True
        self.failure = ""
        return found

    def _ask(self, model: Any, xs: list[Inputs]) -> float:
        """Return a model's forecast of the row after the inputs."""
        if self._kind is Kind.SERIES:
            value = float(model.forecast(horizon=len(xs), xs=xs)[-1])
        elif self._kind is Kind.REGRESSOR:
            value = float(model.predict_one(xs[-1]))
        else:
            value = float(model.predict(_make_matrix(xs[-1:]))[0])
        if not abs(value) <= LARGEST:
            raise ArithmeticError(
                f"its forecast is {value}. If it learns by gradient steps, scale its features or lower its learning rate"
            )
        return value


def _explain(name: str, failed: Exception) -> InvalidInput:
    return InvalidInput(f"The model of {name} failed: {type(failed).__name__}: {failed}.")


def _check_names(names: Sequence[str], what: str) -> tuple[str, ...]:
    """Return names, each of which must be there once."""
    is_list = not isinstance(names, str) and all(isinstance(name, str) for name in names)
    if not is_list or len(set(names)) < len(names):
        raise InvalidInput(f"{what} must be a list of distinct names, got {names!r}.")
    return tuple(names)


def _find_kind(model: Any) -> Kind:
    """Find how a model is called. A pipeline has the methods of every kind: its last step decides."""
    last = model
    while isinstance(steps := getattr(last, "steps", None), Mapping):
        last = list(steps.values())[-1]
    if not isinstance(last, type):
        if _has(last, "learn_one", "forecast"):
            return Kind.SERIES
        if _has(last, "learn_one", "predict_one"):
            return Kind.REGRESSOR
        if _has(last, "partial_fit", "predict"):
            return Kind.BATCHES
    wanted = "learn_one and predict_one or forecast, as in river, or partial_fit and predict"
    remedy = "Use river.linear_model.LinearRegression()."
    if _has(last, "fit", "predict"):
        remedy = "Use Refit(model, every=24, window=500) to fit it anew every 24 rows."
    if isinstance(last, type):
        remedy = f"Use {last.__name__}()."
    raise InvalidInput(f"model must be an object with {wanted}, got {model!r}. {remedy}")


def _has(model: Any, *methods: str) -> bool:
    return all(callable(getattr(model, name, None)) for name in methods)


def _make_matrix(xs: Sequence[Inputs]) -> Array | None:
    """Return inputs as a row each, None if there are no inputs."""
    rows = [list(x.values()) for x in xs]
    return np.array(rows) if rows and rows[0] else None
