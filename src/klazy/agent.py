"""The live object: it holds the state, takes a gradient, and gives the next point."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from klazy.arrays import Array, one_of, refusal, vector
from klazy.kernels import codes
from klazy.learners import Learner
from klazy.learners.base import plain_state, rebuilt_state

FORMAT = 1  # of the file that Agent.save writes
_FLOAT64 = np.dtype(np.float64)


class Agent:
    """A learner in service: play ``agent.x``, then tell it the gradient there with :meth:`update`.

    ``agent.t`` is the round about to be played. ``engine`` is as in :func:`~klazy.run`. A saved agent, once loaded,
    goes on bit for bit as if it had never stopped.

    >>> agent = Agent(KLazyGD(Simplex(3), sigma=2.0, k=8))
    >>> agent.update([1.0, 0.0, 0.0])
    array([0. , 0.5, 0.5])
    >>> agent
    Agent(KLazyGD(domain=Simplex(dim=3), sigma=Constant(s=2.0), k=8), t=2)
    """

    def __init__(self, learner: Learner[Any], *, engine: str = "auto", state: Any = None) -> None:
        if not isinstance(learner, Learner):
            raise refusal("Agent", "a learner", "learner", repr(learner), "write Agent(GD(L2Ball(5), 1.0))")
        missing = learner.part_without_kernel()
        if one_of(engine, "engine", "Agent", ("auto", "compiled", "step")) == "compiled" and missing:
            raise refusal("Agent", "a kernel for every part", "engine", f"'compiled' with {missing}", "use engine='auto'")
        self.learner: Any = learner
        self.engine = "step" if missing or engine == "step" else "compiled"
        self._dim = learner.domain.dim
        self._set_state(learner.init() if state is None else learner.checked_state(state, "Agent"))

    def _set_state(self, state: Any) -> None:
        if self.engine == "step":
            self._state = state
            return
        d, packed = self._dim, self.learner.pack(state)
        self._kernel, self._packed = self.learner.update_kernel(), len(packed)
        self._flat = np.concatenate((packed, self.learner.program()))
        self._x = self._flat[codes.HEAD : codes.HEAD + d]
        self._hint = self._flat[codes.HEAD + 3 * d : codes.HEAD + 4 * d] if self.learner.accepts_hints else np.empty(d)

    @property
    def state(self) -> Any:
        """The learner's state, which ``learner.step`` would take."""
        return self._state if self.engine == "step" else self.learner.unpack(self._flat[: self._packed])

    @property
    def t(self) -> int:
        """The round about to be played; 1 at the start."""
        return self._state.t if self.engine == "step" else int(self._flat[codes.T_SLOT])

    @property
    def x(self) -> Array:
        """The point to play now, a copy."""
        return self._state.x.copy() if self.engine == "step" else self._x.copy()

    def update(self, g: ArrayLike, hint: ArrayLike | None = None) -> Array:
        """End the round: ``g`` is a gradient at ``x``. Returns the next point; refused input changes nothing."""
        if hint is None and self.engine == "compiled" and type(g) is np.ndarray and g.dtype is _FLOAT64:
            try:
                if self._kernel(self._flat, g) == 0:
                    return self._x.copy()
            except TypeError:
                pass  # not contiguous, or read-only: copied below
        return self._checked_update(g, hint)

    def _checked_update(self, g: ArrayLike, hint: ArrayLike | None) -> Array:
        g = vector(g, "g", "Agent.update", self._dim).copy()
        if (size := float(np.abs(g).max())) > codes.LARGEST_GRADIENT:
            raise refusal("Agent.update", f"|g| <= {codes.LARGEST_GRADIENT}", "max |g|", size, "rescale the costs")
        hint = None if hint is None else vector(hint, "hint", "Agent.update", self._dim)
        if hint is not None and not self.learner.accepts_hints:
            raise refusal("Agent.update", "a learner that accepts hints", "learner", repr(self.learner), "use MemoryGD")
        if self.engine == "compiled":
            self._hint[:] = 0.0 if hint is None else hint
            self._kernel(self._flat, g)
            self._hint[:] = 0.0
        else:
            self._state = self.learner.step(self._state, g, *(() if hint is None else (hint,)))
        return self.x

    def save(self, path: str | Path) -> None:
        """Write learner and state to a JSON file, in one step: a crash leaves the old file or the new one."""
        state, learner = plain_state(self.state), self.learner.to_dict()
        about = {"format": FORMAT, "engine": self.engine, "learner": learner, "state": state}
        partial = Path(f"{path}.partial")
        with open(partial, "w", encoding="utf-8") as file:
            json.dump(about, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)

    @classmethod
    def load(cls, path: str | Path) -> "Agent":
        """Read what :meth:`save` wrote; a file of a newer format is refused."""
        about = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(about, dict) or about.keys() != {"format", "engine", "learner", "state"}:
            raise ValueError(f"Agent needs a file that Agent.save wrote, got {path}; check the path.")
        if about["format"] != FORMAT:
            raise ValueError(f"Agent needs a file of format {FORMAT}, got format={about['format']}; install a newer klazy.")
        learner = Learner.from_dict(about["learner"])
        state = rebuilt_state(learner.init(), about["state"])
        if state is None:
            held = sorted(about["state"]) if isinstance(about["state"], dict) else about["state"]
            raise ValueError(f"Agent needs the state of a {type(learner).__name__}, got {held}; the file is damaged.")
        return cls(learner, engine=about["engine"], state=state)

    def __getstate__(self) -> tuple[Any, str, Any]:
        return self.learner, self.engine, self.state

    def __setstate__(self, saved: tuple[Any, str, Any]) -> None:
        self.__init__(saved[0], engine=saved[1], state=saved[2])

    def __repr__(self) -> str:
        return f"Agent({self.learner!r}, t={self.t})"
