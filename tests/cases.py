"""One or more examples of every public class, found by introspection: a new class is tested because it exists."""

import inspect
import os
from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import klazy as kl
from klazy.base.checks import Array

# Where classes that are built from arguments have their names.
PUBLIC = vars(kl) | vars(kl.contrib) | vars(kl.memories) | vars(kl.types)


def concrete(base: type) -> list[type]:
    """Every public class of the package below ``base`` that can be built."""
    members = (value for value in PUBLIC.values() if inspect.isclass(value))
    return sorted(
        (c for c in members if issubclass(c, base) and not inspect.isabstract(c)),
        key=lambda c: c.__name__,
    )


T = TypeVar("T")


def examples_of(base: type, examples: list[T]) -> list[T]:
    """``examples``, once it is certain that no class below ``base`` is missing from them."""
    missing = set(concrete(base)) - {type(example) for example in examples}
    assert not missing, f"add an example of {missing} to tests/cases.py"
    return examples


def cover_pairs(*factors: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Choose few rows, each with one value of every factor, so that any two values of two factors share a row.

    A kernel takes seconds to compile, so not every combination is tried. The choice is greedy and always the same: a row begins
    with the first two values that do not share one yet, and takes of every other factor the value that adds most such pairs.
    """
    values = [
        [(factor, i) for i in range(len(factors[factor]))] for factor in range(len(factors))
    ]
    apart = {pair for one, other in combinations(values, 2) for pair in product(one, other)}
    rows = []
    while apart:
        row = list(min(apart))
        for factor in range(len(factors)):
            if factor not in dict(row):
                added = {value: len(apart & _pairs([*row, value])) for value in values[factor]}
                row.append(max(values[factor], key=lambda value: added[value]))
        apart -= _pairs(row)
        rows.append(tuple(factors[factor][i] for factor, i in sorted(row)))
    return rows


def _pairs(row: list[tuple[int, int]]) -> set[tuple[tuple[int, int], tuple[int, int]]]:
    return set(combinations(sorted(row), 2))


TRIANGLE = kl.Polytope([[1.0, 1.0], [-1.0, 0.0], [0.0, -2.0]], [1.0, 0.5, 0.0])
UNBOUNDED = [
    kl.contrib.Space(3),
    kl.Product([kl.contrib.Space(2), kl.Simplex(3)]),
    kl.Polytope([[1.0, 2.0, -1.0]], [0.5]),
    kl.Polytope(-np.eye(3), np.zeros(3)),
    kl.Polytope([[1.0, 1.0, 0.0], [1.0, -0.5, 0.2], [-1.0, 0.0, 0.3]], [1.0, 0.3, 2.0]),
]
SETS = [
    kl.L2Ball(1),
    kl.L2Ball(5),
    kl.L2Ball(5, 0.7, [2.0, -1.0, 0.5, 0.0, 0.1]),
    kl.L1Ball(1, 2.0),
    kl.L1Ball(5),
    kl.L1Ball(5, 2.0, [1.0, 0.0, -3.0, 0.2, 0.0]),
    kl.Box(-1.0, 2.0),
    kl.Box([-1.0, 0.5, 0.0, 1.0, -3.0], [1.0, 2.0, 0.0, 4.0, -2.0]),
    kl.Simplex(1, 3.0),
    kl.Simplex(5),
    kl.Simplex(12, 2.5),
    kl.CappedSimplex(4, 2.0, 1.0),
    kl.CappedSimplex(4, -0.5, [0.3, 1.0, 2.0, 0.0], [-1.0, -0.2, 0.0, -0.4]),
    kl.CappedSimplex(3, 3.0, 1.0),
    TRIANGLE,
    kl.Product([kl.L2Ball(2), kl.Simplex(3), kl.Box(-1.0, 1.0)]),
    kl.Product(
        [
            kl.L1Ball(3, 1.0, [1.0, 1.0, 1.0]),
            kl.Product([kl.CappedSimplex(3, 1.5, 1.0), kl.L2Ball(2)]),
        ]
    ),
    kl.Intersection([kl.L2Ball(3), kl.Box([0.0, -1.0, -1.0], [1.0, 1.0, 0.2])]),
]
examples_of(kl.types.ConvexSet, [*SETS, *UNBOUNDED])
COMPILED_SETS = [s for s in SETS if s.code is not None]

SCHEDULES = examples_of(
    kl.types.Schedule,
    [
        kl.Constant(1.7),
        kl.Sqrt(3.0),
        kl.Sqrt(0.5, offset=2.0),
        kl.Doubling(2.0),
        kl.contrib.Proportional(0.4),
        kl.ScaleFree(2.0, 0.5, 0.8),
    ],
)
MEMORIES = examples_of(
    kl.types.Memory,
    [
        kl.memories.Forget(),
        kl.memories.Full(),
        kl.memories.Clock(4),
        kl.memories.Decay(5.0),
        kl.memories.Decay(1.0),
        kl.memories.Clip(0.8),
        kl.memories.Event(1.5),
    ],
)

Maker = Callable[..., kl.types.Learner[Any]]  # (domain, sigma, start=None) -> learner
LEARNERS: dict[str, Maker] = {
    "GD": kl.GD,
    "LazyGD": kl.LazyGD,
    "KLazyGD": lambda domain, sigma, **options: kl.KLazyGD(domain, sigma, k=4, **options),
    "KLazyFTRL": lambda domain, sigma, **options: kl.KLazyFTRL(domain, sigma, k=4, **options),
    "CentredOMD": kl.CentredOMD,
    "Patient": lambda domain, sigma, **options: kl.contrib.Patient(
        domain, sigma, move_cost=0.5, **options
    ),
    **{
        f"MemoryGD-{memory!r}": lambda domain, sigma, memory=memory, **options: kl.MemoryGD(
            domain, sigma, memory=memory, **options
        )
        for memory in MEMORIES
    },
}


JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT") == "1"
RULES_OF = {name: make(kl.L2Ball(2), 1.0).rule for name, make in LEARNERS.items()}


def learners_on(domain: kl.types.ConvexSet) -> list[Maker]:
    """The learners that make up ensembles on this set: all of them, but compiled only those of a few rules.

    The kernel of an ensemble holds every rule of its experts, so it takes longer the more there are. Each kind of set takes
    others, and together they take all.
    """
    rules = sorted({rule for rule in RULES_OF.values() if rule is not None})
    if not JIT_OFF:
        kinds = [kind.__name__ for kind in concrete(kl.types.ConvexSet) if kind.code is not None]
        share = -(-len(rules) // len(kinds))
        first = (
            share * kinds.index(type(domain).__name__) if type(domain).__name__ in kinds else 0
        )
        rules = [rules[(first + i) % len(rules)] for i in range(max(2, share))]
    return [make for name, make in LEARNERS.items() if RULES_OF[name] in rules]


def experts_of(
    domain: kl.types.ConvexSet, sigma: Any, **options: Any
) -> list[kl.types.Learner[Any]]:
    """One expert of every kind; some have a sigma of their own, so that they differ even where the kinds do not."""
    return [make(domain, own, **options) for make in learners_on(domain) for own in (sigma, 7.0)]


def _nested(domain: kl.types.ConvexSet, sigma: Any, **options: Any) -> kl.types.Learner[Any]:
    inner = kl.SAder(
        [kl.GD(domain, sigma, **options), kl.KLazyGD(domain, 7.0, k=4, **options)], 0.3
    )
    return kl.SAder([inner, kl.LazyGD(domain, sigma, **options)])


def one_of_each_rule(
    domain: kl.types.ConvexSet, sigma: Any, **options: Any
) -> list[kl.types.Learner[Any]]:
    """One expert for each rule. Ensembles of the same rules share their kernels."""
    by_rule = {expert.rule: expert for expert in experts_of(domain, sigma, **options)}
    return list(by_rule.values())


def uneven(n: int) -> Array:
    """A prior on n experts, each less likely than the one before."""
    weights = 1.0 / np.arange(1.0, n + 1.0)
    return weights / weights.sum()


def leading(
    domain: kl.types.ConvexSet, sigma: Any, **options: Any
) -> list[kl.types.Learner[Any]]:
    """Experts of few rules, so that their kernels compile fast; two of them play alike, so that there are ties."""
    lazy = [kl.KLazyGD(domain, own, k=4, **options) for own in (7.0, sigma)]
    kept = [
        kl.MemoryGD(domain, sigma, memory=memory, **options)
        for memory in (kl.memories.Clock(4), kl.memories.Decay(5.0), kl.memories.Full())
    ]
    return [*lazy, *kept, kl.KLazyGD(domain, 0.3, k=1, **options)]


ENSEMBLES: dict[str, Maker] = {
    "SAder": lambda domain, sigma, **options: kl.SAder(experts_of(domain, sigma, **options), 0.3),
    "SAder self-tuned": lambda domain, sigma, **options: kl.SAder(
        experts_of(domain, sigma, **options)[::2], prior="uniform"
    ),
    "SAder in l1": lambda domain, sigma, **options: kl.SAder(
        one_of_each_rule(domain, sigma, **options) + experts_of(domain, sigma, **options)[:3],
        movement=kl.L1Movement(0.4),
    ),
    "SAder uneven": lambda domain, sigma, **options: kl.SAder(
        one_of_each_rule(domain, sigma, **options),
        prior=uneven(len(one_of_each_rule(domain, sigma, **options))),
        movement=kl.contrib.WeightedL2Movement(2.0, scale=np.linspace(0.5, 1.5, domain.dim)),
    ),
    "Leader": lambda domain, sigma, **options: kl.contrib.Leader(
        leading(domain, sigma, **options), kl.L2Movement(0.2)
    ),
    "Leader alone": lambda domain, sigma, **options: kl.contrib.Leader(
        leading(domain, sigma, **options)[:5], kl.L1Movement(0.05), caution=0.0, guard=False
    ),
}


def movement_for(domain: kl.types.ConvexSet, weight: float = 0.5) -> kl.types.Movement:
    """What moving costs a Reluctant on this set: the movement with the quickest prox."""
    return kl.L2Movement(weight) if type(domain) is kl.L2Ball else kl.L1Movement(weight)


# They have no sigma, and a kernel on some sets only.
RELUCTANT: dict[str, Maker] = {
    "Reluctant": lambda domain, sigma, **options: kl.contrib.Reluctant(
        domain, movement_for(domain), 4.0, 3.0, **options
    ),
    "Reluctant sum": lambda domain, sigma, **options: kl.contrib.Reluctant(
        domain, movement_for(domain, 3.0), None, 2.0, family=kl.Linear(), **options
    ),
}


def has_entropy(domain: kl.types.ConvexSet) -> bool:
    """Whether this is a set that Entropy knows."""
    if isinstance(domain, kl.CappedSimplex):
        return bool(np.min(domain.floor) >= 0.0)
    return isinstance(domain, kl.Simplex)


def _mirror(domain: kl.types.ConvexSet, sigma: Any, **options: Any) -> kl.types.Learner[Any]:
    kind = kl.contrib.MirrorMemory if has_entropy(domain) else kl.MemoryGD
    return kind(domain, sigma, memory=kl.memories.Decay(5.0), **options)


CERTIFIED = {
    name: make for name, make in LEARNERS.items() if make(kl.L2Ball(2), 1.0).form is not None
}
# Rules of thumb have no sigma. All but Fixed share their kernels.
THUMBS: dict[str, Maker] = {
    "LastValue": lambda domain, sigma, **options: kl.LastValue(domain, **options),
    "MovingAverage": lambda domain, sigma, **options: kl.MovingAverage(domain, 3, **options),
    "FollowTheLeader": lambda domain, sigma, **options: kl.contrib.FollowTheLeader(
        domain, **options
    ),
    "Periodic": lambda domain, sigma, **options: kl.contrib.Periodic(domain, 3, **options),
    "MinimumHold": lambda domain, sigma, **options: kl.MinimumHold(domain, 3, 5, **options),
    "DeadBand": lambda domain, sigma, **options: kl.DeadBand(
        domain, kl.L1Movement(0.5), 2.0, 4, **options
    ),
    "Fixed": lambda domain, sigma, **options: kl.Fixed(domain, **options),
}
# They take rows for levels, so that they move neither with the set nor with zero rows.
ROLLING: dict[str, Maker] = {
    "RollingMax": lambda domain, sigma, **options: kl.RollingMax(domain, 3, 1.2, **options),
    "RollingQuantile": lambda domain, sigma, **options: kl.RollingQuantile(
        domain, 3, 0.8, **options
    ),
}
# They try points around their own, which has to keep away from the set's boundary.
BANDITS: dict[str, Maker] = {
    f"Bandit {points}": lambda domain, sigma, points=points, **options: kl.contrib.Bandit(
        kl.KLazyGD(domain, sigma, k=4, **options), points, delta=1e-3 * domain.scale
    )
    for points in (1, 2)
}
UNCOMPILED: dict[str, Maker] = {
    **RELUCTANT,
    **ROLLING,
    "Seasonal": lambda domain, sigma, **options: kl.contrib.Seasonal(
        domain, movement_for(domain), None, 2, period=3, **options
    ),
    "Autoregressive": lambda domain, sigma, **options: kl.contrib.Autoregressive(
        domain, movement_for(domain), 4, **options
    ),
    "Reluctant with hints": lambda domain, sigma, **options: kl.contrib.Reluctant(
        domain, movement_for(domain), 4.0, 3.0, hints=True, **options
    ),
    "FollowForecast": lambda domain, sigma, **options: kl.contrib.FollowForecast(
        domain, movement_for(domain), 4.0, 3.0, **options
    ),
    "Advice": lambda domain, sigma, **options: kl.contrib.Advice(
        domain, [options.get("start", domain.start)], **options
    ),
    "BetterOfTwo": lambda domain, sigma, **options: kl.contrib.BetterOfTwo(
        kl.GD(domain, sigma, **options),
        kl.LazyGD(domain, 7.0, **options),
        kl.L2Movement(0.5),
        leave=1.5,
    ),
    "Interpolation": lambda domain, sigma, **options: kl.contrib.Interpolation(
        kl.GD(domain, sigma, **options), kl.LazyGD(domain, 7.0, **options), kl.L2Movement(0.5)
    ),
    "SAder with hints": lambda domain, sigma, **options: kl.SAder(
        [
            kl.MemoryGD(domain, sigma, memory=kl.memories.Decay(5.0), hints=heeds, **options)
            for heeds in (True, False)
        ],
        hints=True,
    ),
    "MirrorMemory": _mirror,
    "CoinBetting": lambda domain, sigma, **options: kl.contrib.CoinBetting(
        domain, 3.0, **options
    ),
    "CoinBetting with movement": lambda domain, sigma, **options: kl.contrib.CoinBetting(
        domain, 3.0, movement=kl.L2Movement(0.5), **options
    ),
    "nested SAder": _nested,
    "Leader of ensembles": lambda domain, sigma, **options: kl.contrib.Leader(
        [_nested(domain, sigma, **options), kl.GD(domain, 7.0, **options)], kl.L2Movement(0.1)
    ),
    "SteadyAdaptive": lambda domain, sigma, **options: kl.contrib.SteadyAdaptive(
        domain, 2000, 3.0, **options
    ),
    "Blocks": lambda domain, sigma, **options: kl.contrib.Blocks(
        kl.GD(domain, sigma, **options), 3
    ),
    "StronglyAdaptive": lambda domain, sigma, **options: kl.contrib.StronglyAdaptive(
        domain, 3.0, levels=5, **options
    ),
    "OptimisticGD": lambda domain, sigma, **options: kl.contrib.OptimisticGD(
        domain, sigma, **options
    ),
    "OptimisticHedge": lambda domain, sigma, **options: kl.contrib.OptimisticHedge(
        [kl.contrib.OptimisticGD(domain, step, **options) for step in (5.0, 20.0)],
        0.5,
        toll=kl.contrib.SquaredMovement(2.0),
        G=3.0,
    ),
    "OnlineNewton": lambda domain, sigma, **options: kl.contrib.OnlineNewton(
        domain, 0.3, **options
    ),
    "Maler": lambda domain, sigma, **options: kl.contrib.Maler(domain, 60, 3.0, **options),
    **BANDITS,
    "Budgeted": lambda domain, sigma, **options: kl.contrib.Budgeted(
        kl.KLazyGD(domain, sigma, k=4, **options), 0.3 * domain.scale, "l2", T=20
    ),
    "LongTerm": lambda domain, sigma, **options: kl.contrib.LongTerm(
        kl.KLazyGD(domain, sigma, k=4, **options), np.linspace(0.0, 1.0, domain.dim), 1e4, 20
    ),
    "Delayed": lambda domain, sigma, **options: kl.contrib.Delayed(
        kl.KLazyGD(domain, sigma, k=4, **options)
    ),
}
COMPILED = LEARNERS | THUMBS | ENSEMBLES
EVERY_LEARNER = COMPILED | UNCOMPILED
# It knows one kind of set and one family; see test_planning.py.
PLANNING = kl.contrib.Planning(kl.Box([0.0, 0.0], [9.0, 9.0]), "l1", 16, family=kl.Pinball(4.0))
# So does this; see test_thumb.py.
AUTOSCALER = kl.contrib.PodAutoscaler(kl.Box([0.0, 0.0], [9.0, 9.0]), window=3)
# They know shares of wealth, and rows of price relatives; see test_wealth.py.
WEALTH: dict[str, Callable[..., kl.types.Learner[Any]]] = {
    "BuyAndHold": kl.contrib.BuyAndHold,
    "UniformRebalanced": lambda domain: kl.contrib.UniformRebalanced(domain, every=3),
    "SoftBayes": kl.contrib.SoftBayes,
    "PAMR": kl.contrib.PAMR,
    "OLMAR": lambda domain: kl.contrib.OLMAR(domain, epsilon=1.02, window=4),
}
# They are in one state at a time; see test_states.py.
METRIC = kl.contrib.FiniteMetric(0.7, D=[[0.0, 1.0, 3.0], [1.0, 0.0, 3.0], [3.0, 3.0, 0.0]])
JOB = kl.contrib.Job(1.0, 9.0)
JOBS = [
    JOB,
    kl.contrib.RORO(JOB),
    kl.contrib.PauseResume(JOB.replace(whole=True)),
    kl.contrib.RunAtOnce(JOB),
    kl.contrib.SpreadEvenly(JOB),
    kl.contrib.FollowPlan(JOB, [0.5, 0.5]),
    kl.contrib.CLIP(JOB, [0.5, 0.5], epsilon=0.1),
]
STATES: dict[str, Callable[..., kl.types.Learner[Any]]] = {
    "WorkFunction": lambda domain: kl.contrib.WorkFunction(domain, METRIC),
    "Stay": lambda domain: kl.contrib.Stay(domain, METRIC, times=0.5),
    "BlockedArms": lambda domain: kl.contrib.BlockedArms(domain, METRIC, horizon=60),
    "TreeDescent": lambda domain: kl.contrib.TreeDescent(domain, METRIC, rate=2.0),
    "OneState": lambda domain: kl.contrib.OneState(
        kl.contrib.TreeDescent(domain, METRIC), seed=5
    ),
}
examples_of(
    kl.types.Learner,
    [
        PLANNING,
        AUTOSCALER,
        *(make(kl.Simplex(3)) for make in STATES.values()),
        *(make(kl.Simplex(3)) for make in WEALTH.values()),
        *(
            make(domain, 1.0)
            for make in EVERY_LEARNER.values()
            for domain in (kl.L2Ball(2), kl.Simplex(2))
        ),
    ],
)


def correlate(d: int) -> Array:
    """A covariance matrix whose coordinates differ, and go with their neighbours."""
    i = np.arange(d)
    return np.sqrt(np.outer(1.0 + i, 1.0 + i)) * 0.6 ** np.abs(i[:, None] - i)


MOVEMENTS = {
    "l2": lambda d: kl.L2Movement(0.7),
    "l2 per round": lambda d: kl.L2Movement(np.linspace(0.0, 2.0, 60)),
    "weighted": lambda d: kl.contrib.WeightedL2Movement(0.7, scale=np.linspace(0.0, 2.0, d)),
    "l1": lambda d: kl.L1Movement(0.7),
    "tv": lambda d: kl.TVMovement(),
    "asymmetric": lambda d: kl.contrib.AsymmetricMovement(
        2.0, up=np.linspace(0.1, 1.0, d), down=3.0
    ),
    "fee": lambda d: kl.contrib.SwitchFee(0.3, tol=1e-6),
    "squared": lambda d: kl.contrib.SquaredMovement(0.7),
    "impact": lambda d: kl.contrib.ImpactMovement(0.7, scale=np.linspace(0.5, 2.0, d)),
    "mahalanobis": lambda d: kl.contrib.MahalanobisMovement(0.7, A=correlate(d)),
}
DRIFTED = kl.contrib.DriftedMovement(
    0.2, relatives=[[1.1, 0.9, 1.0], [1.0, 2.0, 0.5], [0.7, 1.0, 1.0]]
)  # of rounds, too
examples_of(kl.types.Movement, [*(make(3) for make in MOVEMENTS.values()), DRIFTED, METRIC])


def flattened(state: Any) -> list[Array]:
    """The arrays and numbers of a state, those of the states within it included."""
    return [
        leaf
        for field in state
        for leaf in (flattened(field) if isinstance(field, tuple) else [np.copy(field)])
    ]


def evaluated(text: str) -> Any:
    """What a ``repr`` stands for."""
    return eval(text, dict(PUBLIC))


def costs_of(name: str, T: int, d: int, seed: int) -> kl.types.Costs:
    """A random sequence of the named family; data of log-wealth and labels are such as the family needs."""
    rng = np.random.default_rng(seed)
    data, labels = rng.normal(size=(T, d)), rng.choice([-1.0, 1.0], T)
    families: dict[str, Callable[[], kl.types.Costs]] = {
        "LinearCosts": lambda: kl.contrib.LinearCosts(data),
        "QuadraticCosts": lambda: kl.QuadraticCosts(data, rng.uniform(0.0, 2.0, T)),
        "PinballCosts": lambda: kl.PinballCosts(data, rng.uniform(0.0, 2.0, d), 0.5),
        "LogWealthCosts": lambda: kl.LogWealthCosts(np.exp(0.3 * data)),
        "HingeCosts": lambda: kl.contrib.HingeCosts(data, labels),
        "LogisticCosts": lambda: kl.contrib.LogisticCosts(3.0 * data, labels),
        "FilteredCosts": lambda: kl.contrib.FilteredCosts(
            kl.QuadraticCosts(data), [0.5, 0.3, -0.1]
        ),
        "CallableCosts": lambda: kl.CallableCosts(
            T,
            d,
            lambda t, x: float(np.abs(x - data[t - 1]).max()),
            lambda t, x: _max_norm_gradient(x - data[t - 1]),
        ),
    }
    return families[name]()


def _max_norm_gradient(gap: Array) -> Array:
    g = np.zeros_like(gap)
    i = int(np.abs(gap).argmax())
    g[i] = np.sign(gap[i])
    return g


class Cubic(kl.types.Family):
    """A family of somebody's own: value and gradient, and nothing else."""

    def value(self, row: Array, x: Array) -> Array:
        return (np.abs(x - row) ** 3).sum(axis=-1)

    def gradient(self, row: Array, x: Array) -> Array:
        return 3.0 * (x - row) * np.abs(x - row)


class Farthest(kl.types.Family):
    """Another one, with kinks and a parameter: the coordinate that is farthest from the row counts."""

    price: float

    def __init__(self, price: float = 1.0) -> None:
        self._keep(price=price)

    def value(self, row: Array, x: Array) -> Array:
        return self.price * np.abs(x - row).max(axis=-1)

    def gradient(self, row: Array, x: Array) -> Array:
        gap = x - row
        at = np.abs(gap).argmax(axis=-1)[..., None]
        return self.price * np.sign(gap) * (np.arange(gap.shape[-1]) == at)


def rows_of(family: kl.types.Family, seed: int, n: int = 40, d: int = 3) -> Array:
    """Rows that fit the family: of either sign, unless they must be positive; what follows the coordinates is."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(0.2, 3.0, (n, d + family.extras))
    if not family.positive:
        rows[:, :d] *= rng.choice([-1.0, 1.0], (n, d))
    return rows


COSTS = [c.__name__ for c in concrete(kl.types.Costs)]
FAMILIES = examples_of(
    kl.types.Family,
    [
        kl.Linear(),
        kl.Rewards(),
        kl.Quadratic(),
        kl.Quadratic(2.5),
        kl.Pinball(),
        kl.Pinball([1.0, 4.0, 0.3], 2.0),
        kl.Pinball([0.0, 4.0, 0.0], [1.0, 0.0, 0.0]),
        kl.LogWealth(),
        kl.contrib.WeightedQuadratic(),
        kl.contrib.Hinge(),
        kl.contrib.Logistic(),
        Cubic(),
        Farthest(2.0),
    ],
)


def points(d: int, n: int | None = None, size: float = 100.0) -> st.SearchStrategy[Array]:
    """Points with ties, zeros and tiny numbers, one or ``n`` of them."""
    shape = (d,) if n is None else (n, d)
    return arrays(np.float64, shape, elements=st.floats(-size, size, allow_subnormal=False))


def gradients(seed: int, T: int, d: int, scale: float = 1.0) -> Array:
    """T gradients with drift and noise, some of them zero."""
    rng = np.random.default_rng(seed)
    g = rng.normal(size=(T, d)) + np.sign(np.sin(np.arange(T) / 7.0))[:, None]
    g[rng.random(T) < 0.1] = 0.0
    return scale * g
