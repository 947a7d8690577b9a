"""Progress for people who wait: a line on a terminal, a bar in a notebook, nothing in a pipe.

Whatever may take long enters :func:`show_progress`. It is shown from half a second on, and removed at the end. Only the
outermost of several is shown; those within it may add a notice.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from html import escape
from threading import Event, Thread
from typing import Any

SWITCH = "KLAZY_PROGRESS"  # "off" shows nothing
FIRST_SECONDS = 0.5  # before anything is shown
DRAW_SECONDS = 0.2  # between two drawings
BAR_CELLS = 10
# The time left is shown once this share is done.
SURE_SHARE = 0.05

Draw = Callable[[str, float | None], None]


@contextmanager
def show_progress(what: str, *, is_notice: bool = False) -> Iterator[Callable[..., None]]:
    """Show what is being done, from half a second on.

    Parameters
    ----------
    what : str
        What is being done, such as ``"replaying"``.
    is_notice : bool, optional
        Add it to what is shown already, if something is. Default: False.

    Yields
    ------
    callable
        ``report(share, text="")`` says how much is done, from 0 to 1, and adds a few words. It costs almost nothing.

    Examples
    --------
    >>> with show_progress("counting") as report:
    ...     for i in range(3):
    ...         report(i / 3)
    """
    if _VISIBLE:
        outer = _VISIBLE[0]
        outer.notice = what if is_notice else outer.notice
        try:
            yield _ignore
        finally:
            outer.notice = "" if is_notice else outer.notice
        return
    draw = _find_display()
    if draw is None:
        yield _ignore
        return
    line = _Line(what, draw)
    _VISIBLE.append(line)
    try:
        yield line.report
    finally:
        _VISIBLE.clear()
        line.end()


def hide_progress() -> None:
    """Show nothing from now on, in this process and those that it starts."""
    os.environ[SWITCH] = "off"


def leave_progress() -> None:
    """Leave the line of a terminal, for a process that ends at once."""
    if _VISIBLE:
        os.write(2, b"\n")


class _Line:
    """What is shown; a thread draws it, so that it appears in the middle of compiled code too."""

    def __init__(self, what: str, draw: Draw) -> None:
        self.notice = ""
        self._what = what
        self._draw = draw
        self._share: float | None = None
        self._text = ""
        self._start = time.monotonic()
        self._over = Event()
        # A notebook knows by the context to which cell an output belongs.
        self._thread = Thread(target=copy_context().run, args=(self._run,), daemon=True)
        self._thread.start()

    def report(self, share: float | None, text: str = "") -> None:
        self._share = share
        self._text = text

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        if self._over.wait(FIRST_SECONDS):
            return
        self._draw(self._describe(), self._share)
        while not self._over.wait(DRAW_SECONDS):
            self._draw(self._describe(), self._share)
        self._draw("", None)

    def _describe(self) -> str:
        share = self._share
        parts = [self._what]
        if share is not None:
            parts.append(f"{share:.0%}")
        if share is not None and SURE_SHARE <= share < 1.0 and not self.notice:
            left = (time.monotonic() - self._start) * (1.0 - share) / share
            parts.append(f"{left:.0f} s left")
        return ", ".join(part for part in (*parts, self._text, self.notice) if part)


# The line that is visible, if there is one.
_VISIBLE: list[_Line] = []


def _ignore(share: float | None, text: str = "") -> None:
    """Show nothing: nobody is there to see it, or a line is visible already."""


def _find_display() -> Draw | None:
    """Return what draws where this process is watched; None in a pipe."""
    if os.environ.get(SWITCH) == "off":
        return None
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if hasattr(shell, "kernel"):
        return _NotebookDisplay()
    # A process without a console, as pythonw on Windows, has no stderr.
    if sys.stderr is not None and sys.stderr.isatty():
        return _draw_on_terminal
    return None


def _draw_on_terminal(text: str, share: float | None) -> None:
    """Replace the present line of the terminal."""
    if share is not None:
        done = round(BAR_CELLS * share)
        text = f"{'█' * done}{'░' * (BAR_CELLS - done)} {text}"
    # Names of users may have control characters.
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    width = shutil.get_terminal_size().columns - 1
    sys.stderr.write(f"\r\x1b[K{text[:width]}")
    sys.stderr.flush()


class _NotebookDisplay:
    """An output of a cell that changes."""

    def __init__(self) -> None:
        self._output: Any = None

    def __call__(self, text: str, share: float | None) -> None:
        from IPython.display import display

        html = ""
        if text:
            value = "" if share is None else f' value="{share:.3f}"'
            html = f"<progress{value}></progress> {escape(text)}"
        content = {"text/html": html, "text/plain": text}
        if self._output is None:
            self._output = display(content, raw=True, display_id=True)
        else:
            self._output.update(content, raw=True)
