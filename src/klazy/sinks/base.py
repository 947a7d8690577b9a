"""What a sink is, and how it gets the newest decision while rounds go on."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Protocol

from klazy.base.checks import InvalidInput
from klazy.studies.installed import list_installed, load_installed

SINKS_GROUP = "klazy.sinks"
# Seconds until a sink that failed is tried again: the first time, and at most.
FIRST_RETRY = 0.5
LONGEST_RETRY = 30.0
# What a decision may be.
STATUSES = ("following", "held", "frozen", "away")


@dataclass(frozen=True)
class Decision:
    """A decision to act on.

    Parameters
    ----------
    agent : str
        Whose it is.
    round : int
        The round that it is for.
    id : str
        The id of the row after which it was made; empty before the first.
    values : dict
        The decision, by column name.
    status : str
        ``"following"``: it is what the learner wants. ``"held"``: a guard held it back. ``"frozen"``: it stays until it is
        resumed. ``"away"``: it stands because the source of rows does not answer.
    guards : tuple of str
        The guards that acted on the last move.
    """

    agent: str
    round: int
    id: str
    values: dict[str, float]
    status: str = "following"
    guards: tuple[str, ...] = ()


class Sink(Protocol):
    """What acts on decisions: a class with this method is a sink.

    A package offers one by an entry point of the group ``klazy.sinks``: a function of the text after the colon in
    ``--sink name:text``.
    """

    def apply(self, decision: Decision) -> None:
        """Act on a decision; it may come again, and only the newest one counts.

        Parameters
        ----------
        decision : Decision
            The decision.

        Raises
        ------
        Exception
            If it failed; it is then tried again with the newest decision.
        """
        ...


class Delivery:
    """Gives a sink the newest decision, in a thread of its own, until it has it. Rounds never wait for a sink.

    Parameters
    ----------
    sink : Sink
        The sink.
    note : callable, optional
        Called with the error after each attempt that failed, and with None after one that did not.
    """

    def __init__(
        self, sink: Sink, note: Callable[[Exception | None], None] = lambda failed: None
    ) -> None:
        self._sink = sink
        self._note = note
        self._news = Condition()
        self._newest: Decision | None = None
        self._applied: Decision | None = None
        self._ends = False
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_behind(self) -> bool:
        """Whether the newest decision has not been applied yet."""
        return self._applied is not self._newest

    def give(self, decision: Decision) -> None:
        """Have this decision applied.

        Parameters
        ----------
        decision : Decision
            The newest decision.
        """
        with self._news:
            if decision != self._newest:
                self._newest = decision
                self._news.notify()

    def close(self) -> None:
        """Try the newest decision once more if it is not applied, and end."""
        with self._news:
            self._ends = True
            self._news.notify()
        self._thread.join()

    def _run(self) -> None:
        pause = FIRST_RETRY
        while True:
            with self._news:
                self._news.wait_for(lambda: self._ends or self.is_behind)
                decision = self._newest
                ends = self._ends
            if decision is not None and self.is_behind and self._try(decision):
                self._applied = decision
                pause = FIRST_RETRY
            elif not ends:
                with self._news:
                    self._news.wait_for(lambda: self._ends or self._newest is not decision, pause)  # noqa: B023
                pause = min(2.0 * pause, LONGEST_RETRY)
            if ends:
                return

    def _try(self, decision: Decision) -> bool:
        try:
            self._sink.apply(decision)
        # A sink of another package may fail in any way.
        except Exception as failed:
            self._note(failed)
            return False
        self._note(None)
        return True


def open_installed_sink(text: str) -> Sink:
    """Open a sink that another installed package offers.

    Parameters
    ----------
    text : str
        Its name and what it is given, such as ``"queue:decisions"``.

    Returns
    -------
    Sink
        The sink.
    """
    name, _, argument = text.partition(":")
    known = list_installed(SINKS_GROUP)
    if name not in known:
        names = ", ".join(known) or "there are none"
        raise InvalidInput(f"No installed sink is named {name!r}. Installed sinks: {names}.")
    return load_installed(name, SINKS_GROUP)(argument)
