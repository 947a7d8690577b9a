"""The gallery: short scripts of public names that run, draw, and hold what they claim; and the scraper of their figures."""

import ast
import contextlib
import importlib
import io
import pickle
import re
import runpy
from functools import cache
from pathlib import Path

import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from matplotlib.image import imread

import klazy
from klazy.show.style import make_png

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "gallery"
# Scripts whose kernels other tests compile, too, go to the worker that has them (conftest.py).
KERNELS = {
    "04": "L1Ball2",
    "05": "L1Ball2",
    "10": "L1Ball5",
    "11": "Simplex5",
    "12": "Simplex5",
    "13": "Simplex3",
    "14": "Box5",
}
KERNELS |= dict.fromkeys(("02", "03", "06", "08", "09"), "L2Ball5")
LONG = {"14": [pytest.mark.long]}  # the arena has tests of its own


def marks_of(path):
    number = path.stem[:2]
    return [pytest.mark.xdist_group(KERNELS.get(number, path.stem)), *LONG.get(number, [])]


SCRIPTS = [
    pytest.param(path, marks=marks_of(path), id=path.stem) for path in sorted(FOLDER.glob("*.py"))
]
every_script = pytest.mark.parametrize("path", SCRIPTS)


@cache
def played(path):
    """The names that a script leaves behind, and what it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        names = runpy.run_path(str(path))
    pyplot.close("all")
    return names, out.getvalue()


def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def prose(path):
    """The script's words: its docstring and its cells of text."""
    cells = re.findall(r"^# %%\n((?:#.*\n)+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return "\n".join([ast.get_docstring(parsed(path)) or "", *cells])


def test_the_gallery_has_a_title_and_a_dozen_scripts():
    header = (FOLDER / "GALLERY_HEADER.rst").read_text(encoding="utf-8").splitlines()
    assert len(header[0]) == len(header[1]) > 0
    assert set(header[1]) == {"="}
    assert len(SCRIPTS) >= 10


@every_script
def test_every_script_is_short_and_begins_with_a_title_and_a_few_sentences(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 60
    title, line, blank, *about = (ast.get_docstring(parsed(path)) or "").splitlines()
    assert len(line) == len(title)
    assert set(line) == {"="}
    assert not blank
    assert len(re.findall(r"[.:;?](?:\s|$)", "\n".join(about))) >= 2


@every_script
def test_every_script_runs_without_a_warning_and_says_something(path):
    _, printed = played(path)
    assert printed.strip()
    assert "Traceback" not in printed
    assert max(map(len, printed.splitlines())) <= 120


@every_script
def test_every_script_leaves_figures_that_can_be_drawn(path):
    figures = {
        name: value for name, value in played(path)[0].items() if isinstance(value, Figure)
    }
    assert figures
    for name, figure in figures.items():
        assert len(make_png(figure)) > 2000, name
        assert figure.axes
        assert all(ax.has_data() for ax in figure.axes), name


@every_script
def test_every_script_keeps_each_of_its_figures_under_a_name_of_its_own(path):
    """The scraper finds no others."""
    made = [
        node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call) and _draws(node)
    ]
    assert len(made) == sum(isinstance(value, Figure) for value in played(path)[0].values())


def _draws(call):
    """Whether a call makes a figure: a function of show that draws, a method plot, step_picture or pyplot's subplots."""
    if isinstance(call.func, ast.Name):
        return call.func.id == "step_picture"
    if not isinstance(call.func, ast.Attribute) or not isinstance(call.func.value, ast.Name):
        return False
    owner, name = call.func.value.id, call.func.attr
    return (
        (owner == "show" and name.startswith("draw_"))
        or name == "subplots"
        or (name == "plot" and owner != "ax")
    )


@every_script
def test_no_script_shows_a_window_or_uses_a_private_name(path):
    assert "show(" not in path.read_text(encoding="utf-8")
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("klazy."):
            assert {alias.name for alias in node.names} <= set(
                importlib.import_module(node.module or "").__all__
            )
        if isinstance(node, ast.Attribute):
            assert not re.match("_[^_]", node.attr)
            if isinstance(node.value, ast.Name) and node.value.id == "kl":
                assert node.attr in dir(klazy)
            if isinstance(node.value, ast.Name) and node.value.id == "plots":
                assert node.attr in klazy.show.__all__


@every_script
def test_what_a_script_measures_is_printed_or_asserted_and_stands_not_in_its_words(path):
    held = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Assert)]
    assert held
    assert not re.search(r"\d\.\d|\d ?%", prose(path).replace("95 % interval", ""))


class TestScraper:
    @pytest.fixture
    def scraper(self, monkeypatch):
        monkeypatch.syspath_prepend(str(ROOT / "docs"))
        return importlib.import_module("scraper")

    @pytest.fixture(autouse=True)
    def no_figures_left_open(self):
        yield
        pyplot.close("all")

    def test_every_figure_comes_once_under_its_first_name(self, scraper):
        one, two = Figure(), Figure()
        names = {"number": 3, "one": one, "same": one}
        assert list(scraper.fresh(names)) == [("one", one)]
        assert list(scraper.fresh(names | {"two": two})) == [("two", two)]
        assert list(scraper.fresh(names | {"two": two})) == []

    def test_a_subclass_of_figure_is_one(self, scraper):
        made = type("Shown", (Figure,), {})()
        assert list(scraper.fresh({"made": made})) == [("made", made)]

    def test_figures_of_pyplot_are_closed_and_closed_ones_left_alone(self, scraper):
        mine, written = pyplot.figure(), pyplot.figure()
        pyplot.close(written)
        assert list(scraper.fresh({"mine": mine, "written": written})) == [("mine", mine)]
        assert pyplot.get_fignums() == []

    def test_sphinx_can_keep_it_and_sees_that_it_is_the_same(self, scraper):
        kept = pickle.loads(pickle.dumps(scraper.FigureScraper()))
        assert kept == scraper.FigureScraper()
        assert repr(kept) == repr(scraper.FigureScraper())

    def test_it_writes_two_files_and_one_directive_for_each_figure_and_a_card(
        self, scraper, tmp_path
    ):
        pytest.importorskip("sphinx_gallery")
        figures = {name: Figure(figsize=(3.5, 2.0)) for name in ("first_one", "second")}
        for figure in figures.values():
            figure.subplots().set(xlabel=r"$\sigma$", ylabel="regret")
        paths = iter([str(tmp_path / f"sphx_glr_script_{i:03}.png") for i in (1, 2, 3, 4)])
        told = {"example_globals": figures, "image_path_iterator": paths}
        text = scraper.FigureScraper()(("code", "", 1), told, {"src_dir": str(tmp_path)})
        assert text.count(".. image-sg::") == 2
        assert ":alt: first one: regret over sigma\n" in text
        assert "/sphx_glr_script_002.png, /sphx_glr_script_002_2_00x.png 2.00x\n" in text
        assert "script_001" not in text
        sizes = [
            imread(tmp_path / f"sphx_glr_script_{end}.png").shape[:2]
            for end in ("002", "002_2_00x")
        ]
        assert sizes == [(240, 420), (480, 840)]
        assert imread(tmp_path / "sphx_glr_script_001.png").shape[:2] == (280, 400)

    def test_a_block_without_figures_gives_no_words(self, scraper, tmp_path):
        pytest.importorskip("sphinx_gallery")
        told = {"example_globals": {"x": 1}, "image_path_iterator": iter(())}
        assert scraper.FigureScraper()(("code", "", 1), told, {"src_dir": str(tmp_path)}) == ""
