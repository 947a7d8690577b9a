"""``replay`` and its report: what would have been saved, by which contender, how surely, and the agent that continues it."""

import json
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property, partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from klazy.base.checks import InvalidInput, integer, one_of, positive
from klazy.base.files import write_durably
from klazy.base.html import show_card
from klazy.base.options import write_option
from klazy.base.progress import show_progress
from klazy.base.tables import Tabular, write_plainly
from klazy.families import Family
from klazy.live.agent import Agent
from klazy.live.guards import Guards
from klazy.live.rows import NEXT_ROW, THIS_ROW, check_zeros
from klazy.movement import Movement
from klazy.sets import ConvexSet
from klazy.sets.limits import LimitedSet
from klazy.studies.contenders import (
    ADVISED,
    FIXED,
    FORECASTING,
    GREEDY,
    LAZY,
    SEASONAL_RULE,
    SIMPLE,
    TOLD,
)
from klazy.studies.replay import page, scoring, wording
from klazy.studies.replay.scoring import BASELINE, TUNED_ROWS, Best, Fold, Progress
from klazy.studies.replay.setup import (
    SHAPES,
    Setup,
    check_plausible,
    is_autoscaler,
    list_warnings,
    make_autoscaler,
    make_setup,
    read_states,
)
from klazy.studies.replay.source import (
    DAY_SECONDS,
    Source,
    list_forecast_columns,
    open_forecasts,
    open_limits,
    play_model,
    to_datetime,
)
from klazy.studies.tuning import Score

if TYPE_CHECKING:
    from klazy.show import Figure

# Contenders in the short table, and the width of printed sentences.
SHORT_TABLE = 5
PRINT_WIDTH = 120
# Scored rounds in which it is measured how often the projection binds.
DIAGNOSED_ROWS = 50_000
# A baseline's decision may leave the set by this much, relative to it.
TOLERANCE = 1e-9


class Saving(NamedTuple):
    """What the best contender saved in the second part of a replay.

    Parameters
    ----------
    against : str
        The contender it is compared with.
    cost : float
        What it saved.
    half : float
        Half the width of its 95 % interval.
    share : float or None
        Relative to what the other paid; None where that is not positive.
    per_round : float
        What it saved a round.
    per_day : float or None
        What it saved a day; None without dates.
    """

    against: str
    cost: float
    half: float
    share: float | None
    per_round: float
    per_day: float | None


@dataclass(eq=False, repr=False)
class Report(Tabular):
    """A trace replayed: what each contender paid on its second part, tuned on the first. :func:`replay` makes it.

    ``print`` it for the answer and a short table; a notebook shows the same as a card.

    Parameters
    ----------
    source : Source
        The trace as it was read.
    setup : Setup
        The game that was played.
    rounds : tuple of int
        How many rounds the first and the second part have.
    scores : list of Score
        What each contender paid, the best first.
    optimum : Best or None
        The optimum in hindsight of the second part, with its lower bound; None where the movement allows none.
    binds : float
        The share of rounds in which k-lazyGD's projection binds.
    repeats : float
        The correlation of a row with the next.
    unit : str, optional
        The unit of costs.
    notes : list of str, optional
        Facts about the data and the game.
    move_costs : list of Report, optional
        The same replay at each move cost, if several were asked for.
    folds : list of Fold, optional
        The same replay for other splits, if they were asked for.
    """

    source: Source
    setup: Setup
    rounds: tuple[int, int]
    scores: list[Score]
    optimum: Best | None
    binds: float
    repeats: float
    unit: str = ""
    notes: list[str] = field(default_factory=list)
    move_costs: "list[Report]" = field(default_factory=list)
    folds: list[Fold] = field(default_factory=list)

    @property
    def tuned(self) -> int:
        """The number of rows that all contenders were tuned on."""
        return min(self.rounds[0], TUNED_ROWS)

    @property
    def best(self) -> Score:
        """The contender that paid least; the baseline does not count."""
        return next(score for score in self.scores if score.kind != BASELINE)

    @property
    def reference(self) -> Score:
        """The present way to decide: the baseline, or never moving."""
        return self.score(BASELINE if self.scores_baseline else FIXED)

    @property
    def scores_baseline(self) -> bool:
        """Whether a baseline was given."""
        return any(score.kind == BASELINE for score in self.scores)

    def score(self, name: str) -> Score:
        """Return the score of one contender.

        Parameters
        ----------
        name : str
            Its name, as in the table.

        Returns
        -------
        Score
            What it paid, and how.
        """
        scores = {score.name: score for score in self.scores}
        return scores[one_of(name, "name", tuple(scores))]

    @property
    def styles(self) -> list[str]:
        """How contenders decide that are given no forecasts, each style that plays: ``"lazy"``, ``"greedy"``, ``"simple"``."""
        kinds = {score.kind for score in self.scores}
        return [style for style in (LAZY, GREEDY, SIMPLE) if style in kinds]

    def best_of(self, *kinds: str) -> Score:
        """Return the best of these kinds: ``"simple"``, ``"greedy"``, ``"lazy"``.

        Parameters
        ----------
        *kinds : str
            Which contenders.

        Returns
        -------
        Score
            The one that paid least.
        """
        return next(score for score in self.scores if score.kind in kinds)

    def above_optimum(self, cost: float) -> float | None:
        """Compute how much a cost is above the certified lower bound.

        Parameters
        ----------
        cost : float
            A total cost on the second part.

        Returns
        -------
        float or None
            The difference, never below zero; None where the optimum is not known.
        """
        return None if self.optimum is None else max(cost - self.optimum.lower_bound, 0.0)

    @property
    def answer(self) -> str:
        """What would have been saved and with which contender, in a few sentences."""
        return "\n".join(wording.answer(self))

    @cached_property
    def table(self) -> pl.DataFrame:
        """One row per contender, the best first, and the optimum at the end, with all digits."""
        return pl.DataFrame(self.list_rows(), infer_schema_length=None)

    def list_rows(self) -> list[dict[str, Any]]:
        rows = wording.tabulate_scores(self)
        return [
            {name: cell for name, cell in row.items() if name != "parameters"} for row in rows
        ]

    @cached_property
    def savings(self) -> dict[str, Saving]:
        """What the best contender saved against holding still (``"fixed"``) and against the ``"baseline"``, if there is one."""
        names = [FIXED, BASELINE] if self.scores_baseline else [FIXED]
        return {name: self._measure_saving(self.score(name)) for name in names}

    def _measure_saving(self, other: Score) -> Saving:
        gain, half = self.best.compare(other)
        share = gain / other.cost if other.cost > 0.0 and self.best.cost > 0.0 else None
        per_day = None if self.days is None else gain / self.days
        return Saving(other.name, gain, half, share, gain / self.rounds[1], per_day)

    @property
    def days(self) -> float | None:
        """The days of the second part; None without dates."""
        steps = self.source.find_steps() if self.source.has_dates else None
        if steps is None:
            return None
        first, last = self.span
        return (
            float(self.source.instants[last - 1] - self.source.instants[first] + steps.usual)
            / DAY_SECONDS
        )

    @property
    def span(self) -> tuple[int, int]:
        """The rows of the second part: the first, counted from 0, and the one after the last."""
        first, second = self.rounds
        return first, first + second

    @cached_property
    def recorded_rows(self) -> np.ndarray:
        """The rows, counted from 0, whose decisions are recorded: all of them, or some of a long trace."""
        first, last = self.span
        return np.arange(first, last, scoring.choose_every(last - first, self.source.dim))

    def list_times(self) -> list[Any] | None:
        """List the time stamps of the recorded rows.

        Returns
        -------
        list or None
            Dates, or numbers; None without a time column.
        """
        if self.source.time is None:
            return None
        times = self.source.times[self.recorded_rows].tolist()
        return [to_datetime(each) for each in times] if self.source.has_dates else times

    @cached_property
    def decisions(self) -> pl.DataFrame:
        """The decisions of the best contender in the second part, by time and column name."""
        return self.decisions_of(self.best.name)

    def decisions_of(self, name: str) -> pl.DataFrame:
        """Return the decisions of one contender in the second part.

        Parameters
        ----------
        name : str
            Its name, as in the table.

        Returns
        -------
        polars.DataFrame
            The row of the trace, counted from 1, its time stamp if there is one, and a column per coordinate.
        """
        columns: dict[str, Any] = {"row": self.recorded_rows + 1}
        times = self.list_times()
        if times is not None:
            columns[self.source.time or "time"] = times
        return pl.DataFrame(
            columns | dict(zip(self.source.columns, self.score(name).points.T, strict=True))
        )

    def plot(self, kind: str = "cumulative") -> "Figure":
        """Draw the replay.

        Parameters
        ----------
        kind : str, optional
            ``"cumulative"``: what each has paid more than holding still, or than the baseline, so far. ``"decisions"``: what
            was decided over time. ``"pareto"``: operating cost over switching cost. ``"periods"``: cost by month, day or hour.
            ``"move_costs"``: cost and movement over the move cost, if several were replayed.

        Returns
        -------
        Figure
            A matplotlib figure.
        """
        return page.FIGURES[one_of(kind, "kind", tuple(page.FIGURES))](self)

    def to_html(self, path: str | Path, command: str = "klazy.replay") -> None:
        """Write the report as one HTML page, with its figures inside.

        Parameters
        ----------
        path : str or Path
            The file to write.
        command : str, optional
            What made it, as the page says.
        """
        write_durably(Path(path), page.make_report(self, command).encode())

    def to_dict(self) -> dict[str, Any]:
        """Convert the report to plain values.

        Returns
        -------
        dict
            What :meth:`to_json` writes.
        """
        return {
            "verdict": wording.judge(self),
            "laziness": wording.judge_laziness(self),
            "forecasts": wording.judge_told(self, FORECASTING),
            "advice": wording.judge_told(self, ADVISED),
            "best": self.best.name,
            **{f"best_{style}": self.best_of(style).name for style in self.styles},
            "savings": {name: saving._asdict() for name, saving in self.savings.items()},
            "rounds": {"first": self.rounds[0], "tuned": self.tuned, "second": self.rounds[1]},
            "move_cost": np.asarray(self.setup.movement.weight).tolist(),
            "columns": self.source.columns,
            "unit": self.unit,
            "filled": self.source.filled,
            "optimum": None if self.optimum is None else self.optimum.cost,
            "lower_bound": None if self.optimum is None else self.optimum.lower_bound,
            "binds": self.binds,
            "repeats": self.repeats,
            "notes": self.notes,
            "answer": wording.answer(self),
            "table": wording.tabulate_scores(self),
            "move_costs": wording.tabulate_move_costs(self.move_costs),
            "folds": wording.tabulate_folds(self),
        }

    def to_json(self, path: str | Path | None = None) -> str:
        """Write the report as JSON, with all digits.

        Parameters
        ----------
        path : str or Path, optional
            A file to write it to as well.

        Returns
        -------
        str
            The JSON text.
        """
        text = json.dumps(self.to_dict())
        if path is not None:
            write_durably(Path(path), text.encode())
        return text

    def agent(self, name: str | None = None, at: str = "split") -> Agent:
        """Make the agent that decides as a contender did, from rows by column name, at the same move cost.

        Parameters
        ----------
        name : str, optional
            Which contender. Default: the one that paid least.
        at : str, optional
            Where it begins. ``"split"``: before the scored rows; given these by :meth:`~klazy.Agent.observe`, and the limits of
            rounds as ``next_limits``, it pays what the report says, to the last digit. ``"end"``: after the last row of the
            trace.

        Returns
        -------
        Agent
            It knows its costs, movement, columns, guards, what to do with missing cells, and in ``origin`` where it was tuned
            and what it paid there.
        """
        score = self.best if name is None else self.score(name)
        if score.kind == BASELINE:
            raise InvalidInput("The baseline cannot become an agent. Choose another contender.")
        one_of(at, "at", ("split", "end"))
        player = score.began if at == "split" else score.player
        before = self.span[0] if at == "split" else self.span[1]
        forecasts = self.source.forecasts if score.kind in TOLD else None
        last_row = None
        if self.source.fill == "forward":
            last_row = self.source.read_as_given(before - 1, before)[0]
        guards = self.setup.guards
        if guards is None and self.setup.limits is not None:
            guards = Guards()
        return Agent(
            player.learner,
            costs=self.setup.family,
            columns=self.source.columns,
            movement=self.setup.movement,
            state=player.state,
            guards=guards,
            limits=scoring.list_sides(self.setup.limits, before),
            origin=self._describe_origin(score, at),
            fill=self.source.fill,
            last_row=last_row,
            per=self.setup.per,
            lead=self.setup.lead,
            delay=self.setup.delay,
            forecast=None if forecasts is None else forecasts.columns,
        )

    def _describe_origin(self, score: Score, at: str) -> dict[str, Any]:
        """Describe where an agent comes from, as plain values."""
        first, last = self.span
        gain, half = score.compare(self.score(FIXED))
        origin: dict[str, Any] = {
            "trace": self.source.title,
            "contender": score.name,
            "parameters": score.parameters,
            "best": self.best.name,
            "tuned_rows": [first - self.tuned + 1, first],
            "scored_rows": [first + 1, last],
            "next_row": (first if at == "split" else last) + 1,
            "paid": {"hitting": score.hitting, "switching": score.switching, "cost": score.cost},
            "fixed": self.score(FIXED).cost,
            "fixed_decision": self.score(FIXED).points[0].tolist(),
            "unit": self.unit,
            "promised": {"rounds": self.rounds[1], "saved": gain, "half": half},
        }
        if self.reference.name == BASELINE:
            origin["baseline"] = self.reference.cost
        forecasts = self.source.forecasts
        if forecasts is not None and score.kind in TOLD:
            if forecasts.features is None:
                origin["forecast_for"] = NEXT_ROW if forecasts.is_early else THIS_ROW
            else:
                origin["features"] = forecasts.features
        if self.source.time is not None:
            steps = self.source.find_steps()
            origin["time"] = self.source.time
            origin["step"] = None if steps is None else steps.usual
        if self.source.has_dates:
            origin["last_time"] = float(
                self.source.instants[(first if at == "split" else last) - 1]
            )
        return origin

    def __repr__(self) -> str:
        first, second = self.rounds
        scored = f"{second} of {first + second} rounds scored"
        return (
            f"Report({self.source.title}, {scored}, best: {wording.format_contender(self.best)})"
        )

    def __str__(self) -> str:
        answer = "\n".join(textwrap.fill(line, PRINT_WIDTH) for line in self.answer.splitlines())
        rows = wording.write_table(self, SHORT_TABLE)
        return f"{answer}\n\n{write_plainly(rows)}"

    @show_card
    def _repr_html_(self) -> str:
        return page.make_summary(self)


def replay(
    data: Any,
    domain: str | ConvexSet = "simplex",
    costs: str | Family = "linear",
    *,
    movement: str | Movement | None = None,
    move_cost: float | Sequence[float] = 1.0,
    train: float = 0.5,
    folds: int = 0,
    baseline: Any = None,
    forecast: Any = None,
    forecast_for: str = THIS_ROW,
    model: Any = None,
    features: str | Sequence[str] = (),
    advice: Any = None,
    delta: float = 0.1,
    limits: Any = None,
    time: str | None = None,
    fill: str | None = None,
    unit: str = "",
    states: Any = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Measure what would have been saved on a trace, and with which learner.

    Learners and rules of thumb are tuned on the first part of the trace, each on as many candidates as the others, and scored
    on the second, next to your present decisions and the optimum in hindsight. A round pays for its decision and for the move
    after it.

    Parameters
    ----------
    data : path, frame or array_like
        A CSV, TSV, Excel or Parquet file, a pandas or polars frame, or an array: a row per round, a column per coordinate.
    domain : str or ConvexSet, optional
        Where decisions live: ``"simplex"``, ``"capped-simplex"``, ``"box"``, ``"ball"``, ``"polytope"``, or a set.
    costs : str or Family, optional
        What a row means: ``"linear"``, ``"rewards"``, ``"quadratic"``, ``"pinball"``, ``"log-wealth"``, or a family such as
        ``Pinball(4.0)``.
    movement : str or Movement, optional
        How moving is measured: ``"tv"``, ``"l1"``, ``"l2"``, ``"fee"`` for a fee per change, ``"squared"``, or ``"impact"`` for
        powers of 3/2. Default: as suits the set.
    move_cost : float or sequence of float, optional
        What a unit of movement costs. Several are replayed one by one; the answer is that of the middle one.
    train : float, optional
        The share of the rows to tune on.
    folds : int, optional
        Into how many parts to cut the second part, each scored by contenders tuned on all that came before it.
    baseline : path, frame, array_like or list of str, optional
        The decisions made until now, a row per row of the data; or the columns of ``data`` that hold them. ``"hpa"`` is the
        rule of Kubernetes' autoscaler, :class:`~klazy.contrib.PodAutoscaler`, with a target of 80 % and a window of 5 minutes;
        ``"hpa:target=0.7,window=10m"`` changes these.
    forecast : str, path, frame or list of str, optional
        Forecasts of the rows that you have: the columns of ``data`` that hold them, one for each column, or ``"*_forecast"``,
        where the star stands for the name of a column; or a file or frame, whose rows go by their time stamps. Contenders that
        follow them then join. A row without a forecast is decided without.
    forecast_for : str, optional
        The row that the forecast, or the advice, in a row is for: ``"this"``, its own row, before which it was known; or
        ``"next"``, the row that the decision after it meets, which is the next one, or with ``lead`` and ``delay`` as many rows
        later.
    model : object, optional
        A model that makes the forecasts on the way, in the place of forecasts that you have: one of river, scikit-learn or
        statsforecast, as :class:`~klazy.contrib.Forecaster` takes it. It learns from each row before it forecasts the row that
        the next decision meets.
    features : list of str, optional
        The columns of ``data`` that the model sees besides the others. They are no columns of the decision. Default: none.
    advice : str, path, frame or list of str, optional
        Decisions that a model or a person advises, in the place of forecasts: the columns of ``data`` that hold them, one for
        each column, or ``"*_advice"``; or a file or frame. Then these join as they are, and
        :class:`~klazy.contrib.Interpolation` between them and ``auto``.
    delta : float, optional
        How much more than the advice points between it and ``auto`` may cost, as a share. Default: 0.1.
    limits : path, frame or tuple, optional
        Limits of the decision in each round of the second part: caps, quotas, outages. A file or frame has columns such as
        ``eu_lower`` and ``eu_upper``, in units of decisions; its rows go by their time stamps, or by their order, and an empty
        cell is no limit. A tuple is that of :func:`~klazy.run`. The limits of a round are known when it is decided. They do
        not go together with ``lead``, ``delay``, ``ramp_up`` or ``ramp_down``.
    time : str, optional
        The column of time stamps. Default: one called time or date, or the first with dates.
    fill : str, optional
        What to do with missing cells: ``"forward"``, ``"zero"`` or ``"drop"``. Default: reject them.
    unit : str, optional
        The unit of costs, such as ``"EUR"``.
    states : path, frame or array_like, optional
        What switching between columns costs, in multiples of the move cost: a table with a row and a column for each, of which
        the decision is one at a time, such as the region that is primary. Default: decisions may be mixed.
    progress : callable, optional
        Called with the fraction of the work that is done.
    **options
        What the set takes (``total``, ``cap``, ``floor``, ``lower``, ``upper``, ``radius``, ``polytope``), the costs of a unit
        too few or too many with pinball costs (``short``, ``excess``), what raising and lowering cost in multiples of the move
        cost (``up``, ``down``), each a number or one per column; ``start``, the decision before the first round;
        ``per``, how many units of a row are one unit of a decision: with ``per=60`` a server meets a demand of 60, and
        decisions, limits and prices are in servers; ``lead``, how many rounds later a decision acts; ``delay``, how many
        rounds late a row is known; and limits on the decisions in the second part: ``ramp_up`` and ``ramp_down`` (by how much
        one may rise and fall in a round), ``whole=True`` (integers, the default with ``per``), or ``guards``.

    Returns
    -------
    Report
        Print it, or ask it for ``answer``, ``savings``, ``table``, ``plot()``, ``decisions`` and ``agent()``.

    Raises
    ------
    ValueError
        If a cell is no number, options do not fit together, or the game has no content.

    Examples
    --------
    >>> rows = 2.0 + np.sin(np.arange(120)[:, None] / 20.0 + np.arange(5.0))
    >>> report = replay(rows, move_cost=0.5)
    >>> report.best.name, report.savings["fixed"].cost > 0.0
    ('k-lazyGD', True)
    """
    _check_options(options)
    if folds:
        integer(folds, "folds", "Leave it out for a single split.", least=2)
    has_rule = is_autoscaler(baseline)
    beside = _check_model(model, features, forecast, forecast_for, advice)
    told = (forecast, None)
    if advice is not None:
        if forecast is not None or states is not None:
            other = "forecast" if states is None else "states"
            names = f"{write_option('advice')} and {write_option(other)}"
            raise InvalidInput(f"{names} do not go together. Leave one of them out.")
        told = (advice, positive(delta, write_option("delta")))
    decided = None if has_rule else baseline
    source = _open(data, time, fill, costs, decided, told, forecast_for, beside)
    weights = np.atleast_1d(move_cost).astype(float).tolist()
    if states is not None:
        movement = read_states(states, source, domain, costs, movement)
        options = {"start": np.eye(source.dim)[0]} | options
    setups = [
        make_setup(source.dim, domain, costs, movement, weight, **options) for weight in weights
    ]
    if limits is not None:
        within = _check_limits(limits, source, setups[0], time)
        setups = [replace(setup, limits=within) for setup in setups]
    if has_rule:
        setups = [
            replace(setup, rule=make_autoscaler(baseline, source, setup)) for setup in setups
        ]
    check_zeros(fill, setups[0].family)
    source.per = setups[0].per
    if model is not None:
        ahead = 1 + setups[0].lag
        source.forecasts = play_model(source, data, model, beside, time, ahead)
    first = scoring.count_first(source, train)
    check_plausible(source, setups[0])
    scoring.warn_of_numpy(source, setups[0])
    parts = len(setups) + (1 if folds else 0)
    with show_progress("replaying") as shown:
        report_progress = progress or shown
        reports = [
            _replay_once(
                source, setup, first, unit, scoring.scale_progress(report_progress, at, parts)
            )
            for at, setup in enumerate(setups)
        ]
        found = reports[len(reports) // 2]
        if folds:
            report_folds = scoring.scale_progress(report_progress, parts - 1, parts)
            found.folds = scoring.score_folds(source, found.setup, first, folds, report_folds)
        report_progress(1.0)
    if len(reports) > 1:
        found.move_costs = reports
        found.notes.append(wording.describe_winners(reports))
    if folds:
        found.notes.append(wording.describe_folds(found))
    return found


def _check_limits(limits: Any, source: Source, setup: Setup, time: str | None) -> LimitedSet:
    """Return the limits of every row, or reject them."""
    if setup.lag or setup.ramp is not None:
        names = [write_option(name) for name in ("lead", "delay", "ramp_up", "ramp_down")]
        raise InvalidInput(
            f"{write_option('limits')} does not go together with {', '.join(names[:-1])} or {names[-1]}. "
            "Leave one of them out."
        )
    if not isinstance(limits, tuple):
        limits = open_limits(source, limits, time)
    within = LimitedSet.check(limits, setup.domain, source.T).check_rounds()
    return within.to_integers() if setup.integers else within


def _check_model(
    model: Any, features: Any, forecast: Any, forecast_for: str, advice: Any
) -> list[str]:
    """Return the columns that only the model sees, or reject options that do not fit together."""
    if not isinstance(features, Sequence):
        flag = write_option("features")
        raise InvalidInput(f"{flag} must be a list of columns, got {features!r}. Use ['hour'].")
    names = features.split(",") if isinstance(features, str) else list(features)
    if model is None and names:
        raise InvalidInput(
            f"{write_option('features')} are for a model, got {names}. Leave them out, or name a model."
        )
    if model is None:
        return names
    given = {"forecast": forecast is not None, "advice": advice is not None}
    given["forecast_for"] = forecast_for != THIS_ROW
    for name, is_given in given.items():
        if is_given:
            both = f"{write_option('model')} and {write_option(name)}"
            raise InvalidInput(f"{both} do not go together. Leave one of them out.")
    return names


def _check_options(options: dict[str, Any]) -> None:
    """Reject an unknown option, with the one that was probably meant."""
    takes = signature(make_setup).parameters.keys() - {"dim", "shape"}
    takes |= {name for shape in SHAPES.values() for name in shape}
    known = sorted(takes | signature(replay).parameters.keys() - {"options"})
    for name, value in options.items():
        if name not in takes:
            near = get_close_matches(name, known, 1)
            remedy = f"Did you mean {near[0]}?" if near else f"Options are {', '.join(known)}."
            raise InvalidInput(f"replay has no option {name}, got {name}={value!r}. {remedy}")


def _open(
    data: Any,
    time: str | None,
    fill: str | None,
    costs: Any,
    baseline: Any,
    told: tuple[Any, float | None],
    forecast_for: str,
    features: list[str],
) -> Source:
    """Open the trace, with the baseline's decisions and the forecasts; with a delta these are decisions, too."""
    forecast, delta = told
    is_positive = getattr(costs, "positive", costs == "log-wealth")
    names = None
    if isinstance(baseline, list | tuple) and all(isinstance(name, str) for name in baseline):
        names = list(baseline)
    beside = list_forecast_columns(forecast) or []
    without = [*(names or ()), *beside, *features]
    role = "features" if features and not names else "baseline"
    if beside and not names:
        role = "forecast" if delta is None else "advice"
    source = Source(data, time, fill, positive=is_positive, without=without, role=role)
    if forecast is not None:
        source.forecasts = open_forecasts(source, data, forecast, forecast_for, time, delta)
    if baseline is None:
        return source
    decisions = (
        Source(baseline, time, fill) if names is None else Source(data, time, fill, only=names)
    )
    if (decisions.T, decisions.dim) != (source.T, source.dim):
        wanted = f"baseline must have {source.T} rows with {source.dim} decisions each"
        raise InvalidInput(
            f"{wanted}, as the trace has, got {decisions.T} rows with {decisions.dim}."
        )
    order = list(range(source.dim))
    if set(decisions.columns) == set(source.columns):
        order = [decisions.columns.index(name) for name in source.columns]
    source.read_baseline = partial(_read_in_order, decisions, order)
    return source


def _read_in_order(decisions: Source, order: list[int], first: int, last: int) -> np.ndarray:
    return decisions.read(first, last)[:, order]


def _replay_once(
    source: Source, setup: Setup, first: int, unit: str, report_progress: Progress
) -> Report:
    last = source.T
    with warnings.catch_warnings():
        # The replay has warned once for all of its runs.
        warnings.filterwarnings("ignore", "This run takes about")
        scores = scoring.score_split(source, setup, first, last, report_progress)
    optimum = scoring.find_hindsight_optimum(source, setup, first, last)
    binds = scoring.measure_binding(
        scores, setup, source.read(first, min(first + DIAGNOSED_ROWS, last))
    )
    rows, seconds = scoring.read_tuned(source, first)
    repeats = scoring.measure_repeats(rows)
    report = Report(source, setup, (first, last - first), scores, optimum, binds, repeats, unit)
    has_season = any(score.name == SEASONAL_RULE for score in scores)
    width = setup.rule_family.width(source.dim)
    missed = scoring.list_missed_seasons(seconds, width, source.T, has_season)
    # Forecasts of a model are where they belong.
    is_given = source.forecasts is not None and source.forecasts.features is None
    moved = scoring.list_misplaced(source, setup) if is_given else []
    report.notes = [*_list_doubts(report), *moved, *missed, *source.list_notes()]
    return report


def _list_doubts(found: Report) -> list[str]:
    doubts = list_warnings(found.source, found.setup)
    if all(score.ties_with(found.scores[0]) for score in found.scores) and not doubts:
        same = "All contenders paid the same: this game does not tell them apart."
        doubts.append(f"{same} Is the set the one you meant?")
    if found.setup.limits is not None:
        who = (
            "All contenders are"
            if found.source.read_baseline is None
            else "All but the baseline are"
        )
        doubts.append(f"{who} within the limits of each round; they were tuned without them.")
    if found.scores_baseline:
        violations = found.setup.domain.violation(found.score(BASELINE).points)
        outside = float((violations > TOLERANCE).mean())
        if outside > 0.0:
            share = f"{100.0 * outside:.2g}%"
            doubts.append(f"In {share} of the rounds the baseline's decision is not in the set.")
    return doubts
