"""The record of a run: decisions, costs and totals, which print, plot and save themselves."""

import json
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import numpy as np

from klazy.base.checks import Array, InvalidInput, file_path, instance, positive
from klazy.base.html import load_macros, show_card
from klazy.base.install import explain_missing
from klazy.base.svg import draw_sparkline
from klazy.costs import Costs
from klazy.learners.base import S
from klazy.movement import Movement
from klazy.show import draw_run

if TYPE_CHECKING:
    import polars

    from klazy.show import Figure

TRACE_FORMAT = 2  # The format of the files of Trace.save; format 1 did not name its arrays.
# Fields that are saved unchanged.
_SAVED = ("learner", "engine", "record", "T", "dim", "totals", "columns")
STILL = 1e-12  # a coordinate that changes by no more has not moved
COMPARED_TOGETHER = (
    4096  # rounds that are compared together, so that they stay in the processor's cache
)


class Totals(NamedTuple):
    """What a run paid, summed over all rounds.

    Parameters
    ----------
    hitting : float
        What the rounds charged.
    switching : float
        What moving charged, price included.

    Examples
    --------
    >>> Totals(hitting=3.0, switching=1.5).cost
    4.5
    """

    hitting: float
    switching: float

    @property
    def cost(self) -> float:
        """What was paid altogether: hitting + switching."""
        return self.hitting + self.switching


@dataclass(frozen=True, eq=False)
class Trace(Generic[S]):
    """One learner's run: what it played, what that cost, and what moving cost. :func:`~klazy.run` makes it.

    What it holds depends on ``record``: the totals always, ``hitting`` and ``switching`` from ``"costs"`` on, ``x`` from
    ``"actions"`` on, and what an ensemble knows of its experts with ``"experts"``. Asking for anything else raises an
    ``AttributeError`` that names the ``record`` you need.

    Parameters
    ----------
    engine : str
        How it was played: ``"compiled"``, ``"rows"`` or ``"step"``.
    record : str
        What was recorded: ``"totals"``, ``"costs"``, ``"actions"`` or ``"experts"``.
    T : int
        The number of rounds.
    dim : int
        The number of coordinates of a decision.
    totals : Totals
        Hitting, switching and cost over all rounds.
    movement : Movement
        What moving cost.
    kept : dict of str to array
        The arrays that were recorded.
    state : State
        The learner's state after the last round, from which :func:`~klazy.run` can continue. None in a trace from a file, and
        in one of a baseline that looks ahead.
    x0 : array, optional
        The position before the first round, if one was given.
    costs : Costs, optional
        What was played against; None in a trace from a file.
    next_hints : array, optional
        The hints for the learner: row t was told at the end of round t and guesses round t + 1. There may be none for the last
        round. None in a trace from a file.
    source : Learner, optional
        The learner itself; None in a trace from a file.
    text : str, optional
        The learner as text, where the learner itself is not known.
    columns : tuple of str, optional
        The names of the coordinates, if the costs came as a frame.
    guards : Guards, optional
        The guards within which it played, if any.
    limits : LimitedSet, optional
        The limits by round within which it played, if any.

    Examples
    --------
    >>> trace = run(GD(Box(-1, 1), sigma=2.0), [[1.0], [1.0], [-1.0]], engine="step")
    >>> trace.x.ravel().tolist(), trace.totals.cost
    ([0.0, -0.5, -1.0], 1.5)
    """

    engine: str
    record: str
    T: int
    dim: int
    totals: Totals
    movement: Movement
    kept: dict[str, Array]
    state: S
    x0: Array | None = None
    costs: Costs | None = None
    next_hints: Array | None = None
    source: Any = None
    text: str = ""
    columns: tuple[str, ...] | None = None
    guards: Any = None
    limits: Any = None

    @property
    def learner(self) -> str:
        """The learner as text; it is made when you ask for it, because an ensemble's text fills pages."""
        if self.source is None:
            return self.text
        text = repr(self.source)
        if self.guards is not None:
            text += f" within {self.guards!r}"
        return text if self.limits is None else f"{text} within limits by round"

    @property
    def x(self) -> Array:
        """The points played, of shape (T, d)."""
        return self._recorded("x", "actions")

    @property
    def wanted(self) -> Array:
        """Where the learner of a run with guards or limits would have played, of shape (T, d); without them, that is ``x``."""
        return self._recorded("wanted" if "wanted" in self.kept else "x", "actions")

    @property
    def hitting(self) -> Array:
        """What each round charged, f_t(x_t), of shape (T,)."""
        return self._recorded("hitting", "costs")

    @property
    def switching(self) -> Array:
        """What each round paid for moving, weight included, of shape (T,)."""
        return self._recorded("switching", "costs")

    @property
    def weights(self) -> Array:
        """The weights w_t of an ensemble's N experts in the point played, of shape (T, N)."""
        return self._recorded("weights", "experts")

    @property
    def expert_hitting(self) -> Array:
        r"""What each expert would have paid, of shape (T, N): :math:`f_t(x_t) + \langle g_t, x^i_t - x_t\rangle`.

        It is :math:`f_t(x^i_t)` itself for linear costs, and a lower bound for all others.
        """
        return self._recorded("expert_hitting", "experts")

    @property
    def expert_switching(self) -> Array:
        """What each expert's own movement costs, in the ensemble's movement, of shape (T, N)."""
        return self._recorded("expert_switching", "experts")

    @property
    def spread(self) -> Array:
        """The largest minus the smallest of the experts' losses, r_t, of shape (T,)."""
        return self._recorded("spread", "experts")

    @property
    def diameter(self) -> Array:
        """How far apart the experts' points are in the movement's norm, before its weight: d_t, of shape (T,)."""
        return self._recorded("diameter", "experts")

    @property
    def beta(self) -> Array:
        """The meta rate in force, beta_t, of shape (T,)."""
        return self._recorded("beta", "experts")

    @property
    def leader(self) -> np.ndarray:
        """Which expert a :class:`~klazy.contrib.Leader` follows, counted from 0, of shape (T,)."""
        return self._recorded("leader", "experts").astype(int)

    @property
    def guarding(self) -> np.ndarray:
        """Whether the guard of a :class:`~klazy.contrib.Leader` played the ensemble, of shape (T,)."""
        return self._recorded("guarding", "experts").astype(bool)

    def _recorded(self, name: str, needed: str) -> Array:
        """Return a recorded array, or say which run has it."""
        if name in self.kept:
            return self.kept[name]
        problem = f"record={needed!r}, got record={self.record!r}; run it again so."
        if self.record == needed == "experts":
            problem = (
                f"a run that has it, got learner={self._title}; use a Leader, with its guard."
            )
        raise AttributeError(f"Trace.{name} needs {problem}")

    def __repr__(self) -> str:
        return f"Trace({self._title}, T={self.T}, cost={self.totals.cost:.6g})"

    @property
    def _title(self) -> str:
        """The learner in at most 120 characters; an ensemble's text would fill pages."""
        return shorten(self.learner, 120, placeholder=" ...")

    def __str__(self) -> str:
        lines = [self._title, self._game, "", f"{'':10}{'total':>14}{'per round':>14}"]
        for name, total in self._named.items():
            lines.append(f"{name:10}{total:14.6g}{total / self.T:14.6g}")
        lines += self._moves
        return "\n".join(lines)

    @show_card
    def _repr_html_(self) -> str:
        """Show the same in a notebook, with a small picture of the costs so far."""
        named = self._named.items()
        rows = [{"": name, "total": total, "per round": total / self.T} for name, total in named]
        picture = ""
        if "hitting" in self.kept:
            hit = np.cumsum(self.hitting)
            moved = np.cumsum(self.switching)
            picture = draw_sparkline({"hitting": hit, "switching": moved, "cost": hit + moved})
        parts = load_macros()
        words = parts.paragraphs([self._game, *self._moves])
        return parts.card(
            "Trace", parts.code(self._title), words, parts.row(parts.table(rows, 6), picture)
        )

    @property
    def _game(self) -> str:
        return f"{self.T} rounds in R^{self.dim}, {self.movement!r}, engine: {self.engine}"

    @property
    def _named(self) -> dict[str, float]:
        return {
            "hitting": self.totals.hitting,
            "switching": self.totals.switching,
            "cost": self.totals.cost,
        }

    @property
    def _moves(self) -> list[str]:
        """Say how often it moved, if its points are known."""
        if "x" not in self.kept:
            return []
        moved = 0
        for first in range(0, self.T - 1, COMPARED_TOGETHER):
            steps = np.diff(self.x[first : first + COMPARED_TOGETHER + 1], axis=0)
            # NumPy reduces along short rows slowly, so rows are turned into columns.
            changed = (np.abs(steps) > STILL).T.copy()
            moved += np.count_nonzero(changed.any(axis=0))
        return [f"moved in {moved} of {self.T - 1} rounds"]

    def to_frame(self) -> "polars.DataFrame":
        """Make a polars frame with one row per round: t, hitting, switching and, if recorded, the decision.

        Returns
        -------
        polars.DataFrame
            The decision's columns are x_1 to x_d, or those of the frame that the costs came as; ``x_`` goes before a name
            that is in use.

        Raises
        ------
        ModuleNotFoundError
            If polars is not installed (``klazy[cli]``).
        AttributeError
            If the run recorded totals only.

        Examples
        --------
        >>> run(GD(Box(-1, 1), 2.0), [[1.0], [-1.0]], engine="step").to_frame()["x_1"].to_list()
        [0.0, -0.5]
        """
        with explain_missing("to_frame", "polars", "cli"):
            import polars
        columns = {
            "t": np.arange(1, self.T + 1),
            "hitting": self.hitting,
            "switching": self.switching,
        }
        if "x" in self.kept:
            for i, name in enumerate(self._names):
                columns[f"x_{name}" if name in columns else name] = self.x[:, i]
        return polars.DataFrame(columns)

    @property
    def _names(self) -> tuple[str, ...]:
        """The names of the coordinates."""
        return self.columns or tuple(f"x_{i + 1}" for i in range(self.dim))

    def plot(self) -> "Figure":
        """Draw what it paid so far, what it played, and how it weighed its experts, as far as recorded.

        Returns
        -------
        Figure
            A matplotlib figure; a notebook shows it where a cell ends with it, never before.

        Examples
        --------
        >>> [ax.get_ylabel() for ax in run(GD(Box(-1, 1), 2.0), [[1.0], [-1.0]], engine="step").plot().axes]
        ['cost so far', 'decision']
        """
        points = self.kept.get("x")
        return draw_run(
            self.hitting, self.switching, points, self.kept.get("weights"), self.columns
        )

    def gradients(self) -> Array:
        """Compute the gradients g_t at the points played.

        Returns
        -------
        array
            Of shape (T, d).

        Raises
        ------
        ValueError
            If the trace was loaded from a file, which does not hold the costs.

        Examples
        --------
        >>> run(GD(Box(-1, 1), 2.0), QuadraticCosts([[1.0], [3.0]]), engine="step").gradients().ravel().tolist()
        [-1.0, -2.5]
        """
        if self.costs is None:
            raise InvalidInput("A trace from a file does not have its costs. Run it again.")
        return np.array(self.costs.subgradients(self.x))

    def diagnose(self, G: float | None = None, R: float | None = None) -> Any:
        """Show how it moved: staleness, the bounds on its steps, and whether laziness could matter.

        It is for GD, LazyGD, k-lazyGD, MemoryGD and CentredOMD. For an ensemble or a leader, run with ``record="experts"``, it
        separates the cost of the experts' moves from that of changing the weights.

        Parameters
        ----------
        G : float, optional
            What you assumed about the gradients' norms; the diagnosis says if it was exceeded. Default: nothing.
        R : float, optional
            What you assumed about the distance from x_1, likewise. Default: nothing.

        Returns
        -------
        Diagnosis
            Per round the step, its bounds and the staleness; it prints and plots itself.

        Raises
        ------
        ValueError
            If the trace is from a file, was continued from a state, or is of another learner.

        Examples
        --------
        >>> run(KLazyGD(L1Ball(2), 1.0, k=5), np.tile([1.0, 0.2], (50, 1))).diagnose()
        The projection binds in 100.0% of 50 rounds; only there can laziness act.
        The point stands still against a gradient in 96.0% of the rounds, with a median margin of 1.7.
        In 80.0% of the rounds the variance bound speaks: moved 0.1414, at most 1.989; the bound of a greedy step is 40.79.
        """
        # The theory imports this module.
        from klazy.theory.diagnosis import diagnose, diagnose_ensemble

        check_from_start(self)
        if hasattr(self.source, "name_accounts"):
            return diagnose_ensemble(self)
        if G is not None:
            G = positive(G, "G", "Give a bound on the gradients' norms, or leave it out.")
        if R is not None:
            R = positive(R, "R", "Use domain.reach(), or leave it out.")
        x = np.vstack((self.x, self.state.x))
        return diagnose(self.source, x, self.gradients(), G, R, self.next_hints)

    def save(self, path: str | Path) -> None:
        """Write the trace to a NumPy ``.npz`` file, without its costs, its hints and its state; nothing in it is pickled.

        Parameters
        ----------
        path : str or Path
            Where to write.
        """
        about: dict[str, Any] = {name: getattr(self, name) for name in _SAVED}
        about["format"] = TRACE_FORMAT
        about["movement"] = self.movement.to_dict()
        arrays: dict[str, Any] = dict(self.kept)
        if self.x0 is not None:
            arrays["x0"] = self.x0
        about["arrays"] = list(arrays)
        with open(file_path(path, "path"), "wb") as file:
            np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)

    @classmethod
    def load(cls, path: str | Path) -> "Trace[Any]":
        """Read a trace that :meth:`save` wrote.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        Trace
            The trace, without costs and state.

        Raises
        ------
        ValueError
            If the file is damaged, or of a newer format.
        """
        path = file_path(path, "path")
        data = path.read_bytes()
        try:
            with np.load(BytesIO(data), allow_pickle=False) as file:
                about = json.loads(str(file["about"]))
                arrays = {name: file[name] for name in file.files if name != "about"}
            if about.pop("format") > TRACE_FORMAT:
                raise InvalidInput(
                    f"{path} was written by a newer klazy. Update klazy to read it."
                )
            if about.pop("arrays", list(arrays)) != list(arrays):
                raise ValueError("arrays are missing")
            about["text"] = about.pop("learner")
            about["totals"] = Totals(*about["totals"])
            about["movement"] = Movement.from_dict(about["movement"])
            if about.get("columns") is not None:
                about["columns"] = tuple(about["columns"])
            return Trace[Any](**about, x0=arrays.pop("x0", None), kept=arrays, state=None)
        except InvalidInput:
            raise
        # NumPy, zipfile and json each have errors of their own for files that they cannot read.
        except Exception as damage:
            raise InvalidInput(f"{path} is damaged or was not written by Trace.save.") from damage


def check_trace(trace: Any) -> None:
    """Reject anything but a trace."""
    instance(trace, "trace", Trace, "what run returned")


def check_from_start(trace: Any) -> None:
    """Reject anything but a run of a learner from its start, without guards or limits: a certificate covers no other.

    With guards or limits the points are not the learner's own.
    """
    check_trace(trace)
    if trace.limits is not None:
        raise InvalidInput("trace must be of a run without limits. Run it again without them.")
    if trace.guards is not None:
        raise InvalidInput(
            f"trace must be of a run without guards, got one with {trace.guards!r}."
        )
    if trace.source is None or trace.state is None or trace.costs is None:
        raise InvalidInput(
            "A trace from a file does not have its learner and costs. Run it again."
        )
    if trace.state.t != trace.T + 1:
        raise InvalidInput(
            f"trace must start in round 1, got one from round {trace.state.t - trace.T}. Run it without a state."
        )
