"""Pages that show the agents, and freeze and resume them: plain HTML, without scripts."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qs, quote

import numpy as np
from fastapi import FastAPI, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from klazy.base.checks import Array, InvalidInput
from klazy.base.html import render
from klazy.base.svg import draw_chart, draw_sparkline
from klazy.live.records import FREEZE, RESUME, Row
from klazy.serve.access import COOKIE, count_wrong_token
from klazy.serve.problems import Problem, explain_failure
from klazy.serve.reading import Reader, format_time
from klazy.serve.service import Service, allow, change

PAGE_AGENTS = 60
SPARK_ROUNDS = 80
CHART_ROUNDS = 500
# More coordinates than this are added up in the last line of a chart.
CHART_LINES = 8
MAX_BARS = 12
LISTED_ROUNDS = 15
LISTED_CHANGES = 10
REFRESH_SECONDS = 30

Answer = Callable[[Request], Awaitable[Response]]


def add_pages(app: FastAPI, service: Service) -> None:
    """Add the paths of the pages; OpenAPI does not name them."""
    reader = service.reader

    async def show_style(_: Request) -> Response:
        return Response(render("style.css", scope=""), media_type="text/css")

    async def show_login(_: Request) -> Response:
        return _make_login("")

    async def login(request: Request) -> Response:
        token = await _read_field(request, "token")
        if await service.tokens.find(token) is None:
            count_wrong_token(service.wrong, request.scope)
            return _make_login("This token is not known. Ask whoever runs the service for one.", 401)
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
        return HTMLResponse(render(template, title=f"{title} - klazy", insecure=insecure, **values), status)

    async def show_agents(request: Request) -> Response:
        after = request.query_params.get("after", "")
        gather = partial(_gather_card, reader)
        page = await reader.run(reader.list_page, request.state.grant, after, PAGE_AGENTS, gather)
        about = {"count": page.total, "agents": page.shown, "is_later": bool(after), "next": page.next}
        return make_page("agents.html", "Agents", refresh=REFRESH_SECONDS, **about)

    async def show_agent(request: Request) -> Response:
        name = request.path_params["name"]
        grant = allow(request, "reader", name)
        with_optimum = "optimum" in request.query_params
        found = await reader.run(_gather_agent, reader, name, with_optimum)
        may_write = grant.allows("writer", name)
        return make_page("agent.html", name, may_write=may_write, with_optimum=with_optimum, **found)

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
                return make_page("service.html", "Rejected", problem.status_code, message=problem.detail)

        return answer_safely

    for method, path, answer in (
        ("GET", "/style.css", show_style),
        ("GET", "/login", show_login),
        ("POST", "/login", login),
        ("POST", "/logout", logout),
        ("GET", "/", answer_in_html(show_agents)),
        ("GET", "/page/{name}", answer_in_html(show_agent)),
        ("POST", "/page/{name}/freeze", answer_in_html(hold)),
        ("POST", "/page/{name}/resume", answer_in_html(hold)),
    ):
        app.add_route(path, answer, methods=[method], include_in_schema=False)


def _make_login(message: str, status: int = 200) -> Response:
    return HTMLResponse(render("login.html", title="Log in - klazy", message=message), status)


async def _read_field(request: Request, name: str) -> str:
    """Return a field of a form."""
    fields = parse_qs((await request.body()).decode(errors="replace"), max_num_fields=10)
    return fields.get(name, [""])[0]


def _gather_card(reader: Reader, name: str) -> dict[str, Any]:
    """Return what the page of all agents shows of one."""
    about = reader.summarize(name)
    rounds = reader.read_rounds(name, SPARK_ROUNDS)
    costs = np.array([row.hitting + row.switching for row in rounds])
    label = f"cost of the last {len(rounds)} rounds"
    names = reader.read_names(name, len(about["decision"]))
    return {
        "about": about,
        "rounds": rounds,
        "spark": draw_sparkline({"cost": costs}, label, from_zero=False),
        "decision": list(zip(names, about["decision"], strict=True)),
    }


def _gather_agent(reader: Reader, name: str, with_optimum: bool) -> dict[str, Any]:
    """Return what the page of an agent shows."""
    about = reader.summarize(name)
    x = np.array(about["decision"])
    names = reader.read_names(name, len(x))
    rounds = reader.read_rounds(name, CHART_ROUNDS)
    compared = reader.compare(name, CHART_ROUNDS, with_optimum)
    charts = {}
    if len(rounds) > 1:
        charts = {"decisions": _draw_decisions(names, rounds), "costs": _draw_costs(compared)}
    shown = np.arange(len(x))
    if len(x) > MAX_BARS:
        shown = np.argsort(-np.abs(x), kind="stable")[:MAX_BARS]
    shares = 100.0 * np.abs(x) / (np.abs(x).max() or 1.0)
    return {
        "about": about,
        "bars": [(names[i], x[i], shares[i]) for i in shown],
        "charts": charts,
        "compared": compared,
        "changes": reader.read_changes(name, LISTED_CHANGES),
        "rounds": rounds[: -LISTED_ROUNDS - 1 : -1],
        "format_time": format_time,
    }


def _draw_decisions(names: list[str], rounds: list[Row]) -> str:
    x = np.array([np.frombuffer(row.decision, "<f8") for row in rounds])
    lines = {name: x[:, i] for i, name in enumerate(names)}
    if len(names) > CHART_LINES:
        order = np.argsort(-np.abs(x).mean(axis=0), kind="stable")
        first, others = np.split(order, [CHART_LINES - 1])
        lines = {names[i]: x[:, i] for i in first}
        lines[f"the other {len(others)} together"] = x[:, others].sum(axis=1)
    return draw_chart(np.array([row.t + 1.0 for row in rounds]), lines, "decisions")


def _draw_costs(compared: dict[str, Any]) -> str:
    fixed = "the best fixed decision"
    lines: dict[str, Array] = {"this agent": np.array(compared["cost"])}
    if compared["fixed"] is not None:
        lines[fixed] = np.array(compared["fixed"]["cost"])
    return draw_chart(np.array(compared["t"], dtype=np.float64), lines, "cumulative cost", dashed=[fixed])
