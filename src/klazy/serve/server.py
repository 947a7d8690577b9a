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
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from klazy.base.checks import refusal
from klazy.base.parallel import end_with
from klazy.live.store import Store
from klazy.serve.problems import MEDIA_TYPE, Problem, make_response
from klazy.serve.settings import Settings

STOP_SECONDS = 30  # for requests under way when the service is stopped
IDLE_SECONDS = 30  # for which an idle connection stays open
GLANCE = 0.5  # seconds between two looks of the supervisor at its workers
FAILED = 3  # the exit status of a worker that could not begin
SHARED = "PROMETHEUS_MULTIPROC_DIR"  # the folder in which several workers keep their counters
MOST_CONNECTIONS = 2000  # of a worker
HEAD_BYTES = 64 << 10  # of a request: its first line and headers
HEADERS = 100  # of a request
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


class _HeadTooLarge(Exception):
    """Stops the parser."""


class PatientProtocol(HttpToolsProtocol):
    """HTTP that hangs up on whoever takes too long to send the head of a request, or sends one that is too large.

    What follows a body in pieces counts as its head, too.
    """

    seconds = 10.0
    _timer: asyncio.TimerHandle | None = None
    _head = 0  # bytes of this request's first line and headers
    _unread = 0  # bytes since the parser found the last whole part of a request
    _is_too_large = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        self._unread += len(data)
        super().data_received(data)
        if self._unread > HEAD_BYTES and not self.transport.is_closing():
            self._is_too_large = True
            self.send_400_response("")

    def on_message_begin(self) -> None:
        self._head = 0
        super().on_message_begin()
        if self._timer is None:
            self._wait()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > HEAD_BYTES or len(self.headers) >= HEADERS:
            self._is_too_large = True
            raise _HeadTooLarge

    def on_headers_complete(self) -> None:
        self._unread = 0
        self._stop_waiting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        if not self._is_too_large:
            super().send_400_response(msg)
            return
        if self.cycle is None or self.cycle.response_complete:  # else another answer is being written
            wanted = f"a head of at most {HEAD_BYTES} bytes and {HEADERS} headers"
            problem = Problem(431, str(refusal("The service", wanted, "head", "more", "send a smaller one")))
            body = make_response(problem).body
            head = f"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: {MEDIA_TYPE}\r\n"
            head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            self.transport.write(head.encode() + bytes(body))
        self.transport.close()

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
    _end_at_hangup(lambda: server.handle_exit(signal.SIGTERM, None))
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
    _end_at_hangup(told.set)
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
        proxy_headers=bool(settings.proxy),
        forwarded_allow_ips=settings.proxy or None,
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


def _end_at_hangup(end: Callable[[], None]) -> None:
    """Do as at SIGTERM when the terminal is closed, unless the command was started with nohup."""
    hangup = getattr(signal, "SIGHUP", None)  # Windows has none
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        signal.signal(hangup, lambda *_: end())


def _leave_signals() -> None:
    """Let the server answer Ctrl-C and SIGTERM, not the command, which would end at once."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
