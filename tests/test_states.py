"""States without order: what switching costs, the optimum, rules that are in one state at a time, and their replay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import klazy as kl
from command import call_klazy
from klazy.contrib import BlockedArms, FiniteMetric, PlayNext, Stay, WorkFunction, run_ahead
from klazy.learners.prox import move_if_it_pays

seeds = st.integers(0, 2**16)


def draw_metric(seed, n, weight=1.0):
    """Distances between random places, some of them alike."""
    places = np.random.default_rng(seed).integers(0, 4, (n, 2)) + 0.1 * np.arange(n)[:, None]
    return FiniteMetric(weight, D=np.abs(places[:, None] - places).sum(axis=2))


def draw_costs(seed, T, n):
    """Most states are free in most rounds."""
    rng = np.random.default_rng(seed)
    return rng.random((T, n)) * (rng.random((T, n)) < 0.4)


def carry(D, before, after):
    """The least cost of carrying probability, by a linear programme over all ways."""
    n = len(D)
    leave = np.kron(np.eye(n), np.ones(n))
    arrive = np.kron(np.ones(n), np.eye(n))
    return linprog(
        D.ravel(), A_eq=np.vstack((leave, arrive)), b_eq=np.hstack((before, after))
    ).fun


class TestFiniteMetric:
    @given(seed=seeds, n=st.integers(2, 9))
    def test_a_change_costs_what_the_cheapest_way_to_carry_it_costs(self, seed, n):
        movement = draw_metric(seed, n)
        x = np.random.default_rng(seed).dirichlet(np.ones(n), 3)
        paid = movement.distance(np.diff(x, axis=0))
        for t in range(2):
            assert paid[t] == pytest.approx(carry(movement.D, x[t], x[t + 1]), abs=1e-9)
            slope = movement.subgradient(x[t + 1] - x[t])
            assert slope @ (x[t + 1] - x[t]) == pytest.approx(paid[t], abs=1e-9)
            assert (slope[:, None] - slope <= movement.D + 1e-9).all()
        corners = np.eye(n)
        np.testing.assert_allclose(
            movement.distance(corners[:, None] - corners), movement.D, atol=1e-12
        )

    @given(seed=seeds, n=st.integers(2, 5), price=st.floats(0.0, 3.0))
    def test_a_move_is_best_for_a_forecast(self, seed, n, price):
        movement = draw_metric(seed, n)
        rng = np.random.default_rng(seed)
        x = rng.dirichlet(np.ones(n))
        g = rng.normal(size=n)
        u = move_if_it_pays(kl.Simplex(n), movement, x, g, price)
        paid = g @ u + price * movement.distance(u - x)
        for other in [x, *np.eye(n), *rng.dirichlet(np.ones(n), 50)]:
            assert paid <= g @ other + price * movement.distance(other - x) + 1e-9

    @pytest.mark.parametrize(
        ("table", "message"),
        [
            ([[0.0, 1.0]], r"D must be a square table, got shape \(1, 2\)."),
            ([[0.0, 1.0], [0.0, 0.0]], r"D must be 0 for staying and above 0 for switching"),
            ([[0.0, 1.0], [2.0, 0.0]], r"D must be symmetric, got .* Use \(D \+ D.T\) / 2."),
            (
                [[0, 1, 9], [1, 0, 1], [9, 1, 0]],
                r"from 0 to 2 one costs 2, not 9. Enter what the cheapest way costs.",
            ),
        ],
    )
    def test_what_is_no_table_of_distances_is_rejected(self, table, message):
        with pytest.raises(ValueError, match=message):
            FiniteMetric(D=table)
        with pytest.raises(ValueError, match=r"D must have a row for each of 3 states, got 2."):
            kl.run(
                kl.GD(kl.Simplex(3), 1.0),
                np.ones((2, 3)),
                movement=FiniteMetric(D=[[0, 1], [1, 0]]),
            )


@given(
    seed=seeds,
    n=st.integers(2, 4),
    T=st.integers(1, 6),
    stands=st.booleans(),
    price=st.floats(0.0, 3.0),
)
def test_the_optimum_is_found_among_all_sequences(seed, n, T, stands, price):
    movement = draw_metric(seed, n, price)
    costs = draw_costs(seed, T, n)
    corners = np.eye(n)
    x0 = corners[0] if stands else None
    ways = np.stack(np.meshgrid(*[np.arange(n)] * T, indexing="ij"), axis=-1).reshape(-1, T)
    paid = costs[np.arange(T), ways].sum(axis=1)
    before = np.hstack((np.zeros((len(ways), 1), dtype=int) if stands else ways[:, :1], ways))
    paid += price * movement.D[before[:, :-1], before[:, 1:]].sum(axis=1)
    found = kl.offline_optimum(costs, kl.Simplex(n), movement, x0=x0)
    assert found.method == "dynamic programme"
    assert found.cost == pytest.approx(paid.min(), abs=1e-9)
    assert found.gap < 1e-9


def test_the_kernel_of_the_optimum_is_its_plain_recursion(monkeypatch):
    from klazy.kernels import offline

    movement = draw_metric(2, 4, 3.0)
    costs = np.tile(draw_costs(3, 400, 4), (20, 1))
    x0 = np.full(4, 0.25)
    compiled = kl.offline_optimum(costs, kl.Simplex(4), movement, x0=x0)
    monkeypatch.setattr(offline, "PLAIN_NUMBERS", 10**9)
    plain = kl.offline_optimum(costs, kl.Simplex(4), movement, x0=x0)
    np.testing.assert_array_equal(compiled.u, plain.u)
    assert compiled.cost == plain.cost
    assert compiled.gap < 1e-13
    assert compiled.hitting == pytest.approx((costs * compiled.u).sum(), rel=1e-13)
    assert compiled.switching == pytest.approx(movement.paid(compiled.u, x0).sum(), rel=1e-13)


@given(seed=seeds, n=st.integers(2, 4))
def test_no_distribution_pays_less_than_the_optimum_from_a_distribution(seed, n):
    movement = draw_metric(seed, n)
    costs = draw_costs(seed, 8, n)
    rng = np.random.default_rng(seed)
    x0 = rng.dirichlet(np.ones(n))
    found = kl.offline_optimum(costs, kl.Simplex(n), movement, x0=x0)
    for _ in range(20):
        x = rng.dirichlet(np.ones(n), 8) if rng.random() < 0.5 else np.tile(x0, (8, 1))
        assert found.cost <= (costs * x).sum() + movement.paid(x, x0).sum() + 1e-9


class TestWorkFunction:
    @given(
        seed=seeds,
        n=st.integers(2, 5),
        T=st.integers(1, 60),
        price=st.sampled_from([0.3, 1.0, 3.0]),
    )
    def test_it_pays_at_most_2n_minus_1_times_the_optimum(self, seed, n, T, price):
        movement = draw_metric(seed, n, price)
        costs = draw_costs(seed, T, n)
        x0 = np.eye(n)[0]
        player = PlayNext(WorkFunction(kl.Simplex(n), movement))
        paid = run_ahead(player, costs, movement=movement, x0=x0).totals.cost
        best = kl.offline_optimum(costs, kl.Simplex(n), movement, x0=x0).cost
        # The constant: work functions differ by no more than the longest way.
        assert paid <= (2 * n - 1) * best + (2 * n - 1) * price * movement.D.max() + 1e-9

    @pytest.mark.parametrize("n", [2, 3, 4])
    def test_an_adversary_comes_near_that(self, n):
        """Every round charges a little where it stands."""
        movement = FiniteMetric(D=1.0 - np.eye(n))
        learner = WorkFunction(kl.Simplex(n), movement)
        state = learner.init()
        rows = []
        for _ in range(150 * n):
            rows.append(0.05 * state.x)
            state = learner.step(state, rows[-1])
        trace = run_ahead(PlayNext(learner), rows, movement=movement, x0=np.eye(n)[0])
        best = kl.offline_optimum(rows, kl.Simplex(n), movement, x0=np.eye(n)[0])
        assert 0.85 * (2 * n - 1) < trace.totals.cost / best.cost <= 2 * n - 1

    def test_it_goes_where_the_definition_says(self):
        movement = draw_metric(1, 3, 0.5)
        costs = draw_costs(2, 40, 3)
        trace = kl.run(WorkFunction(kl.Simplex(3), movement), costs, movement=movement)
        at, work = 0, 0.5 * movement.D[0]
        for t in range(40):
            assert trace.x[t].argmax() == at
            ends = work + costs[t]
            work = (ends[:, None] + 0.5 * movement.D).min(axis=0)
            allowed = [i for i in range(3) if ends[i] <= work[i] + 1e-9]
            at = min(allowed, key=lambda i: ends[i] + 0.5 * movement.D[at, i])


def test_staying_ends_once_another_state_would_have_saved_the_switch():
    movement = FiniteMetric(2.0, D=[[0, 1, 3], [1, 0, 3], [3, 3, 0]])
    costs = np.tile([[1.0, 0.4, 0.0]], (12, 1))
    trace = kl.run(Stay(kl.Simplex(3), movement), costs, movement=movement)
    # The second state saves 0.6 a round and costs 2; from it, the third saves 0.4 a round and costs 6.
    assert trace.x.argmax(axis=1).tolist() == [0, 0, 0, 0, *[1] * 8]
    patient = kl.run(Stay(kl.Simplex(3), movement, times=2.0), costs, movement=movement)
    assert patient.x.argmax(axis=1).tolist() == [*[0] * 7, *[1] * 5]


class TestDrawnStates:
    @given(seed=seeds, n=st.integers(2, 9))
    def test_what_is_left_goes_the_cheapest_way(self, seed, n):
        movement = draw_metric(seed, n)
        x, y = np.random.default_rng(seed).dirichlet(np.full(n, 0.5), 2)
        lost = np.flatnonzero(y < x)
        sent = np.array([movement.send(y - x, i) for i in lost])
        gone = (x - y)[lost]
        np.testing.assert_allclose(gone @ sent, np.maximum(y - x, 0.0), atol=1e-7)
        paid = gone @ (sent * movement.D[lost]).sum(axis=1)
        assert paid == pytest.approx(carry(movement.D, x, y), abs=1e-7)


class TestBlockedArms:
    @pytest.mark.parametrize("method", ["tsallis", "exp3"])
    def test_it_holds_every_choice_for_a_block_and_finds_the_best(self, method):
        T = 8000
        rng = np.random.default_rng(0)
        costs = (rng.random((T, 3)) < [0.6, 0.2, 0.6]).astype(float)
        learner = BlockedArms(kl.Simplex(3), "tv", horizon=T, method=method)
        trace = kl.run(learner, costs, movement="tv")
        assert (np.sort(trace.x, axis=1) == [0.0, 0.0, 1.0]).all()
        length = learner.block_length
        assert length == round((T / 3) ** (1 / 3))
        moves = np.flatnonzero(np.abs(np.diff(trace.x, axis=0)).any(axis=1)) + 1
        assert (moves % length == 0).all()
        assert trace.x[-2000:, 1].mean() > 0.7

    @pytest.mark.parametrize("method", ["tsallis", "exp3"])
    def test_regret_grows_no_faster_than_is_known_to_be_possible(self, method):
        """Of the order T^(2/3): eight times the rounds, four times the regret, switching included."""
        regrets = []
        for T in (1000, 8000):
            found = []
            for seed in range(4):
                costs = (
                    np.random.default_rng(seed).random((T, 3)) < [0.5, 0.5 - T ** (-1 / 3), 0.5]
                ).astype(float)
                learner = BlockedArms(kl.Simplex(3), "tv", horizon=T, method=method, seed=seed)
                found.append(
                    kl.run(learner, costs, movement="tv").totals.cost - costs[:, 1].sum()
                )
            regrets.append(np.mean(found) / T ** (2 / 3))
        assert 0.0 < regrets[1] < 1.5 * regrets[0] + 0.5
        assert max(regrets) < 3.0

    @given(
        losses=st.lists(st.floats(0.0, 1e6), min_size=2, max_size=6), block=st.integers(1, 10**6)
    )
    def test_chances_are_those_of_the_definition(self, losses, block):
        learner = BlockedArms(kl.Simplex(len(losses)), "tv", horizon=1000)
        shares = learner._chances(1 + (block - 1) * learner.block_length, np.array(losses))
        assert shares.sum() == pytest.approx(1.0)
        # 1 / sqrt(chance) is half the rate times the loss, plus what is the same for all.
        roots = 1.0 / np.sqrt(shares)
        slope = np.array(losses) / np.sqrt(block)
        np.testing.assert_allclose(roots - roots[0], slope - slope[0], rtol=1e-6, atol=1e-6)

    def test_an_agent_takes_what_the_state_in_use_has_cost(self, tmp_path):
        learner = BlockedArms(kl.Simplex(2), "tv", horizon=100)
        with kl.Agent.open(tmp_path / "a.db", learner, columns=["eu", "us"]) as agent:
            for _ in range(20):
                agent.observe_cost(0.7 if agent.decision["eu"] else 0.1)
            last = agent.decision
        with kl.Agent.open(tmp_path / "a.db", learner) as agent:
            assert agent.t == 21
            assert agent.decision == last


class TestReplay:
    def make(self, folder):
        rng = np.random.default_rng(3)
        rows = 40.0 + 10.0 * rng.random((400, 3))
        rows[np.arange(400), np.arange(400) // 60 % 3] -= 25.0
        trace = folder / "latency.csv"
        trace.write_text(
            "eu,us,ap\n" + "\n".join(",".join(f"{v:.2f}" for v in row) for row in rows) + "\n"
        )
        table = folder / "switching.csv"
        # In another order than the trace.
        table.write_text("ap,eu,us\n0,3,3\n3,0,1\n3,1,0\n")
        return rows, trace, table

    def test_every_decision_is_one_state_and_nobody_beats_the_optimum(self, tmp_path):
        rows, trace, table = self.make(tmp_path)
        with pytest.warns(UserWarning, match="FiniteMetric has no compiled kernel"):
            found = kl.replay(trace, states=table, move_cost=20.0)
        assert {"stay", "work function", "auto", "fixed"} <= {
            score.name for score in found.scores
        }
        assert found.setup.movement.D.tolist() == [[0, 1, 3], [1, 0, 3], [3, 3, 0]]
        for score in found.scores:
            assert (np.sort(score.points, axis=1) == [0.0, 0.0, 1.0]).all()
            assert score.cost >= found.optimum.lower_bound - 1e-9
        agent = found.agent()
        paid = sum(
            float(row @ x)
            for row, x in zip(np.round(rows[200:], 2), found.best.points, strict=False)
        )
        assert found.best.hitting == pytest.approx(paid)
        assert sorted(agent.decision.values()) == [0.0, 0.0, 1.0]

    def test_the_command_says_what_does_not_fit(self, tmp_path):
        _, trace, table = self.make(tmp_path)
        told = call_klazy("replay", str(trace), "--states", str(trace), folder=tmp_path)
        assert told.status == 2
        assert "--states must be a table of 3 rows and columns, got 400 and 3." in told.stderr
        told = call_klazy(
            "replay", str(trace), "--states", str(table), "--domain", "box", folder=tmp_path
        )
        assert (
            "--states is for linear costs or rewards, on the simplex, without a movement"
            in told.stderr
        )
        table.write_text("x,eu,us\n0,3,3\n3,0,1\n3,1,0\n")
        told = call_klazy("replay", str(trace), "--states", str(table), folder=tmp_path)
        assert "--states must have the columns eu, us, ap, got x, eu, us." in told.stderr
