"""What a run leaves behind, and its regret against a comparator."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.arrays import Array, real_array, refusal, rows, vector
from klazy.costs import Costs, as_costs
from klazy.movement import L2Movement, Movement

if TYPE_CHECKING:
    import polars

FORMAT = 1  # of the file that Trace.save writes


class Totals(NamedTuple):
    """Sums over all rounds; ``cost`` is what was paid altogether."""

    hitting: float
    switching: float

    @property
    def cost(self) -> float:
        return self.hitting + self.switching


@dataclass(frozen=True, eq=False)
class Trace:
    """One learner's run: what it played, what that cost, what moving cost.

    ``record`` decided what was kept: ``x`` of shape (T, d) with ``"actions"`` only, ``hitting`` and ``switching`` of
    shape (T,) with ``"actions"`` and ``"costs"``, the totals always. ``switching`` includes the movement weight.
    ``state`` is the learner's after the last round, from which :func:`~klazy.run` can go on.
    """

    learner: str
    engine: str
    record: str
    T: int
    dim: int
    totals: Totals
    movement: Movement
    kept: dict[str, Array]
    x0: Array | None = None
    costs: Costs | None = None
    state: Any = None

    @property
    def x(self) -> Array:
        """The points played, of shape (T, d)."""
        return self._recorded("x", "actions")

    @property
    def hitting(self) -> Array:
        """f_t(x_t), of shape (T,)."""
        return self._recorded("hitting", "costs")

    @property
    def switching(self) -> Array:
        """The movement paid in each round, weight included, of shape (T,)."""
        return self._recorded("switching", "costs")

    def _recorded(self, name: str, needed: str) -> Array:
        if name not in self.kept:
            raise AttributeError(f"Trace.{name} needs record={needed!r}, got record={self.record!r}; run it again so.")
        return self.kept[name]

    def __repr__(self) -> str:
        return f"Trace({self.learner}, T={self.T}, cost={self.totals.cost:.6g})"

    def __str__(self) -> str:
        lines = [self.learner, f"{self.T} rounds in R^{self.dim}, {self.movement!r}, engine: {self.engine}", ""]
        lines.append(f"{'':10}{'total':>14}{'per round':>14}")
        named = {"hitting": self.totals.hitting, "switching": self.totals.switching, "cost": self.totals.cost}
        lines += [f"{name:10}{total:14.6g}{total / self.T:14.6g}" for name, total in named.items()]
        if "x" in self.kept:
            moved = int((np.abs(np.diff(self.x, axis=0)) > 1e-12).any(axis=1).sum())
            lines.append(f"moved in {moved} of {self.T - 1} rounds")
        return "\n".join(lines)

    def to_frame(self) -> "polars.DataFrame":
        """One row per round as a polars frame: t, hitting, switching and, if recorded, x_1 to x_d."""
        try:
            import polars
        except ImportError as missing:
            raise ImportError("to_frame needs polars, which is not installed; pip install 'klazy[cli]'.") from missing
        columns = {"t": np.arange(1, self.T + 1), "hitting": self.hitting, "switching": self.switching}
        points = {f"x_{i + 1}": self.x[:, i] for i in range(self.dim)} if "x" in self.kept else {}
        return polars.DataFrame(columns | points)

    def save(self, path: str | Path) -> None:
        """Write everything but the costs and the state to a NumPy ``.npz`` file; nothing in it is pickled."""
        about = {"format": FORMAT, "learner": self.learner, "engine": self.engine, "record": self.record}
        about |= {"T": self.T, "dim": self.dim, "totals": list(self.totals), "movement": self.movement.to_dict()}
        arrays: dict[str, Any] = self.kept if self.x0 is None else {**self.kept, "x0": self.x0}
        with open(path, "wb") as file:
            np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)

    @classmethod
    def load(cls, path: str | Path) -> "Trace":
        """Read what :meth:`save` wrote; a file of a newer format is refused."""
        with np.load(path, allow_pickle=False) as file:
            if "about" not in file.files:
                raise ValueError(f"Trace needs a file that Trace.save wrote, got {path}; check the path.")
            about = json.loads(str(file["about"]))
            arrays = {name: file[name] for name in file.files if name != "about"}
        if about.pop("format") > FORMAT:
            raise ValueError(f"Trace needs a file of format <= {FORMAT}, got {path}; install a newer klazy.")
        totals, movement = Totals(*about.pop("totals")), Movement.from_dict(about.pop("movement"))
        return cls(**about, totals=totals, movement=movement, x0=arrays.pop("x0", None), kept=arrays)


class Curves(NamedTuple):
    """Running sums over the rounds, each of shape (T,)."""

    dynamic: Array
    switching: Array
    comparator_switching: Array
    total: Array
    path_length: Array


@dataclass(frozen=True, eq=False)
class Regret:
    """A run against a comparator u.

    ``dynamic`` is the sum of f_t(x_t) - f_t(u_t); ``switching`` what the learner paid for moving and
    ``comparator_switching`` what u pays under the same movement cost; ``smoothed`` = dynamic + switching is the regret
    that the theory bounds, ``total`` = smoothed - comparator_switching the one of the paper's figures. ``path_length``
    is P_T in the Euclidean norm. ``curves`` holds the running sums (None if the run kept totals only).
    """

    dynamic: float
    switching: float
    comparator_switching: float
    path_length: float
    curves: Curves | None = None

    @property
    def smoothed(self) -> float:
        return self.dynamic + self.switching

    @property
    def total(self) -> float:
        return self.smoothed - self.comparator_switching

    def __str__(self) -> str:
        names = ("dynamic", "switching", "comparator_switching", "smoothed", "total", "path_length")
        return "\n".join(f"{name:22}{getattr(self, name):14.7g}" for name in names)


def regret(trace: Trace, u: ArrayLike, costs: Costs | ArrayLike | None = None) -> Regret:
    """Regret of a run against u: one point of shape (d,), or one per round of shape (T, d).

    ``costs`` are those of the run; they need to be given only for a trace that was loaded from a file. If the run was
    given a starting position x0, the comparator pays for leaving it too.

    >>> trace = run(GD(Box(-1, 1), sigma=2.0), [[1.0], [1.0], [-1.0]])
    >>> regret(trace, [[-1.0], [-1.0], [1.0]]).total
    2.5
    """
    known = trace.costs if costs is None else as_costs(costs)
    if known is None:
        raise ValueError("regret needs the run's costs, got a trace loaded from a file; pass costs=.")
    if (known.T, known.dim) != (trace.T, trace.dim):
        raise refusal("regret", f"the run's costs, T={trace.T} and dim={trace.dim}", "costs", known, "pass those of the run")
    known.check_finite()
    points = real_array(u, "u", "regret")
    points = rows(points, "u", "regret", trace.dim, trace.T) if points.ndim == 2 else vector(points, "u", "regret", trace.dim)
    points = np.broadcast_to(points, (trace.T, trace.dim))
    hitting, moved = known.values(points), trace.movement.paid(points, trace.x0)
    if not np.isfinite(hitting).all():
        t = int(np.argmin(np.isfinite(hitting))) + 1
        raise refusal("regret", "finite costs of the comparator", f"f_{t}(u_{t})", hitting[t - 1], "choose u in the set")
    path = L2Movement().paid(points)
    curves = None
    if "hitting" in trace.kept:
        gap, switching, theirs = np.cumsum(trace.hitting - hitting), np.cumsum(trace.switching), np.cumsum(moved)
        curves = Curves(gap, switching, theirs, gap + switching - theirs, np.cumsum(path))
    totals = trace.totals
    dynamic = totals.hitting - float(hitting.sum())
    return Regret(dynamic, totals.switching, float(moved.sum()), float(path.sum()), curves)
