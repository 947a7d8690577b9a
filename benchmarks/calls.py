"""How many of klazy's own functions does a call go through?  python benchmarks/calls.py

Python calls and changes of module, counted by ``sys.setprofile`` in all threads once everything was called before: code that
is read from top to bottom has few of both. To compare with an earlier commit, run this file with that commit's ``src`` as
PYTHONPATH.
"""

import asyncio
import contextlib
import io
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np

import klazy as kl
from klazy.__main__ import main
from klazy.serve.app import make_app
from klazy.serve.settings import Settings

SOURCES = str(Path(kl.__file__).parent)
LEARNER = kl.GD(kl.Box([0, 0], [9, 9]), sigma=1.0)
REPLAYED = (400, 3)
ROW = {"eu": 1.0, "us": -2.0}


class Counter:
    """Counts the calls of klazy's functions while it is on."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self._is_on = False
        # Threads that begin later are counted, too.
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: Any, event: str, _: object) -> None:
        if self._is_on and event == "call" and frame.f_code.co_filename.startswith(SOURCES):
            self.files.append(frame.f_code.co_filename)

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Count in a ``with`` block."""
        self.files = []
        self._is_on = True
        yield
        self._is_on = False

    def report(self, name: str) -> None:
        """Print what was counted."""
        changes = sum(
            here != there for here, there in zip(self.files, self.files[1:], strict=False)
        )
        print(f"| {name} | {len(self.files)} | {changes} | {len(set(self.files))} |")


def count(counter: Counter, name: str, call: Callable[[], object]) -> None:
    """Count the second of two calls."""
    call()
    with counter.counting():
        call()
    counter.report(name)


async def post(counter: Counter, file: Path) -> None:
    """Count the second of two rounds that end over HTTP, without a socket."""
    service = make_app(Settings(str(file), insecure=True))

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        await service({**scope, "state": {}}, receive, send)

    transport = httpx.ASGITransport(serve)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        about = {
            "learner": LEARNER.to_dict(),
            "costs": kl.Linear().to_dict(),
            "columns": list(ROW),
        }
        (await client.put("/agents/eu", json=about)).raise_for_status()

        def send() -> Awaitable[httpx.Response]:
            return client.post("/agents/eu/observe", json={"row": ROW})

        await send()
        with counter.counting():
            answer = await send()
        answer.raise_for_status()
    counter.report("POST /agents/eu/observe")
    await asyncio.to_thread(service._service.close)


def replay(file: Path) -> None:
    """Play ``klazy replay`` as the command does."""
    sys.argv = ["klazy", "replay", str(file), "--domain", "simplex"]
    silent = io.StringIO()
    with (
        contextlib.redirect_stdout(silent),
        contextlib.redirect_stderr(silent),
        contextlib.suppress(SystemExit),
    ):
        main()


def main_table() -> None:
    """Print the table."""
    counter = Counter()
    rng = np.random.default_rng(0)
    costs = rng.normal(size=(100, 2))
    print("| way | calls | changes of module | modules |\n|---|--:|--:|--:|")
    count(counter, "run(learner, g)", lambda: kl.run(LEARNER, costs))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given: dict[str, Any] = {"costs": kl.Linear(), "columns": list(ROW)}
        with kl.Agent.open(folder / "a.db", LEARNER, **given) as agent:
            count(counter, "Agent.observe(row) in a store", lambda: agent.observe(ROW))
            count(
                counter,
                "Agent.update(g) in a store",
                lambda: agent.update([1.0, 2.0], gradient=True),
            )

        kl.Agent.open(folder / "c.db", LEARNER).close()
        with contextlib.ExitStack() as opened:

            def reopen() -> None:
                opened.enter_context(kl.Agent.open(folder / "c.db", LEARNER))

            count(counter, "Agent.open of an existing agent", reopen)
        asyncio.run(post(counter, folder / "b.db"))
        table = folder / "t.csv"
        lines = [",".join(f"{x:.6f}" for x in row) for row in rng.normal(size=REPLAYED)]
        table.write_text("\n".join(["a,b,c", *lines]) + "\n")
        count(counter, "klazy replay t.csv", lambda: replay(table))


if __name__ == "__main__":
    main_table()
