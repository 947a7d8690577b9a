"""Theorems as tests: measured at most the bound, closed forms against runs, certificates without exception."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from cases import CERTIFIED, SCHEDULES, costs_of, gradients, learners_on
from klazy.sequences import (
    alternating,
    phases_of_length,
    rotating,
    square_wave,
    square_wave_regret,
    stochastic,
)
from klazy.theory import (
    certify,
    certify_experts,
    ensemble_lemma,
    expert_grid,
    k_star,
    resonance,
    sigma_star,
    step_picture,
    theorem_2,
    theorem_5,
    theorem_5_tuned,
    theorem_8,
    universal_lower_bound,
)

EACH = 14  # on 5 sets with 12 learners and 4 comparators: more than 3000 cases
seeds = st.integers(0, 2**16)
PLACES = [
    kl.L2Ball(3),
    kl.L1Ball(3, 2.0, [1.0, 0.0, -1.0]),
    kl.Simplex(3),
    kl.Box([-1.0, 0.0, -2.0], [1.0, 3.0, -1.0]),
]
PLACES += [kl.L2Ball(2, 0.5, [3.0, 0.0])]
# Every learner meets every set, and every schedule on one of them.
TRIALS = [
    pytest.param(make, domain, SCHEDULES[(i + j) % len(SCHEDULES)], id=f"{name}-{domain!r}")
    for i, (name, make) in enumerate(CERTIFIED.items())
    for j, domain in enumerate(PLACES)
]


def comparators(domain, g, rng):
    """Fixed in hindsight, best per block, the best in every round, and a walk."""
    T, d = g.shape
    block = max(1, T // 5)
    sums = np.add.reduceat(g, np.arange(0, T, block))
    walk = domain.project(domain.start + np.cumsum(rng.normal(scale=0.3, size=(T, d)), axis=0))
    yield domain.argmin_linear(g.sum(axis=0))
    yield domain.argmin_linear(sums).repeat(block, axis=0)[:T]
    yield domain.argmin_linear(g)
    yield walk


@pytest.mark.parametrize(("make", "domain", "sigma"), TRIALS)
def test_no_certificate_is_ever_violated(make, domain, sigma):
    learner = make(domain, sigma)
    for seed in range(EACH):
        rng = np.random.default_rng(seed)
        T = int(rng.integers(1, 50))
        g = gradients(seed, T, domain.dim, scale=float(np.exp(rng.normal())))
        g[: seed % 4] = 0.0
        trace = kl.run(
            learner, g, movement=kl.L2Movement(float(rng.exponential())), engine="step"
        )
        for u in comparators(domain, g, rng):
            certificate = certify(trace, u)
            room = 1e-9 * (1.0 + np.abs(certificate.realised))
            assert (certificate.regret <= certificate.realised + room).all()
            assert (certificate.realised <= certificate.worst_case + room).all()


@pytest.mark.parametrize(
    "name", ["QuadraticCosts", "PinballCosts", "LogisticCosts", "CallableCosts"]
)
def test_certificates_hold_for_convex_costs(name):
    for make in CERTIFIED.values():
        trace = kl.run(
            make(kl.L2Ball(3), kl.Sqrt(3.0)), costs_of(name, 40, 3, seed=2), engine="step"
        )
        for u in comparators(kl.L2Ball(3), trace.gradients(), np.random.default_rng(0)):
            certificate = certify(trace, u)
            assert (certificate.regret <= certificate.realised + 1e-9).all()


def test_the_certificate_is_nearly_tight_where_a_lone_learner_follows_one_cost():
    certificate = certify(kl.run(kl.GD(kl.Box(-1, 1), 2.0), np.ones((30, 1))), [-1.0])
    assert 0.0 <= certificate.slack <= 0.3 * certificate.regret[-1]
    assert certificate.slack <= certificate.worst_case_slack
    assert str(certificate).splitlines()[-2].startswith("realised certificate")


@pytest.mark.parametrize("beta", [0.3, "self-tuned"])
def test_an_ensemble_is_certified_against_every_expert(beta):
    experts = [make(kl.L2Ball(5), s) for make in learners_on(kl.L2Ball(5)) for s in (1.0, 6.0)]
    for seed in range(5):
        trace = kl.run(
            kl.SAder(experts, beta, movement=kl.L2Movement(2.0)),
            gradients(seed, 60, 5),
            record="experts",
        )
        found = certify_experts(trace)
        assert (found.slack >= -1e-9).all()
        assert found.cost == trace.totals.cost


class Falling(kl.types.Schedule):
    def __call__(self, t):
        return 5.0 / t


class Halting(kl.KLazyGD):
    """A step of its own: the parent's certificate does not hold for it."""

    def step(self, state, g):
        return super().step(state, 0.5 * g)


REFUSED = {
    "SAder has no certificate. Use certify_experts.": lambda t: certify(
        kl.run(kl.SAder([kl.GD(kl.L2Ball(3), 1.0)]), np.ones((3, 3)), engine="step"), np.zeros(3)
    ),
    "u must be in L2Ball(dim=2), got a point outside. Use domain.project(u).": lambda t: certify(
        t, [2.0, 0.0]
    ),
    "trace must start in round 1, got one from round 4. Run it without a state.": lambda t: (
        certify(
            kl.run(kl.GD(kl.L2Ball(2), 1.0), np.ones((3, 2)), state=t.state, engine="step"),
            [0.0, 0.0],
        )
    ),
    (
        "trace must be of a SAder, Leader, BetterOfTwo or Interpolation, got GD(domain=L2Ball(dim=2), "
        "sigma=Constant(s=1.0))."
    ): lambda t: certify_experts(t),
    (
        "Only runs of GD, LazyGD, KLazyGD, KLazyFTRL, MemoryGD, CentredOMD, SAder and Leader can be "
        "diagnosed, got Patient."
    ): (
        lambda t: kl.run(
            kl.contrib.Patient(kl.L2Ball(3), 1.0, move_cost=0.5), np.ones((3, 3)), engine="step"
        ).diagnose()
    ),
    "Halting has no certificate.": (
        lambda t: certify(kl.run(Halting(kl.L2Ball(2), 1.0, k=2), np.ones((3, 2))), np.zeros(2))
    ),
    (
        "Only runs of GD, LazyGD, KLazyGD, KLazyFTRL, MemoryGD, CentredOMD, SAder and Leader can be "
        "diagnosed, got Halting."
    ): (lambda t: kl.run(Halting(kl.L2Ball(2), 1.0, k=2), np.ones((3, 2))).diagnose()),
    (
        "learner must be a GD, LazyGD, KLazyGD or KLazyFTRL, got Halting(domain=L2Ball(dim=2), "
        "sigma=Constant(s=1.0), k=2)."
    ): (lambda t: step_picture(Halting(kl.L2Ball(2), 1.0, k=2), np.ones((3, 2)), 2)),
    "moves must have shape (3,), one per round, got (2,).": lambda t: theorem_5(
        3, 1.0, 1.0, 0.0, 1.0, 1, moves=[1.0, 1.0]
    ),
    "trace must start in round 1, got one from round 3. Run it without a state.": lambda t: (
        kl.run(
            kl.GD(kl.L2Ball(2), 1.0), np.ones((3, 2)), state=t.state._replace(t=3), engine="step"
        ).diagnose()
    ),
    "For a certificate sigma must never decrease, got Falling().": lambda t: certify(
        kl.run(kl.GD(kl.L2Ball(2), Falling()), np.ones((3, 2))), [0.0, 0.0]
    ),
    "k must be an integer of at least 1, got -5. Use k=1 for greedy GD.": lambda t: theorem_5(
        3, 1.0, 1.0, 0.0, 1.0, -5
    ),
    "moves must not be negative, got -1.0. They are lengths of steps.": lambda t: theorem_5(
        1, 1.0, 1.0, 0.0, 1.0, 1, moves=[-1.0]
    ),
    "prior must be at most 1, got 2.0.": lambda t: ensemble_lemma(3, 1.0, 1.0, 2.0),
    (
        "learner must have a sigma, as KLazyGD(L2Ball(2), 5.0, k=50) does, got "
        "LastValue(domain=Box(lower=[-1.0], upper=[1.0]), family=Linear())."
    ): lambda t: resonance(
        kl.LastValue(kl.Box(-1, 1))  # pyright: ignore
    ),
    "lengths must have shape (d,), got (0,).": lambda t: resonance(kl.GD(kl.L2Ball(1), 1.0), []),
    "T must be at least k=10, got 5.": lambda t: square_wave(10, 5),
    "k must be an integer of at least 2, got 1. Greedy GD has no such wave.": lambda t: (
        square_wave(1, 10)
    ),
    "active must be at most T//k=2, got 3.": lambda t: square_wave(4, 10, 3),
}


def test_a_trace_from_a_file_has_no_learner_to_certify_or_diagnose(tmp_path):
    kl.run(kl.GD(kl.L2Ball(2), 1.0), np.ones((3, 2)), engine="step").save(tmp_path / "trace.npz")
    loaded = kl.types.Trace.load(tmp_path / "trace.npz")
    for ask in (loaded.diagnose, lambda: certify(loaded, [0.0, 0.0])):
        with pytest.raises(
            ValueError,
            match=r"A trace from a file does not have its learner and costs. Run it again.",
        ):
            ask()


@pytest.mark.parametrize("message", REFUSED)
def test_refused_with_a_sentence_that_helps(message):
    trace = kl.run(kl.GD(kl.L2Ball(2), 1.0), np.ones((3, 2)), engine="step")
    with pytest.raises(ValueError, match=re.escape(message)):
        REFUSED[message](trace)


numbers = {
    "T": st.integers(1, 10**5),
    "G": st.floats(0.1, 10),
    "R": st.floats(0.1, 10),
    "weight": st.floats(0, 10),
}


@given(**numbers, share=st.floats(0, 1))
def test_tuned_theorem_5_is_theorem_5_at_its_tuning(T, G, R, weight, share):
    P = share * 2 * R * (T - 1)
    sigma, k = sigma_star(T, G, R, P, weight), k_star(T, R, P)
    bound, tuned = theorem_5(T, G, R, P, sigma, k, weight), theorem_5_tuned(T, G, R, P, weight)
    assert bound <= tuned * (1 + 1e-9)
    if k < T:  # what rounding k down leaves
        assert tuned - bound <= max(G * P, theorem_5_tuned(T, G, R, P, weight) * 1e-9) * (
            1 + 1e-9
        )
    for other in (0.5, 0.9, 1.1, 2.0):  # sigma_star is the minimiser
        assert theorem_5(T, G, R, P, other * sigma, k, weight) >= bound * (1 - 1e-12)


@given(**numbers, share=st.floats(0, 1))
def test_theorem_8_pays_a_constant_factor_for_not_knowing_the_path(T, G, R, weight, share):
    P = share * 2 * R * (T - 1)
    assert theorem_8(T, G, R, P, weight) >= theorem_5(
        T, G, R, P, sigma_star(T, G, R, P, weight), 1, weight
    ) * (1 - 1e-9)
    order = (G + weight) * R * math.sqrt(T * (1 + P / R)) * (1 + math.log(1 + math.log2(8 * T)))
    assert theorem_8(T, G, R, P, weight) <= 40 * order
    experts = kl.sader_k(kl.L2Ball(1, R), T, G, weight).experts
    assert [(e.sigma(1), e.k) for e in experts] == expert_grid(T, G, R, weight)  # pyright: ignore


@given(seed=seeds, k=st.integers(1, 30), s=st.floats(0.5, 30), blocks=st.sampled_from([1, 3, 20]))
def test_theorem_5_holds_for_k_lazy_gd(seed, k, s, blocks):
    domain, g = kl.L2Ball(5), gradients(seed, 120, 5)
    u = domain.argmin_linear(np.add.reduceat(g, np.arange(0, 120, 120 // blocks))).repeat(
        120 // blocks, axis=0
    )
    trace = kl.run(kl.KLazyGD(domain, s, k=k), g)
    r, moves = (
        kl.regret(trace, u),
        np.linalg.norm(np.diff(np.vstack((trace.x, trace.state.x)), axis=0), axis=1),
    )
    G = float(np.linalg.norm(g, axis=1).max())
    assert r.smoothed <= theorem_5(120, G, 1.0, r.path_length, s, k, moves=moves) + 1e-9
    assert (
        theorem_5(120, G, 1.0, r.path_length, s, k, moves=moves)
        <= theorem_5(120, G, 1.0, r.path_length, s, k) + 1e-9
    )


@pytest.mark.parametrize("weight", [0.5, 4.0])
def test_theorem_8_holds_for_sader_k(weight):
    scenario = stochastic(1, phases=4, length=500)
    T, movement = scenario.costs.T, kl.L2Movement(weight)
    r = kl.regret(
        kl.run(kl.sader_k(scenario.domain, T, 1.0, weight), scenario.costs, movement=movement),
        scenario.comparator,
    )
    assert r.smoothed <= theorem_8(T, 1.0, 1.0, r.path_length, weight)


@given(**numbers, prior=st.floats(1e-3, 1.0))
def test_the_ensemble_lemma_follows_from_the_live_bound_at_its_worst(T, G, R, weight, prior):
    """ln(1/pi)/beta + beta sum v_t with r_t = (2G + lambda) D and d_t = D = 2R."""
    D, beta = 2 * R, kl.theory.meta_rate("lemma", T, G, R, weight)
    live = (
        -math.log(prior) / beta + beta * T * D * D * (2 * G + weight) * (2 * G + 3 * weight) / 8
    )
    assert live <= ensemble_lemma(T, G, R, prior, weight) * (1 + 1e-12)


def test_the_ensemble_lemma_holds_for_sader_k():
    scenario = stochastic(3, phases=4, length=250)
    learner = kl.sader_k(scenario.domain, scenario.costs.T, 1.0)
    found = certify_experts(kl.run(learner, scenario.costs, record="experts"))
    allowed = [ensemble_lemma(scenario.costs.T, 1.0, 1.0, math.exp(p)) for p in learner.log_prior]
    assert (found.cost - found.experts <= allowed).all()
    assert (found.bound <= allowed).all()


def test_more_laziness_can_move_more():
    """Six gradients on the l1 ball of the plane."""
    g = np.array([[1.0, -1.0], [0.0, 1.0], [-2.0, 2.0], [1.0, -2.0], [0.0, -1.0], [-2.0, 1.0]])
    greedy, lazy = (
        kl.run(kl.KLazyGD(kl.L1Ball(2), 0.5, k=k), g).totals.switching for k in (1, 2)
    )
    assert lazy > greedy + 1.0


class TestLowerBound:
    @given(k=st.integers(2, 15), T=st.integers(15, 90), s=st.floats(0.3, 20.0), data=st.data())
    def test_the_square_wave_costs_exactly_what_it_should(self, k, T, s, data):
        active = data.draw(st.integers(1, T // k))
        wave = square_wave(k, T, active)
        r = kl.regret(
            kl.run(kl.KLazyGD(wave.domain, s, k=k), wave.costs, engine="step"), wave.comparator
        )
        assert r.dynamic == pytest.approx(square_wave_regret(k, T, s, active))
        assert r.path_length == 2 * (2 * active - 1)
        assert r.dynamic >= theorem_2(T, k, r.path_length)

    def test_theorem_2_is_linear_in_k_and_in_the_path(self):
        assert theorem_2(1000, 10, 38.0) == 10 * 10.0
        assert theorem_2(1000, 11, 38.0) == 10 * 10.0  # odd k has the wave of k - 1
        assert theorem_2(1000, 10, 0.0) == 0.0
        assert theorem_2(1000, 10, 1e9) == 100 * 10.0
        assert universal_lower_bound(100, 3.0) == 20.0

    @given(T=st.integers(2, 400), k=st.integers(2, 400), share=st.floats(0, 1))
    def test_theorem_2_never_asks_for_more_than_the_largest_regret(self, T, k, share):
        """Regret is at most 2T for hitting and 2(T - 1) for moving; k P / 4 exceeds that for long paths."""
        P = share * 2 * (T - 1)
        assert theorem_2(T, k, P) <= T
        longest = max(0, 2 * (2 * (T // k) - 1))
        assert theorem_2(T, k, P) == theorem_2(T, k, min(P, longest))


class TestDiagnosis:
    @pytest.mark.parametrize("domain", PLACES, ids=repr)
    @given(seed=seeds, k=st.integers(1, 20), i=st.integers(0, len(SCHEDULES) - 1))
    def test_no_step_is_longer_than_its_bounds(self, domain, seed, k, i):
        found = kl.run(
            kl.KLazyGD(domain, SCHEDULES[i], k=k), gradients(seed, 60, domain.dim), engine="step"
        ).diagnose()
        for bound in (found.greedy_bound, found.stability_bound, found.variance_bound):
            known = np.isfinite(bound)
            assert (found.moved[known] <= bound[known] + 1e-9).all()
        assert np.isfinite(found.variance_bound).sum() >= (0 if k == 1 else 20)

    @pytest.mark.parametrize(
        "domain", [kl.L1Ball(3), kl.Simplex(3, 2.0), kl.Box(-np.ones(3), np.ones(3))], ids=repr
    )
    @given(seed=seeds)
    def test_a_shift_within_the_margin_moves_nothing_and_one_beyond_it_may(self, domain, seed):
        rng = np.random.default_rng(seed)
        y = rng.normal(size=(200, 3)) * 4
        x = domain.project(y)
        margin = domain.margin(y)
        inside = margin > 0
        assert inside.any()
        shift = rng.normal(size=(200, 3))
        shift /= np.linalg.norm(shift, axis=1, keepdims=True)
        np.testing.assert_allclose(
            domain.project(y + 0.999 * margin[:, None] * shift)[inside], x[inside], atol=1e-12
        )
        moves = np.zeros(200, dtype=bool)
        for direction in (*np.eye(3), *-np.eye(3), *(np.array(p) / 2**0.5 for p in _pairs())):
            moves |= (
                np.abs(domain.project(y + 1.01 * (margin[:, None] + 1e-6) * direction) - x).max(
                    axis=1
                )
                > 1e-9
            )
        assert moves[inside].all()

    @pytest.mark.parametrize(
        ("domain", "y", "margin"),
        [
            (kl.L2Ball(1), 5.0, 4.0),
            (kl.L1Ball(1, 2.0, [1.0]), -4.0, 3.0),
            (kl.Box([-1.0, 0.0], [1.0, 0.0]), [5.0, 0.3], 4.0),
            (kl.Simplex(1), 7.0, math.inf),
            (kl.L2Ball(2), [5.0, 0.0], 0.0),
        ],
        ids=repr,
    )
    def test_margins_of_degenerate_sets(self, domain, y, margin):
        point = np.atleast_2d(np.atleast_1d(y))
        assert domain.margin(point).tolist() == [margin]

    def test_counts_and_sentences(self):
        scenario = rotating()
        lazy = kl.run(kl.LazyGD(scenario.domain, kl.Sqrt(1)), scenario.costs).diagnose()
        greedy = kl.run(kl.GD(scenario.domain, kl.Sqrt(1)), scenario.costs).diagnose()
        assert lazy.stale.sum() > 90 > greedy.stale.sum()
        assert lazy.moved.sum() == pytest.approx(1.0)
        assert "stands still against a gradient in 9" in str(lazy)
        assert "variance bound speaks" in str(lazy)
        ball = alternating()
        assert (
            np.isfinite(
                kl.run(kl.LazyGD(ball.domain, kl.Sqrt(1)), ball.costs).diagnose().stability_bound
            ).sum()
            > 50
        )

    def test_warns_where_laziness_cannot_matter_and_where_assumptions_fail(self):
        quiet = kl.run(kl.KLazyGD(kl.L2Ball(3), 500.0, k=9), gradients(0, 80, 3), engine="step")
        found = quiet.diagnose(G=0.5, R=0.01)
        assert len(found.warnings) == 3
        assert "almost never binds" in str(found)
        assert "gradients exceed G=0.5" in str(found)
        assert "points are farther than R=0.01" in str(found)
        assert not quiet.diagnose(G=100.0, R=2.0).warnings[1:]

    @given(seed=seeds, k=st.integers(2, 40))
    def test_inside_the_set_slack_matters_under_a_schedule_alone(self, seed, k):
        """The diagnosis claims that every k plays the same points where that holds: with a constant sigma."""
        g = gradients(seed, 60, 3)
        for sigma in (kl.Constant(500.0), kl.Sqrt(500.0)):
            lazy, greedy = (
                kl.run(kl.KLazyGD(kl.L2Ball(3), sigma, k=each), g, engine="step")
                for each in (k, 1)
            )
            found = str(lazy.diagnose())
            alike = np.allclose(lazy.x, greedy.x, rtol=0.0, atol=1e-12)
            assert (
                alike
                == ("every k plays nearly the same points" in found)
                == ("laziness act" in found)
            )


def _pairs():
    return (
        [(a, b, 0.0) for a in (1, -1) for b in (1, -1)]
        + [(a, 0.0, b) for a in (1, -1) for b in (1, -1)]
        + [(0.0, a, b) for a in (1, -1) for b in (1, -1)]
    )


def test_a_clock_resonates_and_decay_does_not():
    """At phases of k a clock is greedy, a little off it is far from it; a decay of the same memory hardly tells them apart."""
    lengths = (100, 190, 200, 210)
    clock = resonance(kl.KLazyGD(kl.L2Ball(5), 5.0, k=200), lengths)
    decay = resonance(kl.MemoryGD(kl.L2Ball(5), 5.0, memory=kl.memories.Decay(200.0)), lengths)
    half, before, at, after = clock.lazy - clock.greedy
    assert at == pytest.approx(0.0, abs=1e-9)
    assert min(before, after) > 0.3  # a round
    assert half == max(half, before, after)
    assert np.ptp((decay.lazy - decay.greedy)[1:]) < 0.05
    assert "phases of 100 hurt most" in str(clock)
    assert phases_of_length(3, 10).comparator[:4, 0].tolist() == [-1.0, -1.0, -1.0, 1.0]
