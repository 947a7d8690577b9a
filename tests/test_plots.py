"""What is shown: figures of a trace, a certificate, a diagnosis, one step and the paper; a trace's table; experts."""

import ast
import importlib
import inspect
import io
import pkgutil
import re
import sys
from itertools import accumulate, pairwise
from pathlib import Path
from typing import ClassVar

import matplotlib
import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation

import klazy as kl
from cases import TRIANGLE
from klazy import show
from klazy.sequences import alternating, rotating, square_wave, stochastic
from klazy.show.style import make_sheet
from klazy.studies.replay import replay_jobs
from klazy.theory import step_picture
from klazy.theory.geometry import normal_cone, outline
from klazy.theory.resonance import Resonance
from test_arena import make_arena


def noise(seed, T, d):
    return np.random.default_rng(seed).normal(size=(T, d))


def ensemble(n, domain):
    return kl.SAder(
        [kl.GD(domain, sigma) for sigma in np.geomspace(0.5, 50.0, n)], prior="uniform"
    )


def areas(ax):
    """The lowest and the highest point of each stacked area."""
    outlines = [area.get_paths()[0].get_extents() for area in ax.collections]
    return [outline.y0 for outline in outlines], [outline.y1 for outline in outlines]


def curves(ax):
    """The labelled lines, as arrays of rows (round, value)."""
    return {str(line.get_label()): np.asarray(line.get_xydata()) for line in ax.lines}


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def lazy(domain, g, k=7, sigma=5.0):
    return kl.run(kl.KLazyGD(domain, sigma, k=k), g, engine="step")


SWEPT = kl.Study(
    scenarios=[{"recipe": "phases_of_length", "length": 5, "T": 20}],
    learners=[{"rule": "KLazyGD", "sigma": 2.0, "k": [1, 5]}],
    metrics=["cost"],
)
EXPERTS = kl.run(ensemble(12, kl.L2Ball(3)), noise(0, 60, 3), record="experts", engine="step")


class TestPlot:
    @pytest.mark.parametrize(("record", "panels"), [("costs", 1), ("actions", 2), ("experts", 3)])
    def test_shows_as_many_panels_as_were_recorded(self, record, panels):
        trace = kl.run(ensemble(2, kl.Simplex(3)), noise(0, 20, 3), record=record, engine="step")
        axes = trace.plot().axes
        words = ["cost so far", "decision", "weights of the experts"]
        assert [ax.get_ylabel() for ax in axes] == words[:panels]
        assert axes[-1].get_xlabel() == "round"

    def test_says_what_was_not_recorded(self):
        lean = kl.run(kl.GD(kl.L2Ball(1), 1.0), np.ones((3, 1)), record="totals", engine="step")
        with pytest.raises(
            AttributeError, match=r"Trace\.hitting needs record='costs', got record='totals'"
        ):
            lean.plot()

    @pytest.mark.parametrize(("T", "d"), [(1, 1), (1, 14), (2, 8), (40, 7)])
    @pytest.mark.parametrize("family", [kl.Simplex, kl.L2Ball])
    def test_draws_any_run_without_complaint(self, family, T, d):
        trace = kl.run(kl.GD(family(d), 1.0), noise(0, T, d), engine="step")
        trace.plot().draw_without_rendering()

    @pytest.mark.parametrize("T", [1, 7, 2000, 2001, 9000])
    def test_draws_at_most_2000_rounds_and_ends_at_the_totals(self, T):
        trace = kl.run(kl.GD(kl.L2Ball(2), 5.0), noise(0, T, 2), engine="step")
        lines = curves(trace.plot().axes[0])
        for name, total in zip(
            ("hitting", "switching", "cost"), (*trace.totals, trace.totals.cost), strict=True
        ):
            assert len(lines[name]) == min(T, 2000)
            assert lines[name][[0, -1], 0].tolist() == [1, T]
            assert lines[name][-1, 1] == pytest.approx(total)

    def test_stacks_shares_of_one_total_and_draws_other_points_as_lines(self):
        g = noise(0, 30, 3)
        shares, free = (
            kl.run(kl.GD(domain, 2.0), g, engine="step")
            for domain in (kl.Simplex(3, 2.5), kl.Box([0.1] * 3, [1] * 3))
        )
        panel = shares.plot().axes[1]
        assert not panel.lines
        assert panel.get_ylim() == pytest.approx((0.0, 2.5))
        assert legend(panel) == ["$x_{3}$", "$x_{2}$", "$x_{1}$"]
        panel = free.plot().axes[1]
        assert not panel.collections
        for i, line in enumerate(panel.lines):
            assert np.array_equal(line.get_ydata(), free.x[:, i])

    def test_says_how_many_of_many_coordinates_it_draws(self):
        panel = kl.run(kl.GD(kl.L2Ball(12), 2.0), noise(0, 30, 12), engine="step").plot().axes[1]
        assert (len(panel.lines), panel.get_title()) == (10, "the first 10 of 12 coordinates")

    def test_names_the_weightiest_experts_and_heaps_the_others(self):
        panel = EXPERTS.plot().axes[2]
        names = legend(panel)
        numbers = [int(name.removeprefix("expert ")) for name in names[1:]]
        assert names[0] == "others"
        assert numbers == sorted(numbers, reverse=True)
        assert len(numbers) == 7
        assert int(EXPERTS.weights.mean(axis=0).argmax()) in numbers
        led = np.bincount(EXPERTS.weights.argmax(axis=1))
        assert int(led.argmax()) in numbers
        named = EXPERTS.weights[:, numbers].sum(axis=1)
        assert (areas(panel)[0][-1], areas(panel)[1][-1]) == pytest.approx((named.min(), 1.0))

    def test_each_area_lies_on_those_of_the_experts_before_it(self):
        few = kl.run(ensemble(3, kl.L2Ball(2)), noise(1, 50, 2), record="experts", engine="step")
        tops = np.cumsum(few.weights, axis=1)
        low, high = areas(few.plot().axes[2])
        np.testing.assert_allclose(high, tops.max(axis=0))
        np.testing.assert_allclose(low, np.concatenate(([0.0], tops[:, :-1].min(axis=0))))


SHORT = lazy(kl.L2Ball(2), noise(0, 9, 2))
LINE, CORNERS = np.arange(1.0, 6.0), np.array([[-5.0, -5.0], [5.0, 5.0]])
LOOKS = show.choose_looks(["GD"])
WALKS = pl.DataFrame(
    {"date": np.arange(9).astype("datetime64[D]"), "a": 9.0 + np.arange(9), "b": 9.0}
)
FIGURES = {
    "Trace.plot": lambda: EXPERTS.plot(),
    "Regret.plot": lambda: kl.regret(SHORT, [0.0, 0.0]).plot(),
    "Certificate.plot": lambda: kl.theory.certify(SHORT, [0.0, 0.0]).plot(),
    "Diagnosis.plot": lambda: SHORT.diagnose().plot(),
    "Optimum.plot": lambda: kl.offline_optimum([[1.0], [-1.0]], kl.Box(-1, 1)).plot(),
    "Frontier.plot": lambda: kl.types.Frontier(LINE, -LINE, LINE, -LINE).plot({"GD": (2.0, 3.0)}),
    "Report.plot": lambda: kl.replay(noise(0, 40, 5)).plot(),
    "JobsReport.plot": lambda: replay_jobs(np.tile([1.0, 3.0, 2.0], 40), 1, 3, every=1).plot(),
    "Resonance.plot": lambda: Resonance(np.array([10, 30, 20]), LINE[:3], LINE[:3]).plot(),
    "Arena.plot": lambda: make_arena([[3.0, 1.0, 2.0], [2.0, 3.0, 1.0]]).plot(),
    "SweepRuns.plot": lambda: kl.types.SweepRuns(kl.sweep(SWEPT, jobs=1).rows, "cost").plot("k"),
    "Backtest.plot": lambda: kl.portfolio.backtest(prices=WALKS, learners={}).plot("drawdown"),
    "step_picture": lambda: step_picture(kl.GD(kl.L2Ball(2), 1.0), noise(0, 9, 2), 5),
    "draw_bars": lambda: show.draw_bars({"one": {"GD": 1.0}}, "cost"),
    "draw_certificate": lambda: show.draw_certificate(
        LINE, LINE, LINE, dict.fromkeys("abc", LINE)
    ),
    "draw_curves": lambda: show.draw_curves({"GD": LINE}, "cost"),
    "draw_cumulative": lambda: show.draw_cumulative(LINE, {"GD": LINE}, LOOKS, "row", "paid"),
    "draw_periods": lambda: show.draw_periods(
        ["a", "b"], {"GD": LINE[:2]}, LOOKS, "month", "cost"
    ),
    "draw_prices": lambda: show.draw_prices(LINE, {"cost": {"GD": LINE}}, ["GD"] * 5, LOOKS),
    "draw_decisions": lambda: show.draw_decisions(
        LINE, {"GD": noise(0, 5, 2)}, ["a", "b"], shares=False
    ),
    "draw_run": lambda: show.draw_run(LINE, LINE),
    "draw_greedy_and_lazy": lambda: two_steps(),
    "draw_heat": lambda: show.draw_heat(
        {"": show.Heat([1.0, 2.0], [1.0, 2.0], noise(0, 2, 2))}, "x", "y", "cost"
    ),
    "draw_matrix": lambda: show.draw_matrix(
        1.0 + noise(0, 3, 2) ** 2, ["GD", "auto"], ["a", "a", "b"], "ratio"
    ),
    "draw_movement": lambda: show.draw_movement(LINE, LINE, {"greedy": LINE}),
    "draw_panels": lambda: show.draw_panels(
        {"one": show.Lines(LINE, {"GD": LINE}, {}, {}, {})}, "k", "cost"
    ),
    "draw_pareto": lambda: show.draw_pareto({"GD": 1.0}, {"GD": 2.0}),
    "draw_experts": lambda: show.draw_experts([4.0, 2.0], [8, 4], np.array([0.3, 0.7]), 11),
    "draw_phases": lambda: show.draw_phases(2, 5),
    "draw_points": lambda: show.draw_points(noise(0, 5, 2)),
    "draw_ranks": lambda: show.draw_ranks({"GD": 1.2, "auto": 2.0, "fixed": 2.8}, 1.0),
    "draw_ratios": lambda: show.draw_ratios(
        {"GD": (2.0, 1.5, 3.0), "auto": (0.9, 0.8, 1.0)}, "ratio", ["auto"]
    ),
    "draw_sequence": lambda: show.draw_sequence(np.ones(4), np.ones(4)),
    "draw_shares": lambda: show.draw_shares(
        LINE, np.full((5, 9), 1.0 / 9.0), list("abcdefghi"), "all"
    ),
    "draw_snapshots": lambda: show.draw_snapshots(outline(kl.L1Ball(2)), {"GD": noise(0, 3, 2)}),
    "draw_step": lambda: show.draw_step(
        outline(kl.L2Ball(2)), noise(0, 4, 2), LINE[:2], LINE[2:4], LINE[:0, None], CORNERS
    ),
    "draw_lines": lambda: show.draw_lines(LINE, {"GD": LINE}, "k", "cost", log="xy"),
    "draw_wave": lambda: show.draw_wave(*np.zeros((4, 8)), k=4),
    "make_sheet": lambda: make_sheet(2.0),
}


def drawing():
    """The public functions and methods of klazy that say they return a figure, by name."""
    for about in pkgutil.walk_packages(kl.__path__, "klazy."):
        for holder in (module := importlib.import_module(about.name), *vars(module).values()):
            if holder is module or (
                inspect.isclass(holder) and holder.__module__ == module.__name__
            ):
                for name, member in vars(holder).items():
                    told = (
                        inspect.isfunction(member)
                        and member.__module__ == module.__name__
                        and not name.startswith("_")
                    )
                    if told and member.__annotations__.get("return") in ("Figure", "show.Figure"):
                        yield member.__qualname__


def test_every_function_that_draws_has_an_example():
    assert set(drawing()) == set(FIGURES)


def test_no_figure_uses_pyplot_or_a_display(monkeypatch):
    """An import of pyplot, which is what looks for a display, would fail here."""
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.delattr(matplotlib, "pyplot", raising=False)
    with pytest.raises(ImportError):
        importlib.import_module("matplotlib.pyplot")
    assert all(isinstance(draw(), Figure) for draw in FIGURES.values())


def test_no_source_imports_pyplot_or_shows_a_figure():
    """Those of plt and of figures take no arguments; agents show records."""
    for file in sorted(Path(str(kl.__file__)).parent.rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        if not re.search("pyplot|pylab|show", source):
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                named = [
                    getattr(node, "module", None) or "",
                    *(alias.name for alias in node.names),
                ]
                assert not any("pyplot" in name or "pylab" in name for name in named), file
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                assert node.func.attr != "show" or node.args, (file, node.lineno)


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_every_figure_says_that_matplotlib_is_missing(draw, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.delitem(sys.modules, "klazy.show.notebook", raising=False)
    with pytest.raises(
        ImportError,
        match=r"plot needs matplotlib, which is not installed. Run: pip install ",
    ):
        draw()


def test_the_worst_phase_length_is_marked_on_lengths_in_any_order():
    (ax,) = Resonance(np.array([30, 10, 20]), np.array([3.0, 1.0, 5.0]), np.ones(3)).plot().axes
    lazily, greedily, mark = (np.asarray(line.get_xydata()).tolist() for line in ax.lines)
    assert lazily == [[10, 1], [20, 5], [30, 3]]
    assert greedily == [[10, 1], [20, 1], [30, 1]]
    assert mark == [[20, 5]]


def test_regret_is_drawn_up_to_its_numbers_and_only_where_it_was_kept():
    found = kl.regret(SHORT, [0.1, 0.2])
    drawn = curves(found.plot().axes[0])
    assert {name: line[-1].tolist() for name, line in drawn.items()} == {
        name: [9.0, pytest.approx(getattr(found, name))]
        for name in ("dynamic", "switching", "total")
    }
    lean = kl.run(kl.GD(kl.L2Ball(2), 1.0), noise(0, 9, 2), record="totals", engine="step")
    with pytest.raises(
        ValueError,
        match=r"The run has totals only. Run it with record='costs' to plot its regret.",
    ):
        kl.regret(lean, [0.0, 0.0]).plot()


def test_an_optimum_is_drawn_as_what_it_plays():
    found = kl.offline_optimum(noise(0, 30, 3), kl.L2Ball(3), kl.L2Movement(0.3))
    for i, line in enumerate(found.plot().axes[0].lines):
        np.testing.assert_array_equal(line.get_ydata(), found.u[:, i])


class TestCertificate:
    @pytest.mark.parametrize("T", [1, 40, 2500])
    def test_the_curves_drawn_are_the_certificates(self, T):
        domain, g = kl.L2Ball(3), noise(0, T, 3)
        certificate = kl.theory.certify(lazy(domain, g), domain.argmin_linear(g))
        above, below = certificate.plot().axes
        named = {
            "regret": certificate.regret,
            "realised certificate": certificate.realised,
            "Theorem 5": certificate.worst_case,
        }
        for ax, wanted in ((above, named), (below, certificate.terms)):
            drawn = curves(ax)
            assert set(drawn) == set(wanted) == set(legend(ax))
            for name, values in wanted.items():
                t = drawn[name][:, 0].astype(int)
                assert (t[0], t[-1], len(t)) == (1, T, min(T, 2000))
                assert np.array_equal(drawn[name][:, 1], values[t - 1])

    def test_the_scale_is_linear_unless_the_bound_dwarfs_the_regret(self):
        T = np.arange(1.0, 50.0)

        def draw(regret, bound):
            return show.draw_certificate(
                regret, regret + 1.0, bound, dict.fromkeys("abc", T)
            ).axes[0]

        assert draw(T, 5.0 * T).get_yscale() == draw(-T, 5.0 * T).get_yscale() == "linear"
        ax = draw(-T, 200.0 * T)
        assert ax.get_yscale() == "symlog"
        low, zero, high = ax.transData.transform([[1.0, -49.0], [1.0, 0.0], [1.0, 200.0 * 49.0]])[
            :, 1
        ]
        assert zero - low > 0.1 * (high - low)  # negative regret is there to be seen

    @pytest.mark.parametrize("rate", [1.0, -1.0])
    def test_the_names_of_the_terms_stand_where_no_curve_is(self, rate):
        T = np.arange(1.0, 50.0)
        made = show.draw_certificate(
            T,
            T,
            T,
            {
                name: factor * rate * T
                for name, factor in zip("abc", (1.0, 2.0, 0.1), strict=True)
            },
        )
        made.draw_without_rendering()
        ax = made.axes[1]
        box = ax.get_legend().get_window_extent()  # pyright: ignore[reportOptionalMemberAccess]
        assert not any(
            box.contains(*point)
            for curve in curves(ax).values()
            for point in ax.transData.transform(curve)
        )

    @pytest.mark.parametrize("T", [1, 2, 30])
    @pytest.mark.parametrize("scale", [0.0, 1.0])
    def test_draws_any_run_without_complaint(self, T, scale):
        trace = lazy(kl.L2Ball(2), scale * noise(0, T, 2))
        kl.theory.certify(trace, [0.5, 0.0]).plot().draw_without_rendering()
        trace.diagnose().plot().draw_without_rendering()


class TestDiagnosis:
    @pytest.mark.parametrize("T", [1, 300, 2500])
    def test_the_dots_drawn_are_the_diagnosis(self, T):
        costs = stochastic(0, phases=1, length=T).costs
        diagnosis = kl.run(
            kl.KLazyGD(kl.L2Ball(5), kl.Sqrt(6.0), k=65), costs, engine="step"
        ).diagnose()
        (ax,) = diagnosis.plot().axes
        drawn, bounds = curves(ax), ("greedy", "stability", "variance")[: 1 if T == 1 else 3]
        assert set(drawn) == {"moved", *bounds} == set(legend(ax))
        for name in drawn:
            t = drawn[name][:, 0].astype(int)
            assert (t[0], t[-1], len(t)) == (1, T, min(T, 2000))
            values = getattr(diagnosis, name if name == "moved" else f"{name}_bound")
            assert np.array_equal(drawn[name][:, 1], values[t - 1], equal_nan=True)
        assert ax.get_yscale() == "log"

    @pytest.mark.parametrize(
        ("learner", "bounds"),
        [
            (kl.GD(kl.L2Ball(2), 2.0), ("greedy",)),
            (kl.KLazyGD(kl.L1Ball(2), 2.0, k=5), ("greedy", "variance")),
            (kl.KLazyGD(kl.L2Ball(2), 2.0, k=5), ("greedy", "stability", "variance")),
        ],
        ids=repr,
    )
    def test_a_bound_that_is_nan_everywhere_is_not_drawn(self, learner, bounds):
        diagnosis = kl.run(learner, noise(0, 50, 2) + 1.0, engine="step").diagnose()
        assert {
            name for name in legend(diagnosis.plot().axes[0]) if name not in ("moved", "stale")
        } == set(bounds)

    def test_a_bound_in_every_second_round_is_seen(self):
        """With k=2 no two neighbours have one: a line without dots would be empty."""
        ax = lazy(kl.L2Ball(2), noise(0, 40, 2) + 2.0, k=2).diagnose().plot().axes[0]
        line = next(line for line in ax.lines if line.get_label() == "variance")
        assert np.isfinite(np.asarray(line.get_ydata(), dtype=float)).sum() == 20
        assert line.get_marker() == "."

    def test_ticks_mark_where_it_stood_still(self):
        diagnosis = lazy(kl.L1Ball(2), alternating().costs.data, k=5, sigma=10.0).diagnose()
        ticks = curves(diagnosis.plot().axes[0])["stale"]
        assert 0 < len(ticks) < len(diagnosis.moved)
        assert np.array_equal(ticks[:, 0], np.flatnonzero(diagnosis.stale) + 1)
        moving = lazy(kl.L2Ball(2), noise(0, 30, 2)).diagnose()
        assert "stale" not in legend(moving.plot().axes[0])

    def test_rounding_does_not_stretch_the_axis(self):
        moved = np.array([0.1, 1e-17, 0.0, 0.2])
        ax = show.draw_movement(
            moved, np.array([0, 1, 1, 0]), {"greedy": np.array([0.3, 0.3, 0.3, 0.3])}
        ).axes[0]
        assert ax.get_ylim()[0] > 0.01
        assert np.isnan(curves(ax)["moved"][:, 1]).tolist() == [False, True, True, False]


CONE = "normal cone at $x_{t+1}$"
SQUARE = kl.Box([-1.0, -1.0], [1.0, 0.5])
DRAWABLE = [
    kl.L1Ball(2),
    kl.L2Ball(2),
    SQUARE,
    kl.L2Ball(2, 0.5, [3.0, -1.0]),
    kl.Simplex(2),
    TRIANGLE,
]


def named(ax):
    """The points drawn, by their names; points that coincide share one dot and one text."""
    dots = [np.asarray(line.get_xydata())[0] for line in ax.lines if line.get_marker() == "o"]
    texts = [text.get_text().strip("$").split("=") for text in ax.texts]
    return {name: dot for dot, names in zip(dots, texts, strict=True) for name in names}


def arrows(ax):
    """Where the arrows of the gradients begin and end, in order."""
    tails = np.vstack([part.XY for part in ax.collections])
    return tails, tails + np.vstack(
        [np.column_stack((part.U, part.V)) for part in ax.collections]
    )


def within(fan, v):
    """Whether v is a combination of the fan's edges with weights that are not negative."""
    weights = np.linalg.solve(np.column_stack((fan[0], fan[-1])), v)
    return bool((weights >= -1e-6).all())


def drawn_cone(ax):
    """Apex and fan of the cone that was drawn."""
    corners = next(
        np.asarray(patch.get_xy()) for patch in ax.patches if patch.get_label() == CONE
    )
    return corners[0], (corners[1:-1] - corners[0]) / np.linalg.norm(
        corners[1:-1] - corners[0], axis=1, keepdims=True
    )


class TestStepPicture:
    @pytest.mark.parametrize("t", [1, 18])
    @pytest.mark.parametrize(
        ("make", "k"),
        [
            (lambda domain: kl.KLazyGD(domain, kl.Sqrt(2.0), k=5), 5),
            (lambda domain: kl.KLazyFTRL(domain, kl.Sqrt(2.0), k=5), 5),
            (lambda domain: kl.GD(domain, kl.ScaleFree(1.0)), 1),
            (lambda domain: kl.LazyGD(domain, 10.0), 99),
        ],
        ids=["k-lazy", "ftrl", "greedy", "lazy"],
    )
    @pytest.mark.parametrize("domain", DRAWABLE, ids=repr)
    def test_shows_the_step_that_was_played(self, domain, make, k, t):
        learner, g = make(domain), noise(3, 30, 2) + 0.4
        trace = kl.run(learner, g, engine="step")
        x = np.vstack((trace.x, trace.state.x))
        ax = step_picture(learner, g, t).axes[0]
        points, (tails, heads) = named(ax), arrows(ax)
        tau = t - (t - 1) % k
        np.testing.assert_array_equal(points[r"x_\tau"], x[tau - 1])
        np.testing.assert_array_equal(points["x_t"], x[t - 1])
        np.testing.assert_array_equal(points["x_{t+1}"], x[t])
        np.testing.assert_allclose(
            domain.project(points["y_{t+1}"]), x[t], atol=1e-9
        )  # the reach of rounding and of daqp
        steps = tails - heads  # g_s / sigma_t, all with one sigma
        np.testing.assert_allclose(
            steps * (g[t - 1] @ g[t - 1]) / (steps[-1] @ g[t - 1]),
            g[tau - 1 : t],
            rtol=1e-9,
            atol=1e-9,
        )
        np.testing.assert_allclose(
            np.vstack((points[r"x_\tau"], heads)),
            np.vstack((tails, points["y_{t+1}"])),
            atol=1e-12,
        )
        if np.linalg.norm(points["y_{t+1}"] - x[t]) > 1e-6:  # the projection binds
            np.testing.assert_array_equal(drawn_cone(ax)[0], x[t])

    @pytest.mark.parametrize(
        ("learner", "g"),
        [
            (kl.KLazyGD(kl.L1Ball(2), 10.0, k=5), rotating().costs.data),
            (kl.KLazyGD(kl.L1Ball(2), 10.0, k=5), alternating().costs.data),
            (kl.LazyGD(kl.L1Ball(2), 10.0), rotating().costs.data),
            (kl.LazyGD(SQUARE, 4.0), alternating().costs.data - np.array([0.0, 0.5])),
            (kl.LazyGD(TRIANGLE, 4.0), alternating().costs.data + np.array([0.0, 0.5])),
        ],
        ids=["k-lazy rotating", "k-lazy alternating", "lazy rotating", "box", "triangle"],
    )
    def test_the_cone_drawn_at_a_vertex_contains_y_exactly_if_the_point_is_stale(
        self, learner, g
    ):
        g = g[:30]
        trace = kl.run(learner, g, engine="step")
        x, stale = np.vstack((trace.x, trace.state.x)), np.flatnonzero(trace.diagnose().stale) + 1
        shown = [t for t in stale if t >= 8][:5]
        assert shown
        for t in shown:
            ax = step_picture(learner, g, int(t)).axes[0]
            apex, fan = drawn_cone(ax)
            y = named(ax)["y_{t+1}"]
            assert "x_t=x_{t+1}" in [
                text.get_text().strip("$").removeprefix(r"x_\tau=")[:11] for text in ax.texts
            ]
            np.testing.assert_allclose(apex, x[t], atol=1e-9)
            assert fan[0] @ fan[-1] < 0.99  # a wedge
            assert within(fan, y - apex)
            assert ax.viewLim.contains(y[0], y[1])
        for t in sorted(set(range(8, 30)) - set(stale)):
            fan = normal_cone(learner.domain, x[t - 1], np.zeros(2))
            if len(fan) and fan[0] @ fan[-1] < 0.99:
                y = named(step_picture(learner, g, t).axes[0])["y_{t+1}"]
                assert not within(fan, y - x[t - 1])

    @pytest.mark.parametrize(
        ("domain", "x", "edges"),
        [
            (kl.L1Ball(2), [1.0, 0.0], [-45, 45]),
            (kl.L1Ball(2, 2.0, [1.0, 1.0]), [1.0, -1.0], [-135, -45]),
            (kl.L1Ball(2), [-0.5, 0.5], [135, 135]),
            (SQUARE, [1.0, 0.5], [0, 90]),
            (SQUARE, [0.3, -1.0], [-90, -90]),
            (TRIANGLE, [1.0, 0.0], [-90, 45]),
            (kl.L2Ball(2, 3.0), [1.8, 2.4], [np.degrees(np.arctan2(4.0, 3.0))] * 2),
            (
                kl.Intersection([kl.L2Ball(2), kl.Box([0.0, -1.0], [1.0, 0.6])]),
                [0.8, 0.6],
                [np.degrees(np.arctan2(3.0, 4.0)), 90],
            ),
            (kl.Box([0.0, 0.0], [1.0, 0.0]), [1.0, 0.0], [-90, 90]),
        ],
        ids=repr,
    )
    def test_the_normal_cone_is_found_from_no_more_than_projections(self, domain, x, edges):
        fan = normal_cone(domain, np.array(x), np.zeros(2))
        wanted = np.column_stack((np.cos(np.radians(edges)), np.sin(np.radians(edges))))
        np.testing.assert_allclose(
            fan[[0, -1]], wanted, atol=1e-6
        )  # its search takes a miss of 1e-8 for none

    def test_inside_there_is_no_cone_and_across_a_segment_it_is_a_line(self):
        for domain in (kl.L2Ball(2), kl.L1Ball(2), SQUARE):
            assert len(normal_cone(domain, np.array([0.3, 0.2]), np.ones(2))) == 0
        line = normal_cone(kl.Simplex(2), np.array([0.3, 0.7]), np.zeros(2))
        np.testing.assert_allclose(np.abs(line), np.sqrt(0.5), atol=1e-6)
        np.testing.assert_allclose(line[0], -line[1], atol=1e-12)
        inside = step_picture(kl.GD(kl.L2Ball(2), 100.0), noise(0, 5, 2), 3).axes[0]
        assert CONE not in [patch.get_label() for patch in inside.patches]

    @pytest.mark.parametrize("domain", DRAWABLE, ids=repr)
    def test_the_outline_lies_in_the_set_and_reaches_as_far(self, domain):
        directions = noise(1, 40, 2)
        around, extreme = outline(domain), domain.argmin_linear(-directions)
        assert domain.contains(around)
        reached, support = (around @ directions.T).max(axis=0), np.vecdot(directions, extreme)
        np.testing.assert_allclose(
            reached, support, rtol=1e-4, atol=1e-9
        )  # of a circle, chords of half a degree

    def test_a_small_step_is_drawn_from_near_with_a_sketch_of_the_set_and_a_large_one_with_the_set_around_it(
        self,
    ):
        g = rotating().costs.data
        near, sketch = step_picture(kl.KLazyGD(kl.L1Ball(2), 10.0, k=5), g, 17).axes
        assert np.ptp(near.get_xlim()) < 0.5 < 2.0 < np.ptp(sketch.get_xlim())
        (window,) = (np.asarray(line.get_xydata()) for line in sketch.lines)
        np.testing.assert_allclose(
            (window.min(axis=0), window.max(axis=0)),
            np.transpose((near.get_xlim(), near.get_ylim())),
        )
        (whole,) = step_picture(kl.LazyGD(kl.L2Ball(2), 10.0), alternating().costs.data, 20).axes
        assert np.array([whole.get_xlim(), whole.get_ylim()])[:, 0].max() < -1.0
        assert np.array([whole.get_xlim(), whole.get_ylim()])[:, 1].min() > 1.0
        assert (near.get_aspect(), whole.get_aspect()) == (1.0, 1.0)

    @pytest.mark.parametrize(
        "domain",
        [*DRAWABLE, kl.Box([1.0, 1.0], [1.0, 1.0]), kl.Product([kl.Box(-1.0, 1.0)] * 2)],
        ids=repr,
    )
    @pytest.mark.parametrize(("scale", "t"), [(0.0, 1), (30.0, 4)])
    def test_draws_any_step_without_complaint(self, domain, scale, t):
        learner = kl.LazyGD(domain, kl.ScaleFree(1.0))
        step_picture(learner, scale * noise(0, 4, 2), t).draw_without_rendering()

    @pytest.mark.parametrize(
        ("learner", "T", "t", "message"),
        [
            (
                kl.CentredOMD(kl.L2Ball(2), 1.0),
                5,
                1,
                "learner must be a GD, LazyGD, KLazyGD or KLazyFTRL, got CentredOMD",
            ),
            (
                kl.GD(kl.L2Ball(3), 1.0),
                5,
                1,
                "learner.domain must have dimension 2, got 3.",
            ),
            (
                kl.GD(kl.L2Ball(2), 1.0),
                5,
                0,
                "t must be an integer of at least 1, got 0.",
            ),
            (
                kl.GD(kl.L2Ball(2), 1.0),
                5,
                6,
                "t must be at most 5, the rounds of g, got 6.",
            ),
        ],
    )
    def test_refuses_what_it_cannot_draw(self, learner, T, t, message):
        with pytest.raises(ValueError, match=f"^{message}"):
            step_picture(learner, noise(0, T, 2), t)


LEARNERS = ["GD", "LazyGD", "k=65", "k=150", "k=300", "k=1500"]


def paid(labels, T):
    return {label: np.cumsum(noise(i, T, 1)[:, 0] + 1.0) for i, label in enumerate(labels)}


def names(made):
    """The names in the legend of the figure."""
    return [text.get_text() for text in made.legends[0].get_texts()]


def marks(line):
    """The places of a line's markers."""
    return np.asarray(line.get_xydata())[line.get_markevery()]


def saved(made, form="png"):
    """The figure as a file, drawn without a complaint."""
    file = io.BytesIO()
    made.savefig(file, format=form, dpi=20)
    return file.getvalue()


class TestLook:
    def test_learners_have_the_markers_of_the_papers_figures(self):
        looks = show.choose_looks([*LEARNERS, "comparator"])
        assert [looks[label]["marker"] for label in looks] == ["o", "s", "d", "v", "^", "<", "x"]
        ensembles = show.choose_looks(["SAder", "SAder-k", "comparator"])
        assert [ensembles[label]["marker"] for label in ensembles] == ["o", "s", "x"]
        assert looks["comparator"] == ensembles["comparator"] == {"color": "black", "marker": "x"}
        assert looks["GD"]["color"] == ensembles["SAder"]["color"] == "#0072B2"

    @given(
        st.lists(
            st.sampled_from(
                [*LEARNERS, "SAder", "SAder-k", "comparator", "auto", "Decay(300)", "a", "b"]
            ),
            unique=True,
        )
    )
    def test_no_two_learners_share_a_look(self, labels):
        looks = show.choose_looks(labels)
        assert list(looks) == labels
        assert len({each["marker"] for each in looks.values()}) == len(labels)
        if len(labels) <= 8:
            assert len({each["color"] for each in looks.values()}) == len(labels)

    @given(
        st.permutations(LEARNERS),
        st.sets(st.sampled_from(["SAder", "comparator", "auto", "Decay(300)"])),
    )
    def test_company_changes_no_ones_look(self, labels, company):
        alone, together = (
            show.choose_looks(labels),
            show.choose_looks([*labels, *sorted(company)]),
        )
        assert {label: together[label] for label in labels} == alone

    def test_all_figures_give_one_learner_one_look(self):
        shown = paid(LEARNERS, 9)
        looks = show.choose_looks(LEARNERS)
        drawn = [
            show.draw_curves(shown, "cost"),
            show.draw_lines(np.arange(1.0, 10.0), shown, "k", "cost"),
        ]
        drawn.append(
            show.draw_snapshots(
                outline(kl.L2Ball(2)), {label: noise(0, 3, 2) for label in LEARNERS}
            )
        )
        for made in drawn:
            for line in made.axes[0].lines[: len(LEARNERS)]:
                assert {"color": line.get_color(), "marker": line.get_marker()} == looks[
                    str(line.get_label())
                ]
        columns = (
            show.draw_bars({"group": dict.fromkeys(LEARNERS, 1.0)}, "cost").axes[0].containers
        )
        assert [bar[0].get_facecolor() for bar in columns] == [
            to_rgba(looks[label]["color"]) for label in LEARNERS
        ]


class TestCurves:
    @pytest.mark.parametrize("T", [1, 2, 101, 400, 401, 60000])
    def test_the_curves_drawn_are_the_sums_and_end_at_the_last_round(self, T):
        shown = paid(LEARNERS, T)
        made = show.draw_curves(shown, "cost so far", -np.arange(1.0, T + 1))
        (ax,) = made.axes
        drawn = curves(ax)
        assert list(drawn) == names(made) == [*LEARNERS, "comparator"]
        for label, total in (shown | {"comparator": -np.arange(1.0, T + 1)}).items():
            t = drawn[label][:, 0].astype(int)
            assert (t[0], t[-1], len(t)) == (1, T, min(T, 400))
            assert np.array_equal(drawn[label][:, 1], total[t - 1])
        assert ax.get_ylabel() == "cost so far"
        assert ("10^3" in ax.get_xlabel()) == (T >= 10000)
        saved(made)

    def test_thousands_are_counted_on_the_axis_only(self):
        made = show.draw_curves(paid(["GD"], 60000), "cost")
        made.draw_without_rendering()
        ticks = made.axes[0].get_xticklabels()
        assert {tick.get_text() for tick in ticks} >= {"0", "20", "60"}

    def test_markers_are_even_and_beside_those_of_other_curves(self):
        lines = (
            show.draw_curves(dict.fromkeys(LEARNERS, np.arange(60000.0)), "cost").axes[0].lines
        )
        places = [marks(line)[:, 0] for line in lines]
        for place in places:
            assert len(place) == 12
            np.testing.assert_allclose(
                np.diff(place), 5000.0, atol=151.0
            )  # the rounds drawn are 150 apart
        assert np.diff(np.sort(np.concatenate(places))).min() > 500.0

    def test_a_long_run_is_a_small_file(self):
        assert (
            len(saved(show.draw_curves(paid([*LEARNERS, "auto", "SAder"], 60000), "cost"), "svg"))
            < 150_000
        )


class TestSweep:
    x = np.arange(1.0, 2001.0)

    @pytest.mark.parametrize("log", ["", "x", "y", "xy"])
    def test_of_many_values_the_extremes_the_ends_and_the_gaps_are_kept(self, log):
        line = 2.0 + noise(0, 2000, 1)[:, 0].clip(-1.5, 1.5)
        line[[777, 1234]], line[1500:1700] = (0.01, 99.0), np.nan
        made = show.draw_lines(self.x, {"k=65": line}, "slack", "cost", log=log)
        (ax,) = made.axes
        drawn = curves(ax)["k=65"]
        assert len(drawn) <= 602
        assert np.array_equal(line[drawn[:, 0].astype(int) - 1], drawn[:, 1], equal_nan=True)
        assert drawn[[0, -1], 0].tolist() == [1.0, 2000.0]
        assert {0.01, 99.0} < set(drawn[:, 1])
        gap = np.isnan(drawn[(drawn[:, 0] > 1500) & (drawn[:, 0] <= 1700), 1])
        assert gap.all()
        assert len(gap)
        assert (ax.get_xscale(), ax.get_yscale()) == (
            "log" if "x" in log else "linear",
            "log" if "y" in log else "linear",
        )
        assert np.isfinite(marks(ax.lines[0])).all()
        assert len(saved(made, "svg")) < 60_000

    def test_markers_are_even_on_the_axis_that_is_shown(self):
        x = self.x[:400]
        for log, place in (("", x), ("x", np.log(x))):
            at = (
                marks(show.draw_lines(x, {"GD": x}, "k", "cost", log=log).axes[0].lines[0])[
                    :, 0
                ].astype(int)
                - 1
            )
            assert np.diff(place[at], prepend=place[0]).max() < 0.15 * np.ptp(place)
            assert len(at) in (
                (12,) if not log else (10, 11, 12)
            )  # near k = 1 the axis has wide gaps

    def test_a_dense_line_has_no_markers(self):
        assert (
            show.draw_lines(self.x, {"GD": self.x}, "k", "cost").axes[0].lines[0].get_markevery()
            == []
        )

    def test_few_values_are_all_marked_and_those_of_nan_left_out(self):
        line = np.array([1.0, np.nan, 3.0, 2.0])
        (drawn,) = (
            show.draw_lines(np.array([0.0, 1.0, 2.0, 4.0]), {"GD": line}, "k", "cost")
            .axes[0]
            .lines
        )
        assert marks(drawn)[:, 0].tolist() == [0.0, 2.0, 4.0]
        saved(
            show.draw_lines(
                np.array([0.0, 1.0, 2.0, 4.0]),
                {"GD": line, "none": line * np.nan},
                "k",
                "cost",
                log="xy",
            )
        )

    def test_bands_levels_and_marks_are_where_they_were_said_to_be(self):
        x = np.arange(1.0, 21.0)
        lines = {"k=5": x, "auto": 2.0 * x}
        made = show.draw_lines(
            x,
            lines,
            "k",
            "cost",
            bands={"auto": (x, 3.0 * x)},
            levels={"GD": 7.0, "LazyGD": 9.0, "auto": 1.0},
            marked={"k=5": (3.0, 3.0), "auto": (15.0, 30.0)},
        )
        (ax,) = made.axes
        looks = show.choose_looks(["k=5", "auto", "GD", "LazyGD"])
        assert names(made) == ["k=5", "auto", "GD", "LazyGD"]
        (band,) = ax.collections
        assert np.asarray(band.get_paths()[0].get_extents().extents).tolist() == [
            1.0,
            1.0,
            20.0,
            60.0,
        ]
        assert np.array_equal(band.get_facecolor(), [to_rgba(looks["auto"]["color"], 0.2)])
        levels = [
            line
            for line in ax.lines
            if line.get_linestyle() != "-" and line.get_marker() == "None"
        ]
        assert [float(np.asarray(line.get_ydata())[0]) for line in levels] == [7.0, 9.0, 1.0]
        assert len({line.get_linestyle() for line in levels}) == 3
        marked = [line for line in ax.lines if line.get_linestyle() == "None"]
        assert [np.asarray(line.get_xydata()).tolist() for line in marked] == [
            [[3.0, 3.0]],
            [[15.0, 30.0]],
        ]
        assert [line.get_marker() for line in marked] == [
            looks["k=5"]["marker"],
            looks["auto"]["marker"],
        ]
        assert [text.get_text() for text in ax.texts] == ["3", "15"]

    @given(
        st.lists(st.tuples(st.floats(1.0, 20.0), st.floats(0.0, 20.0)), min_size=1, max_size=6)
    )
    @example([(10.0, 10.0)] * 6)
    @settings(max_examples=20, deadline=None)
    def test_no_number_lies_on_another_or_on_a_mark(self, points):
        labels = "abcdef"[: len(points)]
        x = np.linspace(1.0, 20.0, 5)
        made = show.draw_lines(
            x,
            dict.fromkeys(labels, x),
            "k",
            "cost",
            marked=dict(zip(labels, points, strict=True)),
        )
        (ax,) = made.axes
        offsets = np.array(
            [np.array(text.xyann) for text in ax.texts if isinstance(text, Annotation)]
        ).reshape(-1, 2)
        at = np.array([text.xy for text in ax.texts if isinstance(text, Annotation)]).reshape(
            -1, 2
        )
        where, all_marks = (
            ax.transData.transform(at) * 0.36 + offsets,
            ax.transData.transform(points) * 0.36,
        )  # 72 / 200
        apart = np.abs(where[:, None] - np.vstack((where, all_marks))[None]) / [18.0, 7.0]
        apart[np.arange(len(where)), np.arange(len(where))] = 1.0
        assert (
            apart.max(axis=2).min(initial=1.0) > 0.9
        )  # the axes are laid out a little smaller after all


class TestBars:
    groups: ClassVar = {
        "stochastic": {"GD": 2.0, "k=65": -1.5},
        "corrupted": {"k=65": 12345.6, "auto": 0.25},
    }

    def test_every_bar_stands_in_its_group_with_its_value(self):
        made = show.draw_bars(self.groups, "regret")
        (ax,) = made.axes
        assert names(made) == ["GD", "k=65", "auto"]
        assert [text.get_text() for text in ax.get_xticklabels()] == ["stochastic", "corrupted"]
        heights = {}
        for bar in ax.containers:
            for part in bar:
                group = list(self.groups)[round(part.get_x() + part.get_width() / 2.0)]
                heights.setdefault(group, {})[bar.get_label()] = part.get_height()
        assert heights == self.groups
        assert sorted(text.get_text() for text in ax.texts) == sorted(
            ["2", "\N{MINUS SIGN}1.5", "12,346", "0.25"]
        )
        assert len({bar[0].get_hatch() for bar in ax.containers}) == 3

    def test_bars_do_not_overlap(self):
        (ax,) = show.draw_bars(
            {name: dict.fromkeys(LEARNERS, 1.0) for name in "abc"}, "cost"
        ).axes
        sides = sorted(
            (part.get_x(), part.get_x() + part.get_width())
            for bar in ax.containers
            for part in bar
        )
        assert all(right <= left for (_, right), (left, _) in pairwise(sides))

    @pytest.mark.parametrize(("count", "written"), [(12, 12), (13, 0)])
    def test_values_are_written_on_up_to_twelve_bars(self, count, written):
        (ax,) = show.draw_bars(
            {f"group {i}": {"GD": float(i)} for i in range(count)}, "cost"
        ).axes
        assert len(ax.texts) == written

    def test_an_interval_goes_from_end_to_end_even_if_the_value_lies_outside(self):
        (ax,) = show.draw_bars(
            {"a": {"GD": 5.0, "auto": 1.0}}, "cost", {"a": {"GD": (6.0, 8.0)}}
        ).axes
        (interval,) = (part.get_paths()[0].get_extents() for part in ax.collections)
        assert (interval.y0, interval.y1) == (6.0, 8.0)
        number = next(text for text in ax.texts if text.get_text() == "5")
        assert isinstance(number, Annotation)
        assert number.xy[1] == 8.0

    def test_a_logarithmic_axis_also_shows_what_is_not_positive(self):
        assert show.draw_bars({"a": {"GD": 5.0}}, "cost", log=True).axes[0].get_yscale() == "log"
        for value in (0.0, -3.0):
            made = show.draw_bars({"a": {"GD": value, "auto": 100.0}}, "cost", log=True)
            assert made.axes[0].get_yscale() == "symlog"
            saved(made)
        saved(show.draw_bars({"a": {"GD": 0.0}}, "cost", log=True))


def last(scenario, learner, rounds):
    return kl.run(learner, scenario.costs, engine="step").x[rounds]


class TestSnapshots:
    def test_example_i_greedy_goes_round_while_lazy_stands_at_the_vertex(self):
        scenario = rotating()
        around, four = scenario.domain, slice(-4, None)
        points = {
            "GD": last(scenario, kl.GD(around, 10.0), four),
            "LazyGD": last(scenario, kl.LazyGD(around, 10.0), four),
            "k=5": last(scenario, kl.KLazyGD(around, 10.0, k=5), four),
        }
        made = show.draw_snapshots(outline(around), points)
        ax, sketch = made.axes
        drawn = curves(ax)
        assert list(drawn) == names(made) == list(points)
        for label, path in points.items():
            assert np.array_equal(drawn[label], path)
            assert all(ax.viewLim.contains(*point) for point in path)
        np.testing.assert_allclose(drawn["LazyGD"], np.tile([1.0, 0.0], (4, 1)), atol=1e-12)
        assert np.ptp(ax.get_xlim()) < 0.5 < np.ptp(sketch.get_xlim())
        ways = [(text.xyann, text.xy) for text in ax.texts if isinstance(text, Annotation)]
        wanted = [
            (tuple(a), tuple(b))
            for label in ("GD", "k=5")
            for a, b in zip(points[label], np.roll(points[label], -1, 0), strict=True)
        ]
        assert ways == wanted

    def test_example_ii_lazy_moves_less(self):
        scenario, sigma = alternating(), np.sqrt(101.0)
        two = {
            label: last(scenario, family(scenario.domain, sigma), slice(88, 90))
            for label, family in (("GD", kl.GD), ("LazyGD", kl.LazyGD))
        }
        drawn = curves(show.draw_snapshots(outline(scenario.domain), two).axes[0])
        moved = {label: np.linalg.norm(np.diff(path, axis=0)) for label, path in drawn.items()}
        assert moved["LazyGD"] < moved["GD"] / 4.0

    @pytest.mark.parametrize("points", [np.zeros((1, 2)), np.ones((3, 2)), noise(0, 5, 2)])
    def test_draws_any_points_without_complaint(self, points):
        for label in ("GD", "comparator"):
            saved(show.draw_snapshots(outline(kl.L2Ball(2)), {label: points}))


class TestTimelines:
    def test_a_cross_is_where_the_sign_is_not_the_phases(self):
        scenario = stochastic(3, phases=4, length=20)
        g, sign = scenario.costs.data[:, 0], -np.sign(scenario.comparator[:, 0])
        made = show.draw_sequence(g, sign)
        drawn = curves(made.axes[0])
        wrong = np.flatnonzero(g * sign < 0.0) + 1
        assert 0 < len(wrong) < 40
        assert drawn["opposite sign"][:, 0].tolist() == wrong.tolist()
        seen = np.vstack([drawn[name] for name in names(made)])
        assert np.array_equal(seen[seen[:, 0].argsort()], np.column_stack((np.arange(1, 81), g)))
        assert (drawn["phase of sign +"][:, 1] > 0.0).all()
        ends = [
            float(np.asarray(line.get_xdata())[0])
            for line in made.axes[0].lines
            if line.get_linestyle() == "--"
        ]
        assert ends == [20.5, 40.5, 60.5]

    @pytest.mark.parametrize("T", [1, 150, 151, 3000])
    def test_draws_any_sequence_without_complaint(self, T):
        made = show.draw_sequence(noise(0, T, 1)[:, 0], np.ones(T))
        assert bool(made.axes[0].collections) == (T <= 150)  # stems
        saved(made)

    @given(k=st.integers(1, 9), T=st.integers(1, 30))
    @settings(max_examples=15, deadline=None)
    def test_the_bars_cover_the_gradients_that_each_learner_adds_up(self, k, T):
        """Measured on the learners themselves: with one unit gradient per round, in a coordinate of its own, they show in y."""
        made = show.draw_phases(k, T)
        domain, g = kl.Box(-9.0 * np.ones(T), 9.0 * np.ones(T)), -np.eye(T)
        for ax, slack in zip(made.axes, (1, T, k), strict=True):
            anchors = curves(ax)["anchor, from which the step starts"]
            states = list(
                accumulate(
                    g,
                    kl.KLazyGD(domain, 1.0, k=slack).step,
                    initial=kl.KLazyGD(domain, 1.0, k=slack).init(),
                )
            )
            bars = [part for part in ax.patches if isinstance(part, Rectangle)]
            for t, (bar, anchor, state) in enumerate(
                zip(bars, anchors, states[1:], strict=True), 1
            ):
                covered = [
                    s for s in range(1, T + 1) if bar.get_x() < s < bar.get_x() + bar.get_width()
                ]
                assert covered == (np.flatnonzero(state.g_sum) + 1).tolist()
                assert anchor.tolist() == [covered[0], t]
                assert np.array_equal(state.anchor, states[covered[0] - 1].x)
                assert bar.get_y() < t < bar.get_y() + bar.get_height()

    def test_one_round_is_spelt_out(self):
        words = [ax.get_xlabel().splitlines()[1] for ax in show.draw_phases(8, 24).axes]
        assert words == [
            r"$x_{13}=\Pi(x_{12}-g_{12}/\sigma)$",
            r"$x_{13}=\Pi(x_{1}-(g_{1}+\dots+g_{12})/\sigma)$",
            r"$x_{13}=\Pi(x_{9}-(g_{9}+\dots+g_{12})/\sigma)$",
        ]

    def test_the_wave_is_drawn_as_given_with_its_blocks(self):
        scenario = square_wave(4, 16)
        g, u = scenario.costs.data[:, 0], scenario.comparator[:, 0]
        x = kl.run(kl.KLazyGD(scenario.domain, 1.0, k=4), scenario.costs, engine="step").x[:, 0]
        y = -(np.cumsum(g) - g)  # over all rounds: each block's gradients cancel
        made = show.draw_wave(g, y, x, u, 4)
        (ax,) = made.axes
        drawn = curves(ax)
        wanted = {
            "gradient $g_t$": g,
            "comparator $u_t$": u,
            "unconstrained $y_t$": y,
            "played $x_t$": x,
        }
        assert {*wanted, "the set"} == set(names(made))
        for name, values in wanted.items():
            assert np.array_equal(drawn[name], np.column_stack((np.arange(1, 17), values)))
        ends = [
            float(np.asarray(line.get_xdata())[0])
            for line in ax.lines
            if line.get_linestyle() == "--"
        ]
        assert ends == [4.5, 8.5, 12.5, 16.5]
        assert len({str(line.get_marker()) for line in ax.lines[:4]}) == 4


def two_steps():
    """Two gradients in a row on both balls, as the paper's picture has them."""
    x, g = np.array([0.55, -0.3]), np.array([[-1.2, -0.25], [0.1, -0.6]])
    outlines, greedy, lazy, cones = {}, {}, {}, {}
    for title, domain in (("l1", kl.L1Ball(2)), ("l2", kl.L2Ball(2))):
        y = x - g[0]
        start, held = np.array([x, y, domain.project(y)]), y - g[1]
        eager = start[2] - g[1]
        greedy[title] = np.vstack((start, eager, domain.project(eager)))
        lazy[title] = np.vstack((start, held, domain.project(held)))
        outlines[title], cones[title] = (
            outline(domain),
            normal_cone(domain, start[2], y - start[2]),
        )
    return show.draw_greedy_and_lazy(outlines, greedy, lazy, cones)


class TestGreedyAndLazy:
    def test_lazy_stands_still_on_the_l1_ball_and_moves_less_on_the_l2_ball(self):
        made = two_steps()
        saved(made)
        assert [ax.get_title() for ax in made.axes] == ["l1", "l2"]
        moved = [
            [
                np.linalg.norm(np.diff(curves(ax)[f"{rule} moved"], axis=0))
                for rule in ("greedy", "lazy")
            ]
            for ax in made.axes
        ]
        assert moved[0][1] == 0.0 < moved[0][0]
        assert 0.0 < moved[1][1] < 0.75 * moved[1][0]

    def test_every_point_has_its_name_within_the_picture(self):
        for ax in two_steps().axes:
            points = named(ax)
            assert set(points) == {
                "x_1",
                "y_2",
                "x_2",
                *(rf"{a}_3^\mathrm{{{b}}}" for a in "xy" for b in ("greedy", "lazy")),
            }
            assert all(ax.viewLim.contains(*point) for point in points.values())
            assert all(ax.viewLim.contains(*text.get_position()) for text in ax.texts)

    def test_lazy_stays_exactly_while_its_point_lies_in_the_cone_drawn(self):
        for ax, stays in zip(two_steps().axes, (True, False), strict=True):
            points = named(ax)
            corners = curves(ax)["normal cone at $x_2$"]
            edges = corners[[0, 2]] - corners[1]
            assert np.array_equal(corners[1], points["x_2"])
            v = points[r"y_3^\mathrm{lazy}"] - points["x_2"]
            turn = np.linalg.det(np.stack((edges[0], v))), np.linalg.det(np.stack((v, edges[1])))
            assert (min(turn) >= 0.0) == stays

    def test_gradients_are_drawn_to_scale(self):
        for ax in two_steps().axes:
            tails, heads = arrows(ax)
            np.testing.assert_allclose(
                tails - heads, [[-1.2, -0.25], [0.1, -0.6], [0.1, -0.6]], atol=1e-12
            )


class TestExperts:
    def test_the_record_of_the_experts_adds_up_to_the_ensembles_own(self):
        """On linear costs, where an expert's linearised cost is its cost, the weights average them to the ensemble's."""
        np.testing.assert_allclose(EXPERTS.weights.sum(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_allclose(
            (EXPERTS.weights * EXPERTS.expert_hitting).sum(axis=1), EXPERTS.hitting, atol=1e-12
        )
        losses = EXPERTS.expert_hitting + EXPERTS.expert_switching
        np.testing.assert_allclose(EXPERTS.spread, np.ptp(losses, axis=1), atol=1e-12)
        assert (EXPERTS.diameter <= 2.0).all()
        learnt = np.trim_zeros(EXPERTS.beta, "f")
        assert 0 < len(learnt) < EXPERTS.T
        assert (np.diff(learnt) <= 0.0).all()

    @pytest.mark.parametrize(
        "name", ["weights", "expert_hitting", "expert_switching", "spread", "diameter", "beta"]
    )
    def test_other_runs_say_what_was_not_recorded(self, name):
        trace = kl.run(kl.GD(kl.L2Ball(1), 1.0), np.ones((3, 1)), engine="step")
        with pytest.raises(
            AttributeError, match=rf"Trace\.{name} needs record='experts', got record='actions'"
        ):
            getattr(trace, name)

    def test_the_table_begins_with_one_short_line(self):
        first, second = str(EXPERTS).splitlines()[:2]
        assert len(EXPERTS.learner) > 500
        assert len(first) <= 120
        assert EXPERTS.learner.startswith(first.removesuffix(" ..."))
        assert second == "60 rounds in R^3, L2Movement(), engine: step"


def test_contenders_that_pay_the_same_push_nobody_off_the_picture():
    """Most of them tie with the cheapest, up to rounding; who is farther away is measured by the others."""
    hitting = {"a": 10.0, "b": 10.0, "c": 10.0 + 1e-14, "d": 11.0, "e": 12.0, "f": 90.0}
    ax = show.draw_pareto(dict.fromkeys(hitting, 1.0), hitting, (1.0, 9.0)).axes[0]
    named = [text.get_text() for text in ax.get_legend().get_texts()]
    assert named == ["a", "b", "c", "d", "e", "optimum in hindsight"]
    assert ax.get_title() == "farther away: f"
    assert (
        show.draw_pareto(dict.fromkeys("ab", 1.0), dict.fromkeys("ab", 2.0)).axes[0].get_title()
        == ""
    )
