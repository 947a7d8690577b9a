"""``replay_jobs`` and its report: what jobs with a deadline would have cost at past prices, and with which rule.

The trace is cut into many jobs. Rules are tuned on those of its first part and scored on those of the second, next to running
at once and the optimum of each job.
"""

import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from klazy import show
from klazy.base.amounts import format_amount, format_column, format_interval
from klazy.base.checks import Array, InvalidInput, integer, non_negative, one_of, positive, vector
from klazy.base.files import write_durably
from klazy.base.html import load_macros, render, show_card
from klazy.base.options import write_option
from klazy.base.progress import show_progress
from klazy.base.tables import Tabular, write_plainly
from klazy.base.uplot import MOST_CURVES, Curve, make_chart
from klazy.contrib.deadlines import (
    CLIP,
    RORO,
    Conversion,
    ConversionRule,
    FollowPlan,
    Job,
    PauseResume,
    RunAtOnce,
    SpreadEvenly,
    best_conversion,
    check_deadline,
)
from klazy.contrib.deadlines import convert as play
from klazy.live.rows import THIS_ROW
from klazy.show.style import PALETTE, make_svg
from klazy.studies.contenders import FORECASTING, SIMPLE
from klazy.studies.replay.page import set_signs
from klazy.studies.replay.scoring import OPTIMUM, STRETCHES, Progress, count_first
from klazy.studies.replay.source import (
    DAY_SECONDS,
    Source,
    list_forecast_columns,
    open_forecasts,
    to_datetime,
)
from klazy.studies.replay.wording import (
    UNCERTAIN,
    add_unit,
    format_contender,
    format_parameters,
    judge_gain,
)
from klazy.studies.tuning import Score, list_points

if TYPE_CHECKING:
    from klazy.show import Figure

# Jobs that are scored, and those that rules are tuned on, if nobody says how often one starts.
SCORED_JOBS = 500
TUNED_JOBS = 100
# Shares of the prices of the first part that a tuned threshold leaves out at either end.
CUTS = [0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3]
EPSILONS = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0]
# The days after which prices may come again.
DAYS = (1, 7)
AT_ONCE = "run at once"
PRINT_WIDTH = 120


class JobContender(NamedTuple):
    """A way to make the rule of a job, from the row in which it starts and from parameters with values to try."""

    name: str
    make: Callable[..., ConversionRule]
    axes: dict[str, list[float]]
    kind: str = SIMPLE


@dataclass(eq=False, repr=False)
class JobsReport(Tabular):
    """Jobs with a deadline on past prices: what each rule paid for those of the second part. :func:`replay_jobs` makes it.

    ``print`` it for the answer and a table; a notebook shows the same as a card.

    Parameters
    ----------
    source : Source
        The trace as it was read.
    job : Job
        The job, with the bounds for which ratios are proved.
    deadline : int
        How many rows a job may take.
    contenders : list of JobContender
        Who played.
    starts : array
        The rows in which the scored jobs start, counted from 0.
    scores : list of Score
        What each contender paid, the least first; ``points`` are the decisions, a row for each job.
    optimum : Score
        What the optimum of each job paid.
    unit : str, optional
        The unit of costs.
    notes : list of str, optional
        Facts about the data.
    """

    source: Source
    job: Job
    deadline: int
    contenders: list[JobContender]
    starts: np.ndarray
    scores: list[Score]
    optimum: Score
    unit: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def best(self) -> Score:
        """The contender that paid least."""
        return self.scores[0]

    @property
    def threshold(self) -> Score:
        """The rule with the proved ratio: :class:`~klazy.contrib.RORO` or :class:`~klazy.contrib.PauseResume`."""
        return self.score((PauseResume if self.job.whole else RORO).__name__)

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

    def rule(self, name: str | None = None, forecast: Any = None) -> ConversionRule:
        """Make the rule of a contender for a job that starts after the last row.

        Parameters
        ----------
        name : str, optional
            Which contender. Default: the one that paid least.
        forecast : array_like, optional
            The forecast price of each row of the job, for contenders that follow forecasts.

        Returns
        -------
        ConversionRule
            Its ``start(deadline)`` is a job whose ``decide`` takes the price of each row.
        """
        score = self.best if name is None else self.score(name)
        contender = next(each for each in self.contenders if each.name == score.name)
        told = {}
        if contender.kind == FORECASTING:
            if forecast is None:
                raise InvalidInput(
                    f"{score.name} needs forecast, the prices of the {self.deadline} rows of the job."
                )
            told["told"] = vector(forecast, "forecast", self.deadline)
        return contender.make(self.source.T, **score.parameters, **told)

    def ratios(self, score: Score) -> Array:
        """Divide what a contender paid for each job by what the optimum paid.

        Parameters
        ----------
        score : Score
            What it paid.

        Returns
        -------
        array
            A ratio for each job.
        """
        return list_costs(score) / list_costs(self.optimum)

    def proved_ratio(self, score: Score) -> float:
        """Return the ratio that is proved for a contender, if prices stay within the bounds of the job.

        Parameters
        ----------
        score : Score
            What it paid.

        Returns
        -------
        float
            Its own, or that of every rule.
        """
        rule = score.player if score.player.job == self.job else SpreadEvenly(self.job)
        return float(rule.ratio)

    @property
    def answer(self) -> str:
        """What would have been saved and with which rule, in a few sentences."""
        return "\n".join(write_answer(self))

    def list_rows(self) -> list[dict[str, Any]]:
        jobs = len(self.starts)
        rows = []
        for score in (*self.scores, self.optimum):
            ratios = self.ratios(score)
            is_rule = score is not self.optimum
            rows.append(
                {
                    "contender": score.name,
                    "chosen": format_parameters(score.parameters),
                    "operating": score.hitting / jobs,
                    "switching": score.switching / jobs,
                    "cost": score.cost / jobs,
                    "mean_ratio": float(ratios.mean()),
                    "worst_ratio": float(ratios.max()),
                    "proved_ratio": self.proved_ratio(score) if is_rule else None,
                    "starts": score.moves / jobs,
                }
            )
        return rows

    def plot(self) -> "Figure":
        """Draw what each has saved so far, job after job, against running at once.

        Returns
        -------
        Figure
            A matplotlib figure.
        """
        looks = {
            each.name: {"color": PALETTE[i % len(PALETTE)]} for i, each in enumerate(self.scores)
        }
        places, xlabel = self._list_places()
        if self.source.has_dates:
            places = np.array([to_datetime(each) for each in places])
        ylabel = add_unit(self, "saved against running at once")
        return show.draw_cumulative(places, _list_saved(self), looks, xlabel, ylabel)

    def _list_places(self) -> tuple[np.ndarray, str]:
        """Return where the jobs start on the axis, and its label."""
        if self.source.time is None:
            return self.starts + 1, "row of the trace"
        return self.source.times[self.starts], self.source.time

    def to_html(self, path: str | Path, command: str = "replay_jobs") -> None:
        """Write the report as one HTML page, with its figures inside.

        Parameters
        ----------
        path : str or Path
            The file to write.
        command : str, optional
            What made it, as the page says.
        """
        page = render(
            "jobs.html",
            found=self,
            answer=[set_signs(words) for words in write_answer(self)],
            verdict=judge_gain(self.best, self.score(AT_ONCE), "saves", "keep"),
            best=format_contender(self.best),
            facts=list_facts(self),
            # A narrow window shows the costs.
            table=[row | {"chosen": row.pop("chosen")} for row in write_table(self)],
            charts=list_charts(self),
            picture=make_svg(self.plot(), "cumulative"),
            command=command,
        )
        write_durably(Path(path), page.encode())

    def to_dict(self) -> dict[str, Any]:
        """Convert the report to plain values.

        Returns
        -------
        dict
            What :meth:`to_json` writes.
        """
        gain, half = self.best.compare(self.score(AT_ONCE))
        jobs = len(self.starts)
        return {
            "verdict": judge_gain(self.best, self.score(AT_ONCE), "saves", "keep"),
            "best": self.best.name,
            "saved": {"cost": gain / jobs, "half": half / jobs, "against": AT_ONCE},
            "jobs": jobs,
            "deadline": self.deadline,
            "job": self.job.to_dict(),
            "unit": self.unit,
            "answer": write_answer(self),
            "notes": self.notes,
            "table": self.list_rows(),
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

    def __repr__(self) -> str:
        return f"JobsReport({self.source.title}, {len(self.starts)} jobs scored, best: {format_contender(self.best)})"

    def __str__(self) -> str:
        answer = "\n".join(textwrap.fill(line, PRINT_WIDTH) for line in self.answer.splitlines())
        return f"{answer}\n\n{write_plainly(write_table(self))}"

    @show_card
    def _repr_html_(self) -> str:
        parts = load_macros()
        words = parts.paragraphs([set_signs(line) for line in write_answer(self)])
        return parts.card("Report", self.source.title, words, parts.table(write_table(self)))


def replay_jobs(
    data: Any,
    convert: float,
    deadline: int,
    *,
    rate: float = 1.0,
    whole: bool = False,
    move_cost: float = 1.0,
    low: float | None = None,
    high: float | None = None,
    price: str | None = None,
    forecast: Any = None,
    every: int | None = None,
    train: float = 0.5,
    time: str | None = None,
    fill: str | None = None,
    unit: str = "",
    progress: Progress | None = None,
) -> JobsReport:
    """Measure what jobs with a deadline would have cost at past prices, and with which rule.

    Jobs start all over the trace. Each must convert an amount, such as six hours of work, before its deadline; the price of a
    row is known when the row is decided. Rules are tuned on the jobs of the first part and scored on those of the second, next
    to running at once and to the optimum of each job.

    Parameters
    ----------
    data : path, frame or array_like
        A CSV, TSV, Excel or Parquet file, a pandas or polars frame, or an array: a row per round.
    convert : float
        The amount that a job must convert.
    deadline : int
        How many rows a job may take, the one in which it starts included.
    rate : float, optional
        The most that a row converts. Default: 1.
    whole : bool, optional
        Whether a row converts all of the rate or nothing. Default: False.
    move_cost : float, optional
        What starting, or stopping, a unit costs. Default: 1.
    low, high : float, optional
        The least and the highest price that there can be, for which ratios are proved. Default: those of the first part.
    price : str, optional
        The column of prices. Default: the only one.
    forecast : str, path or frame, optional
        The column of forecast prices, each in its own row, or a file with them; they must have been known when a job starts.
        Default: none.
    every : int, optional
        Start a job in every so many rows. Default: in 500 rows of the second part, or in all of them.
    train : float, optional
        The share of the rows to tune on. Default: a half.
    time : str, optional
        The column of time stamps. Default: one called time or date, or the first with dates.
    fill : str, optional
        What to do with missing cells: ``"forward"``, ``"zero"`` or ``"drop"``. Default: reject them.
    unit : str, optional
        The unit of costs.
    progress : callable, optional
        Called with the fraction of the work that is done.

    Returns
    -------
    JobsReport
        Print it, or ask it for ``answer``, ``scores``, ``plot()``, ``rule()`` and ``to_html(path)``.

    Raises
    ------
    ValueError
        If a price is not above zero, a job cannot meet its deadline, or the trace is too short.

    Examples
    --------
    >>> prices = 60.0 - 40.0 * np.sin(np.arange(400) / 24.0 * 2.0 * np.pi)
    >>> report = replay_jobs(prices, 6, 24, move_cost=2.0, every=7)
    >>> report.best.name, round(report.best.cost / report.optimum.cost, 3)
    ('RORO', 1.112)
    """
    T = integer(deadline, write_option("deadline"), least=1)
    source, told = _open(data, price, forecast, time, fill)
    prices = source.read_all()[:, 0]
    _check_prices(source, prices)
    first = count_first(source, train)
    bounds = [
        float(prices[:first].min()) if low is None else positive(low, write_option("low")),
        float(prices[:first].max()) if high is None else positive(high, write_option("high")),
    ]
    positive(convert, write_option("convert"))
    positive(rate, write_option("rate"))
    non_negative(move_cost, write_option("move_cost"))
    job = Job(*bounds, amount=convert, rate=rate, move_cost=move_cost, whole=whole)
    check_deadline(job, T)
    lags = _list_lags(source, first)
    before = max(lags.values(), default=0)
    step = 1 if every is None else integer(every, write_option("every"), least=1)
    tuned_on = _choose_starts(before, first - T, step, TUNED_JOBS)
    starts = _choose_starts(first, source.T - T, step, SCORED_JOBS if every is None else source.T)
    if len(starts) < STRETCHES or not len(tuned_on):
        flag = write_option("deadline")
        raise InvalidInput(
            f"{flag} {T} must leave room for a job after {before} of the {first} rows to tune on, and for {STRETCHES} jobs in "
            f"the {source.T - first} to score. Use a longer file or a shorter deadline."
        )
    contenders = list_contenders(job, T, prices, first, lags, told)
    scores = []
    with show_progress("replaying jobs") as shown:
        report_progress = progress or shown
        windows = [prices[start : start + T] for start in starts]
        done = [best_conversion(job, window) for window in windows]
        optimum = _make_score(OPTIMUM, SIMPLE, None, {}, 1, done)
        for at, contender in enumerate(contenders, start=1):
            report_progress(at / (len(contenders) + 1))
            points = list_points(contender.axes)
            best = points[0]
            if len(points) > 1:
                paid = [
                    sum(each.cost for each in _play(contender, point, prices, tuned_on, T))
                    for point in points
                ]
                best = points[int(np.argmin(paid))]
            done = _play(contender, best, prices, starts, T)
            rule = contender.make(int(starts[0]), **best)
            scores.append(
                _make_score(contender.name, contender.kind, rule, best, len(points), done)
            )
    # Those that tie stay in their order.
    scores.sort(key=lambda score: score.cost)
    report = JobsReport(source, job, T, contenders, starts, scores, optimum, unit)
    report.notes = _list_notes(report, prices[first:], lags)
    return report


def list_contenders(
    job: Job, T: int, prices: Array, first: int, lags: dict[int, int], told: Array | None
) -> list[JobContender]:
    """List who plays: what needs no prices, thresholds, and plans for past and for forecast prices."""
    make_threshold = PauseResume if job.whole else RORO
    name = make_threshold.__name__
    fixed = {
        AT_ONCE: RunAtOnce(job),
        "spread evenly": SpreadEvenly(job),
        name: make_threshold(job),
    }

    @cache
    def cut_bounds(cut: float) -> ConversionRule:
        low, high = np.quantile(prices[:first], [cut, 1.0 - cut]).tolist()
        return make_threshold(job.replace(low=low, high=high))

    @cache
    def plan(start: int, days: int) -> Array:
        lag = lags[days]
        return best_conversion(job, prices[start - lag + np.arange(T) % lag]).x

    @cache
    def plan_forecast(start: int) -> Array:
        assert told is not None
        return best_conversion(job, told[start : start + T]).x

    def follow(start: int, days: int, **epsilon: float) -> ConversionRule:
        return _follow(job, plan(start, days), **epsilon)

    def follow_forecast(
        start: int, told: Array | None = None, **epsilon: float
    ) -> ConversionRule:
        x = plan_forecast(start) if told is None else best_conversion(job, told).x
        return _follow(job, x, **epsilon)

    found = [
        JobContender(each, lambda start, rule=rule: rule, {}) for each, rule in fixed.items()
    ]
    found.append(JobContender(f"{name} tuned", lambda start, cut: cut_bounds(cut), {"cut": CUTS}))
    clip = {} if job.whole else {"epsilon": EPSILONS}
    if lags:
        days: dict[str, list[Any]] = {"days": list(lags)}
        found.append(JobContender("plan for past prices", follow, days))
        if clip:
            found.append(JobContender("CLIP with past prices", follow, days | clip))
    if told is not None:
        found.append(JobContender("plan for the forecast", follow_forecast, {}, FORECASTING))
        if clip:
            found.append(
                JobContender("CLIP with the forecast", follow_forecast, clip, FORECASTING)
            )
    return found


def _follow(job: Job, plan: Array, epsilon: float | None = None) -> ConversionRule:
    return FollowPlan(job, plan) if epsilon is None else CLIP(job, plan, epsilon)


def _play(
    contender: JobContender, point: dict[str, float], prices: Array, starts: np.ndarray, T: int
) -> list[Conversion]:
    return [
        play(contender.make(start, **point), prices[start : start + T])
        for start in starts.tolist()
    ]


def _make_score(
    name: str,
    kind: str,
    rule: ConversionRule | None,
    parameters: dict[str, float],
    candidates: int,
    done: list[Conversion],
) -> Score:
    costs = np.array([each.cost for each in done])
    points = np.array([each.x for each in done])
    edges = np.linspace(0, len(costs), STRETCHES + 1).astype(int)
    rises = np.diff(points, axis=1, prepend=0.0) > 0.0
    return Score(
        name, kind, rule, parameters, candidates, [], None, np.add.reduceat(costs, edges[:-1]), points, np.cumsum(costs),
        hitting=sum(each.operating for each in done), switching=sum(each.switching for each in done),
        rounds=len(costs), moves=int(rises.sum()),
    )  # fmt: skip


def list_costs(score: Score) -> Array:
    """List what each job cost."""
    return np.diff(score.curve, prepend=0.0)


def _open(
    data: Any, price: str | None, forecast: Any, time: str | None, fill: str | None
) -> tuple[Source, Array | None]:
    """Open the trace, which has one column of prices, and the forecasts of them."""
    only = None if price is None else [price]
    beside = (list_forecast_columns(forecast) or []) if only is None else []
    role = "forecast" if beside else "price"
    source = Source(data, time, fill, only=only, without=beside, role=role)
    if source.dim > 1:
        flag = write_option("price", source.columns[0])
        raise InvalidInput(
            f"Jobs have one column of prices, and the data have {', '.join(source.columns)}. Name one: {flag}."
        )
    if forecast is None:
        return source, None
    told = open_forecasts(source, data, forecast, THIS_ROW, time).values[:, 0]
    wrong = np.flatnonzero(~np.isfinite(told))
    if len(wrong):
        flag = write_option("forecast")
        at = int(wrong[0])
        raise InvalidInput(
            f"{flag} must have a price for each row, got {told[at]:g} in row {at + 1}."
        )
    return source, told


def _check_prices(source: Source, prices: Array) -> None:
    wrong = np.flatnonzero(prices <= 0.0)
    if len(wrong):
        at = int(wrong[0])
        raise InvalidInput(
            f"Row {at + 1}, column {source.columns[0]} must be above 0, got {prices[at]:g}: ratios need prices above zero. "
            "Add what each unit costs anyway, such as fees and taxes."
        )


def _list_lags(source: Source, first: int) -> dict[int, int]:
    """List the rows of a day and of a week, where rows have dates and the first part has several of them."""
    steps = source.find_steps() if source.has_dates else None
    if steps is None or not 0.0 < steps.usual <= DAY_SECONDS:
        return {}
    lags = {days: round(days * DAY_SECONDS / steps.usual) for days in DAYS}
    return {days: lag for days, lag in lags.items() if 2 * lag <= first}


def _choose_starts(first: int, last: int, every: int, most: int) -> np.ndarray:
    """Choose the rows in which jobs start, in every so many, or in the most of these that there may be."""
    found = np.arange(first, last + 1, every)
    at = np.linspace(0, len(found) - 1, min(most, len(found)))
    return found[at.astype(int)]


def _list_notes(found: JobsReport, scored: Array, lags: dict[int, int]) -> list[str]:
    notes = []
    outside = float(((scored < found.job.low) | (scored > found.job.high)).mean())
    if outside > 0.0:
        notes.append(
            f"{outside:.1%} of the scored prices are not from {_write_bounds(found.job)}: for jobs that meet them nothing is "
            "proved."
        )
    if not lags:
        notes.append(
            "No rule plans for the prices of the days before, because the rows show no days."
        )
    return [*notes, *found.source.list_notes()]


def write_answer(found: JobsReport) -> list[str]:
    """Write what would have been saved and with whom, what is proved, and what the best possible was."""
    best, at_once, sure = found.best, found.score(AT_ONCE), found.threshold
    verdict = judge_gain(best, at_once, "saves", "keep")
    amount = f"{_format_gain(found, best, at_once)} against running at once"
    if verdict == "keep":
        lines = [
            f"Run jobs at once: they paid {_format_mean(found, at_once)}, and no rule paid less."
        ]
    elif verdict == "perhaps":
        lines = [f"No saving is certain: {amount}, with {format_contender(best)}, {UNCERTAIN}."]
    else:
        lines = [f"You would have saved {amount}, with {format_contender(best)}."]
    ratios = found.ratios(sure)
    lines.append(
        f"{sure.name} never pays more than {found.proved_ratio(sure):.3g} times the best possible at prices from "
        f"{_write_bounds(found.job)} (proved). Here it paid {_format_mean(found, sure)}, at worst {ratios.max():.3g} times the "
        f"best possible and {ratios.mean():.3g} times on average."
    )
    told = [score for score in found.scores if score.kind == FORECASTING]
    if told:
        untold = next(score for score in found.scores if score.kind != FORECASTING)
        helps = judge_gain(told[0], untold, "helps", "does not help here")
        start = f"Your forecast {'may help' if helps == 'perhaps' else helps}"
        lines.append(
            f"{start}: {format_contender(told[0])} paid {_format_mean(found, told[0])}, the best without it, "
            f"{format_contender(untold)}, {_format_mean(found, untold)}."
        )
    lines.append(
        f"The best possible was {_format_mean(found, found.optimum)}, with all prices of a job known (exact)."
    )
    return [*lines, *found.notes]


def _write_bounds(job: Job) -> str:
    return f"{format_amount(job.low)} to {format_amount(job.high)}"


def _format_mean(found: JobsReport, score: Score) -> str:
    return f"{format_amount(score.cost / len(found.starts))} {found.unit}".strip() + " a job"


def _format_gain(found: JobsReport, one: Score, other: Score) -> str:
    gain, half = one.compare(other)
    jobs = len(found.starts)
    amount = f"{format_interval(gain / jobs, half / jobs)} {found.unit}".strip()
    return f"{amount} a job ({gain / other.cost:.1%})"


def list_facts(found: JobsReport) -> dict[str, str]:
    """List what the first screen of a report shows: each number with what it is, the saving first."""
    best, at_once, sure = found.best, found.score(AT_ONCE), found.threshold
    gain, half = best.compare(at_once)
    jobs = len(found.starts)
    amount = f"{format_interval(gain / jobs, half / jobs)} {found.unit}".strip()
    facts = {"saved a job against running at once": set_signs(amount)}
    facts["less than running at once paid"] = f"{gain / at_once.cost:.1%}"
    possible = at_once.cost - found.optimum.cost
    if possible > 0.0:
        facts[f"of the {format_amount(possible / jobs)} that were possible"] = (
            f"{gain / possible:.0%}"
        )
    worst = found.ratios(sure).max()
    facts[f"times the best possible, {sure.name} at worst"] = f"{worst:.3g}"
    facts[f"times, proved for {sure.name}"] = f"{found.proved_ratio(sure):.3g}"
    return facts


def write_table(found: JobsReport) -> list[dict[str, Any]]:
    """Make the table with rounded numbers, which are means of the jobs."""
    rows = found.list_rows()
    columns: dict[str, list[Any]] = {
        name: [row[name] for row in rows] for name in ("contender", "chosen")
    }
    for name, heading in (
        ("cost", "cost a job"),
        ("operating", "operating"),
        ("switching", "switching"),
    ):
        columns[add_unit(found, heading)] = format_column([row[name] for row in rows])
    for name in ("mean_ratio", "worst_ratio", "proved_ratio"):
        columns[name.replace("_", " ")] = [
            None if row[name] is None else f"{row[name]:.2f}" for row in rows
        ]
    columns["starts"] = [f"{row['starts']:.1f}" for row in rows]
    return [
        dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)
    ]


def _list_saved(found: JobsReport) -> dict[str, Array]:
    """List what each has saved against running at once so far."""
    reference = found.score(AT_ONCE)
    return {
        score.name: reference.curve - score.curve
        for score in found.scores
        if score is not reference
    }


def list_charts(found: JobsReport) -> dict[str, dict[str, Any]]:
    """Make each chart of the page, by name."""
    places, xlabel = found._list_places()
    axis = {"xlabel": xlabel, "time": found.source.has_dates, "unit": found.unit}
    axis["ylabel"] = found.unit
    colours = {score.name: f"c{i % MOST_CURVES}" for i, score in enumerate(found.scores)}
    saved = [Curve(name, each, colours[name]) for name, each in _list_saved(found).items()]
    shares = np.linspace(0.0, 100.0, len(found.starts))
    ratios = [
        Curve(score.name, np.sort(found.ratios(score)), colours[score.name])
        for score in found.scores
    ]
    title = "What each job cost, in multiples of the best possible"
    about: dict[str, Any] = {"xlabel": "% of the jobs, the best first"}
    about["ylabel"] = "times the best possible"
    return {
        "cumulative": make_chart(
            places.astype(float), saved, "Saved so far against running at once", zero=True, **axis
        ),
        "job": _chart_job(found, colours),
        "ratios": make_chart(shares, ratios, title, **about),
    }


def _chart_job(found: JobsReport, colours: dict[str, str]) -> dict[str, Any]:
    """Chart the job whose saving is in the middle: its prices, and at which of them each contender converts."""
    saved = list_costs(found.score(AT_ONCE)) - list_costs(found.best)
    middle = int(np.argsort(saved)[len(saved) // 2])
    start = int(found.starts[middle])
    rows = slice(start, start + found.deadline)
    x: Array = np.arange(rows.start, rows.stop, dtype=np.float64) + 1.0
    if found.source.time is not None:
        x = found.source.times[rows]
    prices = found.source.read(rows.start, rows.stop)[:, 0]
    choices = []
    for score in (*found.scores, found.optimum):
        converts = score.points[middle] > 1e-9 * found.job.amount
        curves = [
            Curve(
                "converts",
                np.where(converts, prices, np.nan),
                colours.get(score.name, "ink"),
                "marked",
            ),
            Curve("price", prices, "faint", "pale"),
        ]
        cost = format_amount(float(list_costs(score)[middle]))
        chart = make_chart(x, curves, f"{score.name} in one job, at a cost of {cost}")
        choices.append(
            {"name": f"{score.name}: {cost}"}
            | {key: chart[key] for key in ("x", "series", "label")}
        )
    axis = {"xlabel": found.source.time or "row of the trace", "time": found.source.has_dates}
    about = {key: choices[0][key] for key in ("label", "x", "series")}
    return (
        about | axis | {"title": "One job", "choices": choices, "choose": "of", "ylabel": "price"}
    )
