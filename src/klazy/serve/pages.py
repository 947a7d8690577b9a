"""Pages to look at the agents, and to freeze and resume them: plain HTML, without scripts."""

from collections.abc import Awaitable, Callable
from html import escape
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, quote

import numpy as np
from fastapi import FastAPI, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from klazy.base.checks import Refused
from klazy.live.kept import freeze, resume
from klazy.live.records import Row
from klazy.live.rows import Terms
from klazy.serve.charts import COLOURS, draw_bar, draw_lines, draw_spark
from klazy.serve.gate import COOKIE, count_wrong
from klazy.serve.problems import Problem
from klazy.serve.reading import Reader, spell_time
from klazy.serve.service import Service, allow, change
from klazy.serve.tokens import Grant

SHOWN_AGENTS = 60  # on a page
SPARK_ROUNDS = 80
SHOWN_ROUNDS = 500  # in the charts of an agent
LISTED_ROUNDS = 15
LISTED_CHANGES = 10
SHOWN_NAMES = COLOURS - 1  # lines of a chart; the others are added up
REFRESH_SECONDS = 30


Answer = Callable[[Request], Awaitable[Response]]


def add_pages(app: FastAPI, service: Service) -> None:
    """The paths of the pages; OpenAPI does not name them."""
    style = files("klazy.serve").joinpath("style.css").read_bytes()

    def add(method: str, path: str, answer: Answer) -> None:
        app.add_route(path, answer, methods=[method], include_in_schema=False)

    async def show_style(_: Request) -> Response:
        return Response(style, media_type="text/css")

    async def show_login(request: Request) -> Response:
        return _make_login("")

    async def login(request: Request) -> Response:
        token = (await _read_form(request)).get("token", "")
        await service.keys.refresh()
        if service.keys.find(token) is None:
            count_wrong(service.wrong, request.scope)
            return _make_login("This token is not known. Ask whoever runs the service for one.", 401)
        answer = RedirectResponse("/", 303)
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure)
        return answer

    async def logout(_: Request) -> Response:
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer

    async def show_agents(request: Request) -> Response:
        grant: Grant = request.state.grant
        after = request.query_params.get("after", "")
        body = await service.reader.run(_draw_agents, service.reader, grant, after)
        return _make_page("Agents", body, service, refresh=True)

    async def show_agent(request: Request) -> Response:
        name = request.path_params["name"]
        grant = allow(request, "reader", name)
        with_optimum = "optimum" in request.query_params
        body = await service.reader.run(_draw_agent, service.reader, name, grant, with_optimum)
        return _make_page(name, body, service)

    async def hold(request: Request) -> Response:
        name = request.path_params["name"]
        allow(request, "writer", name)
        reason = (await _read_form(request)).get("reason", "")[:1000]
        make = freeze if request.url.path.endswith("/freeze") else resume
        await change(service, name, lambda kept: kept.change(lambda live: make(live, reason)))
        return RedirectResponse(f"/page/{quote(name, safe='')}", 303)

    add("GET", "/style.css", show_style)
    add("GET", "/login", show_login)
    add("POST", "/login", login)
    add("POST", "/logout", logout)
    add("GET", "/", _answer_in_html(show_agents, service))
    add("GET", "/page/{name}", _answer_in_html(show_agent, service))
    add("POST", "/page/{name}/freeze", _answer_in_html(hold, service))
    add("POST", "/page/{name}/resume", _answer_in_html(hold, service))


def _answer_in_html(answer: Answer, service: Service) -> Answer:
    """The same, but a refusal is a page, too."""

    async def safely(request: Request) -> Response:
        try:
            return await answer(request)
        except Problem as problem:
            said, status = problem.detail, problem.status_code
        except Refused as refused:
            said, status = str(refused), 422
        body = f'<p class="alert" role="alert">{escape(said)}</p><p><a href="/">All agents</a></p>'
        return _make_page("Refused", body, service, status=status)

    return safely


async def _read_form(request: Request) -> dict[str, str]:
    """The fields of a form."""
    data = parse_qs((await request.body()).decode(errors="replace"), max_num_fields=10)
    return {name: values[0] for name, values in data.items()}


def _make_page(
    title: str, body: str, service: Service, *, status: int = 200, refresh: bool = False
) -> Response:
    again = f'<meta http-equiv="refresh" content="{REFRESH_SECONDS}">' if refresh else ""
    leave = '<form method="post" action="/logout"><button class="plain">Log out</button></form>'
    head = f'<header><a class="home" href="/">klazy</a>{"" if service.settings.insecure else leave}</header>'
    return HTMLResponse(_frame(title, f"{head}<main>{body}</main>", again), status)


def _frame(title: str, body: str, more: str = "") -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)} - klazy</title><link rel="icon" href="data:,">'
        f'<link rel="stylesheet" href="/style.css">{more}</head><body>{body}</body></html>'
    )


def _make_login(said: str, status: int = 200) -> Response:
    alert = f'<p class="alert" role="alert">{escape(said)}</p>' if said else ""
    form = (
        '<form method="post" action="/login">'
        '<label>Token<input name="token" type="password" autocomplete="current-password" required autofocus></label>'
        "<button>Log in</button></form>"
        '<p class="small faint">The token stays in this browser until it is closed or you log out.</p>'
    )
    return HTMLResponse(
        _frame("Log in", f'<main class="login card"><h1>klazy</h1>{alert}{form}</main>'), status
    )


# All agents


def _draw_agents(reader: Reader, grant: Grant, after: str) -> str:
    seen = [name for name in reader.list_names() if grant.allows("reader", name)]
    names = [name for name in seen if name > after]
    if not seen:
        return (
            "<h1>No agents yet</h1><p>Make one with <code>PUT /agents/NAME</code>, or with "
            '<code>kl.Client(url, token).agent("eu-west", learner)</code>.</p>'
        )
    cards = [_draw_card(reader, name) for name in names[:SHOWN_AGENTS]]
    word = "agent" if len(seen) == 1 else "agents"
    links = ""
    if after:
        links += '<a href="/">First page</a>'
    if len(names) > SHOWN_AGENTS:
        links += f'<a href="/?after={quote(names[SHOWN_AGENTS - 1], safe="")}">Next page</a>'
    pages = f'<nav class="pages">{links}</nav>' if links else ""
    return f'<h1>{len(seen)} {word}</h1><ul class="grid">{"".join(cards)}</ul>{pages}'


def _draw_card(reader: Reader, name: str) -> str:
    about = reader.summarize(name)
    rounds = reader.read_rounds(name, SPARK_ROUNDS)
    costs = np.array([row.hitting + row.switching for row in rounds])
    spark = draw_spark(costs, f"cost of the last {len(costs)} rounds")
    caption = f'<p class="small faint">Cost of the last {len(costs)} rounds</p>' if spark else ""
    held = [row.guards for row in rounds[-1:] if row.guards]
    facts = {
        "Rounds": f"{about['rounds']:,}",
        "Last round (UTC)": _spell_moment(about["last"]),
        "Cost": _spell(about["hitting"] + about["switching"]),
        "of it moving": _spell(about["switching"]),
    }
    if held:
        facts["Held back by"] = escape(held[0])
    link = f'<h2><a href="/page/{quote(name, safe="")}">{escape(name)}</a>{_draw_badges(about)}</h2>'
    names = _name_coordinates(reader.read_terms(reader.find(name)), len(about["decision"]))
    decision = _spell_decision(names, about["decision"])
    return f'<li class="card">{link}{spark}{caption}{_list_facts(facts)}<p class="small">{decision}</p></li>'


def _draw_badges(about: dict[str, Any]) -> str:
    badges = [word for word in ("frozen", "deleted") if about[word]]
    return "".join(f'<span class="badge">{word}</span>' for word in badges)


def _spell_decision(names: list[str], x: list[float]) -> str:
    few = [
        f'<span class="faint">{escape(name)}</span> {_spell_shortly(value)}'
        for name, value in zip(names[:6], x[:6], strict=True)
    ]
    more = ["..."] if len(x) > 6 else []
    return ", ".join(few + more)


def _spell_shortly(value: float) -> str:
    return f"{value:.3g}".replace("-", "\N{MINUS SIGN}")


# One agent


def _draw_agent(reader: Reader, name: str, grant: Grant, with_optimum: bool) -> str:
    agent = reader.find(name)
    about = reader.summarize(name)
    terms = reader.read_terms(agent)
    rounds = reader.read_rounds(name, SHOWN_ROUNDS)
    compared = reader.compare(name, SHOWN_ROUNDS, with_optimum)
    parts = [f"<h1>{escape(name)}{_draw_badges(about)}</h1>"]
    parts.append(_draw_top(about, terms, rounds))
    if len(rounds) > 1:
        parts.append(_draw_decisions(terms, rounds))
        parts.append(_draw_costs(name, compared, with_optimum))
    if grant.allows("writer", name) and not about["deleted"]:
        parts.append(_draw_hold(name, about))
    parts.append(_draw_changes(reader.read_changes(name, LISTED_CHANGES)))
    if rounds:
        parts.append(_draw_rounds(rounds[-LISTED_ROUNDS:][::-1]))
    parts.append(f'<section class="card"><h2>Learner</h2><code>{escape(about["learner"])}</code></section>')
    return "".join(parts)


def _draw_top(about: dict[str, Any], terms: Terms, rounds: list[Row]) -> str:
    facts = {
        "Next round": f"{about['rounds'] + 1:,}",
        "Last round (UTC)": _spell_moment(about["last"]),
        "Cost": _spell(about["hitting"] + about["switching"]),
        "Charged by rounds": _spell(about["hitting"]),
        "Charged by moving": _spell(about["switching"]),
    }
    if rounds and rounds[-1].guards:
        facts["Held back by"] = escape(rounds[-1].guards)
    x = np.array(about["decision"])
    names = _name_coordinates(terms, len(x))
    most = float(np.abs(x).max()) or 1.0
    bars = []
    shown = np.argsort(-np.abs(x), kind="stable")[:12] if len(x) > 12 else np.arange(len(x))
    for i in shown:
        bars.append(
            f"<span>{escape(names[i])}</span>{draw_bar(abs(x[i]) / most)}<span>{_spell(float(x[i]))}</span>"
        )
    rest = f'<p class="small faint">{len(x) - 12} more coordinates</p>' if len(x) > 12 else ""
    now = f'<h2>Decision now</h2><div class="bars">{"".join(bars)}</div>{rest}'
    return f'<section class="card top">{_list_facts(facts)}</section><section class="card">{now}</section>'


def _draw_decisions(terms: Terms, rounds: list[Row]) -> str:
    x = np.array([np.frombuffer(row.decision, "<f8") for row in rounds])
    names = _name_coordinates(terms, x.shape[1])
    lines = {name: x[:, i] for i, name in enumerate(names)}
    if len(names) > COLOURS:
        order = np.argsort(-np.abs(x).mean(axis=0), kind="stable")
        lines = {names[i]: x[:, i] for i in order[:SHOWN_NAMES]}
        lines[f"the other {len(names) - SHOWN_NAMES} together"] = x[:, order[SHOWN_NAMES:]].sum(axis=1)
    t = np.array([row.t + 1.0 for row in rounds])
    return f'<section class="card"><h2>Decisions</h2>{draw_lines(t, lines, "decisions")}</section>'


def _draw_costs(name: str, compared: dict[str, Any], with_optimum: bool) -> str:
    t = np.array(compared["t"], dtype=np.float64)
    lines = {"this agent": np.array(compared["cost"])}
    words = []
    fixed = compared["fixed"]
    if fixed is not None:
        lines["the best fixed decision"] = np.array(fixed["cost"])
        words.append(
            f"Never moving from the best fixed decision would have cost {_spell(fixed['cost'][-1])}."
        )
    optimum = compared["optimum"]
    if optimum is not None:
        words.append(
            f"The best possible total was {_spell(optimum['cost'])}; "
            f"nothing below {_spell(optimum['lower_bound'])} was possible (proved; the first move is free)."
        )
    words.insert(0, f"These {len(t)} rounds cost {_spell(compared['cost'][-1])}.")
    ask = f'<p><a class="button" href="/page/{quote(name, safe="")}?optimum">Work out the best possible total</a></p>'
    chart = draw_lines(t, lines, "cumulative cost", dashed=("the best fixed decision",))
    said = f"<p>{escape(' '.join(words))}</p>"
    more = "" if with_optimum else ask
    return f'<section class="card"><h2>Cumulative cost</h2>{chart}{said}{more}</section>'


def _draw_hold(name: str, about: dict[str, Any]) -> str:
    if not about["guarded"]:
        said = "This agent has no guards, so it cannot be frozen. Make it with guards to change that."
        return f'<section class="card"><h2>Freeze</h2><p class="faint">{said}</p></section>'
    what = "resume" if about["frozen"] else "freeze"
    words = {
        "freeze": "Hold the present decision, while the learner goes on learning.",
        "resume": "Let the decision follow the learner again, within its guards.",
    }
    form = (
        f'<form class="row" method="post" action="/page/{quote(name, safe="")}/{what}">'
        f'<label>Reason<input name="reason" maxlength="1000" required></label><button>{what.title()}</button></form>'
    )
    return f'<section class="card"><h2>{what.title()}</h2><p class="faint">{words[what]}</p>{form}</section>'


def _draw_changes(changes: list[dict[str, Any]]) -> str:
    if not changes:
        return ""
    rows = []
    for made in changes:
        note = "" if made["change"] == "guards" else made["note"]
        rows.append(
            f'<tr><td class="number">{made["t"]}</td><td>{_spell_moment(made["time"])}</td>'
            f'<td>{escape(made["change"])}</td><td class="free">{escape(note)}</td></tr>'
        )
    head = '<tr><th class="number">Round</th><th>Time (UTC)</th><th>Change</th><th>Reason</th></tr>'
    return f'<section class="card"><h2>Changes</h2><div class="wide"><table>{head}{"".join(rows)}</table></div></section>'


def _draw_rounds(rounds: list[Row]) -> str:
    rows = []
    for row in rounds:
        rows.append(
            f'<tr><td class="number">{row.t}</td><td>{_spell_moment(spell_time(row.at))}</td>'
            f'<td class="number">{_spell(row.hitting)}</td><td class="number">{_spell(row.switching)}</td>'
            f'<td>{escape(row.guards or "")}</td><td class="free">{escape(row.id or "")}</td></tr>'
        )
    head = (
        '<tr><th class="number">Round</th><th>Time (UTC)</th><th class="number">Charged</th>'
        '<th class="number">Moving</th><th>Held back by</th><th>Id</th></tr>'
    )
    return f'<section class="card"><h2>Latest rounds</h2><div class="wide"><table>{head}{"".join(rows)}</table></div></section>'


def _name_coordinates(terms: Terms, dim: int) -> list[str]:
    return [f"x{i + 1}" for i in range(dim)] if terms.names is None else list(terms.names)


def _list_facts(facts: dict[str, str]) -> str:
    """Names with their values, which are HTML."""
    items = [f"<div><dt>{escape(name)}</dt><dd>{value}</dd></div>" for name, value in facts.items()]
    return f'<dl class="facts">{"".join(items)}</dl>'


def _spell(value: float) -> str:
    return f"{value:.5g}".replace("-", "\N{MINUS SIGN}")


def _spell_moment(at: str | None) -> str:
    """A time in UTC without its fractions."""
    return "never" if at is None else f"{at[:10]} {at[11:19]}"
