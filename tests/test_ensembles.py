"""Laws of SAder and of the ensembles with theory's parameters: weights, certificates, grids, records."""

import math
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import klazy as kl
from cases import ENSEMBLES, LEARNERS, MEMORIES, experts_of, gradients
from klazy.kernels.layout import find_missing_part

JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT") == "1"
RULES = [0.05, 0.7, "self-tuned"]
seeds = st.integers(0, 2**16)
rules = st.sampled_from(RULES)


def few_experts(domain, seed, n=4) -> list[kl.types.Learner[Any]]:
    """Lazy ones and ones with a memory, with any sigmas; some start elsewhere than others.

    They have two rules, both of which are there from the second expert on, so that one kernel serves all.
    """
    rng = np.random.default_rng(seed)
    lazy = [make for name, make in LEARNERS.items() if name in ("LazyGD", "KLazyGD")]
    remembering = [make for name, make in LEARNERS.items() if name.startswith("MemoryGD")]
    starts = domain.argmin_linear(rng.normal(size=(n, domain.dim)))
    experts = []
    for i, start in enumerate(starts):
        makers = (lazy, remembering)[i] if i < 2 else lazy + remembering
        make = makers[rng.integers(len(makers))]
        far = rng.random() < 0.3
        experts.append(make(domain, float(rng.uniform(0.3, 9)), start=start if far else None))
    return experts


@given(
    seed=seeds,
    beta=st.floats(0.01, 3.0),
    prior=st.sampled_from(["harmonic", "uniform", [0.1, 0.2, 0.3, 0.4]]),
)
def test_weights_are_the_product_formula(seed, beta, prior):
    learner, g = kl.SAder(few_experts(kl.L1Ball(3), seed), beta, prior), gradients(seed, 25, 3)
    trace = kl.run(learner, g, record="experts", engine="step")
    loss = trace.expert_hitting - trace.hitting[:, None] + trace.expert_switching
    named = {
        "harmonic": [5 / 8, 5 / 24, 5 / 48, 1 / 16],
        "uniform": [0.25] * 4,
    }  # (1 + 1/4) / (i (i + 1))
    w = np.array(named[prior] if isinstance(prior, str) else prior)
    for t in range(25):
        np.testing.assert_allclose(trace.weights[t], w, rtol=1e-9)
        w = w * np.exp(-beta * loss[t])
        w = w / w.sum()


@pytest.mark.parametrize("beta", RULES)
@given(seed=seeds)
def test_an_ensemble_of_one_is_that_expert(beta, seed):
    (expert,), g = few_experts(kl.Simplex(4), seed, n=1), gradients(seed, 40, 4)
    ensemble = kl.run(kl.SAder([expert], beta), g, engine="step")
    np.testing.assert_allclose(ensemble.x, kl.run(expert, g, engine="step").x, atol=1e-13)


@pytest.mark.parametrize("beta", RULES)
def test_permuting_experts_permutes_weights(beta):
    experts, prior, g = (
        few_experts(kl.L2Ball(5), 5, n=6),
        np.arange(1.0, 7.0) / 21.0,
        gradients(1, 10 if JIT_OFF else 60, 5),
    )
    order = np.random.default_rng(0).permutation(6)
    one = kl.run(kl.SAder(experts, beta, prior), g, record="experts")
    two = kl.run(kl.SAder([experts[i] for i in order], beta, prior[order]), g, record="experts")
    np.testing.assert_allclose(two.weights, one.weights[:, order], atol=1e-12)
    np.testing.assert_allclose(two.x, one.x, atol=1e-12)


@pytest.mark.parametrize("name", ENSEMBLES)
def test_the_record_is_the_same_in_both_engines_and_an_expert_costs_what_it_costs_alone(name):
    """Linear costs have one gradient, so that an expert plays as if it were alone."""
    learner, g = (
        ENSEMBLES[name](kl.L2Ball(5), kl.Sqrt(3.0)),
        gradients(2, 8 if JIT_OFF else 80, 5),
    )
    assert isinstance(learner, kl.SAder | kl.contrib.Leader)
    compiled, step = (
        kl.run(learner, g, record="experts", engine=engine) for engine in ("compiled", "step")
    )
    for key in step.kept:
        np.testing.assert_allclose(
            compiled.kept[key], step.kept[key], rtol=1e-11, atol=1e-12, err_msg=key
        )
    for i, expert in enumerate(learner.experts):
        alone = kl.run(expert, g, movement=learner.movement)
        np.testing.assert_allclose(step.expert_hitting[:, i], alone.hitting, atol=1e-12)
        np.testing.assert_allclose(step.expert_switching[:, i], alone.switching, atol=1e-12)
    loss = step.expert_hitting + step.expert_switching
    if "spread" in step.kept:
        np.testing.assert_allclose(step.spread, loss.max(axis=1) - loss.min(axis=1), atol=1e-12)
    np.testing.assert_allclose(step.weights.sum(axis=1), 1.0, atol=1e-12)


NORMS = [
    kl.L2Movement(1.0),
    kl.L2Movement(8.0),
    kl.L2Movement(0.0),
    kl.L1Movement(0.5),
    kl.contrib.AsymmetricMovement(up=2.0, down=0.3),
]
PLACES = [kl.L2Ball(5), kl.L1Ball(5), kl.Simplex(5), kl.Box(np.zeros(5) - 1.0, np.arange(5.0))]


@pytest.mark.parametrize("beta", RULES)
@pytest.mark.parametrize("domain", PLACES if JIT_OFF else PLACES[::2], ids=repr)
@settings(max_examples=1 if JIT_OFF else 60)
@given(
    seed=seeds,
    movement=st.sampled_from(NORMS),
    n=st.integers(2, 6),
    T=st.integers(2, 120),
    scale=st.floats(0.01, 100.0),
)
def test_no_certificate_is_ever_violated(domain, beta, seed, movement, n, T, scale):
    experts = few_experts(domain, seed, n)
    learner = kl.SAder(experts, beta, "uniform" if seed % 2 else "harmonic", movement=movement)
    trace = kl.run(learner, gradients(seed, T, domain.dim, scale), record="experts")
    assert (kl.theory.certify_experts(trace).slack >= -1e-9 * (1.0 + scale) * T).all()


@settings(max_examples=2 if JIT_OFF else 60)
@given(
    domain=st.sampled_from(PLACES),
    seed=seeds,
    movement=st.sampled_from(NORMS),
    scale=st.floats(1e-6, 1e6),
)
def test_no_certificate_of_auto_is_ever_violated(domain, seed, movement, scale):
    learner = kl.contrib.ensemble_auto(domain, movement)
    trace = kl.run(learner, gradients(seed, 60, domain.dim, scale), record="experts")
    assert (kl.theory.certify_experts(trace).slack >= -1e-9 * (1.0 + scale) * 60).all()


@given(seed=seeds, scale=st.sampled_from([2.0**-30, 2.0**30]))
def test_auto_ignores_the_unit_of_the_costs(seed, scale):
    """Costs and movement weight in another currency: the same points."""
    g = gradients(seed, 60, 5)
    x, z = (
        kl.run(kl.contrib.ensemble_auto(kl.L2Ball(5), kl.L2Movement(2.0 * s)), s * g).x
        for s in (1.0, scale)
    )
    np.testing.assert_allclose(
        z, x, atol=1e-10
    )  # a self-tuned rate hangs on the first rounds, digit by digit


@pytest.mark.skipif(JIT_OFF, reason="a million rounds need compiled code")
@pytest.mark.parametrize("beta", [3.0, "self-tuned"])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_weights_survive_a_million_rounds(beta, scale):
    T = 1_000_000
    g = scale * np.tile(np.random.default_rng(0).choice([-1.0, 1.0], (1000, 5)), (T // 1000, 1))
    g[:, 0] += scale
    learner = kl.SAder([kl.GD(kl.L2Ball(5), s * scale) for s in (0.5, 5.0, 500.0)], beta)
    trace = kl.run(learner, g, record="totals")
    w = learner.weights(trace.state)
    assert np.isfinite(trace.state.log_w).all()
    assert abs(w.sum() - 1.0) <= 1e-12
    assert kl.L2Ball(5).contains(trace.state.x)


class TestTheory:
    def test_the_grid(self):
        sigma = kl.theory.sigma_grid(1000, 2.0, 3.0, 0.5)
        assert len(sigma) == math.ceil(math.log2(7993) / 2) + 1
        assert sigma[0] == pytest.approx(math.sqrt((4 + 2) * 1000) / 3)
        np.testing.assert_allclose(sigma[:-1] / sigma[1:], 2.0)
        assert len(kl.theory.sigma_grid(1, 1.0, 1.0)) == 1

    @given(
        T=st.integers(1, 10**6),
        G=st.floats(0.1, 10),
        R=st.floats(0.1, 10),
        weight=st.floats(0.0, 10),
    )
    def test_the_grid_has_a_sigma_within_a_factor_of_two_of_every_best_one(self, T, G, R, weight):
        """sigma* falls from P_T = 0 to the longest path, P_T = 2R (T - 1)."""
        grid = kl.theory.sigma_grid(T, G, R, weight)
        for P in (0.0, 0.3 * R, R * (T - 1), 2 * R * (T - 1)):
            best = math.sqrt((G * G + 2 * weight * G) * T / (4 * R * P + R * R))
            assert np.abs(np.log2(grid / best)).min() <= 1.0 + 1e-9

    def test_experts_and_slacks(self):
        domain = kl.L2Ball(5, 2.0)
        greedy, lazy = kl.sader(domain, 500, 1.5), kl.sader_k(domain, 500, 1.5)
        sigmas = kl.theory.sigma_grid(500, 1.5, 2.0)
        assert [e.sigma(1) for e in greedy.experts] == pytest.approx(sigmas)  # pyright: ignore
        assert [(e.sigma(1), e.k) for e in lazy.experts] == [  # pyright: ignore
            (pytest.approx(s), max(1, math.floor(4 * s / 1.5))) for s in sigmas
        ]
        assert all(type(e) is kl.GD for e in greedy.experts)
        assert greedy.beta == lazy.beta == kl.theory.meta_rate("lemma", 500, 1.5, 2.0)
        decays = kl.sader_k(domain, 500, 1.5, memory="decay")
        assert [e.memory.m for e in decays.experts] == [e.k for e in lazy.experts]  # pyright: ignore
        mixed = kl.sader_k(domain, 500, 1.5, greedy=True, lazy=True)
        assert len(mixed.experts) == 2 * len(sigmas) + 1
        assert isinstance(mixed.experts[-1], kl.LazyGD)
        grid = kl.theory.product_grid(domain, [1.0, kl.Sqrt(3)], MEMORIES)
        assert len(set(grid)) == 2 * len(MEMORIES)

    @pytest.mark.parametrize("memory", ["clock", "decay"])
    @pytest.mark.parametrize("lazy", [False, True])
    def test_greedy_experts_share_the_places_of_lazy_ones(self, memory, lazy):
        """Algorithm 3 gives the place i of the sigmas C / (i (i + 1)), whatever is there."""
        domain = kl.L2Ball(5, 2.0)
        alone = kl.sader_k(domain, 500, 1.5, memory=memory, lazy=lazy)
        mixed = kl.sader_k(domain, 500, 1.5, memory=memory, lazy=lazy, greedy=True)
        sigmas = [e.sigma(1) for e in mixed.experts[: 2 * len(alone.experts) - 2 * lazy]]  # pyright: ignore
        assert sigmas == sorted(sigmas, reverse=True)
        places = np.exp(alone.log_prior)
        prior = np.exp(mixed.log_prior)
        for i, expert in enumerate(alone.experts[: len(alone.experts) - lazy]):
            assert mixed.experts[2 * i] == expert
            assert type(mixed.experts[2 * i + 1]) is kl.GD
            assert prior[2 * i] == pytest.approx(places[i] / 2)
            assert prior[2 * i + 1] == pytest.approx(places[i] / 2)
        if lazy:
            assert mixed.experts[-1] == alone.experts[-1]
            assert prior[-1] == pytest.approx(places[-1])
        uniform = kl.sader_k(
            domain, 500, 1.5, memory=memory, lazy=lazy, greedy=True, prior="uniform"
        )
        assert np.ptp(uniform.log_prior) == 0.0

    def test_the_rates(self):
        assert kl.theory.meta_rate("lemma", 90, 1.5, 2.0, 0.5) == pytest.approx(
            2 / (3.5 * 4) * math.sqrt(2 / 450)
        )
        assert kl.theory.meta_rate("tight", 90, 1.5, 2.0, 0.5) == pytest.approx(
            math.sqrt(8 / (3.5 * 4.5 * 90)) / 4
        )
        assert kl.theory.meta_rate("authors", 90, 1.5, 2.0, 0.5) == pytest.approx(
            10 * kl.theory.meta_rate("lemma", 90, 1.0, 1.0, 1.0)
        )
        assert kl.sader(kl.L2Ball(2), 90, 1.0, beta="self-tuned").beta == "self-tuned"

    @given(
        T=st.integers(1, 10**7),
        G=st.floats(0.01, 100),
        R=st.floats(0.01, 100),
        weight=st.floats(0, 100),
    )
    def test_tight_is_at_least_lemma_and_keeps_within_the_worst_case(self, T, G, R, weight):
        """r_t <= (2G + lambda) D' and d_t <= D' with D' = 2R: the bound ln(1/pi)/beta + beta sum v_t at ln(1/pi) = 1."""
        D, lemma, tight = (
            2 * R,
            kl.theory.meta_rate("lemma", T, G, R, weight),
            kl.theory.meta_rate("tight", T, G, R, weight),
        )
        assert tight >= lemma * (1 - 1e-12)
        r = (2 * G + weight) * D
        v = T * (r * r / 8 + weight * D * r / 4)
        assert 1 / tight + tight * v <= 1 / lemma + lemma * v + 1e-9 * v


def moving_comparator(g, domain, blocks):
    sums = np.add.reduceat(g, np.linspace(0, len(g), blocks, endpoint=False, dtype=int))
    return np.repeat(
        domain.argmin_linear(sums),
        np.diff([*np.linspace(0, len(g), blocks, endpoint=False, dtype=int), len(g)]),
        axis=0,
    )


@pytest.mark.xdist_group("ader")  # one kernel for all of them
@given(seed=seeds, blocks=st.sampled_from([1, 2, 10, 50]))
def test_ader_keeps_its_dynamic_regret_bound(seed, blocks):
    """Zhang, Lu and Zhou (2018), Theorem 3 with linearised losses, whose range is 2GD."""
    domain, T = kl.L2Ball(5), 400
    g = gradients(seed, T, 5)
    g /= max(1.0, np.linalg.norm(g, axis=1).max())
    r = kl.regret(
        kl.run(kl.contrib.ader(domain, T, 1.0), g), moving_comparator(g, domain, blocks)
    )
    D, P = domain.diameter, r.path_length
    k = math.floor(math.log2(1 + 4 * P / (7 * D)) / 2) + 1
    bound = 0.75 * math.sqrt(2 * T * (7 * D * D + 4 * D * P)) + D * math.sqrt(2 * T) / 2 * (
        1 + 2 * math.log(k + 1)
    )
    assert r.dynamic <= bound


@pytest.mark.xdist_group("ader")
def test_ader_is_blind_to_movement():
    learner, g = kl.contrib.ader(kl.L2Ball(5), 100, 1.0), gradients(0, 100, 5)
    assert learner.movement == kl.L2Movement(0.0)
    assert not kl.run(learner, g, record="experts").expert_switching.any()


@pytest.mark.xdist_group("ader")  # one kernel for all of them
@given(seed=seeds, blocks=st.sampled_from([1, 5, 40]), weight=st.sampled_from([0.5, 1.0, 10.0]))
def test_scream_keeps_its_smoothed_regret_bound(seed, blocks, weight):
    """The best expert's bound, D^2 + 2 D P over twice its step plus step (G^2/2 + lambda G) T, and the meta learner's."""
    domain, T = kl.L2Ball(5), 400
    learner, g = kl.contrib.scream(domain, T, 1.0, weight), gradients(seed, T, 5)
    g /= max(1.0, np.linalg.norm(g, axis=1).max())
    trace = kl.run(learner, g, movement=learner.movement)
    r = kl.regret(trace, moving_comparator(g, domain, blocks))
    D, sigma = domain.diameter, np.array([e.sigma(1) for e in learner.experts])  # pyright: ignore
    spread = (2.0 + weight) * D  # of losses that are <g, x^i - x> + lambda |move|
    own = sigma * (D * D + 2 * D * r.path_length) / 2 + (0.5 + weight) * T / sigma
    beta = float(learner.beta)
    meta = -np.asarray(learner.log_prior) / beta + beta * T * (
        spread**2 / 8 + weight * D * spread / 4
    )
    assert r.smoothed <= (own + meta).min()
    assert sigma[0] == pytest.approx(math.sqrt((1 + weight) * T) / D)
    assert sigma[0] / sigma[-1] >= math.sqrt(1 + 2 * T)


class TestStronglyAdaptive:
    def test_wakes_one_learner_per_geometric_interval_at_the_current_point(self):
        learner, g = kl.contrib.StronglyAdaptive(kl.L2Ball(2), 3.0, levels=6), gradients(0, 70, 2)
        state = learner.init()
        for t, row in enumerate(g, start=1):
            assert state.t == t
            assert ((state.w > 0) == (t >= 2 ** np.arange(6))).all()
            following = learner.step(state, row)
            for j in range(6):
                if (t + 1) % 2**j == 0:
                    assert following.experts[j].t == 1
                    assert np.array_equal(following.experts[j].x, state.x)
            state = following

    def test_regret_on_every_long_interval_of_the_cover_is_of_the_order_of_its_root(self):
        """Four roots of |I| (times GD) suffice for the cover on phases of any length; one lazy learner breaks that bound."""
        domain, T = kl.Box(-1, 1), 2048
        g = np.sign(np.sin(np.cumsum(0.3 * np.exp(-np.arange(T) / 500.0))))[
            :, None
        ]  # ever longer phases

        def worst(learner) -> float:
            x, ratios = kl.run(learner, g).x, []
            for j in range(4, 11):
                for q in range(2**j, T - 2**j + 1, 2**j):
                    rows = slice(q - 1, q - 1 + 2**j)
                    u = domain.argmin_linear(g[rows].sum(axis=0))
                    ratios.append(
                        (g[rows] * (x[rows] - u)).sum() / (domain.diameter * math.sqrt(2**j))
                    )
            return max(ratios)

        assert worst(kl.contrib.StronglyAdaptive(domain, 1.0, 0.0)) <= 4.0
        assert worst(kl.LazyGD(domain, kl.Sqrt(1.0))) > 4.0

    def test_forgets_the_past_where_one_learner_cannot(self):
        g = np.where(np.arange(2048) < 1024, 1.0, -1.0)[:, None]
        late = {}
        for learner in (
            kl.contrib.StronglyAdaptive(kl.Box(-1, 1), 1.0, 0.0),
            kl.LazyGD(kl.Box(-1, 1), kl.Sqrt(1.0)),
        ):
            late[type(learner).__name__] = kl.run(learner, g).hitting[1024:].sum()
        assert late["StronglyAdaptive"] < -900
        assert late["LazyGD"] > 0


def test_movement_norm_and_weight_enter_the_losses():
    experts, g = experts_of(kl.Simplex(5), 1.0), gradients(0, 40, 5)
    traces = [
        kl.run(kl.SAder(experts, movement=m), g)
        for m in (kl.L2Movement(1.0), kl.L2Movement(5.0), kl.L1Movement(1.0))
    ]
    assert np.abs(traces[0].x - traces[1].x).max() > 1e-3
    assert np.abs(traces[0].x - traces[2].x).max() > 1e-3


def test_ensembles_go_through_run_many():
    g = np.stack([gradients(seed, 50, 5) for seed in range(3)])
    learner = kl.contrib.ensemble_auto(kl.L2Ball(5))
    assert [t.totals for t in kl.run_many(learner, g)] == [
        kl.run(learner, one).totals for one in g
    ]


def test_a_nested_ensemble_names_what_has_no_kernel():
    inner = kl.SAder([kl.GD(kl.L2Ball(2), 1.0)])
    with pytest.raises(
        ValueError, match=r"engine='compiled' does not know the nested SAder. Use engine='auto'."
    ):
        kl.run(kl.SAder([inner, kl.GD(kl.L2Ball(2), 2.0)]), np.ones((3, 2)), engine="compiled")


class Farthest(kl.types.Movement):
    """A user's norm, without a kernel."""

    def distance(self, delta):
        return np.abs(delta).max(axis=-1)


def test_a_movement_without_kernel_inside_an_ensemble_goes_through_step():
    learner = kl.SAder(
        [kl.GD(kl.L2Ball(2), 1.0), kl.GD(kl.L2Ball(2), 2.0)], movement=Farthest(1.0)
    )
    assert find_missing_part(learner) == "Farthest"
    assert kl.run(learner, np.ones((3, 2))).engine == "step"


@pytest.mark.parametrize(
    "make",
    [
        lambda: kl.contrib.ensemble_auto(kl.L2Ball(5)),
        lambda: kl.sader_k(kl.L1Ball(5), 300, 3.0, lazy=True),
    ],
)
@pytest.mark.parametrize("weights", [2.0, np.linspace(0.0, 3.0, 40)])
def test_kernel_and_step_agree_with_partly_filled_blocks_and_any_price_in_run(make, weights):
    learner, g = make(), gradients(4, 40, 5)
    for movement in (
        kl.L2Movement(weights),
        kl.TVMovement(weights),
        kl.contrib.SwitchFee(weights, tol=1e-6),
    ):
        compiled, step = (
            kl.run(learner, g, movement=movement, x0=np.full(5, 0.2), engine=e)
            for e in ("compiled", "step")
        )
        np.testing.assert_allclose(compiled.x, step.x, atol=1e-12)
        np.testing.assert_allclose(compiled.switching, step.switching, atol=1e-12)


# Beyond the unrolled dimensions this kernel takes longest of all to compile; there it is tried as plain Python.
@pytest.mark.parametrize(
    "domain", [kl.Simplex(5), *([kl.Simplex(12)] if JIT_OFF else [])], ids=repr
)
def test_records_of_costs_that_are_not_linear_hold_the_linearisation(domain):
    targets = np.random.default_rng(0).uniform(size=(30, domain.dim))
    costs = kl.QuadraticCosts(targets)
    learner = kl.SAder(few_experts(domain, 3, n=6))
    compiled, step = (
        kl.run(learner, costs, record="experts", engine=e) for e in ("compiled", "step")
    )
    for key in step.kept:
        np.testing.assert_allclose(
            compiled.kept[key], step.kept[key], rtol=1e-10, atol=1e-12, err_msg=key
        )
    g = step.x - targets
    first = np.array([expert.init().x for expert in learner.experts])
    np.testing.assert_allclose(
        step.expert_hitting[0], step.hitting[0] + (first - step.x[0]) @ g[0], atol=1e-12
    )


@pytest.mark.parametrize("far", [1e6, -7e5, -3e7])
def test_rounding_far_from_the_origin_teaches_no_rate(far):
    """Experts pinned at one boundary point differ by rounding errors only, which are those of the coordinates."""
    domain = kl.L2Ball(5, 1.0, np.full(5, far))
    learner = kl.SAder(
        [kl.GD(domain, s, start=np.full(5, far)) for s in (0.11, 0.23, 0.31, 0.47)],
        prior="uniform",
    )
    g = np.tile([0.1, 0.7, -0.3, 0.0, 0.2], (30, 1))
    for engine in ("compiled", "step"):
        trace = kl.run(learner, g, record="experts", engine=engine)
        assert (
            (0.0 if far > -1e7 else -1.0) < trace.spread.max() < 1e-5
        )  # so far out all experts round to one point
        assert not trace.beta.any()


def test_a_far_point_beside_one_at_the_centre():
    learner = kl.SAder(
        [kl.KLazyGD(kl.L2Ball(5), 1.0, k=1), kl.KLazyGD(kl.L2Ball(5), 1.0, k=3)], 0.3
    )
    g = np.outer([1e200, -1e200, 0.0], np.eye(5)[0])
    compiled, step = (kl.run(learner, g, engine=engine) for engine in ("compiled", "step"))
    np.testing.assert_allclose(compiled.x, step.x, atol=1e-12)
