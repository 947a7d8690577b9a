"""States without order: what switching costs, the optimum, rules that are in one state at a time, and their replay."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import klazy as kl
from command import call_klazy
from klazy.contrib import (
    BlockedArms,
    FiniteMetric,
    OneState,
    PlayNext,
    Stay,
    TreeDescent,
    WorkFunction,
    run_ahead,
    sample_actions,
)
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


def pair_metric(n, near=1.0, far=10.0, weight=1.0):
    """Two groups of states, near within and far from each other."""
    group = np.arange(n) % 2
    D = np.where(group[:, None] == group, near, far)
    np.fill_diagonal(D, 0.0)
    return FiniteMetric(weight, D=D)


def charge_the_largest_share(learner, size, T):
    """Every round charges a little where most of the probability is."""
    state = learner.init()
    rows = np.zeros((T, learner.domain.dim))
    for row in rows:
        row[state.x.argmax()] = size
        state = learner.step(state, row)
    return rows


class TestTreeDescent:
    def check(self, learner, costs):
        """Both bounds hold: for who sees costs first, and for a learner."""
        movement = learner.movement
        x0 = np.eye(learner.domain.dim)[0]
        best = kl.offline_optimum(costs, learner.domain, movement, x0=x0)
        ahead = run_ahead(PlayNext(learner), costs, movement=movement, x0=x0).totals.cost
        bound = learner.bound(best.hitting, best.switching)
        assert ahead <= bound + 1e-9
        assert bound <= learner.ratio * best.cost + learner.tree.constant + 1e-9
        played = kl.run(learner, costs, movement=movement, x0=x0, engine="step").totals.cost
        apart = ~np.eye(learner.domain.dim, dtype=bool)
        differ = (costs[:, :, None] - costs[:, None])[:, apart]
        steepness = max(0.0, float((differ / learner.switching[apart]).max()))
        assert played <= learner.bound(best.hitting, best.switching, steepness) + 1e-9
        return ahead / best.cost

    @given(
        seed=seeds,
        n=st.integers(2, 7),
        T=st.integers(1, 60),
        price=st.sampled_from([0.3, 1.0, 3.0]),
        rate=st.sampled_from([0.2, 1.0, 5.0]),
        size=st.sampled_from([0.1, 1.0, 1e6]),
    )
    def test_it_pays_no_more_than_is_proved(self, seed, n, T, price, rate, size):
        learner = TreeDescent(kl.Simplex(n), draw_metric(seed, n, price), rate)
        self.check(learner, size * draw_costs(seed, T, n) + 1e-6)

    @pytest.mark.parametrize("n", [2, 3, 6])
    @pytest.mark.parametrize("rate", [0.3, 1.0])
    def test_nor_against_an_adversary(self, n, rate):
        for movement in (pair_metric(n, 1.0, 1.0), pair_metric(n), draw_metric(5, n)):
            learner = TreeDescent(kl.Simplex(n), movement, rate)
            size = 0.1 * float(learner.switching[learner.switching > 0.0].min())
            T = min(600, int(20 * n * learner.switching.max() / size))
            assert self.check(learner, charge_the_largest_share(learner, size, T)) > 1.3

    @given(
        seed=seeds,
        n=st.integers(2, 9),
        rate=st.sampled_from([0.3, 1.0, 3.0]),
        size=st.sampled_from([0.05, 1.0, 100.0]),
        chosen=st.booleans(),
    )
    def test_both_halves_of_the_proof_hold(self, seed, n, rate, size, chosen):
        """Rounds, with the divergences of all moves, and movement on the tree; both bounds come near."""
        movement = draw_metric(seed, n)
        learner = TreeDescent(kl.Simplex(n), movement, rate)
        tree, kappa = learner.tree, learner.kappa
        costs = size * draw_costs(seed, 150, n)
        if chosen:
            costs = charge_the_largest_share(learner, size, 150)

        def weigh(parts):
            mass = parts.copy()
            for number, cluster in reversed(list(enumerate(tree.clusters, n))):
                mass[cluster.parts] *= mass[number]
            return mass

        state = learner.init()
        charged = moved = 0.0
        for c in costs:
            after = learner.step(state, c)
            mass = weigh(after.parts)
            charged += c @ mass[:n]
            step = np.abs(mass - weigh(state.parts))
            for number, cluster in enumerate(tree.clusters, n):
                p, q = after.parts[cluster.parts], state.parts[cluster.parts]
                delta = cluster.share / cluster.eta
                terms = (p + delta) * np.log((p + delta) / (q + delta)) - p + q
                price = cluster.width / (kappa * cluster.eta)
                charged += mass[number] * float((price * terms).sum())
                moved += cluster.width * float(step[cluster.parts].sum())
            state = after
        best = kl.offline_optimum(costs, kl.Simplex(n), movement, x0=np.eye(n)[0])
        assert charged <= best.hitting + tree.spread / kappa * best.switching + 1e-9
        assert moved <= tree.pull * kappa * charged + tree.constant + 1e-9
        if chosen and size == 0.05:
            assert charged >= 0.2 * best.cost
            assert moved >= 0.1 * tree.pull * kappa * charged

    @pytest.mark.parametrize("movement", [pair_metric(4), draw_metric(3, 5), draw_metric(7, 6)])
    def test_a_switch_adds_to_the_potential_what_is_proved_and_no_less_will_do(self, movement):
        n = len(movement.D)
        learner = TreeDescent(kl.Simplex(n), movement)
        clusters = learner.tree.clusters
        rng = np.random.default_rng(0)
        corners = list(itertools.product(*[np.eye(len(each.parts)) for each in clusters]))
        inner = [
            [rng.dirichlet(np.ones(len(each.parts))) for each in clusters] for _ in range(50)
        ]
        most = 0.0
        for shares in corners + inner:
            potential = np.zeros(n)
            inside = {i: [i] for i in range(n)}
            for number, (cluster, q) in enumerate(zip(clusters, shares, strict=True), n):
                delta = cluster.share / cluster.eta
                for at, part in enumerate(cluster.parts):
                    p = np.eye(len(q))[at]
                    terms = (p + delta) * np.log((p + delta) / (q + delta)) - p + q
                    price = cluster.width / (learner.kappa * cluster.eta)
                    potential[inside[part]] += (price * terms).sum()
                inside[number] = [i for part in cluster.parts for i in inside[part]]
            added = potential - potential[:, None]
            most = max(most, float((added / (movement.D + np.eye(n))).max()))
        assert most == pytest.approx(learner.tree.spread / learner.kappa)

    def test_dear_rounds_that_jump_within_a_cluster_drive_it_out(self):
        movement = pair_metric(4)
        costs = np.zeros((400, 4))
        costs[::2, 0] = costs[1::2, 2] = 1e6
        learner = TreeDescent(kl.Simplex(4), movement)
        trace = run_ahead(PlayNext(learner), costs, movement=movement, x0=np.eye(4)[0])
        assert trace.totals.cost <= learner.bound(0.0, 10.0)
        assert not trace.x[-1, [0, 2]].any()

    @pytest.mark.parametrize("n", [2, 3, 5])
    def test_it_pays_less_than_the_work_function_where_that_has_its_worst_case(self, n):
        for movement in (pair_metric(n, 1.0, 1.0), pair_metric(n)):
            work = WorkFunction(kl.Simplex(n), movement)
            rows = charge_the_largest_share(work, 0.1, 600 * n)
            x0 = np.eye(n)[0]
            best = kl.offline_optimum(rows, kl.Simplex(n), movement, x0=x0).cost
            paid = [
                run_ahead(PlayNext(rule), rows, movement=movement, x0=x0).totals.cost / best
                for rule in (work, TreeDescent(kl.Simplex(n), movement))
            ]
            assert paid[0] > 0.9 * (2 * n - 1)
            assert paid[1] < 0.75 * paid[0]

    @pytest.mark.parametrize("movement", [pair_metric(4), draw_metric(3, 5), draw_metric(7, 6)])
    def test_a_step_minimises_costs_and_divergence_over_the_whole_tree(self, movement):
        import cvxpy as cp

        n = len(movement.D)
        learner = TreeDescent(kl.Simplex(n), movement)
        clusters = learner.tree.clusters
        # Otherwise the tree has nothing to do.
        assert len(clusters) > 1
        rng = np.random.default_rng(0)
        state = learner.init()
        for t in range(6):
            # Every other round is too dear for some states.
            c = 10.0 ** (t % 2) * rng.random(n) * (rng.random(n) < 0.6)
            mass = cp.Variable(n + len(clusters), nonneg=True)
            objective = c @ mass[:n]
            within = [mass[n + len(clusters) - 1] == 1.0]
            for number, cluster in enumerate(clusters, n):
                at = cluster.parts
                within.append(cp.sum(mass[at]) == mass[number])
                for v, eta, delta in zip(at, cluster.eta, cluster.delta, strict=True):
                    q = float(state.parts[v])
                    gone = cp.rel_entr(mass[v] + delta * mass[number], (q + delta) * mass[number])
                    price = cluster.width / (learner.kappa * eta)
                    objective += price * (gone - mass[v] + q * mass[number])
            problem = cp.Problem(cp.Minimize(objective), within)
            problem.solve(solver="CLARABEL")
            state = learner.step(state, c)
            np.testing.assert_allclose(state.x, mass.value[:n], atol=1e-3)
            shares = state.parts.copy()
            for number, cluster in reversed(list(enumerate(clusters, n))):
                shares[cluster.parts] *= shares[number]
            # A solver of cones takes numbers a little below and above zero for zero.
            values = []
            for known in (shares, mass.value):
                mass.value = np.maximum(known, 1e-15)
                values.append(problem.objective.value)
            assert values[0] <= values[1] + 1e-7

    @given(seed=seeds, n=st.integers(1, 12))
    def test_no_way_on_the_tree_is_shorter_than_in_the_table(self, seed, n):
        learner = TreeDescent(kl.Simplex(n), draw_metric(seed, n, 2.0))
        tree = learner.tree
        assert (tree.distances >= learner.switching - 1e-9).all()
        assert 1.0 <= learner.distortion < np.inf
        assert learner.ratio < np.inf
        # Ways, up and down again, from the parts of clusters.
        around = {v: u for u, each in enumerate(tree.clusters, n) for v in each.parts.tolist()}
        for i in range(n):
            for j in range(i):
                up = [[v] for v in (i, j)]
                for way in up:
                    while way[-1] in around:
                        way.append(around[way[-1]])
                apart = set(up[0]) ^ set(up[1])
                length = sum(tree.clusters[around[v] - n].width for v in apart)
                assert length == pytest.approx(tree.distances[i, j])

    def test_equal_distances_and_groups_are_trees_themselves(self):
        for n in (3, 6, 10):
            for movement in (pair_metric(n, 2.0, 2.0), pair_metric(n)):
                learner = TreeDescent(kl.Simplex(n), movement)
                assert learner.distortion == pytest.approx(1.0)
            assert TreeDescent(kl.Simplex(n), pair_metric(n, 1.0, 1.0)).ratio < 2 * n - 1
        with pytest.raises(ValueError, match="movement must charge every switch"):
            TreeDescent(kl.Simplex(3), FiniteMetric(0.0, D=1.0 - np.eye(3)))


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

    def test_switches_cost_on_average_what_the_shares_paid_for_moving(self):
        movement = pair_metric(4, far=20.0)
        rng = np.random.default_rng(0)
        # Shares change within both groups at once, and none need change the group.
        split = rng.dirichlet(np.ones(2), (15, 2))
        x = np.empty((15, 4))
        x[:, ::2] = 0.5 * split[:, 0]
        x[:, 1::2] = 0.5 * split[:, 1]
        advised = kl.contrib.Advice(kl.Simplex(4), x)
        trace = kl.run(advised, np.zeros((15, 4)), movement=movement, x0=x[0], engine="step")
        expected = trace.totals.switching

        def pay(states):
            return float(movement.paid(np.eye(4)[states])[1:].sum())

        drawn = np.array([pay(sample_actions(trace, seed)) for seed in range(100)])
        assert abs(drawn.mean() - expected) < 4.0 * drawn.std() / np.sqrt(len(drawn))
        rounds = [
            kl.run(
                OneState(advised, movement, seed=seed), np.zeros((15, 4)), x0=x[0], engine="step"
            ).x.argmax(axis=1)
            for seed in range(40)
        ]
        paid = np.array([pay(states) for states in rounds])
        assert abs(paid.mean() - expected) < 4.0 * paid.std() / np.sqrt(len(paid))
        share = np.mean([np.eye(4)[states] for states in rounds], axis=0)
        assert np.abs(share - x).max() < 5.0 * np.sqrt(0.25 / 40)
        # As many switches as under total variation, but not across groups.
        from klazy.game.discrete import _draw_actions

        blind = [pay(_draw_actions(x, np.random.default_rng(seed))) for seed in range(30)]
        assert np.mean(blind) > 3.0 * expected

    def test_an_agent_repeats_its_draws_from_the_store(self, tmp_path):
        rows = draw_costs(2, 60, 3)
        movement = draw_metric(3, 3)
        learner = OneState(TreeDescent(kl.Simplex(3), movement), seed=7)
        options = {"columns": ["eu", "us", "ap"], "costs": kl.Linear()}
        with kl.Agent.open(tmp_path / "a.db", learner, **options) as agent:
            for row in rows[:30]:
                assert sorted(agent.decision.values()) == [0.0, 0.0, 1.0]
                agent.observe(row)
            assert "shares" in str(agent.explain())
        with kl.Agent.open(tmp_path / "a.db", learner) as agent:
            for row in rows[30:]:
                agent.observe(row)
            last = agent.x
        told = call_klazy("check", "a.db", folder=tmp_path)
        assert told.status == 0, told.stderr
        trace = kl.run(learner, rows, movement=movement, engine="step")
        np.testing.assert_array_equal(trace.state.x, last)
        assert len(np.unique(trace.x.argmax(axis=1))) > 1
        with pytest.raises(ValueError, match="learner must play on a Simplex"):
            OneState(kl.GD(kl.Box(0, 1), 1.0))


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
            for seed in range(2):
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
