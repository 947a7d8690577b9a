"""How learners and their states become the numbers that kernels work on, and states again. It loads no Numba.

A learner in play is a *row* of numbers: the fields of :mod:`klazy.kernels.codes`, then the vectors of its state, x first.
Rows that play side by side lie in a *block*, place by place: the first number of each, then the second of each. A single run
is a block of one row, an ensemble a head and the blocks of its experts, a batch a list of blocks.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from klazy.base.checks import Array
from klazy.kernels import codes
from klazy.kernels.rules import MEANS, N1, N2, PLAN, RULES, reluctant

ENSEMBLE = "ensemble"  # the rule of a learner that weighs others
LEADER = "leader"  # the rule of a learner that follows one of others
MANY = (ENSEMBLE, LEADER)  # the rules of learners that are made of others
RULE_CODES = {name: code for code, name in enumerate(RULES)}
META = [
    codes.LOG_W,
    codes.MOVED,
    codes.LOSSES,
]  # the fields of an expert that are an ensemble's state


def width_of(d: int) -> int:
    """Return how many rows a block has side by side."""
    return codes.LANES if d <= codes.UNROLLED_DIM else 1


def rule_of(learner: Any) -> str | None:
    """Return the name of a learner's rule; it is not inherited, for a subclass may compute something else."""
    return learner.rule if "rule" in vars(type(learner)) else None


def find_missing_part(learner: Any, *parts: Any) -> str | None:
    """Return the name of the first part that cannot be compiled, or None; ``parts`` are the costs and movement of a run."""
    rule = rule_of(learner)
    if rule is None or (rule not in MANY and RULES[rule].led):
        return getattr(learner, "obstacle", None) or type(learner).__name__
    if learner.usual_price is not None:
        for part in parts:
            if not getattr(part, "is_steady", True):
                return f"{type(learner).__name__} with prices that change by round"
    if "_layout" in vars(learner):  # It has been compiled before, all hundred experts of it.
        return _find_unknown(parts)
    return _find_missing(learner, rule, parts)


def _find_missing(learner: Any, rule: str, parts: tuple[Any, ...]) -> str | None:
    """Return the first part without a kernel, for a learner that has a rule, perhaps within a leader."""
    needed = [learner.domain, *parts]
    if rule in MANY:
        needed.append(learner.movement)
        if not learner.movement.is_steady:
            return f"{type(learner.movement).__name__} with a weight per round"
        if getattr(learner, "rows", ()) is None:
            return f"the family {type(learner.family).__name__}"
        for expert in learner.experts:
            if getattr(learner, "curved", None) not in (None, expert.family):
                return f"the gradients of {type(expert).__name__}"
            if expert.experts:
                return f"the nested {type(expert).__name__}"
            own = rule_of(expert)
            is_led = (
                own is not None and getattr(learner, RULES[own].led or "led", None) is not None
            )
            missing = _find_missing(expert, own, ()) if is_led else find_missing_part(expert)
            if missing is not None:
                return missing
    else:
        needed.extend(
            getattr(learner, name) for name in ("sigma", "memory") if name in vars(learner)
        )
    return _find_unknown(needed)


def _find_unknown(parts: Sequence[Any]) -> str | None:
    """Return the name of the first part without a code, or None."""
    for part in parts:
        if codes.code_of(part) is None:
            return type(getattr(part, "family", None) or part).__name__
    return None


# ---- rows and blocks


def count_vectors(learner: Any) -> int:
    """Count the vectors of length d that the learner's rule keeps next to x."""
    rule = RULES[learner.rule]
    return rule.width + rule.depth * count_ring(learner)


def count_ring(learner: Any) -> int:
    """Count the rows in the ring of the learner's rule; 0 if it has none."""
    rule = RULES[learner.rule]
    return getattr(learner, rule.parameters[0]) if rule.ring else 0


def count_row(learners: Sequence[Any]) -> int:
    """Count the numbers of a row that has room for each of these learners."""
    return codes.FIELDS + (1 + max(map(count_vectors, learners))) * learners[0].domain.dim


def write_rows(learners: Sequence[Any], states: Sequence[Any]) -> Array:
    """Write one row for each learner in its state, as long as the rule with the most vectors needs."""
    rows = np.zeros((len(learners), count_row(learners)))
    pairs = list(zip(learners, states, strict=True))
    rows[:, : codes.MOVED] = [_describe(learner, state) for learner, state in pairs]
    for row, (learner, state) in zip(rows, pairs, strict=True):
        _write_own(row, learner, state)
    return rows


def _write_own(row: Array, learner: Any, state: Any) -> None:
    """Write the numbers and vectors of a learner's own rule into a row of zeros."""
    d = learner.domain.dim
    rule = RULES[learner.rule]
    own = [attrgetter(name)(learner) for name in rule.parameters]
    own += [getattr(state, name) for name in rule.scalars]
    own += [attrgetter(name)(learner) for name in rule.further]
    row[codes.OWN : codes.OWN + len(own)] = own
    at = codes.FIELDS
    row[at : at + d] = state.x
    at += d
    for name in rule.vectors:
        row[at : at + rule.depth * d] = getattr(state, name)
        at += rule.depth * d
    if rule.ring:
        row[at : at + state.ring.size] = state.ring.ravel()


def _describe(learner: Any, state: Any) -> tuple[float, ...]:
    """Return the fields of a row that every learner has, in their order."""
    schedule, a, b = _describe_schedule(learner)
    scale = _scale_of(schedule, a)
    slack = learner.phase_length or 1
    memory = getattr(learner, "memory", None)
    kept = 0 if memory is None else memory.code
    kappa = 0.0 if memory is None else memory.parameter()
    start = state.t + (1 - state.t) % slack
    energy = getattr(state, "energy", 0.0)
    old_sigma = state.sigma if RULES[learner.rule].keeps_sigma else 0.0
    return (
        state.t, energy, old_sigma, scale, 1.0 / scale, learner.domain.dim, start, -math.inf,
        RULE_CODES[learner.rule], schedule, a, b, slack, kept, kappa,
    )  # fmt: skip


def _describe_schedule(learner: Any) -> tuple[int, float, float]:
    """Return the code and parameters of a learner's schedule; a learner without a sigma has the constant 1."""
    sigma = vars(learner).get("sigma")
    if sigma is None:
        return codes.CONSTANT, 1.0, 0.0
    return sigma.code, *sigma.parameters()


def _scale_of(schedule: int, a: float) -> float:
    """Return the factor between the sigmas of a schedule and those of the same schedule with parameter A = 1."""
    if schedule in (codes.CONSTANT, codes.PROPORTIONAL):
        return a
    if schedule in (codes.SQRT, codes.DOUBLING):
        return 1.0 / math.sqrt(a)
    return 1.0


def read_state(learner: Any, state: Any, row: Array) -> Any:
    """Return the state of the learner that a row holds, in the form of any other state of it."""
    d = learner.domain.dim
    rule = RULES[learner.rule]
    values: dict[str, Any] = {"t": int(row[codes.T])}
    if "energy" in state._fields:
        values["energy"] = float(row[codes.ENERGY])
    if rule.keeps_sigma:
        values["sigma"] = float(row[codes.OLD_SIGMA])
    for i, name in enumerate(rule.scalars):
        kind = type(getattr(state, name))  # Counts are integers.
        values[name] = kind(row[codes.OWN + len(rule.parameters) + i])
    at = codes.FIELDS + d
    values["x"] = row[codes.FIELDS : at].copy()
    for name in rule.vectors:
        values[name] = row[at : at + rule.depth * d].copy()
        at += rule.depth * d
    if rule.ring:
        values["ring"] = row[at : at + state.ring.size].reshape(state.ring.shape).copy()
    if rule.led:
        values[rule.led] = np.zeros(0)  # The leader stores it.
    return state._replace(**values)


def lay_blocks(rows: Array, lanes: np.ndarray) -> Array:
    """Arrange rows as blocks, of shape (blocks, numbers).

    ``lanes``, of shape (blocks, width), has the row of every lane; -1 - i repeats row i in a lane that is empty.
    """
    count, width = lanes.shape
    picked = rows[np.where(lanes >= 0, lanes, -1 - lanes)]
    blocks = allocate_aligned(count * width * rows.shape[1]).reshape(count, -1)
    blocks[:] = picked.transpose(0, 2, 1).reshape(count, -1)
    return blocks


def read_rows(blocks: Array, lanes: np.ndarray) -> Array:
    """Read the rows that :func:`lay_blocks` wrote, in their order."""
    count, width = lanes.shape
    filled = lanes >= 0
    numbers = blocks.reshape(count, -1, width).transpose(0, 2, 1)
    rows = np.empty((np.count_nonzero(filled), numbers.shape[2]))
    rows[lanes[filled]] = numbers[filled]
    return rows


def allocate_aligned(n: int) -> Array:
    """Return zeros that begin at a cache line, so that few registers are split in memory."""
    room = np.zeros(n + codes.LINE)
    first = -(room.ctypes.data // room.itemsize) % codes.LINE
    return room[first : first + n]


# ---- what kernels of single runs and of ensembles work on


class RunLayout:
    """One learner: its row, the hint for the next round, scratch, the parameters of its set."""

    def __init__(self, learner: Any) -> None:
        self.learner = learner
        self.d = learner.domain.dim
        self.size = count_row([learner])
        self.x = slice(codes.FIELDS, codes.FIELDS + self.d)
        self.hint = slice(self.size, self.size + self.d)

    def pack(self, state: Any) -> Array:
        """Write the learner in this state as the array that a kernel works on."""
        parameters = self.learner.domain.parameters()
        first = self.size + codes.SCRATCH * self.d
        memory = allocate_aligned(first + parameters.size)
        memory[: codes.MOVED] = _describe(self.learner, state)
        _write_own(memory, self.learner, state)
        memory[first:] = parameters
        return memory

    def unpack(self, memory: Array) -> Any:
        """Read the state that a kernel left."""
        return read_state(self.learner, self.learner.init(), memory[: self.size])

    def sequence_kernel(self, cost: int) -> Any:
        """Make the kernel that plays a whole sequence of a cost family."""
        from klazy.kernels.sequence import sequence_kernel

        return sequence_kernel(
            self.learner.domain.code, cost, RULE_CODES[self.learner.rule], self.d
        )

    def limited_kernel(self, cost: int, cut_code: int) -> Any:
        """Make the kernel that plays a whole sequence within limits by round, which leave sets of this code."""
        from klazy.kernels.limited import limited_run_kernel

        code = self.learner.domain.code
        return limited_run_kernel(code, cost, RULE_CODES[self.learner.rule], self.d, cut_code)

    def update_kernel(self) -> Any:
        """Make the kernel of one round."""
        from klazy.kernels.sequence import update_kernel

        learner = self.learner
        earns = not learner.takes_gradients and codes.code_of(learner.family) == codes.LINEAR
        return update_kernel(learner.domain.code, RULE_CODES[learner.rule], self.d, earns)


class EnsembleLayout:
    """An ensemble: a head, its point, the blocks of its experts, and its program.

    The experts of a block share rule, schedule, memory, the length of a ring and a given period, unless ``width`` is the number
    of lanes of one block for all.
    """

    def __init__(self, learner: Any, width: int | None = None) -> None:
        self.learner = learner
        self.d = learner.domain.dim
        self.x = slice(codes.HEAD, codes.HEAD + self.d)
        if width is None:
            self.lanes = _group_experts(learner.experts, width_of(self.d))
        else:
            self.lanes = fill_lanes(range(len(learner.experts)), width)
        self.first = codes.first_block(self.d)
        self.size = self.lanes.size * count_row(learner.experts)  # the numbers of its blocks
        self.rules = tuple(sorted({RULE_CODES[expert.rule] for expert in learner.experts}))
        self.model = learner.init()  # the form of its states
        # The blocks of experts that may have means in common: in many dimensions, where a block is one expert.
        self.sharers: list[int] = []
        if width is None and codes.constant_dim(self.d) == 0:
            rules = [RULES[learner.experts[i].rule] for i in self.lanes[:, 0]]
            share = [rule.propose is reluctant and rule.depth == 1 for rule in rules]
            self.sharers = np.flatnonzero(share).tolist()
        self.means = slice(codes.FIELDS + self.d, codes.FIELDS + 3 * self.d)
        self.counts = [codes.OWN + N1, codes.OWN + N2]

    def pack(self, state: Any) -> Array:
        """Write the ensemble in this state as the array that a kernel works on."""
        memory = self._lay_out(state)
        memory[codes.V] = state.V
        return memory

    def _lay_out(self, state: Any, more: int = 0) -> Array:
        """Lay out head, blocks and program of an ensemble without losses, and room for more numbers."""
        blocks = self._write_blocks(state)
        program = self._write_program()
        memory = allocate_aligned(self.first + blocks.size + program.size + more)
        memory[: codes.HEAD] = state.t, 0.0, len(blocks), blocks.shape[1], 0.0, self.d
        memory[self.x] = state.x
        memory[self.first : self.first + blocks.size] = blocks.ravel()
        end = memory.size - more
        memory[end - program.size : end] = program
        return memory

    def _write_blocks(self, state: Any) -> Array:
        learner = self.learner
        rows = write_rows(learner.experts, state.experts)
        rows[:, codes.PRIOR] = self.log_prior
        rows[:, META] = np.column_stack((state.log_w, state.moved, state.losses))
        rows[:, codes.W] = np.exp(state.log_w)
        self._place_plans(rows)
        self._share_means(rows)
        blocks = lay_blocks(rows, self.lanes)
        fields = blocks.reshape(len(self.lanes), -1, self.lanes.shape[1])
        for block, empty in zip(fields, self.lanes < 0, strict=True):
            block[codes.PRIOR, empty] = -math.inf
            block[codes.LOG_W, empty] = -math.inf
            block[codes.W, empty] = 0.0
        return blocks

    def _share_means(self, rows: Array) -> None:
        """Let experts whose means are equal have those of the last of them; write how far behind its own each finds them.

        In many dimensions means take most of the memory, and most of the time is spent on moving them.
        """
        last: dict[Any, int] = {}
        for place in reversed(self.sharers):
            row = rows[self.lanes[place, 0]]
            window = self.learner.experts[self.lanes[place, 0]].window
            alike = (window, *row[self.counts], row[self.means].tobytes())
            row[codes.OWN + MEANS] = (last.setdefault(alike, place) - place) * row.size

    def _spread_means(self, rows: Array) -> None:
        """Write the means that experts share into the rows of all of them."""
        for place in self.sharers:
            row = rows[self.lanes[place, 0]]
            owner = self.lanes[place + int(row[codes.OWN + MEANS]) // row.size, 0]
            row[self.means] = rows[owner, self.means]

    def _place_plans(self, rows: Array) -> None:
        """Write into the rows of experts that plan where their plans are; only a leader has such experts."""

    @property
    def log_prior(self) -> Array:
        """The logarithms of the experts' weights at first."""
        return self.learner.log_prior

    @property
    def rate_rule(self) -> tuple[int, float]:
        """How the rate is found, and the number that this takes."""
        return self.learner.rate_rule

    def unpack(self, memory: Array) -> Any:
        """Read the state that a kernel left."""
        return self.model._replace(**self._read(memory), V=float(memory[codes.V]))

    def _read(self, memory: Array) -> dict[str, Any]:
        """Read the fields that the states of ensembles and leaders share."""
        count = int(memory[codes.BLOCKS])
        size = int(memory[codes.BLOCK_SIZE])
        rows = read_rows(memory[self.first : self.first + count * size], self.lanes)
        self._spread_means(rows)
        experts = zip(self.learner.experts, self.model.experts, rows, strict=True)
        log_w, moved, losses = rows[:, META].T.copy()
        return {
            "t": int(memory[codes.T]),
            "x": memory[self.x].copy(),
            "experts": tuple(read_state(*expert) for expert in experts),
            "log_w": log_w,
            "moved": moved,
            "losses": losses,
        }

    def _write_program(self) -> Array:
        learner = self.learner
        prices = np.resize(learner.movement.prices(self.d), 2 * self.d)
        rule, rate = self.rate_rule
        about = (
            rule,
            rate,
            learner.movement.code,
            float(learner.movement.weight),
            *learner.noise,
        )
        return np.concatenate((about, prices, learner.domain.parameters()))

    row_family: int | None = None  # The code of the family whose rows a leader gets.
    more_columns = 3  # Columns of the record, next to three for every lane.
    is_long = False  # Whether the ring of a season has another length than SEASON_ROWS.

    @property
    def record_width(self) -> int:
        """Columns of the kernel's record."""
        return 3 * self.lanes.size + self.more_columns

    def order_record(self, record: Array) -> Array:
        """Return the kernel's record with one column per expert in place of one per lane, as ``account`` writes it."""
        places = self._find_places()
        columns = [part * self.lanes.size + places for part in range(3)]
        more = 3 * self.lanes.size + np.arange(self.more_columns)
        return record[:, np.concatenate((*columns, more))]

    def _find_places(self) -> np.ndarray:
        """Return the lane of each expert."""
        lanes = self.lanes.ravel()
        places = np.flatnonzero(lanes >= 0)
        return places[np.argsort(lanes[places])]

    def sequence_kernel(self, cost: int) -> Any:
        """Make the kernel that plays a whole sequence of a cost family; its last argument is the ensemble's record."""
        from klazy.kernels.ensemble import ensemble_sequence_kernel

        code = self.learner.domain.code
        return ensemble_sequence_kernel(
            code, cost, self.rules, self.d, self.row_family, self.is_long
        )

    def limited_kernel(self, cost: int, cut_code: int) -> Any:
        """Make the kernel that plays a whole sequence within limits by round, which leave sets of this code."""
        from klazy.kernels.limited import limited_ensemble_kernel

        key = (
            self.learner.domain.code,
            cost,
            self.rules,
            self.d,
            self.row_family,
            self.is_long,
            cut_code,
        )
        return limited_ensemble_kernel(*key)

    def update_kernel(self) -> Any:
        """Make the kernel of one round."""
        from klazy.kernels.ensemble import ensemble_update_kernel

        code = self.learner.domain.code
        return ensemble_update_kernel(code, self.rules, self.d, self.row_family, self.is_long)


class LeaderLayout(EnsembleLayout):
    """A leader: an ensemble's numbers, with those of the leader itself between the head and the blocks."""

    def __init__(self, learner: Any, width: int | None = None) -> None:
        super().__init__(learner, width)
        # Experts that forecast move as Reluctant does. A leader of them alone uses the kernel of auto, which has
        # both, and regressions next to seasons.
        movers = {
            RULE_CODES[expert.mover.rule] for expert in learner.experts if RULES[expert.rule].led
        }
        names = list(RULES)
        forecasters = {names[rule].replace("seasonal_", "autoregressive_") for rule in self.rules}
        forecasts = {RULE_CODES[name] for name in forecasters & RULES.keys()}
        self.rules = tuple(sorted({*self.rules, *movers, *forecasts}))
        self.row_family, self.parameters = learner.rows
        self.at = self.first  # where the leader's own numbers begin
        self.room = -(-self.lanes.size // codes.LINE) * codes.LINE
        self.first = self.at + codes.first_board(self.d) + codes.BOARDS * self.room
        self.more_columns = 7 if learner.guard else 1
        self.rows = 0 if learner.season is None else learner.season.rows
        self.is_long = self.rows not in (0, codes.SEASON_ROWS)
        self.planners = [
            i
            for i, expert in enumerate(learner.experts)
            if RULES[expert.rule].led == "season" and expert.ahead == 0
        ]
        self.plan_size = codes.PART_HEAD + codes.SEASON_ROWS // codes.SEASON_PARTS * self.d

    @property
    def log_prior(self) -> Array:
        return np.full(len(self.learner.experts), -math.log(len(self.learner.experts)))

    @property
    def rate_rule(self) -> tuple[int, float]:
        return codes.SELF_TUNED_RATE, math.log(len(self.learner.experts))

    def _board(self, which: int) -> slice:
        """Return the places of one of the boards."""
        start = self.at + codes.first_board(self.d) + which * self.room
        return slice(start, start + self.lanes.size)

    def _place_plans(self, rows: Array) -> None:
        rows[self.planners, codes.OWN + PLAN] = self.plan_size * np.arange(len(self.planners))

    def share(self, state: Any) -> Array:
        """Write what all experts share: a regression, plans that are still to be made, a season."""
        plans = np.zeros(self.plan_size * len(self.planners))
        return np.concatenate((state.regression, plans, state.season))

    def pack(self, state: Any) -> Array:
        learner = self.learner
        known = self.share(state)
        memory = self._lay_out(state, known.size)
        memory[codes.V] = state.Delta
        place = self._find_places()[state.leader]
        end = memory.size - known.size
        memory[end:] = known
        about = (
            place, state.since, state.excess, state.guarding, state.mark, learner.caution, learner.reach, learner.guard,
            end - self.at, known.size - state.season.size, self.rows, state.regression.size,
        )  # fmt: skip
        memory[self.at : self.at + codes.MIXED] = about
        memory[self.mixed] = state.mixed
        behind_row = self.mixed.stop + self.d
        memory[behind_row : behind_row + 2 * self.d] = self.parameters
        lanes = self.lanes.ravel()
        whose = np.where(lanes >= 0, lanes, -1 - lanes)
        memory[self._board(codes.BEHIND)] = state.behind[whose]
        memory[self._board(codes.SQUARES)] = state.squares[whose]
        memory[self._board(codes.FORGETS)] = learner.forgetful[whose]
        memory[self._board(codes.ORDER)] = np.where(lanes >= 0, lanes, math.inf)
        return memory

    @property
    def mixed(self) -> slice:
        """The place of the ensemble's point."""
        return slice(self.at + codes.MIXED, self.at + codes.MIXED + self.d)

    def unpack(self, memory: Array) -> Any:
        about = memory[self.at : self.at + codes.MIXED]
        places = self._find_places()
        known = memory[self.at + int(about[codes.SHARED]) :].copy()
        places_of = [int(about[codes.PLANS]), int(about[codes.SEASON])]
        regression, _, season = np.split(known, places_of)
        return self.model._replace(
            **self._read(memory),
            leader=int(self.lanes.ravel()[int(about[codes.PLACE])]),
            since=int(about[codes.SINCE]),
            behind=memory[self._board(codes.BEHIND)][places],
            squares=memory[self._board(codes.SQUARES)][places],
            mixed=memory[self.mixed].copy(),
            Delta=float(memory[codes.V]),
            excess=float(about[codes.EXCESS]),
            guarding=int(about[codes.GUARDING]),
            mark=float(about[codes.MARK]),
            regression=regression,
            season=season,
        )

    def order_record(self, record: Array) -> Array:
        ordered = super().order_record(record)
        column = 3 * len(self.learner.experts)
        ordered[:, column] = self.lanes.ravel()[ordered[:, column].astype(int)]
        return ordered


def _group_experts(experts: Sequence[Any], width: int) -> np.ndarray:
    """Choose a lane for every expert, in the form of :func:`lay_blocks`."""
    kinds: dict[Any, list[int]] = {}
    for i, expert in enumerate(experts):
        memory = codes.code_of(getattr(expert, "memory", None))
        schedule, _, _ = _describe_schedule(expert)
        period = getattr(expert, "given", 0)
        kinds.setdefault((expert.rule, schedule, memory, count_ring(expert), period), []).append(
            i
        )
    return np.concatenate([fill_lanes(kind, width) for kind in kinds.values()])


def fill_lanes(members: Sequence[int] | np.ndarray, width: int) -> np.ndarray:
    """Put rows into lanes, of shape (blocks, width); empty lanes of the last block repeat its first row."""
    count = -(-len(members) // width)
    lanes = np.full(count * width, -1 - members[(count - 1) * width])
    lanes[: len(members)] = members
    return lanes.reshape(count, width)


def layout_of(learner: Any) -> Any:
    """Return the layout of a learner that can be compiled, made once for each."""
    made = vars(learner)
    if "_layout" not in made:
        kind = {ENSEMBLE: EnsembleLayout, LEADER: LeaderLayout}.get(rule_of(learner), RunLayout)
        made["_layout"] = kind(learner)
    return made["_layout"]


class PricedKernel:
    """The kernel of one round of a learner, at prices that change: the numbers that are multiples of the price are scaled.

    Parameters
    ----------
    learner : Learner
        A learner that can be compiled.
    """

    def __init__(self, learner: Any) -> None:
        self.layout = layout_of(learner)
        state = learner.init()
        memory = self.layout.pack(state)
        doubled = layout_of(learner.reprice(2.0)).pack(state)
        self.places = np.flatnonzero(doubled != memory)
        # Others depend on the price, too: the band of a stock, for example.
        self.fits = bool((doubled[self.places] == 2.0 * memory[self.places]).all())

    @cached_property
    def kernel(self) -> Any:
        """The kernel."""
        return self.layout.update_kernel()

    def play(self, memory: Array, g: Array, factor: float) -> int:
        """Play a round, at a multiple of the usual price that is above 0, and return what the kernel returns."""
        usual = memory[self.places]
        memory[self.places] = factor * usual
        bad = self.kernel(memory, g)
        memory[self.places] = usual
        return bad


def find_priced_kernel(learner: Any) -> PricedKernel | None:
    """Return the kernel of one round at prices that change; None if there is none."""
    if find_missing_part(learner) is not None:
        return None
    found = PricedKernel(learner)
    return found if found.fits else None
