"""run, run_many, Trace and regret as their users see them, and the paper's worked figures."""

import os
import pickle
import pty
import re
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest

import klazy as kl
from cases import evaluated, gradients


def phases(signs, length, d):
    sign = np.repeat(signs, length)[:, None].astype(float)
    return sign * np.ones(d)


class TestWorkedFigures:
    """Switching / dynamic regret / total regret of the paper's examples, as printed digits of exact arithmetic."""

    @pytest.mark.parametrize("engine", ["step", "compiled"])
    @pytest.mark.parametrize(
        ("learner", "expected"),
        [
            (kl.GD(kl.L1Ball(5), kl.Sqrt(8)), (4.0249224, 17.369705, 17.816919)),
            (kl.LazyGD(kl.L1Ball(5), kl.Sqrt(8)), (2.2360680, 538.00439, 536.66275)),
            (kl.KLazyGD(kl.L1Ball(5), kl.Sqrt(8), k=19), (4.0249224, 37.127269, 37.574483)),
            (kl.KLazyFTRL(kl.L1Ball(5), kl.Sqrt(8), k=19), (4.0249224, 37.127269, 37.574483)),
        ],
        ids=["GD", "LazyGD", "k=19", "FTRL k=19"],
    )
    def test_worst_case(self, learner, expected, engine):
        pure = phases([1, -1, 1, -1, 1], 300, 5)
        r = kl.regret(kl.run(learner, pure / 5**0.5, engine=engine), -pure / 5)
        assert (r.switching, r.dynamic, r.total) == pytest.approx(expected, rel=5e-8)

    @pytest.mark.parametrize("engine", ["step", "compiled"])
    def test_example_i_staleness(self, engine):
        cycle = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
        g = np.vstack((np.tile([-1.0, 0.0], (12, 1)), cycle[np.arange(89) % 4]))
        ball, sigma = kl.L1Ball(2), kl.Sqrt(1)
        learners = kl.GD(ball, sigma), kl.LazyGD(ball, sigma), kl.KLazyGD(ball, sigma, k=5)
        switching = [kl.run(learner, g, engine=engine).totals.switching for learner in learners]
        assert switching == pytest.approx([13.902934, 1.0, 13.022456], rel=5e-8)

    @pytest.mark.parametrize("engine", ["step", "compiled"])
    def test_example_ii_stability(self, engine):
        t = np.arange(1, 102)
        g = np.column_stack((-np.ones(101), np.where(t <= 11, 0.0, (-1.0) ** t)))
        learners = kl.GD(kl.L2Ball(2), kl.Sqrt(1)), kl.LazyGD(kl.L2Ball(2), kl.Sqrt(1))
        switching = [kl.run(learner, g, engine=engine).totals.switching for learner in learners]
        assert switching == pytest.approx([13.256014, 3.2043577], rel=5e-8)

    @pytest.mark.parametrize("k", [2, 5, 8])
    def test_lower_bound_square_wave(self, k):
        """On [-1, 1] a wave of period k costs k-lazyGD A k_e + floor(T/k) m against A active blocks, exactly."""
        T, s, even = 40, 3.0, k - k % 2
        blocks = T // k
        wave = np.concatenate((np.ones(even // 2), -np.ones(even // 2), np.zeros(k % 2)))
        g = np.concatenate((np.tile(wave, blocks), np.zeros(T - blocks * k)))[:, None]
        u = -g.copy()
        for t in range(T):  # a zero cost is no reason to move
            u[t] = u[t] if g[t, 0] else u[t - 1]
        r = kl.regret(kl.run(kl.KLazyGD(kl.Box(-1, 1), s, k=k), g), u)
        assert r.dynamic == pytest.approx(blocks * even + blocks * min(1.0, even / (2 * s)))
        assert r.path_length == 2 * (2 * blocks - 1)


@pytest.fixture(scope="module")
def trace():
    return kl.run(kl.KLazyGD(kl.Simplex(3), 2.0, k=4), gradients(0, 50, 3), movement="l2")


class TestTrace:
    def test_knows_its_learner_and_engine_and_prints_a_table(self, trace):
        assert evaluated(trace.learner) == kl.KLazyGD(kl.Simplex(3), 2.0, k=4)
        lines = str(trace).splitlines()
        assert lines[0] == trace.learner
        assert lines[1] == "50 rounds in R^3, L2Movement(), engine: compiled"
        assert [line.split()[0] for line in lines[4:7]] == ["hitting", "switching", "cost"]
        assert "cost=" in repr(trace)

    def test_makes_no_text_of_its_learner_before_it_is_asked_for(self, monkeypatch):
        """The text of an ensemble takes longer than a short run."""
        asked = []
        monkeypatch.setattr(kl.GD, "__repr__", lambda learner: asked.append(learner) or "mine")
        learner = kl.GD(kl.L2Ball(2), 1.0)
        trace = kl.run(learner, np.ones((3, 2)), engine="step")
        assert not asked
        assert (trace.learner, asked) == ("mine", [learner])

    def test_is_pickled_with_its_learner(self, trace, tmp_path):
        trace.save(tmp_path / "trace.npz")
        for one in (trace, kl.types.Trace.load(tmp_path / "trace.npz")):
            back = pickle.loads(pickle.dumps(one))
            assert (back.learner, back.source) == (trace.learner, one.source)
            assert np.array_equal(back.x, trace.x)

    def test_adds_up(self, trace):
        t = trace
        assert t.totals.cost == pytest.approx(t.hitting.sum() + t.switching.sum())
        assert t.switching[0] == 0.0
        np.testing.assert_allclose(
            t.switching[1:], np.linalg.norm(np.diff(t.x, axis=0), axis=1), atol=1e-14
        )

    def test_first_round_pays_only_for_leaving_a_given_x0(self):
        learner, g = kl.GD(kl.L2Ball(2), 1.0), np.ones((3, 2))
        trace = kl.run(learner, g, x0=[3.0, 4.0], movement=kl.L2Movement(2.0))
        assert trace.switching[0] == 10.0

    def test_converts_to_a_data_frame(self, trace):
        frame = trace.to_frame()
        assert frame.columns == ["t", "hitting", "switching", "x_1", "x_2", "x_3"]
        assert frame["t"].to_list() == list(range(1, 51))
        np.testing.assert_array_equal(frame["x_2"].to_numpy(), trace.x[:, 1])

    def test_says_what_was_not_recorded(self):
        lean = kl.run(kl.GD(kl.L2Ball(1), 1.0), np.ones((3, 1)), engine="step", record="totals")
        with pytest.raises(
            AttributeError,
            match=r"Trace\.hitting needs record='costs', got record='totals'; run it again so",
        ):
            lean.to_frame()
        with pytest.raises(
            AttributeError, match=r"Trace\.x needs record='actions', got record='totals'"
        ):
            _ = lean.x

    @pytest.mark.parametrize("record", ["actions", "costs", "totals"])
    def test_saves_and_loads(self, record, tmp_path):
        g = gradients(1, 50, 3)
        trace = kl.run(
            kl.GD(kl.Simplex(3), kl.Sqrt(2)),
            g,
            record=record,
            movement=kl.L1Movement(3.0),
            x0=np.zeros(3),
        )
        trace.save(tmp_path / "trace.npz")
        back = kl.types.Trace.load(tmp_path / "trace.npz")
        assert (back.learner, back.engine, back.totals, back.movement, back.record, back.T) == (
            trace.learner, trace.engine, trace.totals, trace.movement, trace.record, trace.T,
        )  # fmt: skip
        assert back.kept.keys() == trace.kept.keys()
        assert all(np.array_equal(back.kept[name], trace.kept[name]) for name in trace.kept)
        assert back.x0 is not None
        assert back.x0.tolist() == [0.0, 0.0, 0.0]
        u = kl.Simplex(3).start
        assert kl.regret(back, u, costs=g).total == kl.regret(trace, u).total
        with pytest.raises(
            ValueError,
            match=r"A trace from a file does not have its costs. Give them: regret\(trace, u, costs=costs\)",
        ):
            kl.regret(back, u)


class TestRegret:
    def test_totals_are_the_ends_of_the_curves(self):
        g = gradients(3, 60, 5)
        u = kl.L2Ball(5).argmin_linear(g)
        r = kl.regret(kl.run(kl.GD(kl.L2Ball(5), 3.0), g, movement=kl.L1Movement(0.5)), u)
        assert r.curves is not None
        for name in ("dynamic", "switching", "total", "path_length", "comparator_switching"):
            assert getattr(r.curves, name)[-1] == pytest.approx(getattr(r, name))
        assert r.path_length == pytest.approx(np.linalg.norm(np.diff(u, axis=0), axis=1).sum())
        assert r.total == pytest.approx(r.dynamic + r.switching - r.comparator_switching)
        assert str(r).splitlines()[4].split()[0] == "total"

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("u", [np.zeros(3), 0.5 * np.ones(3)], ids=["zeros", "halves"])
    def test_costs_and_comparators_that_are_not_finite_are_refused_where_they_stand(
        self, u, value
    ):
        trace = kl.run(kl.GD(kl.L2Ball(3), 1.0), np.ones((4, 3)))
        spoilt = np.ones((4, 3))
        spoilt[2, 1] = value
        with pytest.raises(
            ValueError, match=re.escape(f"g[2, 1] must be a finite number, got {value}.")
        ):
            kl.regret(trace, u, costs=spoilt)
        with pytest.raises(
            ValueError, match=re.escape(f"u[2, 1] must be a finite number, got {value}.")
        ):
            kl.regret(trace, spoilt)
        with pytest.raises(
            ValueError, match=re.escape(f"u[1] must be a finite number, got {value}.")
        ):
            kl.regret(trace, spoilt[2])

    def test_an_optimum_is_a_comparator_as_its_points_are(self):
        costs = gradients(0, 20, 3)
        trace = kl.run(kl.GD(kl.L2Ball(3), 2.0), costs, engine="step")
        best = kl.offline_optimum(costs, kl.L2Ball(3), trace.movement)
        fixed = kl.best_fixed(costs, kl.L2Ball(3))
        for found, points in ((best, best.u), (fixed, fixed.x)):
            assert str(kl.regret(trace, found)) == str(kl.regret(trace, points))
        assert kl.regret(trace, best).total == pytest.approx(trace.totals.cost - best.cost)

    def test_a_run_has_no_regret_against_itself(self):
        trace = kl.run(kl.GD(kl.L2Ball(3), 1.0), gradients(1, 40, 3))
        assert kl.regret(trace, trace.x).total == pytest.approx(0.0, abs=1e-12)

    def test_totals_only_give_totals_only(self):
        g = gradients(1, 40, 3)
        learner = kl.GD(kl.L2Ball(3), 1.0)
        lean, full = (
            kl.regret(kl.run(learner, g, record=r), np.zeros(3)) for r in ("totals", "actions")
        )
        assert lean.curves is None
        assert lean.total == pytest.approx(full.total)


class TestRunMany:
    def test_many_learners_on_one_sequence(self):
        g = gradients(0, 200, 5)
        learners = [kl.KLazyGD(kl.L2Ball(5), kl.Sqrt(8), k=k) for k in (1, 5, 50)]
        for learner, trace in zip(
            learners, kl.run_many(learners, g, record="costs"), strict=True
        ):
            alone = kl.run(learner, g, record="costs")
            assert trace.learner == repr(learner)
            assert np.array_equal(trace.hitting, alone.hitting)
            assert "x" not in trace.kept

    def test_one_learner_on_many_sequences(self):
        g = np.stack([gradients(seed, 100, 5) for seed in range(4)])
        learner = kl.GD(kl.L1Ball(5), 3.0)
        alone = [kl.run(learner, one).totals for one in g]
        for many in (g, list(g), [kl.contrib.LinearCosts(one) for one in g]):
            assert [trace.totals for trace in kl.run_many(learner, many, jobs=2)] == alone

    def test_runs_without_a_kernel_are_processes(self):
        learner = kl.GD(kl.L2Ball(2), 1.0)
        where = kl.CallableCosts(2, 2, lambda t, x: float(os.getpid()), lambda t, x: [1.0, 0.0])
        traces = kl.run_many(learner, [where, where, where], jobs=2)
        assert os.getpid() not in {int(trace.hitting[0]) for trace in traces}
        assert all(trace.costs is where and trace.engine == "step" for trace in traces)
        g = gradients(0, 30, 2)
        slow, fast = kl.run_many([learner], g, engine="step")[0], kl.run_many([learner], g)[0]
        np.testing.assert_allclose(slow.x, fast.x, atol=1e-12)
        assert (slow.engine, fast.engine) == ("step", "compiled")
        assert slow.learner == fast.learner == repr(learner)

    def test_both_or_neither_is_refused(self):
        learner, g = kl.GD(kl.L2Ball(2), 1.0), np.ones((3, 2))
        with pytest.raises(
            ValueError,
            match=r"learners and costs must not both be lists. Use run_batch, or loop over one of them.",
        ):
            kl.run_many([learner], [g, g])
        with pytest.raises(
            ValueError,
            match=r"learners or costs must be a list. Use run for one learner and one sequence.",
        ):
            kl.run_many(learner, g)


def test_functions_of_the_user_may_reuse_their_arrays():
    """A subgradient kept in one buffer, and a value that spoils its x, change nothing that was recorded."""
    g, buffer = gradients(0, 20, 3), np.empty(3)

    def value(t, x):
        result = float(g[t - 1] @ x)
        x[:] = 9.0
        return result

    def subgradient(t, x):
        buffer[:] = g[t - 1]
        return buffer

    learner = kl.KLazyGD(kl.L2Ball(3), 1.0, k=5)
    trace = kl.run(learner, kl.CallableCosts(20, 3, value, subgradient))
    assert np.array_equal(trace.x, kl.run(learner, g, engine="step").x)


def test_a_comparator_leaves_the_given_x0_too():
    trace = kl.run(kl.GD(kl.L2Ball(2), 1.0), np.ones((3, 2)), x0=[1.0, 0.0])
    r = kl.regret(trace, [0.0, 0.0])
    assert (r.comparator_switching, r.path_length) == (1.0, 0.0)


def test_costs_without_a_finite_value_stop_the_run_at_their_round():
    costs = kl.LogWealthCosts([[1.0, 1.0], [5.0, 1.0], [1.0, 1.0]])
    for engine in ("compiled", "step"):
        with pytest.raises(
            ValueError,
            match=r"Costs must be finite on the set, but LogWealthCosts\(T=3, dim=2\) are not at x_2, in round 2.",
        ):
            kl.run(
                kl.GD(kl.Box([-1, -1], [-0.5, 1]), 0.1, start=[-0.5, 1.0]), costs, engine=engine
            )


def make_frames():
    import pandas as pd
    import polars as pl

    data = {"eu": [1.0, 0.0, 2.0], "t": [0.0, 3.0, 1.0], "_us": [0.5, 0.5, 0.5]}
    return {"pandas": pd.DataFrame(data), "polars": pl.DataFrame(data)}


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize(
    "domain", [kl.Simplex(3), kl.Box([0.0] * 3, [9.0] * 3)], ids=["areas", "lines"]
)
def test_the_columns_of_a_frame_keep_their_names(kind, domain, tmp_path):
    frame = make_frames()[kind]
    costs = kl.QuadraticCosts(frame)
    trace = kl.run(kl.GD(domain, 2.0), costs, engine="step")
    trace.save(tmp_path / "trace.npz")
    loaded = kl.types.Trace.load(tmp_path / "trace.npz")
    best = kl.offline_optimum(costs.window(1, 2), domain)
    for each in (trace, loaded, kl.run(kl.GD(domain, 2.0), frame, engine="step"), best):
        assert each.columns == ("eu", "t", "_us")
        _, labels = each.plot().axes[-1].get_legend_handles_labels()
        assert labels == ["eu", "t", " _us"]
    assert loaded.to_frame().columns == ["t", "hitting", "switching", "eu", "x_t", "_us"]
    assert (loaded.to_frame()["x_t"].to_numpy() == trace.x[:, 1]).all()


def test_costs_without_names_have_none():
    trace = kl.run(kl.GD(kl.Simplex(3), 2.0), np.eye(3), engine="step")
    assert trace.columns is None
    assert trace.to_frame().columns[3:] == ["x_1", "x_2", "x_3"]


COMPILING = """
import numpy as np, klazy as kl
from klazy.base import progress
progress.FIRST_SECONDS = 0.0
print(kl.run(kl.GD(kl.L2Ball(3), 2.0), np.ones((20_000, 3)), engine="compiled").totals.cost)
"""
INTERRUPTED = """
import os, signal, threading, time
from klazy.base.parallel import map_threads
from klazy.kernels import binding

load = binding._KernelCache.load_overload

def interrupt(self, *about):
    found = load(self, *about)
    os.kill(os.getpid(), signal.SIGINT)
    binding._KernelCache.load_overload = load
    return found

signal.siginterrupt(signal.SIGINT, False)  # as polars has it: a wait without a limit goes on after a signal
binding._KernelCache.load_overload = interrupt
try:
    exec(COMPILING)
except KeyboardInterrupt:
    print("stopped")
exec(COMPILING)
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    map_threads(time.sleep, [60.0, 60.0, 60.0], 2)
except KeyboardInterrupt:
    print("stopped")
"""


def read_terminal(command, environment):
    """Run a command on a terminal, and return what it wrote there."""
    terminal, theirs = pty.openpty()
    process = subprocess.Popen(
        command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    written = b""
    with suppress(OSError):  # the end
        while piece := os.read(terminal, 4096):
            written += piece
    os.close(terminal)
    assert process.wait() == 0
    return written.decode()


def test_whoever_waits_for_a_kernel_is_told_so_once_on_a_terminal_and_nobody_in_a_pipe(tmp_path):
    command = [sys.executable, "-c", COMPILING]
    words = "compiling gd for L2Ball, about 1 s, once"
    first = os.environ | {"KLAZY_CACHE_DIR": str(tmp_path / "first")}
    second = os.environ | {"KLAZY_CACHE_DIR": str(tmp_path / "second"), "COLUMNS": "80"}
    piped = subprocess.run(command, env=first, capture_output=True, text=True, check=True)
    assert piped.stderr == ""
    shown = read_terminal(command, second)
    assert words in shown
    assert shown.endswith(f"\x1b[K{piped.stdout.strip()}\r\n")  # the line is gone
    assert words not in read_terminal(command, second)


def test_ctrl_c_ends_a_call_while_it_compiles_or_waits_for_threads_and_the_next_one_works(
    tmp_path,
):
    script = f"COMPILING = {COMPILING!r}\n{INTERRUPTED}"
    environment = os.environ | {"KLAZY_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    first, cost, last = ended.stdout.split()
    assert (first, last, ended.stderr) == ("stopped", "stopped", "")
    assert float(cost) == pytest.approx(
        kl.run(kl.GD(kl.L2Ball(3), 2.0), np.ones((20_000, 3))).totals.cost
    )


LATER = """
import sys
import numpy as np
import klazy as kl

runs = [kl.GD(kl.Simplex(2), 1.0)] * 4
kl.run_many(runs, np.ones((50, 2)), engine="step", jobs=2)
sys.path.insert(0, sys.argv[1])
import later
traces = kl.run_many(runs, np.ones((50, 2)), movement=later.Longest(), engine="step", jobs=2)
print(traces[0].totals.cost)
"""


def test_workers_of_many_runs_find_a_module_whose_folder_was_added_later(tmp_path):
    (tmp_path / "later.py").write_text(
        "import numpy as np\nimport klazy as kl\n\n\nclass Longest(kl.types.Movement):\n"
        "    def distance(self, delta):\n        return np.abs(delta).max(axis=-1)\n"
    )
    command = [sys.executable, "-c", LATER, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "50.0\n"
