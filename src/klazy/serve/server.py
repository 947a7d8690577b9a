"""The processes of a service: sockets, workers, signals and logs."""

import asyncio
import json
import logging
import logging.config
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from klazy.base.checks import refusal
from klazy.base.parallel import end_with
from klazy.live.store import Store
from klazy.serve.settings import Settings

STOP_SECONDS = 30  # for requests under way when the service is stopped
IDLE_SECONDS = 30  # for which an idle connection stays open
GLANCE = 0.5  # seconds between two looks of the supervisor at its workers
FAILED = 3  # the exit status of a worker that could not begin
SHARED = "PROMETHEUS_MULTIPROC_DIR"  # the folder in which several workers keep their counters
MOST_CONNECTIONS = 2000  # of a worker
_log = logging.getLogger("klazy.serve")
_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


class JsonFormatter(logging.Formatter):
    """A line of JSON per event."""

    def format(self, record: logging.LogRecord) -> str:
        about: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        about |= {name: value for name, value in vars(record).items() if name not in _RECORD}
        if record.exc_info:
            about["trace"] = self.formatException(record.exc_info)
        return json.dumps(about, default=str)


class PatientProtocol(HttpToolsProtocol):
    """HTTP that hangs up on whoever takes too long to send the head of a request."""

    seconds = 10.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._wait()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._timer is None:
            self._wait()

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._timer = self.loop.call_later(self.seconds, self._hang_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hang_up(self) -> None:
        self._timer = None
        self.transport.close()


def serve(settings: Settings) -> None:
    """Serve until the process is told to stop; requests under way are finished first."""
    settings.check()
    Store(settings.store, settings.sync, owner="serve").close()  # made if need be, or refused here
    _leave_signals()
    logging.config.dictConfig(describe_logs(settings.log_level))
    listening = listen(settings)
    host, port = listening.getsockname()[:2]
    about = {"host": host, "port": port, "workers": settings.workers, "tokens": not settings.insecure}
    _log.info("serving", extra=about)
    if settings.workers == 1:
        _work(settings, listening)
        return
    with tempfile.TemporaryDirectory(prefix="klazy-serve-") as folder:
        os.environ[SHARED] = folder  # before the workers import prometheus_client
        _supervise(settings, listening)


def _work(settings: Settings, listening: socket.socket) -> None:
    server = uvicorn.Server(configure(settings, describe_logs(settings.log_level)))
    server.run(sockets=[listening])
    if not server.started:
        sys.exit(FAILED)


def _work_for(driver: int, settings: Settings, listening: socket.socket) -> None:
    """What a worker does, as long as its supervisor is there."""
    end_with(driver)
    _work(settings, listening)


def _supervise(settings: Settings, listening: socket.socket) -> None:
    """Keep as many workers as there should be, until the process is told to stop."""
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    context = multiprocessing.get_context("spawn")

    def start() -> Any:
        worker = context.Process(target=_work_for, args=(os.getpid(), settings, listening))
        worker.start()
        return worker

    workers = [start() for _ in range(settings.workers)]
    failed = False
    while not failed and not told.wait(GLANCE):
        for i, worker in enumerate(workers):
            if worker.is_alive():
                continue
            failed = worker.exitcode == FAILED
            _log.error("a worker ended", extra={"status": worker.exitcode})
            if not failed:
                workers[i] = start()
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join(STOP_SECONDS + GLANCE)
        worker.kill()
    if failed:
        sys.exit(FAILED)


def configure(settings: Settings, logs: dict[str, Any] | None) -> uvicorn.Config:
    """The server of one worker."""
    from klazy.serve.app import make_app

    PatientProtocol.seconds = settings.header_seconds
    return uvicorn.Config(
        partial(make_app, settings),  # pyright: ignore[reportArgumentType]
        factory=True,
        http=PatientProtocol,
        ws="none",
        lifespan="on",
        access_log=False,  # the gate writes one, without query strings
        server_header=False,
        log_config=logs,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        limit_concurrency=MOST_CONNECTIONS,
    )


def describe_logs(level: str) -> dict[str, Any]:
    """Lines of JSON on standard error."""
    loggers: dict[str, Any] = {"uvicorn": {"level": level.upper()}, "uvicorn.access": {"level": "CRITICAL"}}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": JsonFormatter}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
        "root": {"handlers": ["stderr"], "level": level.upper()},
        "loggers": loggers,
    }


def listen(settings: Settings) -> socket.socket:
    """The socket that workers share."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as failed:
        listening.close()
        where = f"{settings.host}:{settings.port}"
        raise refusal(
            "serve", "an address that is free", "address", where, failed.strerror or "choose another"
        ) from None
    listening.set_inheritable(True)
    return listening


def _leave_signals() -> None:
    """Let the server answer Ctrl-C and SIGTERM, not the command, which would end at once."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
