"""How processes end: a command with its workers at a signal, a worker with its driver."""

import multiprocessing
import os
import signal
import socket
import time
from threading import Thread

from klazy.base.progress import hide_progress, leave_progress

_WATCH_SECONDS = 0.2  # seconds between two checks whether the driver of a worker still runs


def end_at_signals() -> None:
    """End this process and its workers at once at Ctrl-C or SIGTERM, even in the middle of compiled code.

    Python runs handlers of signals only between two lines of Python, but writes their numbers to a socket at once.
    """
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.detach())
    signal.signal(signal.SIGTERM, _leave_to_thread)
    # Leave SIGINT ignored if it is, as after nohup.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave_to_thread)
    Thread(target=_end_at_signal, args=(receiver,), daemon=True).start()


def _leave_to_thread(*_: object) -> None:
    """Do nothing: :func:`_end_at_signal` ends the process."""


def _end_at_signal(receiver: socket.socket) -> None:
    (number,) = receiver.recv(1)
    leave_progress()
    # Windows has no SIGKILL, and ends a process at SIGTERM. joblib's workers have no method to kill them.
    kill = getattr(signal, "SIGKILL", signal.SIGTERM)
    for child in multiprocessing.active_children():
        if child.pid is not None:
            os.kill(child.pid, kill)
    os._exit(128 + number)


def end_with(driver: int) -> None:
    """End this process, a worker, soon after its driver has ended; leave Ctrl-C and progress to the driver."""
    hide_progress()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_watch, args=(driver,), daemon=True).start()


def _watch(driver: int) -> None:
    while os.getppid() == driver:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)
