"""What a trace shows: its figure, its table, and what it kept of an ensemble."""

import io
import subprocess
import sys

import numpy as np
import pytest

import klazy as kl


def noise(seed, T, d):
    return np.random.default_rng(seed).normal(size=(T, d))


def ensemble(n, domain):
    return kl.SAder([kl.GD(domain, sigma) for sigma in np.geomspace(0.5, 50.0, n)], prior="uniform")


def areas(ax):
    """The lowest and the highest point of each stacked area."""
    outlines = [area.get_paths()[0].get_extents() for area in ax.collections]
    return [outline.y0 for outline in outlines], [outline.y1 for outline in outlines]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


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
        lean = kl.run(kl.GD(kl.L2Ball(1), 1.0), np.ones((3, 1)), record="totals")
        with pytest.raises(AttributeError, match=r"Trace\.hitting needs record='costs', got record='totals'"):
            lean.plot()

    @pytest.mark.parametrize(("T", "d"), [(1, 1), (1, 14), (2, 8), (40, 7)])
    @pytest.mark.parametrize("family", [kl.Simplex, kl.L2Ball])
    def test_draws_any_run_without_complaint(self, family, T, d):
        trace = kl.run(kl.GD(family(d), 1.0), noise(0, T, d), engine="step")
        trace.plot().savefig(io.BytesIO(), dpi=20)

    @pytest.mark.parametrize("T", [1, 7, 2000, 2001, 9000])
    def test_draws_at_most_2000_rounds_and_ends_at_the_totals(self, T):
        trace = kl.run(kl.GD(kl.L2Ball(2), 5.0), noise(0, T, 2), engine="step")
        lines = {line.get_label(): np.asarray(line.get_xydata()) for line in trace.plot().axes[0].lines}
        for name, total in zip(("hitting", "movement", "sum"), (*trace.totals, trace.totals.cost), strict=True):
            assert len(lines[name]) == min(T, 2000)
            assert lines[name][[0, -1], 0].tolist() == [1, T]
            assert lines[name][-1, 1] == pytest.approx(total)

    def test_stacks_shares_of_one_total_and_draws_other_points_as_lines(self):
        g = noise(0, 30, 3)
        shares, free = (
            kl.run(kl.GD(domain, 2.0), g, engine="step") for domain in (kl.Simplex(3, 2.5), kl.Box([0.1] * 3, [1] * 3))
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

    def test_uses_neither_pyplot_nor_a_display(self):
        script = "import sys, numpy as np, klazy as kl; kl.run(kl.GD(kl.L2Ball(2), 1.0), np.ones((9, 2)), engine='step').plot()"
        script += "; print('matplotlib.pyplot' in sys.modules, 'matplotlib.figure' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.split() == [
            "False",
            "True",
        ]

    def test_says_that_matplotlib_is_missing(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        with pytest.raises(ImportError, match=r"plot needs matplotlib, which is not installed; pip install 'klazy\[cli\]'"):
            EXPERTS.plot()


class TestExperts:
    def test_the_record_of_the_experts_adds_up_to_the_ensembles_own(self):
        """On linear costs, where an expert's linearised cost is its cost, the weights average them to the ensemble's."""
        np.testing.assert_allclose(EXPERTS.weights.sum(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_allclose((EXPERTS.weights * EXPERTS.expert_hitting).sum(axis=1), EXPERTS.hitting, atol=1e-12)
        losses = EXPERTS.expert_hitting + EXPERTS.expert_switching
        np.testing.assert_allclose(EXPERTS.spread, np.ptp(losses, axis=1), atol=1e-12)
        assert (EXPERTS.diameter <= 2.0).all()
        learnt = np.trim_zeros(EXPERTS.beta, "f")
        assert 0 < len(learnt) < EXPERTS.T
        assert (np.diff(learnt) <= 0.0).all()

    @pytest.mark.parametrize("name", ["weights", "expert_hitting", "expert_switching", "spread", "diameter", "beta"])
    def test_other_runs_say_what_was_not_recorded(self, name):
        trace = kl.run(kl.GD(kl.L2Ball(1), 1.0), np.ones((3, 1)), engine="step")
        with pytest.raises(AttributeError, match=rf"Trace\.{name} needs record='experts', got record='actions'"):
            getattr(trace, name)

    def test_the_table_begins_with_one_short_line(self):
        first, second = str(EXPERTS).splitlines()[:2]
        assert len(EXPERTS.learner) > 500
        assert len(first) <= 120
        assert EXPERTS.learner.startswith(first.removesuffix(" ..."))
        assert second == "60 rounds in R^3, L2Movement(), engine: step"
