"""The processes of a service: sockets, workers, signals and logs."""

import asyncio
import gc
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
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from klazy.base.checks import InvalidInput
from klazy.base.own import import_own_modules
from klazy.base.signals import end_with
from klazy.live.store import open_store
from klazy.serve.problems import MEDIA_TYPE, Problem, make_response
from klazy.serve.settings import METRICS_FOLDER, Settings

# For requests that are not answered yet when the service is stopped.
STOP_SECONDS = 30
# After which an idle connection is closed.
IDLE_SECONDS = 30
# Between two looks of the supervisor at its workers.
GLANCE_SECONDS = 0.5
# The exit status of a worker that could not begin.
FAILED_STATUS = 3
MAX_CONNECTIONS = 2000
# New objects after which Python looks for garbage.
OBJECTS_PER_SEARCH = 50_000
# A request's first line and headers.
HEAD_BYTES = 64 << 10
MAX_HEADERS = 100
_log = logging.getLogger("klazy.serve")
_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "color_message",
    "taskName",
}


class JsonFormatter(logging.Formatter):
    """Formats an event as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).replace(tzinfo=None)
        about = {
            "time": f"{moment.isoformat(timespec='milliseconds')}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in _RECORD},
        }
        if record.exc_info:
            about["trace"] = self.formatException(record.exc_info)
        return json.dumps(about, default=str)


class PatientProtocol(HttpToolsProtocol):
    """HTTP that closes connections whose request heads arrive too slowly or are too large.

    What follows a body in pieces counts as a head, too.
    """

    seconds = 10.0
    _timer: asyncio.TimerHandle | None = None
    # Bytes since the parser found the last complete part of a request.
    _unread = 0
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
        super().on_message_begin()
        if self._timer is None:
            self._wait()

    def on_headers_complete(self) -> None:
        self._unread = 0
        size = len(self.url) + sum(map(len, chain.from_iterable(self.headers)))
        if size > HEAD_BYTES or len(self.headers) > MAX_HEADERS:
            self._is_too_large = True
            # This stops the parser.
            raise ValueError("the head is too large")
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
        # Otherwise another answer is being written.
        if self.cycle is None or self.cycle.response_complete:
            detail = f"The head must have at most {HEAD_BYTES} bytes and {MAX_HEADERS} headers. Send a smaller one."
            body = make_response(Problem(431, detail)).body
            head = (
                f"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: {MEDIA_TYPE}\r\n"
            )
            head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            self.transport.write(head.encode() + bytes(body))
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._timer = self.loop.call_later(self.seconds, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def serve(settings: Settings) -> None:
    """Serve until the process is stopped; requests that have begun are finished first."""
    # Create the store if there is none, or fail here.
    open_store(settings.store, settings.sync).close()
    _leave_signals()
    logging.config.dictConfig(describe_logs(settings.log_level))
    listening = listen(settings)
    host, port = listening.getsockname()[:2]
    about = {
        "host": host,
        "port": port,
        "workers": settings.workers,
        "tokens": not settings.insecure,
    }
    _log.info("serving", extra=about)
    if settings.workers == 1:
        _work(settings, listening)
        return
    with tempfile.TemporaryDirectory(prefix="klazy-serve-") as folder:
        # The workers import prometheus_client after this.
        os.environ[METRICS_FOLDER] = folder
        _supervise(settings, listening)


def _work(settings: Settings, listening: socket.socket, supervisor: int | None = None) -> None:
    """Serve in this process, as long as the supervisor is alive if there is one."""
    if supervisor is not None:
        end_with(supervisor)
        import_own_modules()
    server = uvicorn.Server(configure(settings, describe_logs(settings.log_level)))
    _look_less_for_garbage()
    _end_at_hangup(lambda: server.handle_exit(signal.SIGTERM, None))
    server.run(sockets=[listening])
    if not server.started:
        sys.exit(FAILED_STATUS)


def _look_less_for_garbage() -> None:
    """Have Python look for garbage less often, and not among what was imported.

    A request of a thousand rounds makes many objects, and hardly any that only a search would find.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_PER_SEARCH)


def _supervise(settings: Settings, listening: socket.socket) -> None:
    """Replace workers that end, until the process is stopped."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    _end_at_hangup(stopped.set)
    context = multiprocessing.get_context("spawn")

    def start() -> Any:
        worker = context.Process(target=_work, args=(settings, listening, os.getpid()))
        worker.start()
        return worker

    workers = [start() for _ in range(settings.workers)]
    failed = False
    while not failed and not stopped.wait(GLANCE_SECONDS):
        for i, worker in enumerate(workers):
            if worker.is_alive():
                continue
            failed = worker.exitcode == FAILED_STATUS
            _log.error("a worker ended", extra={"status": worker.exitcode})
            if not failed:
                workers[i] = start()
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join(STOP_SECONDS + GLANCE_SECONDS)
        worker.kill()
    if failed:
        sys.exit(FAILED_STATUS)


def configure(settings: Settings, logs: dict[str, Any] | None) -> uvicorn.Config:
    """Return the configuration of a worker's server."""
    from klazy.serve.app import make_app

    PatientProtocol.seconds = settings.patience
    return uvicorn.Config(
        partial(make_app, settings),  # pyright: ignore[reportArgumentType]
        factory=True,
        http=PatientProtocol,
        proxy_headers=bool(settings.proxy),
        forwarded_allow_ips=settings.proxy or None,
        ws="none",
        lifespan="on",
        # AccessMiddleware writes one, without query strings.
        access_log=False,
        server_header=False,
        log_config=logs,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        limit_concurrency=MAX_CONNECTIONS,
    )


def describe_logs(level: str) -> dict[str, Any]:
    """Return the configuration of logs: lines of JSON on standard error."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": JsonFormatter}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
        "root": {"handlers": ["stderr"], "level": level.upper()},
        "loggers": {"uvicorn": {"level": level.upper()}, "uvicorn.access": {"level": "CRITICAL"}},
    }


def listen(settings: Settings) -> socket.socket:
    """Return the socket that workers share."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listening = socket.create_server((settings.host, settings.port), family=family)
        # An answer is sent in two parts. asyncio alone, without uvloop, would let the second one wait 40 ms for the client.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as failed:
        where = f"{settings.host}:{settings.port}"
        reason = (failed.strerror or "").partition(" (")[0]
        raise InvalidInput(
            f"serve cannot listen on {where}: {reason}. Choose another --port."
        ) from None


def _end_at_hangup(end: Callable[[], None]) -> None:
    """Do as at SIGTERM when the terminal is closed, unless the command was started with nohup."""
    # Windows has no such signal.
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        signal.signal(hangup, lambda *_: end())


def _leave_signals() -> None:
    """Let the server answer Ctrl-C and SIGTERM, not the command, which would end at once."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
