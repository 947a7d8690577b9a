"""Leader: follow one expert, and change over to another only when the evidence pays for it."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from klazy.base.checks import Array, InvalidInput, check_flag, instance, non_negative
from klazy.families import Family, Linear
from klazy.kernels import codes
from klazy.learners.autoregressive import Regression
from klazy.learners.base import Learner
from klazy.learners.planning import DemandPlan
from klazy.learners.reluctant import Reluctant
from klazy.learners.sader import (
    SAder,
    check_expert_states,
    check_experts,
    check_hints,
    check_norm,
    find_noise,
    name_columns,
    points_of,
    step_expert,
)
from klazy.learners.seasonal import Season, join_seasons
from klazy.movement import Movement, as_movement

NOTHING = np.zeros(0)
# A leader of as many experts that move if it pays is called auto, which is what people know.
AUTO_EXPERTS = 20


class LeaderState(NamedTuple):
    """The experts' states, the one that is followed and since which round, and what speaks for a change.

    ``behind`` is what each expert has cost more than the one that is followed, ``squares`` are the summed squares of the
    rounds' differences, ``moved`` is what each pays for its move to the present point. The rest is the guard's:
    ``mixed``, ``log_w``, ``losses`` and ``Delta`` are the ensemble's point, log weights, losses and what its weights have
    lost; ``excess`` is what was paid more than the ensemble would have, ``guarding`` is 1 while the ensemble is
    played, and ``mark`` the Delta at which that began. ``season`` is what its seasonal experts know, and ``regression`` what
    its autoregressive or planning ones know, once for all of them.
    """

    t: int
    x: Array
    experts: tuple[Any, ...]
    leader: int
    since: int
    behind: Array
    squares: Array
    moved: Array
    mixed: Array
    log_w: Array
    losses: Array
    Delta: float = 0.0
    excess: float = 0.0
    guarding: int = 0
    mark: float = 0.0
    season: Array = NOTHING
    regression: Array = NOTHING


class Leader(Learner[LeaderState]):
    r"""Follow one expert, and change over reluctantly.

    Every expert n plays for itself. With :math:`L_n` its summed cost, its own movement included, and :math:`V_n` the summed
    squares of the rounds' differences :math:`\ell_n - \ell_c` to the expert c that is followed, the next one to follow is

    .. math:: n^\star = \arg\min_n\; L_n + \lambda\, m(x_n - x_c) + z \sqrt{V_n}
              \qquad\text{if that is below } L_c,

    else c. An average of experts moves whenever one of them does, and pays for it; a follower pays only when it changes over,
    and asks before it does for what that costs and for z standard deviations of the evidence. The first expert is
    followed at first. At a change-over nothing is forgotten: :math:`V_n` goes on summing, then of differences to the new one.
    A seasonal expert that was given a period of 1024 rounds or more starts level with the one that is followed when
    that has passed: until then it could only wait. Where experts are :class:`~klazy.contrib.Autoregressive`, these and those
    that look back over a window only are not changed over to until forecasts have clearly been better than the mean of all
    rounds.
    Of equal scores the first in the list wins, and differences below the rounding errors of a loss count as none.

    *The guard.* By itself a follower has no bound. So the self-tuned ensemble of the same experts, :class:`SAder`, runs along
    without being played. Let :math:`\Delta` be what its weights have lost and D the diameter of the set in m. As soon as the
    run has cost more than the ensemble would have by over :math:`2\Delta + 2\lambda D`, the ensemble is played, until
    :math:`\Delta` has doubled and the difference is within :math:`2\Delta + 2\lambda D` again. The cost is then at most

    .. math:: \text{the ensemble's} + 2\Delta_T + 4\lambda D + \max_t \max_n \bigl(f_t(x^n_t) - f_t(\bar x_t)\bigr),

    in every case (proved on the page Ensembles, with the bound of the ensemble itself). Where prices change by round, it asks
    for the present price, and :math:`\lambda` in the bound is the largest.

    Parameters
    ----------
    experts : sequence of Learner
        Learners on one set, of any kind.
    movement : Movement or str
        What moving costs, at its usual price. One that is no norm (:class:`SwitchFee`, :class:`SquaredMovement`,
        :class:`ImpactMovement`) or has a weight per round works only without the guard.
    caution : float
        z, how many standard deviations of evidence a change-over takes on top of its price.
    guard : bool
        Whether the ensemble runs along. Without it a round takes about half the time, and nothing is proved.
    family : Family, optional
        The family of costs whose rows it gets. It then knows what each expert really cost; an expert without a family gets the
        gradient at its own point. By default it gets gradients, and costs are linear for it. With quadratic or pinball
        rows, it compiles if all its experts have that family and compile.

    hints : bool, optional
        Whether it passes hints on to the experts that accept them: guesses of the next gradient, or of the next row of its
        family. The other experts get none, so that wrong hints cost little. Default: it takes no hints. With them it has
        no kernel.

    Examples
    --------
    >>> ball = L2Ball(2)
    >>> learner = Leader([GD(ball, 8.0), GD(ball, 2.0), LazyGD(ball, 4.0)], L2Movement(0.5))
    >>> trace = run(learner, np.tile([1.0, 0.0], (50, 1)), engine="step")
    >>> trace.state.leader, trace.state.since
    (1, 4)
    """

    takes_prices: ClassVar[bool] = True

    movement: Movement
    caution: float
    guard: bool
    hints: bool

    def __init__(
        self,
        experts: Sequence[Learner[Any]],
        movement: Movement | str,
        *,
        caution: float = 0.25,
        guard: bool = True,
        family: Family | None = None,
        hints: bool = False,
    ) -> None:
        experts = check_experts(experts)
        self._keep(hints=check_hints(hints, experts))
        guard = check_flag(guard, "guard")
        movement = as_movement(movement)
        if guard:
            check_norm(movement, experts[0].domain.dim)
        movement.check(experts[0].domain.dim)
        check_expert_families(family, experts)
        self._keep(experts=experts, movement=movement, guard=guard, family=family)
        self._keep(caution=non_negative(caution, "caution"), domain=experts[0].domain)

    @property
    def rule(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The name of the compiled rule; None with hints, for which there is no kernel."""
        return None if self.hints else "leader"

    @property
    def obstacle(self) -> str | None:
        """The part of it that has no kernel."""
        return "Leader with hints" if self.hints else None

    @cached_property
    def ensemble(self) -> SAder:
        """The self-tuned ensemble that guards it."""
        return SAder(self.experts, prior="uniform", movement=self.movement)

    @cached_property
    def noise(self) -> tuple[float, float]:
        """Losses up to the first times the norm of g plus the second are rounding errors, as for :class:`SAder`."""
        return find_noise(self.domain, self.movement)

    @cached_property
    def reach(self) -> float:
        r""":math:`\lambda D`: no move in the set costs more."""
        if not self.guard:
            return 0.0
        return (
            float(self.movement.weight)
            * self.movement.lipschitz(self.domain.dim)
            * self.domain.diameter
        )

    @cached_property
    def season(self) -> Season | None:
        """The season that its seasonal experts share; None if some of them get other rows than the leader."""
        return join_seasons([expert.season for expert in self._find_sharing("season")])

    @cached_property
    def regression(self) -> Regression | DemandPlan | None:
        """The regression or plan that its experts share; None if some of them get other rows than the leader."""
        sharing = self._find_sharing("regression")
        return sharing[0].regression if sharing else None

    def _find_sharing(self, name: str) -> list[Any]:
        """Return the experts that share this field of their state; none if some see other rows than the leader."""
        found = [expert for expert in self.experts if expert.shared == name]
        sees_all = all(expert.takes_gradients == (self.curved is None) for expert in found)
        return found if sees_all else []

    @cached_property
    def forgetful(self) -> Array:
        """Which experts look back over a window only, or forecast by regression."""
        return np.array([expert.forgets for expert in self.experts])

    @cached_property
    def _waits(self) -> Array:
        """After which round each expert starts level, 0 for those that play from the first."""
        return np.array([expert.level_after for expert in self.experts])

    @cached_property
    def _takes_rows(self) -> tuple[bool, ...]:
        """Which experts get the row of a round; the others get its slope where they stand."""
        families = [expert.family for expert in self.experts]
        return tuple(family is not None and family == self.family for family in families)

    def _shares(self, expert: Learner[Any]) -> bool:
        """Return True if the leader keeps what an expert knows of the rounds so far."""
        return expert.shared != "" and getattr(self, expert.shared) is not None

    @cached_property
    def curved(self) -> Family | None:
        """The family, unless its rows are gradients."""
        return None if self.family == Linear() else self.family

    @property
    def rows(self) -> tuple[int, Array] | None:
        """The code of the family whose rows it gets, and 2 d parameters; None for a family that kernels do not know."""
        d = self.domain.dim
        family = self.curved or Linear()
        code = codes.code_of(family)
        if (
            code is None
            or not family.has_forecast
            or (code == codes.LINEAR and self.curved is not None)
        ):
            return None
        _, extra, parameters = family.arrays(np.zeros((1, d)))
        return code, parameters if parameters.size == 2 * d else np.full(2 * d, extra[0])

    def weights(self, state: LeaderState) -> Array:
        """Give the experts' weights in the point about to be played: all for the one that is followed, unless the guard acts.

        Parameters
        ----------
        state : LeaderState
            The present state.

        Returns
        -------
        array
            One weight per expert; they sum to 1.
        """
        if state.guarding:
            return np.exp(state.log_w)
        return np.eye(len(self.experts))[state.leader]

    def init(self, x: Array | None = None) -> LeaderState:
        experts = tuple(self._init_expert(expert, x) for expert in self.experts)
        points = points_of(experts)
        N = len(experts)
        nothing = np.zeros(N)
        uniform = np.full(N, -np.log(N))
        mixed = points.mean(axis=0)
        season = NOTHING if self.season is None else self.season.init()
        regression = NOTHING if self.regression is None else self.regression.init()
        first = points[0].copy()
        state = LeaderState(
            1, first, experts, 0, 1, nothing, nothing, nothing, mixed, uniform, nothing
        )
        return state._replace(season=season, regression=regression)

    def _init_expert(self, expert: Learner[Any], x: Array | None) -> Any:
        state = expert.init(x)
        return state._replace(**{expert.shared: NOTHING}) if self._shares(expert) else state

    def step(self, state: LeaderState, g: Array, next_hint: Array | None = None) -> LeaderState:
        points = points_of(state.experts)
        c = state.leader
        since = state.since
        slope = self._slope(points[c], g)
        loss = self._compare(points, points[c], g) + state.moved - state.moved[c]
        loss = np.where(np.abs(loss) > self._rounding(slope), loss, 0.0)
        behind = state.behind + loss
        squares = state.squares + loss**2
        score = self._score(points, c, behind, squares, state.t + 1)
        score = self._leave_out(score, state.regression)
        equal = codes.RESOLUTION * (behind.max() - behind.min())
        if score.min() < -equal:
            c = int(np.argmax(score <= score.min() + equal))
            since = state.t + 1
            behind = behind - behind[c]

        state = self._observe(state, g)
        if self.season is not None:
            starts = self._waits == state.season[codes.SEASON_SEEN]
            behind = np.where(starts, 0.0, behind)
            squares = np.where(starts, 0.0, squares)
        experts = self._step_experts(state, points, g, next_hint)
        following = points_of(experts)
        moved = self._price(following - points, state.t + 1)
        state = state._replace(leader=c, since=since, behind=behind, squares=squares)
        state = state._replace(t=state.t + 1, experts=experts)
        if not self.guard:
            return state._replace(x=following[c].copy(), moved=moved)

        state = self._watch(state, points, g, slope)
        mixed = np.exp(state.log_w) @ following
        x = mixed if state.guarding else following[c].copy()
        dearer = self._price(x - state.x, state.t) - self._price(mixed - state.mixed, state.t)
        excess = state.excess + float(dearer)
        return state._replace(x=x, mixed=mixed, moved=moved, excess=excess)

    def _watch(self, state: LeaderState, points: Array, g: Array, slope: Array) -> LeaderState:
        """Update the ensemble with the round, and decide whether it is played next."""
        loss = self._compare(points, state.mixed, g) + state.moved
        log_w, losses, Delta = self.ensemble.reweigh(
            state.log_w, state.losses, state.Delta, points, loss, slope
        )
        excess = state.excess
        lost = float(self._compare(state.x, state.mixed, g))
        if abs(lost) > self._rounding(slope):
            excess += lost
        within = excess <= 2.0 * Delta + 2.0 * self.reach
        guarding = state.guarding
        mark = state.mark
        if not guarding and not within:
            guarding = 1
            mark = Delta
        elif guarding and within and Delta >= 2.0 * mark:
            guarding = 0
        return state._replace(
            log_w=log_w, losses=losses, Delta=Delta, excess=excess, guarding=guarding, mark=mark
        )

    def _compare(self, x: Array, origin: Array, g: Array) -> Array:
        """Return by how much the points ``x`` cost more in this round than ``origin``."""
        if self.curved is None:
            return (x - origin) @ g
        return self.curved.value(g, x) - self.curved.value(g, origin)

    def _slope(self, x: Array, g: Array) -> Array:
        return g if self.curved is None else self.curved.gradient(g, x)

    def _rounding(self, slope: Array) -> float:
        return self.noise[0] * float(np.linalg.norm(slope)) + self.noise[1]

    def _price(self, delta: Array, t: int) -> Array:
        """Return what moves to the points of round t cost."""
        return self.movement.weight_at(t) * self.movement.distance(delta)

    def _score(self, points: Array, c: int, behind: Array, squares: Array, t: int) -> Array:
        """Score each expert before round t: below zero, changing over to it pays."""
        return behind + self._price(points - points[c], t) + self.caution * np.sqrt(squares)

    def _leave_out(self, score: Array, regression: Array) -> Array:
        """Leave out experts that forget, as long as forecasts have not been clearly better than the mean of all rounds."""
        if self.regression is None or self.regression.has_evidence(regression):
            return score
        return np.where(self.forgetful, np.inf, score)

    def _observe(self, state: LeaderState, g: Array) -> LeaderState:
        """Update what the leader knows for its experts with the row of a round."""
        seen = g if self.curved is None else self.curved.moments(g)
        period = 0
        if self.season is not None:
            season = self.season.observe(state.season, seen)
            period = int(season[codes.SEASON_PERIOD])
            state = state._replace(season=season)
        if self.regression is not None:
            state = state._replace(
                regression=self.regression.observe(state.regression, seen, period)
            )
        return state

    def _step_experts(
        self, leader: LeaderState, points: Array, g: Array, next_hint: Array | None
    ) -> tuple[Any, ...]:
        slopes = np.broadcast_to(self._slope(points, g), points.shape)
        following = list(leader.experts)
        moves = []
        experts: tuple[Any, ...] = self.experts
        for i, (expert, state) in enumerate(zip(experts, leader.experts, strict=True)):
            row = g
            guess = next_hint
            if not self._takes_rows[i]:
                row = slopes[i]
                guess = None if next_hint is None else self._slope(points[i], next_hint)
            if self._shares(expert):
                following[i], forecast = expert.look_ahead(state, getattr(leader, expert.shared))
                if forecast is not None:
                    moves.append((expert.mover, i, forecast, expert.mover.price))
            elif type(expert) is Reluctant:
                following[i] = expert.observe(state, row)
                moves.append(
                    (expert, i, *expert.forecast(following[i], guess if expert.hints else None))
                )
            else:
                following[i] = step_expert(expert, state, row, guess)
        for group in _group_moves(moves):
            movers, rows, forecasts, prices = zip(*group, strict=True)
            x = movers[0].move(points[list(rows)], np.array(forecasts), np.array(prices))
            for i, point in zip(rows, x, strict=True):
                following[i] = following[i]._replace(x=point)
        return tuple(following)

    def evidence(self, state: LeaderState) -> Array:
        """Measure how much less each expert must yet cost than the one that is followed, to be followed itself.

        Parameters
        ----------
        state : LeaderState
            The present state.

        Returns
        -------
        array
            One number per expert, at the present points; infinite for the one that is followed.
        """
        points = points_of(state.experts)
        score = self._score(points, state.leader, state.behind, state.squares, state.t)
        score = self._leave_out(score, state.regression)
        score[state.leader] = np.inf
        return np.maximum(score, 0.0)

    def describe(self, state: LeaderState | None = None) -> str:
        N = len(self.experts)
        # Those of `auto` are dozens, and the first of them moves if it pays.
        name = (
            "auto" if N >= AUTO_EXPERTS and isinstance(self.experts[0], Reluctant) else "Leader"
        )
        words = f"{name}: {N} expert{'' if N == 1 else 's'}"
        return (
            words
            if state is None
            else f"{words}; now follows: {self.experts[state.leader].describe()}"
        )

    def describe_memory(self, state: LeaderState) -> str:
        c = state.leader
        N = len(self.experts)
        words = f"It follows expert {c + 1} of {N} ({self.experts[c].describe()}) since round {state.since}."
        own = self._complete(self.experts[c], state.experts[c], state)
        if state.t > 1:
            words += f" {self.experts[c].describe_memory(own)}"
        if N > 1:
            needed = self.evidence(state)
            n = int(needed.argmin())
            if self.regression is not None and self.experts[c].shared != "regression":
                words += self.regression.describe_skill(state.regression)
            gap = state.behind[n]
            sign = "more" if gap >= 0.0 else "less"
            other = f"expert {n + 1} ({self.experts[n].describe()})"
            words += (
                f" It changes to {other} once that one has cost {needed[n]:.4g} less than expert {c + 1} from now on; "
                f"so far it has cost {abs(gap):.4g} {sign}, movement included."
            )
        looks = self.season is not None and self.season.given == 0
        if (
            looks
            and state.season[codes.SEASON_PERIOD] == 0.0
            and self.experts[c].shared != "season"
        ):
            words += f" It has found no season of up to {codes.SEASON_LAGS} rounds."
        if state.guarding:
            words += (
                f" But the guard plays the mean of all experts: following had cost {state.excess:.4g} more than the mean "
                f"would have. That lasts until its weights have lost {2.0 * state.mark:.4g}; it is {state.Delta:.4g} now."
            )
        return words

    def account(self, state: LeaderState, g: Array) -> Array:
        """Make one row of the record that ``record="experts"`` keeps.

        Parameters
        ----------
        state : LeaderState
            The state of the round.
        g : array
            The round's gradient or row.

        Returns
        -------
        array
            Weights of the point played, what the experts cost more than it, their movement, the one that is followed; then
            r_t, d_t and beta_t of the guard, what was paid more than its ensemble would have, whether it is played, and what
            the worst expert costs more than it.
        """
        points = points_of(state.experts)
        hit = self._compare(points, state.x, g)
        row = (self.weights(state), hit, state.moved, (state.leader,))
        if not self.guard:
            return np.concatenate(row)
        loss = hit + state.moved
        guard = (
            loss.max() - loss.min(),
            self.ensemble.diameter(points),
            self.ensemble.find_rate(state.Delta),
            state.excess,
            state.guarding,
            self._compare(points, state.mixed, g).max(),
        )
        return np.concatenate((*row, guard))

    def name_accounts(self, log: Array, hitting: Array) -> dict[str, Array]:
        """Split the rows of :meth:`account` into named arrays.

        Parameters
        ----------
        log : array
            The rows, one per round.
        hitting : array
            What each round charged.

        Returns
        -------
        dict of str to array
            The arrays that a trace keeps.
        """
        guard = (
            ("spread", "diameter", "beta", "excess", "guarding", "worst") if self.guard else ()
        )
        return name_columns(log, hitting, len(self.experts), ("leader", *guard))

    def _complete(
        self, expert: Learner[Any], state: Any, leader: LeaderState | None = None
    ) -> Any:
        """Return the state of an expert with the field that its leader stores; by default as it is before the first round."""
        name = expert.shared
        if not self._shares(expert) or np.size(getattr(state, name, 1)):
            return state
        known = getattr(expert, name).init() if leader is None else getattr(leader, name)
        return state._replace(**{name: known})

    def check_state(self, state: Any) -> LeaderState:
        super().check_state(state)
        check_expert_states(state, self.hints)
        for name in ("season", "regression"):
            source = getattr(self, name)
            if source is not None:
                source.check(getattr(state, name))
        N = len(self.experts)
        if state.leader not in range(N):
            raise InvalidInput(
                f"state.leader must be the index of an expert, below {N}, got {state.leader}."
            )
        return state


def _group_moves(moves: list[tuple[Reluctant, int, Array, float]]) -> list[list[Any]]:
    """Group the moves that share set, movement and family, so that one call makes all of a group."""
    groups: dict[tuple[int, ...], list[Any]] = {}
    for move in moves:
        mover = move[0]
        parts = (mover.domain, mover.movement, mover.family)
        groups.setdefault(tuple(map(id, parts)), []).append(move)
    return list(groups.values())


def check_expert_families(family: Any, experts: tuple[Learner[Any], ...]) -> None:
    """Reject experts of another family than their leader's."""
    if family is not None:
        instance(family, "family", Family, "a Family such as Pinball(2.0, 1.0)")
    for i, expert in enumerate(experts):
        if expert.family not in (None, Linear(), family):
            raise InvalidInput(
                f"Experts must have the family of their leader, {family}, but experts[{i}].family is {expert.family}."
            )
