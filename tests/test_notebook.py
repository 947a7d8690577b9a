"""What a notebook shows: HTML of runs, regrets and configurations, and figures, in a kernel of its own."""

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import klazy as kl
from cases import (
    AUTOSCALER,
    DRIFTED,
    EVERY_LEARNER,
    FAMILIES,
    JOBS,
    MEMORIES,
    METRIC,
    MOVEMENTS,
    PLANNING,
    SCHEDULES,
    SETS,
    STATES,
    TRIANGLE,
    UNBOUNDED,
    WEALTH,
    evaluated,
    examples_of,
    gradients,
)
from klazy.base.config import Config, _text
from klazy.base.svg import OUTLINE_SIDE, SPARK_SIZE

WIDTH, HEIGHT = SPARK_SIZE
LOOKAHEADS = (
    kl.contrib.OBD,
    kl.contrib.GOBD,
    kl.contrib.ROBD,
    kl.contrib.RHGD,
    kl.contrib.RHAG,
    kl.contrib.RecedingHorizon,
    kl.contrib.AveragingHorizon,
    kl.contrib.LookAheadSAder,
    kl.contrib.LazyCapacity,
    kl.contrib.LazyBudgeting,
    kl.contrib.RandomizedCapacity,
    lambda box: kl.contrib.AdaptiveSwitching(box, box.start[None], kl.contrib.OBD(box)),
    lambda box: kl.contrib.LookAheadInterpolation(box, box.start[None], kl.contrib.OBD(box)),
)
CONFIGS = examples_of(
    Config,
    [
        *SETS,
        *UNBOUNDED,
        *SCHEDULES,
        *FAMILIES,
        *MEMORIES,
        *(make(3) for make in MOVEMENTS.values()),
        PLANNING,
        AUTOSCALER,
        *JOBS,
        *(make(kl.Simplex(3)) for make in (STATES | WEALTH).values()),
        *(
            make(domain, 1.0)
            for make in EVERY_LEARNER.values()
            for domain in (kl.L2Ball(2), TRIANGLE)
        ),
        DRIFTED,
        METRIC,
        kl.contrib.PlayNext(kl.GD(kl.L2Ball(2), 1.0)),
        *(make(kl.Box(-1.0, 1.0)) for make in LOOKAHEADS),
        kl.contrib.Entropy(0.1),
        EVERY_LEARNER["MirrorMemory"](kl.Simplex(2), 1.0),
        kl.Guards(per_round=0.5, movement=kl.L1Movement(0.4)),
    ],
)
RUN = kl.run(kl.KLazyGD(kl.L2Ball(3), 4.0, k=5), gradients(0, 300, 3), engine="step")
LEAN = kl.run(kl.GD(kl.L2Ball(3), 4.0), gradients(0, 300, 3), engine="step", record="totals")
OPTIMUM = kl.offline_optimum(gradients(0, 30, 3), kl.L2Ball(3))
BATCH = kl.run_batch([kl.GD(kl.L2Ball(3), sigma) for sigma in (1.0, 4.0)], gradients(0, 300, 3))


class Page(HTMLParser):
    """A piece of HTML, read strictly: every element is closed, and in order."""

    def __init__(self, shown):
        super().__init__()
        self.open, self.inside, self.tags, self.kinds, self.texts = [], [], [], [], []
        self.feed(shown._repr_html_())
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append((tag, dict(attrs)))
        self.inside.append(len(self.texts))
        self.texts.append("")
        self.kinds.append((tag, self.open.count("dl")))

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.inside.pop()

    def handle_data(self, data):
        for i in self.inside:
            self.texts[i] += data

    def all(self, wanted, depth=None):
        """The texts of these elements, in order; of those in a list within so many lists only, if ``depth`` is given."""
        pairs = zip(self.kinds, self.texts, strict=True)
        return [text for (tag, lists), text in pairs if tag == wanted and depth in (None, lists)]

    def attributes(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]

    def points(self, tag):
        return [
            np.array([xy.split(",") for xy in a["points"].split()], dtype=float)
            for a in self.attributes(tag)
        ]


class Odd(kl.types.Schedule):
    """A <b>rule</b> & its texts."""

    rate: float

    def __init__(self, note, rate=1.0):
        self._keep(note=note, rate=rate)

    def __call__(self, t):
        return self.rate


class TestConfigurations:
    @pytest.mark.parametrize("config", CONFIGS, ids=lambda config: type(config).__name__)
    def test_every_one_shows_its_class_and_all_its_arguments(self, config):
        page, arguments = Page(config), config._arguments()
        assert page.all("b") == [type(config).__name__]
        assert page.all("dt", depth=1) == list(arguments)
        for value, shown in zip(arguments.values(), page.all("dd", depth=1), strict=True):
            if isinstance(value, tuple):
                assert shown.startswith(f"{len(value)} ")
            elif shown != _text(value):  # it is long, and folded
                assert isinstance(value, Config)
                assert len(_text(value)) > 80
                assert shown.startswith(type(value).__name__ + next(iter(value._arguments())))

    @pytest.mark.parametrize(
        "shown",
        [*CONFIGS, RUN, LEAN, kl.regret(RUN, [0.0] * 3), OPTIMUM, BATCH],
        ids=lambda shown: type(shown).__name__,
    )
    def test_nothing_is_loaded_run_or_coloured_for_one_theme(self, shown):
        html = shown._repr_html_()
        assert not any(
            word in html.lower()
            for word in ("<script", "http", "url(", "@import", "background", "nan,")
        )
        assert not [
            name
            for _, attributes in Page(shown).tags
            for name in attributes
            if name.startswith("on")
        ]
        assert all(rule.startswith(" var(--c") for rule in html.split(" color:")[1:])
        palette = set(re.findall(r"--c\d: ([^;]*);", html))
        assert palette == {"#0072B2", "#D55E00", "currentColor"}
        assert len(html) < 20_000

    def test_texts_are_escaped(self):
        markup = "</code><script>alert('&')</script>"
        many = np.linspace(0.0, 1.0, 70)
        ensemble = kl.SAder(
            [kl.GD(kl.Box(-many, many), Odd(markup)), kl.GD(kl.Box(-many, many), 2.0)]
        )
        regular = replace(RUN, source=None, text=markup, movement=kl.L2Movement(np.ones(300)))
        for shown in (
            Odd(markup),
            kl.GD(kl.L2Ball(2), Odd(markup)),
            ensemble,
            kl.L2Movement(many),
            regular,
        ):
            page = Page(shown)  # which would find a tag that was not closed, or was closed twice
            assert not {"script", "array"} & {tag for tag, _ in page.tags}
        assert Page(Odd(markup)).all("code")[0] == repr(markup)
        assert Page(Odd(markup)).all("p") == ["Odd A <b>rule</b> & its texts."]
        assert Page(kl.L2Movement(many)).all("dd") == ["<array of shape (70,)>"]

    def test_only_arguments_at_their_default_are_faint(self):
        html = str(kl.ScaleFree(2.0, 0.5)._repr_html_())
        faint = [
            piece.split("</code>")[0] for piece in html.split('<span class="faint"><code>')[1:]
        ]
        assert faint == ["1.0"]

    def test_many_experts_are_folded_into_a_table_and_few_are_not(self):
        forty, two = (
            kl.auto(kl.L2Ball(5), kl.L2Movement()),
            kl.SAder([kl.GD(TRIANGLE, 1.0), kl.LazyGD(TRIANGLE, 3.0)]),
        )
        for ensemble in (forty, two):
            page, N = Page(ensemble), len(ensemble.experts)
            assert [("open" in attributes) for attributes in page.attributes("details")] == [
                N <= 6
            ]
            assert page.all("summary") == [f"{N} experts"]
            cells = np.array(page.all("td")).reshape(N, -1)
            names = page.all("th")[1:]
            for expert, row in zip(ensemble.experts, cells[:, 1:], strict=True):
                told = dict(zip(names, row, strict=True))
                assert told.pop("class") == type(expert).__name__
                own = {name: getattr(expert, name) for name in names[1:] if hasattr(expert, name)}
                assert {name: evaluated(text) for name, text in told.items() if text} == own
        assert f"Each has domain={TRIANGLE!r}, start=None." in Page(two).all("p")

    def test_a_long_part_is_folded_and_complete(self):
        page = Page(kl.GD(kl.Box(np.linspace(-1.0, 0.0, 60), np.ones(60)), 2.0))
        assert page.all("summary") == ["Box"]
        assert page.all("dt") == ["domain", "lower", "upper", "sigma", "start"]

    @pytest.mark.parametrize("domain", SETS, ids=repr)
    def test_a_set_tells_its_dimension_its_diameter_and_its_start(self, domain):
        said = Page(domain).all("p")[-1]
        assert said.startswith(f"In R^{domain.dim}, diameter {domain.diameter:.4g}, start [")
        assert float(said.split("[")[1].split()[0].rstrip("].")) == pytest.approx(
            domain.start[0], abs=1e-4
        )

    @pytest.mark.parametrize(
        "domain",
        [kl.L1Ball(2, 2.0, [3.0, 1.0]), kl.Box([0, 0], [4, 1]), kl.Simplex(2), TRIANGLE],
        ids=repr,
    )
    def test_a_set_in_the_plane_is_drawn_to_scale(self, domain):
        page, ways = Page(domain), np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
        right, up, left, down = np.vecdot(
            ways, domain.argmin_linear(-ways)
        )  # how far the set reaches
        scale = OUTLINE_SIDE / max(right + left, up + down)
        (around,), (dot,) = page.points("polygon"), page.attributes("circle")
        drawn = np.vstack((around, [[float(dot["cx"]), float(dot["cy"])]])) / scale
        x = np.column_stack((drawn[:, 0] - left, up - drawn[:, 1]))
        tenth = 0.11 / scale  # of a pixel, to which places are rounded
        assert np.linalg.norm(domain.project(x) - x, axis=1).max() < tenth
        np.testing.assert_allclose(x[-1], domain.start, atol=tenth)
        np.testing.assert_allclose(
            [x[:-1].max(axis=0), -x[:-1].min(axis=0)], [[right, up], [left, down]], atol=tenth
        )

    def test_a_polytope_is_shown_where_its_projection_is_not_installed(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "daqp", None)
        fresh = TRIANGLE.replace()
        assert Page(fresh).all("p")[-1] == f"In R^2, diameter {fresh.diameter:.4g}."


def count_lines(work):
    """Count the lines of Python that run in ``work``: unlike its time, it does not depend on what else the machine does."""
    lines = 0

    def trace(frame, event, argument):
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


class TestRuns:
    @pytest.mark.parametrize("record", ["totals", "costs", "actions"])
    def test_a_trace_shows_what_it_prints(self, record):
        trace = kl.run(
            kl.GD(kl.L1Ball(3), 4.0), gradients(1, 50, 3), engine="step", record=record
        )
        page, (title, game, _, head, *lines) = Page(trace), str(trace).splitlines()
        assert page.all("code") == [title]
        assert page.all("p")[1:] == [game, *lines[3:]]
        assert page.all("th")[1:] == ["total", "per round"]
        assert head.split() == ["total", "per", "round"]
        assert page.all("td") == " ".join(lines[:3]).split()
        assert len(page.attributes("polyline")) == (0 if record == "totals" else 3)

    def test_a_regret_shows_what_it_prints(self):
        for trace in (RUN, LEAN):
            found = kl.regret(trace, [0.1, 0.2, 0.3])
            page = Page(found)
            told = " ".join(page.all("td"))
            assert told.split() == str(found).split()
            assert len(page.attributes("polyline")) == (0 if trace is LEAN else 3)

    def test_an_optimum_shows_what_it_prints(self):
        page, (title, *lines, gap, moves) = Page(OPTIMUM), str(OPTIMUM).splitlines()
        assert page.all("p")[1:] == [title, moves]
        shown = page.all("td")[1::2]
        numbers = [float(line.split()[-1]) for line in lines]
        assert [float(text) for text in shown[:-1]] == pytest.approx(numbers, rel=1e-6)
        assert float(shown[-1]) == pytest.approx(float(gap.split()[-1]), rel=0.1)
        assert len(page.attributes("polyline")) == 3

    def test_a_batch_shows_the_cheapest_run_and_how_much_runs_paid(self):
        assert len(repr(BATCH)) < 80
        page = Page(BATCH)
        (words,) = page.all("p")[1:]
        assert words.startswith(f"2 runs, the least cost in run {BATCH.cost.argmin()}")
        cost = [float(text) for text in page.all("td")[-4:]]
        assert cost == pytest.approx(
            [BATCH.cost.min(), *[BATCH.cost.mean()] * 2, BATCH.cost.max()], rel=1e-5
        )

    def test_curves_are_drawn_to_scale(self):
        hit, moved = np.cumsum(RUN.hitting), np.cumsum(RUN.switching)
        curves = np.array([hit + moved, moved, hit])  # the sum lies below the others
        (zero,) = {float(line["y1"]) for line in Page(RUN).attributes("line")}
        lines = np.array(Page(RUN).points("polyline"))
        assert np.unique(lines[:, [0, -1], 0]).tolist() == [0.0, WIDTH]
        scale = HEIGHT / (max(0.0, curves.max()) - min(0.0, curves.min()))
        t = np.round(lines[0, :, 0] / WIDTH * (RUN.T - 1)).astype(int)
        np.testing.assert_allclose(lines[:, :, 1], zero - scale * curves[:, t], atol=0.11)
        assert lines[:, :, 1].min() >= 0.0
        assert lines[:, :, 1].max() <= HEIGHT

    @pytest.mark.parametrize("T", [1, 2, 4096, 4097, 4098, 9000])
    def test_moves_are_counted_across_blocks(self, T):
        x = np.cumsum(
            np.random.default_rng(0).random((T, 2))
            * (np.random.default_rng(1).random((T, 1)) < 0.3),
            axis=0,
        )
        trace = replace(RUN, T=T, kept={"x": x})
        assert trace._moves == [
            f"moved in {np.count_nonzero(np.diff(x, axis=0).any(axis=1))} of {T - 1} rounds"
        ]

    @pytest.mark.parametrize("T", [1, 2, 1_000_000])
    def test_any_run_is_shown_at_once_and_in_few_bytes(self, T):
        x = np.random.default_rng(0).normal(size=(T, 5))
        trace = replace(
            RUN, T=T, dim=5, kept={"x": x, "hitting": x[:, 0].copy(), "switching": x[:, 1] ** 2}
        )
        page = str(trace._repr_html_())  # The first one loads templates.
        assert (
            count_lines(trace._repr_html_) < 50_000
        )  # So no line of Python runs once for each round.
        assert len(page) < 10_000
        assert len(Page(trace).attributes("polyline")) == (0 if T == 1 else 3)

    def test_html_needs_no_matplotlib(self):
        script = """
import sys
sys.modules["matplotlib"] = None
import numpy as np, klazy as kl
trace = kl.run(kl.GD(kl.L2Ball(2), 1.0), np.ones((9, 2)), engine="step")
print(len([shown._repr_html_() for shown in (trace, kl.regret(trace, [0.0, 0.0]), trace.source, kl.L2Ball(2))]))
"""
        ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert ran.stdout.strip() == "4"

    def test_without_jinja_a_notebook_shows_the_repr(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "jinja2", None)
        for shown in (RUN, kl.regret(RUN, [0.0] * 3), kl.L2Ball(2)):
            assert shown._repr_html_() is None  # which IPython takes for "no HTML"


CELLS = {
    "made": "import sys, numpy as np, klazy as kl\ntrace = kl.run(kl.GD(kl.L2Ball(2), 1.0), np.ones((30, 2)), engine='step')",
    "trace": "trace",
    "learner": "trace.source",
    "silent": "drawn = trace.plot()",
    "drawn": "drawn",
    "loaded": "'matplotlib.pyplot' in sys.modules",
    "inline": "%matplotlib inline\nimport matplotlib.pyplot as plt\n_ = plt.plot([1, 2])",
    "both": "trace.plot()",
    "after": "None",
    "waits": """
import time
from klazy.base.progress import show_progress
with show_progress('<b>replaying') as report:
    report(0.25)
    time.sleep(1.2)
""",
    "quick": "with show_progress('replaying') as report:\n    report(0.25)",
}


@pytest.fixture(scope="module")
def outputs():
    """What a notebook with these cells shows, by cell."""
    import nbclient
    import nbformat

    class Client(nbclient.NotebookClient):
        def process_message(self, message, cell, at):
            if message["msg_type"] in ("display_data", "update_display_data"):
                displays.append((list(CELLS)[at], message["content"]["data"]))
            return super().process_message(message, cell, at)

    displays = []
    book = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in CELLS.values()]
    )
    Client(book, timeout=120, kernel_name="python3").execute()
    return {name: cell.outputs for name, cell in zip(CELLS, book.cells, strict=True)} | {
        "displays": displays
    }


@pytest.mark.xdist_group("notebook")  # so that one worker starts one kernel
class TestKernel:
    def test_traces_and_learners_are_shown_as_html(self, outputs):
        for name in ("trace", "learner"):
            (output,) = outputs[name]
            assert output.data["text/html"].endswith("</div>")
            assert output.data["text/plain"].startswith("Trace(" if name == "trace" else "GD(")

    def test_a_figure_is_shown_once_where_a_cell_ends_with_it(self, outputs):
        assert not outputs["silent"]
        (output,) = outputs["drawn"]
        assert output.data["image/png"]
        assert output.metadata["image/png"] == {"width": 420, "height": 444}
        assert output.data["text/plain"].startswith("<Figure size 700x740 with 2 Axes>")
        assert outputs["loaded"][0].data["text/plain"] == "False"

    def test_a_figure_is_shown_once_beside_pyplot_too(self, outputs):
        assert len(outputs["inline"]) == 1  # pyplot's own
        (output,) = outputs["both"]
        assert [kind for kind in output.data if kind.startswith("image")] == ["image/png"]
        assert not outputs["after"]

    def test_what_takes_long_has_a_bar_until_it_ends(self, outputs):
        shown = [data for cell, data in outputs["displays"] if cell == "waits"]
        assert len(shown) > 2
        assert shown[0]["text/html"].startswith(
            '<progress value="0.250"></progress> &lt;b&gt;replaying, 25%'
        )
        assert shown[-1] == {"text/html": "", "text/plain": ""}
        assert not outputs["quick"]


@pytest.mark.xdist_group("notebook")
def test_a_card_is_laid_out_as_it_should_be_under_the_rules_that_notebooks_have(browser):
    """JupyterLab lets the names of a list float and gives them a fifth of the room, which in a narrow list is a letter."""
    theirs = ".out dl { width: 100% } .out dt { float: left; width: 20% } .out dd { float: left; width: 80% }"
    page = browser.new_page(viewport={"width": 700, "height": 600})
    page.set_content(
        f'<style>{theirs}</style><div class="out">{kl.KLazyGD(kl.Simplex(3), 4.0, k=5)._repr_html_()}</div>'
    )
    rows = page.eval_on_selector_all(
        "dt",
        "names => names.map((name) => [name.scrollHeight, name.nextSibling.offsetTop - name.offsetTop])",
    )
    page.close()
    assert len(rows) == 4
    assert all(height < 40 and shift == 0 for height, shift in rows)
