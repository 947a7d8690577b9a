"""The service: what can be asked over HTTP."""

import asyncio
import json
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from time import monotonic
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.responses import Response

import klazy
from klazy.base.checks import Refused, refusal
from klazy.live.explain import Explanation
from klazy.live.explain import explain as explain_decision
from klazy.live.kept import Kept, delete, freeze, guard, restore, resume
from klazy.live.opening import create_agent
from klazy.live.overtaken import Overtaken
from klazy.live.state import Live
from klazy.serve import bodies
from klazy.serve.creating import OWNER, build_live, check_path_name
from klazy.serve.desk import Desk, Played, Told
from klazy.serve.gate import Gate
from klazy.serve.pages import add_pages
from klazy.serve.problems import (
    MEDIA_TYPE,
    Problem,
    explain,
    explain_invalid,
    make_response,
    refuse_deleted,
    shorten,
)
from klazy.serve.reading import Reader
from klazy.serve.service import Service, allow, change, summarize
from klazy.serve.settings import Settings
from klazy.serve.tokens import Grant

LIST_SECONDS = 2.0  # after which a page of agents ends
_log = logging.getLogger("klazy.serve")
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": bodies.Trouble, "content": {MEDIA_TYPE: {}}}
    for status in (401, 403, 404, 409, 422, 503)
}
Name = Annotated[str, Path(description="The name of an agent.", examples=["eu-west"])]


def make_app(settings: Settings) -> Gate:
    """The service of one worker."""
    service = Service(settings)

    @asynccontextmanager
    async def live(_: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await asyncio.to_thread(service.close)

    app = FastAPI(
        title="klazy",
        version=klazy.__version__,
        description="Decisions that should hold still, over HTTP.",
        lifespan=live,
        docs_url=None,  # these pages would load scripts from elsewhere
        redoc_url=None,
    )
    app.router.route_class = JsonRoute
    app.openapi = lambda: describe(app)  # pyright: ignore[reportAttributeAccessIssue]
    for kind in (Refused, Overtaken, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _answer_failure)
    _add_decisions(app, service)
    _add_agents(app, service)
    _add_operations(app, service)
    add_pages(app, service)
    return Gate(app, settings, service.keys, service.metrics, service.wrong)


async def _answer_failure(request: Request, failed: Exception) -> Response:
    if isinstance(failed, RequestValidationError):
        return make_response(explain_invalid(list(failed.errors())))
    if isinstance(failed, Problem):
        return make_response(failed)
    if isinstance(failed, HTTPException):
        asked = f"{request.method} {request.url.path}"
        said = refusal(OWNER, "a path and a method that it has", "path", asked, "/openapi.json lists them")
        return make_response(Problem(failed.status_code, str(said), headers=dict(failed.headers or {})))
    return make_response(explain(failed))


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description, with the way tokens are sent."""
    if app.openapi_schema is None:
        about = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        fast: Any = [(kind, "validation") for kind in (bodies.Update, bodies.Observe, bodies.Rounds)]
        _, schemas = models_json_schema(fast, ref_template="#/components/schemas/{model}")
        about["components"]["schemas"] |= schemas["$defs"]
        scheme = {
            "type": "http",
            "scheme": "bearer",
            "description": "A token that klazy tokens add has made.",
        }
        about["components"]["securitySchemes"] = {"token": scheme}
        about["security"] = [{"token": []}]
        app.openapi_schema = about
    return app.openapi_schema


Body = TypeVar("Body", bound=BaseModel)


class JsonRequest(Request):
    """A request whose JSON is refused where an object has a key twice: programs differ in which one they take."""

    async def json(self) -> Any:
        try:
            return json.loads(await self.body(), object_pairs_hook=_make_object)
        except json.JSONDecodeError:
            raise
        except RecursionError:
            raise json.JSONDecodeError("lists and objects nested too deep", "", 0) from None
        except ValueError as failed:  # text that is not Unicode, integers of thousands of digits
            raise json.JSONDecodeError(str(failed), "", 0) from None


class JsonRoute(APIRoute):
    """A path whose bodies are read by :class:`JsonRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            return await handle(JsonRequest(request.scope, request.receive))

        return handle_json


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise json.JSONDecodeError(f"the key {shorten(twice)!r} twice", "", 0)
    return found


async def read_body(request: Request, kind: type[Body]) -> Body:
    """The body of a request that must be fast: FastAPI would check what JSON became in Python, which takes longer."""
    try:
        await request.json()
        return kind.model_validate_json(await request.body())
    except json.JSONDecodeError as wrong:
        error = {"type": "json_invalid", "loc": ("body",), "msg": wrong.msg}
        raise RequestValidationError([error]) from None
    except ValidationError as wrong:
        errors = wrong.errors(include_url=False)
        raise RequestValidationError([error | {"loc": ("body", *error["loc"])} for error in errors]) from None


def _describe_round(body: type[BaseModel], answer: type[BaseModel]) -> dict[str, Any]:
    """What FastAPI is told of a path whose body :func:`read_body` reads."""
    schema = {"$ref": f"#/components/schemas/{body.__name__}"}
    told = {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
    return {"response_model": answer, "responses": PROBLEMS, "tags": ["rounds"], "openapi_extra": told}


def write_json(about: Any, status: int = 200) -> Response:
    """An answer; there is no NaN in it."""
    return Response(json.dumps(about, allow_nan=False), status, media_type="application/json")


def _describe_played(agent: str, played: Played) -> dict[str, Any]:
    decision = played.decision if isinstance(played.decision, dict) else None
    return {
        "agent": agent,
        "t": played.t,
        "x": played.x.tolist(),
        "decision": decision,
        "repeated": played.repeated,
        "dropped": played.dropped,
    }


def _add_decisions(app: FastAPI, service: Service) -> None:
    """Decide, observe, update: what is asked every round."""

    async def end(request: Request, told: Told) -> Response:
        """End the round, if the token allows it; the answer is the decision to play."""
        allow(request, "writer", told.agent)
        return write_json(_describe_played(told.agent, await service.play(told)))

    @app.get("/agents/{name}/decision", response_model=bodies.Answer, responses=PROBLEMS, tags=["rounds"])
    async def decide(name: Name, request: Request) -> Response:
        """The decision to play now."""
        allow(request, "reader", name)
        await service.prepare([name])

        def look(desk: Desk) -> Played:
            live = desk.find_present(name).live
            return Played(live.t, live.x, live.terms.name(live.x))

        return write_json(_describe_played(name, await service.desk.ask(look)))

    @app.post("/agents/{name}/update", **_describe_round(bodies.Update, bodies.Answer))
    async def update(name: Name, request: Request) -> Response:
        """End the round with a gradient of its cost; the answer is the next decision."""
        allow(request, "writer", name)  # before the body is read
        body = await read_body(request, bodies.Update)
        return await end(request, Told(name, **vars(body)))

    @app.post("/agents/{name}/observe", **_describe_round(bodies.Observe, bodies.Answer))
    async def observe(name: Name, request: Request) -> Response:
        """End the round with its row of data; the answer is the next decision."""
        allow(request, "writer", name)  # before the body is read
        body = await read_body(request, bodies.Observe)
        return await end(request, Told(name, **vars(body)))

    @app.post("/agents/{name}/cost", response_model=bodies.Answer, responses=PROBLEMS, tags=["rounds"])
    async def observe_cost(name: Name, body: bodies.Cost, request: Request) -> Response:
        """End the round with what its decision cost, for a learner that is told no more."""
        return await end(request, Told(name, **vars(body)))

    @app.post("/agents/{name}/advance", response_model=bodies.Answer, responses=PROBLEMS, tags=["rounds"])
    async def advance(name: Name, body: bodies.Advance, request: Request) -> Response:
        """End the round before its feedback is known; update or observe tells it later, with round."""
        return await end(request, Told(name, **vars(body), waits=True))

    @app.post("/agents/{name}/give-up", response_model=bodies.Answer, responses=PROBLEMS, tags=["rounds"])
    async def give_up(name: Name, body: bodies.GiveUp, request: Request) -> Response:
        """Wait no more for the feedback of a round; the answer is the decision to play, as before."""
        return await end(request, Told(name, **vars(body), gives_up=True))

    @app.post("/rounds", **_describe_round(bodies.Rounds, bodies.Answers))
    async def play_all(request: Request) -> Response:
        """End rounds of many agents: all of them or, if one is refused, none."""
        body = await read_body(request, bodies.Rounds)
        rounds = []
        for place, entry in enumerate(body.rounds):
            allow(request, "writer", entry.agent)
            if (entry.g is None) == (entry.row is None):
                said = refusal(
                    OWNER, "either g or row", f"rounds[{place}]", repr(entry.agent), "give one of them"
                )
                raise Problem(422, str(said), entry=place, agent=entry.agent)
            rounds.append(Told(**vars(entry)))
        played = await service.play_all(rounds)
        answers = [_describe_played(told.agent, one) for told, one in zip(rounds, played, strict=True)]
        return write_json({"answers": answers})


def _add_agents(app: FastAPI, service: Service) -> None:
    """Make agents, look at them, hold them, and delete them."""

    @app.get("/agents", response_model=bodies.Summaries, responses=PROBLEMS, tags=["agents"])
    async def list_agents(
        request: Request,
        after: Annotated[str, Query(description="Begin after this name.")] = "",
        limit: Annotated[int, Query(ge=1, le=500)] = 100,
    ) -> Response:
        """Agents by name, and what they have cost so far."""
        grant: Grant = request.state.grant
        return write_json(await service.reader.run(list_page, service.reader, grant, after, limit))

    @app.put(
        "/agents/{name}", response_model=bodies.Summary, responses=PROBLEMS, tags=["agents"], status_code=201
    )
    async def create(name: Name, body: bodies.Create, request: Request) -> Response:
        """Make an agent, from its learner or a saved one. The same again changes nothing; other guards hold from now on."""
        allow(request, "admin", name)
        check_path_name(name)
        live = await asyncio.to_thread(build_live, vars(body), service.settings)
        most = service.settings.agents
        await service.wait_for(name)
        made, about = await service.desk.ask(
            lambda desk: _create(desk, name, live, most), agents=[name], long=True
        )
        return write_json(about, 201 if made else 200)

    @app.get("/agents/{name}", response_model=bodies.Summary, responses=PROBLEMS, tags=["agents"])
    async def look(name: Name, request: Request) -> Response:
        """An agent: its learner and guards, its decision, and what it has cost so far."""
        allow(request, "reader", name)
        await service.prepare([name])
        return write_json(await service.desk.ask(lambda desk: summarize(desk.find(name))))

    @app.get("/agents/{name}/explain", response_model=bodies.Reasons, responses=PROBLEMS, tags=["agents"])
    async def explain_agent(name: Name, request: Request) -> Response:
        """Why it plays what it plays."""
        allow(request, "reader", name)
        await service.prepare([name])

        def look(desk: Desk) -> Explanation:
            live = desk.find_present(name).live
            return explain_decision(live.learner, live.state, live.guards, live.guarded, fill=live.terms.fill)

        return write_json(_describe_reasons(await service.desk.ask(look, long=True)))

    @app.get("/agents/{name}/history", response_model=bodies.History, responses=PROBLEMS, tags=["agents"])
    async def history(
        name: Name,
        request: Request,
        last: Annotated[int, Query(ge=1, le=1000, description="So many rounds at most.")] = 100,
        before: Annotated[int | None, Query(description="Only rounds before this one.")] = None,
    ) -> Response:
        """Rounds: what was told, what was decided, what both cost."""
        allow(request, "reader", name)
        reader = service.reader
        return await reader.run(lambda: write_json(reader.describe_page(name, last, before)))

    @app.get("/agents/{name}/changes", responses=PROBLEMS, tags=["agents"])
    async def changes(
        name: Name, request: Request, last: Annotated[int, Query(ge=1, le=1000)] = 100
    ) -> Response:
        """Freezes, resumes, new guards, deletes and restores, with their reasons; the latest first."""
        allow(request, "reader", name)
        return write_json({"changes": await service.reader.run(service.reader.read_changes, name, last)})

    @app.get("/agents/{name}/comparison", responses=PROBLEMS, tags=["agents"])
    async def compare(
        name: Name,
        request: Request,
        last: Annotated[int, Query(ge=1, le=2000)] = 500,
        optimum: Annotated[bool, Query(description="Work out the certified optimum, too.")] = False,
    ) -> Response:
        """What the last rounds cost beside the best fixed point and, on request, the certified optimum."""
        allow(request, "reader", name)
        return write_json(await service.reader.run(service.reader.compare, name, last, optimum))

    @app.post("/agents/{name}/freeze", response_model=bodies.Summary, responses=PROBLEMS, tags=["agents"])
    async def freeze_agent(name: Name, body: bodies.Reason, request: Request) -> Response:
        """Play the present decision until resume, while the learner goes on learning; the agent must have guards."""
        allow(request, "writer", name)
        return write_json(
            await change(service, name, lambda kept: kept.change(lambda live: freeze(live, body.reason)))
        )

    @app.post("/agents/{name}/resume", response_model=bodies.Summary, responses=PROBLEMS, tags=["agents"])
    async def resume_agent(name: Name, body: bodies.Reason, request: Request) -> Response:
        """Let the decision follow the learner again from the next round on."""
        allow(request, "writer", name)
        return write_json(
            await change(service, name, lambda kept: kept.change(lambda live: resume(live, body.reason)))
        )

    @app.delete("/agents/{name}", response_model=bodies.Summary, responses=PROBLEMS, tags=["agents"])
    async def delete_agent(
        name: Name, request: Request, reason: Annotated[str, Query(max_length=1000)] = ""
    ) -> Response:
        """Take no more rounds; history and name stay, and restore undoes it."""
        allow(request, "admin", name)

        def end(kept: Kept) -> None:
            kept.change(lambda _: None if kept.deleted else delete(reason))

        return write_json(await change(service, name, end))

    @app.post("/agents/{name}/restore", response_model=bodies.Summary, responses=PROBLEMS, tags=["agents"])
    async def restore_agent(name: Name, body: bodies.Reason, request: Request) -> Response:
        """Take rounds again, from where the agent was."""
        allow(request, "admin", name)

        def begin(kept: Kept) -> None:
            kept.change(lambda _: restore(body.reason) if kept.deleted else None)

        return write_json(await change(service, name, begin))


def _add_operations(app: FastAPI, service: Service) -> None:
    """Whether it works, and how."""

    @app.get("/healthz", tags=["operations"])
    async def is_alive() -> Response:
        """Whether the process answers."""
        return write_json({"status": "alive"})

    @app.get("/readyz", tags=["operations"])
    async def is_ready() -> Response:
        """Whether the store can be written to; how many agents have lost rounds that nobody was told of yet."""
        await service.check_ready()
        return write_json({"status": "ready", "went_back": len(service.desk.lost)})

    @app.get("/metrics", tags=["operations"])
    async def count(request: Request) -> Response:
        """Counters for Prometheus."""
        allow(request, "reader", None)

        def write() -> bytes:
            return service.metrics.write(lambda: service.reader.read(lambda store: store.list_latest()))

        return Response(
            await service.reader.run(write), media_type="text/plain; version=0.0.4; charset=utf-8"
        )


def list_page(reader: Reader, grant: Grant, after: str, limit: int) -> dict[str, Any]:
    """A page of the agents that the holder of a token may see."""
    names = [name for name in reader.list_names() if name > after and grant.allows("reader", name)]
    shown: list[dict[str, Any]] = []
    until = monotonic() + LIST_SECONDS
    for name in names[:limit]:
        shown.append(reader.summarize(name))
        if monotonic() > until:
            break
    following = names[len(shown) - 1] if len(names) > len(shown) else None
    return {"agents": shown, "next": following}


def _create(desk: Desk, name: str, live: Live, most: int) -> tuple[bool, dict[str, Any]]:
    """The agent of this name, and whether it was made now."""
    found = desk.store.find_agent(name)
    if found is None:
        if desk.store.count_agents() >= most:
            remedy = "start it with --agents, or delete none: names stay taken"
            raise Problem(403, str(refusal(OWNER, f"at most {most} agents", "name", repr(name), remedy)))
        create_agent(desk.store, name, live)
        return True, summarize(desk.find(name))
    kept = desk.find_to_write(name)
    if kept.deleted:
        raise refuse_deleted(name)
    first = json.loads(desk.store.read_snapshots(found.id)[0].about)["state"]
    same = found.configuration == json.dumps(live.about_configuration())
    if not same or first != json.loads(json.dumps(live.about_state()))["state"]:
        remedy = "choose another name"
        said = refusal(OWNER, "the agent that is there, or a new name", "name", repr(name), remedy)
        raise Problem(409, str(said))
    guards = live.guards
    if guards is not None:
        kept.change(lambda now: guard(now, guards))
    return False, summarize(kept)


def _describe_reasons(found: Explanation) -> dict[str, Any]:
    return {
        "t": found.t,
        "x": found.x.tolist(),
        "own": found.own.tolist(),
        "since": found.since,
        "y": None if found.y is None else found.y.tolist(),
        "normal": None if found.normal is None else found.normal.tolist(),
        "drift": None if math.isnan(found.drift) else found.drift,
        "margin": None if not math.isfinite(found.margin) else found.margin,
        "words": list(found.words),
    }
