"""The paths of the service: what can be asked over HTTP."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

import klazy
from klazy.base.checks import InvalidInput
from klazy.live.inspection import describe_agent
from klazy.live.records import DELETE, FREEZE, RESTORE, RESUME
from klazy.live.state import AgentState, Overtaken
from klazy.live.stored import StoredAgent, find_or_create
from klazy.serve import problems, schemas
from klazy.serve.access import AccessMiddleware
from klazy.serve.creating import build_state, check_path_name
from klazy.serve.pages import add_pages
from klazy.serve.problems import Problem, refuse_deleted
from klazy.serve.service import Service, allow, change
from klazy.serve.settings import Settings
from klazy.serve.worker import RoundRequest, RoundResult, RoundWorker
from klazy.sinks.metrics import look_at

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Trouble, "content": {problems.MEDIA_TYPE: {}}}
    for status in (401, 403, 404, 409, 422, 503)
}
# The role that a path needs for its agent. CheckedRoute looks for it, and OpenAPI shows it.
ROLE = "x-role"
# AccessMiddleware checks tokens; this describes them in OpenAPI. FastAPI's own description would look for them in each request.
TOKEN = {"type": "http", "scheme": "bearer", "description": "From klazy tokens add."}
NEEDS_TOKEN = {"security": [{"token": []}]}
HOLDER: dict[str, Any] = {"openapi_extra": NEEDS_TOKEN}
READER: dict[str, Any] = {"openapi_extra": {ROLE: "reader", **NEEDS_TOKEN}}
WRITER: dict[str, Any] = {"openapi_extra": {ROLE: "writer", **NEEDS_TOKEN}}
ADMIN: dict[str, Any] = {"openapi_extra": {ROLE: "admin", **NEEDS_TOKEN}}
Name = Annotated[str, Path(description="The name of an agent.", examples=["eu-west"])]


def make_app(settings: Settings) -> AccessMiddleware:
    """Build the service of one worker."""
    service = Service(settings)

    @asynccontextmanager
    async def close_at_end(_: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await asyncio.to_thread(service.close)

    app = DescribedApp(
        title="klazy",
        version=klazy.__version__,
        description="Decisions that should hold still, over HTTP.",
        lifespan=close_at_end,
        # These pages would load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
    )
    app.add_exception_handler(HTTPException, _answer_unknown)
    for kind in (Problem, RequestValidationError, InvalidInput, Overtaken, Exception):
        app.add_exception_handler(kind, _answer_failure)
    for make_paths in (_list_round_paths, _list_agent_paths, _list_operation_paths):
        app.include_router(make_paths(service))
    add_pages(app, service)
    return AccessMiddleware(app, service)


async def _answer_failure(_: Request, failed: Exception) -> Response:
    return problems.make_response(problems.explain_failure(failed))


async def _answer_unknown(request: Request, failed: Any) -> Response:
    path = f"{request.method} {request.url.path}"
    detail = f"There is no {path}. /openapi.json lists the paths and their methods."
    return problems.make_response(Problem(failed.status_code, detail, headers=failed.headers))


class DescribedApp(FastAPI):
    """An application whose OpenAPI says what a token is."""

    def openapi(self) -> dict[str, Any]:
        about = super().openapi()
        about["components"]["securitySchemes"] = {"token": TOKEN}
        return about


class JsonRequest(Request):
    """A request whose JSON objects must not repeat keys: programs differ in which value they use."""

    async def json(self) -> Any:
        try:
            return json.loads(await self.body(), object_pairs_hook=_make_object)
        except json.JSONDecodeError:
            raise
        except RecursionError:
            raise json.JSONDecodeError("lists and objects nested too deep", "", 0) from None
        except ValueError as failed:  # text that is not Unicode, integers of thousands of digits
            raise json.JSONDecodeError(str(failed), "", 0) from None


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((key, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise json.JSONDecodeError(f"the key {problems.shorten_value(key)!r} twice", "", 0)
    return found


class CheckedRoute(APIRoute):
    """A path that checks the caller's role for its agent before it reads the body."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        role = (self.openapi_extra or {}).get(ROLE)

        async def check_and_handle(request: Request) -> Response:
            if role is not None:
                allow(request, role, request.path_params.get("name"))
            return await handle(JsonRequest(request.scope, request.receive))

        return check_and_handle


def _make_router(tag: str) -> APIRouter:
    return APIRouter(tags=[tag], responses=PROBLEMS, route_class=CheckedRoute)


def _answer_json(about: Any) -> Response:
    """Return an answer of plain values; every float64 comes back from it to the last bit."""
    # JSONResponse takes several times as long over many numbers.
    return Response(to_json(about), media_type="application/json")


def _describe_played(agent: str, played: RoundResult) -> dict[str, Any]:
    return {
        "agent": agent,
        "t": played.t,
        "x": played.x.tolist(),
        "decision": played.decision if isinstance(played.decision, dict) else None,
        "repeated": played.repeated,
        "dropped": played.dropped,
    }


def _list_round_paths(service: Service) -> APIRouter:
    """Return the paths that are used every round."""
    router = _make_router("rounds")
    answer: dict[str, Any] = {"response_model": schemas.Answer, **WRITER}

    async def end(round: RoundRequest) -> Response:
        (played,) = await service.play([round])
        return _answer_json(_describe_played(round.agent, played))

    @router.get("/agents/{name}/decision", response_model=schemas.Answer, **READER)
    async def decide(name: Name) -> Response:
        """Return the decision to play now."""

        def find(worker: RoundWorker) -> RoundResult:
            state = worker.get_active(name).state
            return RoundResult(state.t, state.x, state.decision)

        return _answer_json(_describe_played(name, await service.look(name, find)))

    @router.post("/agents/{name}/update", **answer)
    async def update(name: Name, body: schemas.Update) -> Response:
        """End the round with a gradient of its cost; the answer is the next decision."""
        return await end(RoundRequest(name, **vars(body)))

    @router.post("/agents/{name}/observe", **answer)
    async def observe(name: Name, body: schemas.Observe) -> Response:
        """End the round with its row of data; the answer is the next decision."""
        return await end(RoundRequest(name, **vars(body)))

    @router.post("/agents/{name}/cost", **answer)
    async def observe_cost(name: Name, body: schemas.Cost) -> Response:
        """End the round with the cost of its decision, for a learner that learns from costs alone."""
        return await end(RoundRequest(name, **vars(body)))

    @router.post("/agents/{name}/advance", **answer)
    async def advance(name: Name, body: schemas.Advance) -> Response:
        """End the round before its feedback is known; update or observe sends it later, with round."""
        return await end(RoundRequest(name, **vars(body), waits=True))

    @router.post("/agents/{name}/give-up", **answer)
    async def give_up(name: Name, body: schemas.GiveUp) -> Response:
        """Stop waiting for the feedback of a round; the answer is the decision to play, as before."""
        return await end(RoundRequest(name, **vars(body), gives_up=True))

    @router.post("/rounds", response_model=schemas.Answers, **HOLDER)
    async def play_all(body: schemas.Rounds, request: Request) -> Response:
        """End rounds of many agents: all of them or, if one is rejected, none."""
        for place, entry in enumerate(body.rounds):
            allow(request, "writer", entry.agent)
            if (entry.g is None) == (entry.row is None):
                detail = f"rounds.{place} must have either g or row."
                raise Problem(422, detail, entry=place, agent=entry.agent)
            if entry.g is None and entry.next_hint is not None:
                detail = f"rounds.{place}.next_hint goes with g. Use next_forecast with a row."
                raise Problem(422, detail, entry=place, agent=entry.agent)
            if entry.row is None and entry.next_forecast is not None:
                detail = f"rounds.{place}.next_forecast goes with row. Use next_hint with g."
                raise Problem(422, detail, entry=place, agent=entry.agent)
        rounds = [RoundRequest(**vars(entry)) for entry in body.rounds]
        played = await service.play(rounds, long=True)
        answers = [
            _describe_played(round.agent, one) for round, one in zip(rounds, played, strict=True)
        ]
        return _answer_json({"answers": answers})

    return router


def _list_agent_paths(service: Service) -> APIRouter:
    """Return the paths that create agents, show them, freeze them and delete them."""
    router = _make_router("agents")
    reader = service.reader
    summary: dict[str, Any] = {"response_model": schemas.Summary}

    @router.get("/agents", response_model=schemas.Summaries, **HOLDER)
    async def list_agents(
        request: Request,
        after: Annotated[str, Query(description="Begin after this name.")] = "",
        limit: Annotated[int, Query(ge=1, le=500)] = 100,
    ) -> Response:
        """List agents by name, with their costs so far."""
        page = await reader.run(
            reader.list_page, request.state.grant, after, limit, reader.summarize
        )
        return JSONResponse({"agents": page.shown, "next": page.next})

    @router.put("/agents/{name}", status_code=201, **summary, **ADMIN)
    async def create(name: Name, body: schemas.Create) -> Response:
        """Create an agent, from its learner or a saved one. The same again changes nothing, but for new guards."""
        check_path_name(name)
        state = await asyncio.to_thread(build_state, vars(body), service.settings)
        await service.wait_for(name)
        is_new, about = await service.worker.ask(
            lambda worker: _create(worker, name, state, service.settings.agents),
            agents=[name],
            long=True,
        )
        return JSONResponse(about, 201 if is_new else 200)

    @router.get("/agents/{name}", **summary, **READER)
    async def look(name: Name) -> Response:
        """Return an agent: its learner and guards, its decision, and its costs so far."""
        return JSONResponse(
            await service.look(name, lambda worker: describe_agent(worker.find(name)))
        )

    @router.get("/agents/{name}/explain", response_model=schemas.Reasons, **READER)
    async def explain_agent(name: Name) -> Response:
        """Explain the decision."""
        found = await service.look(
            name, lambda worker: worker.get_active(name).state.explain(), long=True
        )
        reasons = schemas.Reasons.model_validate(found)
        return Response(reasons.model_dump_json(), media_type="application/json")

    @router.get("/agents/{name}/history", response_model=schemas.History, **READER)
    async def history(
        name: Name,
        last: Annotated[int, Query(ge=1, le=1000, description="At most this many rounds.")] = 100,
        before: Annotated[int | None, Query(description="Only rounds before this one.")] = None,
    ) -> Response:
        """Return rounds: their feedback, their decisions, and the costs of both."""
        return await reader.run(lambda: JSONResponse(reader.describe_page(name, last, before)))

    @router.get("/agents/{name}/changes", **READER)
    async def changes(name: Name, last: Annotated[int, Query(ge=1, le=1000)] = 100) -> Response:
        """List freezes, resumes, new guards, deletes and restores, with their reasons; the latest first."""
        return JSONResponse({"changes": await reader.run(reader.read_changes, name, last)})

    @router.get("/agents/{name}/comparison", **READER)
    async def compare(
        name: Name,
        last: Annotated[int, Query(ge=1, le=2000)] = 500,
        optimum: Annotated[
            bool, Query(description="Compute the certified optimum, too.")
        ] = False,
    ) -> Response:
        """Compare the last rounds with the best fixed point and, on request, the certified optimum."""
        return JSONResponse(await reader.run(reader.compare, name, last, optimum))

    async def make_change(name: str, make: Callable[[StoredAgent], object]) -> Response:
        return JSONResponse(await change(service, name, make))

    @router.post("/agents/{name}/freeze", **summary, **WRITER)
    async def freeze_agent(name: Name, body: schemas.Reason) -> Response:
        """Play the current decision until resume, while the learner goes on learning; the agent must have guards."""
        return await make_change(name, lambda agent: agent.change(FREEZE, body.reason))

    @router.post("/agents/{name}/resume", **summary, **WRITER)
    async def resume_agent(name: Name, body: schemas.Reason) -> Response:
        """Let the decision follow the learner again from the next round on."""
        return await make_change(name, lambda agent: agent.change(RESUME, body.reason))

    @router.delete("/agents/{name}", **summary, **ADMIN)
    async def delete_agent(
        name: Name, reason: Annotated[str, Query(max_length=1000)] = ""
    ) -> Response:
        """Accept no more rounds; history and name stay, and restore undoes it."""
        return await make_change(name, lambda agent: agent.change(DELETE, reason))

    @router.post("/agents/{name}/restore", **summary, **ADMIN)
    async def restore_agent(name: Name, body: schemas.Reason) -> Response:
        """Accept rounds again; the agent continues where it was."""
        return await make_change(name, lambda agent: agent.change(RESTORE, body.reason))

    return router


def _list_operation_paths(service: Service) -> APIRouter:
    """Return the paths that show whether the service works, and how."""
    router = _make_router("operations")

    @router.get("/healthz")
    async def is_alive() -> Response:
        """Return at once if the process answers."""
        return JSONResponse({"status": "alive"})

    @router.get("/readyz")
    async def is_ready() -> Response:
        """Check that the store can be written to; count agents whose lost rounds were not reported yet."""
        await service.check_ready()
        return JSONResponse({"status": "ready", "went_back": len(service.worker.lost)})

    @router.get("/metrics", **READER)
    async def count() -> Response:
        """Return counters for Prometheus."""

        def write() -> bytes:
            found = service.reader.read(lambda store: look_at(store, service.tallies))
            return service.metrics.write(*found)

        return Response(
            await service.reader.run(write), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    return router


def _create(
    worker: RoundWorker, name: str, state: AgentState, most: int
) -> tuple[bool, dict[str, Any]]:
    """Return whether the agent was created now, and its summary."""
    found = worker.store.find_agent(name)
    if found is None:
        if worker.store.count_agents() >= most:
            detail = f"The store has at most {most} agents, deleted ones included. Start the service with --agents."
            raise Problem(403, detail)
        find_or_create(worker.store, [name], lambda: state)
        return True, describe_agent(worker.find(name))
    agent = worker.find_to_write(name)
    if agent.deleted:
        raise refuse_deleted(name)
    first = json.loads(worker.store.read_snapshots(found.id)[0].about)["state"]
    same = found.configuration == json.dumps(state.describe_configuration())
    if not same or first != json.loads(json.dumps(state.describe_state()))["state"]:
        raise Problem(409, f"Another agent named {name!r} exists. Choose a new name.")
    guards = state.guards
    if guards is not None:
        agent.end(lambda now, id: now.record_guards(guards))
    return False, describe_agent(agent)
