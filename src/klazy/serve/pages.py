"""Pages that show the agents, and freeze and resume them: HTML from the server, and one script that draws charts."""

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import time
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

import numpy as np
from fastapi import FastAPI, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from klazy.base.amounts import format_amount, format_column
from klazy.base.checks import Array, InvalidInput
from klazy.base.html import read_static, render
from klazy.base.svg import draw_sparkline
from klazy.base.uplot import (
    MOST_CURVES,
    PLACES,
    Curve,
    make_chart,
    make_curves,
    make_levels,
    round_digits,
)
from klazy.live.guards import Guards, split_guards
from klazy.live.inspection import NeverMoving, format_time, parse_time
from klazy.live.records import CHANGE_NAMES, FREEZE, GUARDS, RESUME, Row, parse_row, read_numbers
from klazy.live.rows import RowSpec
from klazy.serve.access import COOKIE, STATIC_PATHS, count_wrong_token
from klazy.serve.problems import Problem, explain_failure
from klazy.serve.service import Service, allow, change
from klazy.serve.timeline import RoundArrays, Timeline, find_promise, find_times
from klazy.sets import Box, CappedSimplex, Simplex

PAGE_AGENTS = 50
SPARK_ROUNDS = 80
SPARK_LINES = 3
COMPARED_ROUNDS = 500
MAX_BARS = 12
# A share of the largest coordinate below which one counts as zero.
TRACE = 1e-9
PROMISE_DIGITS = 3
LISTED_ROUNDS = 15
LISTED_CHANGES = 10
LISTED_HOLDS = 5
# Seconds between two requests of a page for news; it asks more often while older rounds are being read.
REFRESH_SECONDS = 10
READING_SECONDS = 0.2
# The ranges of charts in seconds, back from the last round. At first one is shown that has this many rounds.
RANGES = {
    "1h": 3600.0,
    "6h": 6 * 3600.0,
    "1d": 86400.0,
    "7d": 7 * 86400.0,
    "30d": 30 * 86400.0,
    "all": np.inf,
}
FIRST_ROUNDS = 300
# Parts of a range whose costs are added up, and parts whose decisions are averaged if there are more rounds than places.
COST_PARTS = 120
AVERAGED_PARTS = 750
SPANS = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
AGES = (("days", 86400), ("h", 3600), ("min", 60), ("s", 1))
# An agent is idle if no round came for this many usual steps, and for this many seconds.
IDLE_STEPS = 5
LEAST_IDLE = 60.0
# Guards that shape each decision without holding it back.
SHAPING = ("integers", "clip")
ORDERS = {
    "name": "name",
    "latest": "latest round",
    "idle": "longest idle",
    "rounds": "most rounds",
}

Answer = Callable[[Request], Awaitable[Response]]


def add_pages(app: FastAPI, service: Service) -> None:
    """Add the paths of the pages; OpenAPI does not name them."""
    reader = service.reader

    async def show_style(_: Request) -> Response:
        return Response(render("style.css", scope=""), media_type="text/css")

    async def show_static(request: Request) -> Response:
        return Response(read_static(request.url.path[1:]), media_type="text/javascript")

    async def show_paths(_: Request) -> Response:
        return make_page("paths.html", "HTTP API", about=app.openapi())

    async def show_login(_: Request) -> Response:
        return _make_login("")

    async def login(request: Request) -> Response:
        token = await _read_field(request, "token")
        if await service.tokens.find(token) is None:
            count_wrong_token(service.wrong, request.scope)
            return _make_login(
                "This token is not known. Ask whoever runs the service for one.", 401
            )
        answer = RedirectResponse("/", 303)
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure)
        return answer

    async def logout(_: Request) -> Response:
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer

    def make_page(template: str, title: str, status: int = 200, **values: Any) -> Response:
        insecure = service.settings.insecure
        return HTMLResponse(
            render(template, title=f"{title} - klazy", insecure=insecure, **values), status
        )

    async def show_agents(request: Request) -> Response:
        asked = {name: request.query_params.get(name, "") for name in ("search", "order", "page")}
        found = await reader.run(_gather_agents, service, request.state.grant, asked)
        return make_page("agents.html", "Agents", refresh=REFRESH_SECONDS, orders=ORDERS, **found)

    async def show_agent(request: Request) -> Response:
        name = request.path_params["name"]
        grant = allow(request, "reader", name)
        asked = {each: request.query_params.get(each) for each in ("range", "optimum", "why")}
        found = await reader.run(_gather_agent, service, name, asked)
        reasons: tuple[str, ...] = ()
        if not found["about"]["deleted"] and (
            asked["why"] is not None or name in service.worker.agents
        ):
            explained = await service.look(
                name, lambda worker: worker.get_active(name).state.explain(), long=True
            )
            reasons = explained.words[1:]
        may_write = grant.allows("writer", name)
        refresh = REFRESH_SECONDS if found["is_whole"] else READING_SECONDS
        about = {"may_write": may_write, "reasons": reasons, "ranges": RANGES, "refresh": refresh}
        return make_page("agent.html", name, **about, **found)

    async def hold(request: Request) -> Response:
        name = request.path_params["name"]
        allow(request, "writer", name)
        reason = (await _read_field(request, "reason"))[:1000]
        kind = FREEZE if request.url.path.endswith("/freeze") else RESUME
        await change(service, name, lambda agent: agent.change(kind, reason))
        return RedirectResponse(f"/page/{quote(name, safe='')}", 303)

    def answer_in_html(answer: Answer) -> Answer:
        """Make an error a page, too."""

        async def answer_safely(request: Request) -> Response:
            try:
                return await answer(request)
            except (Problem, InvalidInput) as failed:
                problem = explain_failure(failed)
                return make_page(
                    "service.html", "Rejected", problem.status_code, message=problem.detail
                )

        return answer_safely

    for method, path, answer in (
        ("GET", "/style.css", show_style),
        *(("GET", path, show_static) for path in STATIC_PATHS),
        ("GET", "/docs", show_paths),
        ("GET", "/login", show_login),
        ("POST", "/login", login),
        ("POST", "/logout", logout),
        ("GET", "/", answer_in_html(show_agents)),
        ("GET", "/page/{name:path}", answer_in_html(show_agent)),
        ("POST", "/page/{name:path}/freeze", answer_in_html(hold)),
        ("POST", "/page/{name:path}/resume", answer_in_html(hold)),
    ):
        app.add_route(path, answer, methods=[method], include_in_schema=False)


def _make_login(message: str, status: int = 200) -> Response:
    return HTMLResponse(render("login.html", title="Log in - klazy", message=message), status)


async def _read_field(request: Request, name: str) -> str:
    """Return a field of a form."""
    fields = parse_qs((await request.body()).decode(errors="replace"), max_num_fields=10)
    return fields.get(name, [""])[0]


def _gather_agents(service: Service, grant: Any, asked: dict[str, str]) -> dict[str, Any]:
    """Return a page of the agents that were searched for."""
    reader = service.reader
    order = asked["order"] if asked["order"] in ORDERS else "name"
    names = reader.find_names(grant, asked["search"], order)
    pages = max(1, -(-len(names) // PAGE_AGENTS))
    page = min(max(1, int(asked["page"]) if asked["page"].isdecimal() else 1), pages)
    shown = names[(page - 1) * PAGE_AGENTS : page * PAGE_AGENTS]
    links = {
        at: "/?" + urlencode({"search": asked["search"], "order": order, "page": at})
        for at in (page - 1, page + 1)
        if 1 <= at <= pages
    }
    return {
        "agents": [_gather_card(service, name) for name in shown],
        "count": len(names),
        "page": page,
        "pages": pages,
        "links": links,
        "search": asked["search"],
        "order": order,
    }


def _gather_card(service: Service, name: str) -> dict[str, Any]:
    """Return what the page of all agents shows of one."""
    reader = service.reader
    about = reader.summarize(name)
    rounds = reader.read_rounds(name, SPARK_ROUNDS)
    names = reader.read_names(name, len(about["decision"]))
    decision = list(zip(names, _drop_traces(np.array(about["decision"])).tolist(), strict=True))
    if len(names) > SPARK_LINES:
        decision.sort(key=lambda pair: -abs(pair[1]))
    spark = ""
    if len(rounds) > 1:
        x = np.array([np.frombuffer(row.decision, "<f8") for row in rounds])
        lines = np.argsort(-np.abs(x[-1]), kind="stable")[:SPARK_LINES]
        label = f"decisions of the last {len(rounds)} rounds"
        spark = draw_sparkline({names[i]: x[:, i] for i in lines}, label, from_zero=False)
    unit = saved = ""
    # A learner that is not known here must not hide the other agents.
    with suppress(InvalidInput):
        learner, spec = reader.read_spec(name)
        unit = _read_unit(spec)
        saved = _write_saved(learner, spec, rounds)
    return {
        "about": about,
        "state": _judge_state(service, about, rounds),
        "age": _tell_age(about["last"]),
        "decision": decision,
        "spark": spark,
        "saved": saved,
        "unit": unit,
    }


def _write_saved(learner: Any, spec: RowSpec, rounds: list[Row]) -> str:
    """Write what these rounds saved against never moving: as a share of what that costs, or as an amount."""
    if spec.costs is None or len(rounds) < 2 or any(row.row is None for row in rounds):
        return ""
    rows = np.array([parse_row(row.row or "") for row in rounds[1:]])
    still = float(NeverMoving(learner, spec, read_numbers(rounds[0].decision)).charge(rows).sum())
    paid = sum(row.hitting + row.switching for row in rounds[1:])
    if still > 0.0 and paid > 0.0:
        return f"{1.0 - paid / still:+.0%}"
    return format_amount(still - paid)


def _judge_state(service: Service, about: dict[str, Any], rounds: list[Row]) -> tuple[str, str]:
    """Return the state of an agent in a word, and the colour of that."""
    for word in ("deleted", "frozen"):
        if about[word]:
            return word, "red"
    if about["name"] in service.worker.lost:
        return "failed over", "red"
    if not rounds:
        return "new", "blue"
    arrived = rounds[-1].at
    if arrived is not None:
        times = _find_times(rounds)
        step = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
        if time() - arrived > max(LEAST_IDLE, IDLE_STEPS * step):
            return "idle", "amber"
    if _list_holding(rounds[-1].guards or ""):
        return "held", "blue"
    return "ok", "green"


def _find_times(rounds: list[Row]) -> Array:
    """Return the time stamps of rounds, or else when they came."""
    return find_times([row.id for row in rounds], [row.at for row in rounds])


def _tell_age(last: str | None) -> str:
    """Write how long ago the last round came."""
    at = parse_time(last)
    if at is None:
        return ""
    seconds = max(1, int(time() - at / 1e6))
    name, length = next((name, length) for name, length in AGES if seconds >= length)
    return f"{seconds // length} {name} ago"


def _gather_agent(service: Service, name: str, asked: dict[str, str | None]) -> dict[str, Any]:
    """Return what the page of an agent shows."""
    reader = service.reader
    about = reader.summarize(name)
    names = reader.read_names(name, len(about["decision"]))
    latest = reader.read_rounds(name, SPARK_ROUNDS)
    timeline, rounds = reader.read_agent(name, service.timelines.look)
    span = asked["range"]
    if span not in RANGES:
        span = _choose_range(rounds)
    shown = rounds.within(RANGES[span])
    compared = None
    if asked["optimum"] is not None:
        compared = reader.compare(name, COMPARED_ROUNDS, True)
    promise = None
    if timeline.is_whole and timeline.spec.costs is not None:
        promise = find_promise(timeline.spec, np.array(len(rounds.time)))
    if promise is not None:
        promise = round_digits(np.array(promise), PROMISE_DIGITS)
    lost = service.worker.lost.get(name)
    saved = float(rounds.saved.sum()) if timeline.is_whole and len(rounds.time) else np.nan
    return {
        "about": about,
        "state": _judge_state(service, about, latest),
        "age": _tell_age(about["last"]),
        "bars": _list_bars(timeline, names, np.array(about["decision"])),
        "charts": _list_charts(timeline, names, shown) if len(shown.time) > 1 else {},
        "lost": None if lost is None else lost.t - 1,
        "range": span,
        "is_whole": timeline.is_whole,
        "moves": int((rounds.switching != 0.0).sum()),
        "played": len(rounds.time),
        "saved": None if np.isnan(saved) else saved,
        "promise": promise,
        "baseline": _compare_baseline(timeline, rounds),
        "unit": _read_unit(timeline.spec),
        "compared": compared,
        "events": _list_events(timeline, shown),
        "rounds": _list_rounds(names, latest),
    }


def _compare_baseline(timeline: Timeline, rounds: RoundArrays) -> float | None:
    """Estimate what was saved against the baseline: never moving costs as many times what it would have as in the replay."""
    origin = timeline.spec.origin or {}
    try:
        baseline, fixed = float(origin["baseline"]), float(origin["fixed"])
    except (KeyError, TypeError, ValueError):
        return None
    if fixed <= 0.0 or not timeline.is_whole:
        return None
    saved = float((rounds.fixed * baseline / fixed - rounds.hitting - rounds.switching).sum())
    return saved if np.isfinite(saved) else None


def _read_unit(spec: RowSpec) -> str:
    """Return the unit of costs, if a replay noted one."""
    return str((spec.origin or {}).get("unit", ""))


def _choose_range(rounds: RoundArrays) -> str:
    """Return the shortest range with enough rounds to see something."""
    least = min(FIRST_ROUNDS, len(rounds.time))
    return next(name for name, span in RANGES.items() if len(rounds.within(span).time) >= least)


def _list_bars(
    timeline: Timeline, names: list[str], x: Array
) -> list[tuple[str, float, float | None]]:
    """List coordinates with their values, and where these are between their limits, in per cent."""
    x = _drop_traces(x)
    shown = np.arange(len(x))
    if len(x) > MAX_BARS:
        shown = np.sort(np.argsort(-np.abs(x), kind="stable")[:MAX_BARS])
    places: Any = [None] * len(x)
    domain = timeline.learner.domain
    if isinstance(domain, Box):
        lower, upper = domain.lower, domain.upper
        places = 100.0 * (x - lower) / np.where(upper > lower, upper - lower, 1.0)
    if isinstance(domain, Simplex | CappedSimplex):
        places = 100.0 * x / domain.total
    return [(names[i], float(x[i]), places[i]) for i in shown]


def _list_charts(
    timeline: Timeline, names: list[str], shown: RoundArrays
) -> dict[str, dict[str, Any]]:
    """Make the charts of an agent: decisions, what they saved, and what they cost."""
    unit = _read_unit(timeline.spec)
    marks = [
        {"name": event["change"], "x": at}
        for event in timeline.changes
        if shown.time[0] <= (at := (parse_time(event["time"]) or 0) / 1e6) <= shown.time[-1]
    ]
    axis: dict[str, Any] = {
        "time": True,
        "xlabel": "time",
        "sync": "agent",
        "marks": marks[-LISTED_CHANGES:],
    }
    charts = {"decisions": _chart_decisions(timeline, names, shown, axis)}
    axis |= {"unit": unit, "ylabel": unit}
    if not np.isnan(shown.saved).any():
        charts["saved"] = _chart_saved(timeline, shown, axis)
    charts["costs"] = _chart_costs(shown, axis)
    return charts


def _chart_decisions(
    timeline: Timeline, names: list[str], shown: RoundArrays, axis: dict[str, Any]
) -> dict[str, Any]:
    """Chart decisions and demand between their limits; of many rounds the averages, and the range of a single decision."""
    domain = timeline.learner.domain
    places, x, rows = shown.time, shown.x, shown.row[:, : len(names)]
    stacked = isinstance(domain, Simplex | CappedSimplex)
    bands = []
    title = ""
    if len(places) > PLACES:
        seconds, firsts = shown.cut(AVERAGED_PARTS)
        counts = np.diff(np.append(firsts, len(places)))[:, np.newaxis]
        if len(names) == 1:
            low = round_digits(np.minimum.reduceat(x[:, 0], firsts))
            high = round_digits(np.maximum.reduceat(x[:, 0], firsts))
            bands = [{"name": "least to most", "low": low, "high": high, "color": "c0"}]
        places = places[firsts]
        x, rows = (np.add.reduceat(values, firsts) / counts for values in (x, rows))
        title = f", average of each {_name_span(seconds)}"
    family = timeline.spec.costs
    curves = []
    if family is not None and family.near_rows and not stacked and len(names) <= MOST_CURVES:
        label = "demand" if len(names) == 1 else "demand of {}"
        curves = make_curves(names, rows, "pale", label)
    title = ("Decisions and demand" if curves else "Decisions") + title
    levels = make_levels(domain.lower, domain.upper) if isinstance(domain, Box) else []
    label = names[0] if len(names) == 1 else ""
    curves += make_curves(names, x, "step")
    about = {"levels": levels, "stacked": stacked, "bands": bands, "ylabel": label}
    return make_chart(places, curves, title, **about, **axis)


def _chart_saved(timeline: Timeline, shown: RoundArrays, axis: dict[str, Any]) -> dict[str, Any]:
    """Chart what was saved in the range, and what the replay promised for as many rounds."""
    curves = [Curve("saved", np.cumsum(shown.saved))]
    promise = find_promise(timeline.spec, np.arange(1.0, len(shown.time) + 1.0))
    if promise is not None:
        middle, half = promise
        curves += [Curve("low", middle - half), Curve("high", middle + half)]
    chart = make_chart(shown.time, curves, "Saved against never moving", zero=True, **axis)
    if promise is not None:
        saving, low, high = chart["series"]
        band = {
            "name": "as promised by replay",
            "low": low["y"],
            "high": high["y"],
            "color": "c2",
        }
        chart |= {"series": [saving], "bands": [band]}
    return chart


def _chart_costs(shown: RoundArrays, axis: dict[str, Any]) -> dict[str, Any]:
    """Chart the costs of parts of the range."""
    seconds, firsts = shown.cut(COST_PARTS)
    hitting, switching = (
        np.add.reduceat(costs, firsts) for costs in (shown.hitting, shown.switching)
    )
    # The range begins within the first part, and the last one is not over yet.
    over = slice(1, -1) if len(firsts) > 3 else slice(None)
    curves = [
        Curve("operating", hitting[over], "c0", "step"),
        Curve("switching", switching[over], "c1", "step"),
    ]
    places = seconds * np.floor(shown.time[firsts] / seconds)[over]
    return make_chart(places, curves, f"Cost of each {_name_span(seconds)}", zero=True, **axis)


def _name_span(seconds: int) -> str:
    """Write a length of time in its largest whole unit."""
    name, length = next(unit for unit in SPANS if seconds % unit[1] == 0)
    count = seconds // length
    return name if count == 1 else f"{count} {name}s"


def _list_events(timeline: Timeline, shown: RoundArrays) -> list[dict[str, Any]]:
    """List freezes and other changes, and when guards last held decisions back, the latest first."""
    events = [_write_change(**change) for change in timeline.changes[-LISTED_CHANGES:]]
    begins = np.flatnonzero(np.diff(shown.guards, prepend=-1))
    counts = np.diff(np.append(begins, len(shown.guards)))
    held = [_list_holding(acted) for acted in timeline.guards]
    holds = [at for at, first in enumerate(begins) if held[shown.guards[first]]]
    for at in holds[-LISTED_HOLDS:]:
        first = begins[at]
        rounds = f"{counts[at]} round{'' if counts[at] == 1 else 's'}"
        note = f"{', '.join(held[shown.guards[first]])}, for {rounds}"
        moment = format_time(float(shown.time[first]), "seconds")
        events.append({"time": moment, "change": "held by guards", "note": note})
    return sorted(events, key=lambda event: parse_time(event["time"]) or 0, reverse=True)


def _write_change(time: str, change: str, note: str) -> dict[str, str | None]:
    """Write new guards as Python does, and leave other changes as they are."""
    if change == CHANGE_NAMES[GUARDS]:
        with suppress(InvalidInput, ValueError):
            note = str(Guards.from_dict(json.loads(note)))
    return {"time": time, "change": change, "note": note}


def _list_rounds(names: list[str], rounds: list[Row]) -> list[dict[str, Any]]:
    """List the latest rounds with their time stamps, rows and next decisions, the latest first."""
    times = _find_times(rounds)
    latest = range(len(rounds) - 1, max(-1, len(rounds) - 1 - LISTED_ROUNDS), -1)
    costs = _drop_traces(np.array([[rounds[at].hitting, rounds[at].switching] for at in latest]))
    hitting, switching = (format_column(cost.tolist()) for cost in costs.T)
    decisions = {at: _drop_traces(read_numbers(rounds[at].decision)) for at in latest}
    orders = {
        at: np.argsort(-np.abs(x), kind="stable")[:SPARK_LINES] for at, x in decisions.items()
    }
    return [
        {
            "round": rounds[at].t,
            "time": format_time(float(times[at])),
            "row": _write_values(names, parse_row(rounds[at].row or "[]"), orders[at]),
            "decision": _write_values(names, decisions[at], orders[at]),
            "hitting": hitting[place],
            "switching": switching[place],
            "guards": rounds[at].guards or "",
            "id": rounds[at].id or "",
        }
        for place, at in enumerate(latest)
    ]


def _write_values(names: list[str], values: Array, order: Any) -> str:
    """Write the values of some coordinates with their names."""
    if len(values) == 1:
        return format_amount(float(values[0]))
    return ", ".join(
        f"{names[i]} {format_amount(float(values[i]), 3)}" for i in order if i < len(values)
    )


def _drop_traces(values: Array) -> Array:
    """Return values with zeros for those that are nothing next to the largest.

    >>> _drop_traces(np.array([1.0, 1e-280])).tolist()
    [1.0, 0.0]
    """
    return np.where(np.abs(values) < TRACE * np.abs(values).max(initial=0.0), 0.0, values)


def _list_holding(acted: str) -> list[str]:
    """Return which of the guards that acted hold a decision back, apart from a freeze, which is an event of its own."""
    return [guard for guard in split_guards(acted) if guard not in (*SHAPING, "frozen")]
