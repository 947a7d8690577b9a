"""README and docs: every code block runs, every number has its source, the command and the algorithms are all there."""

import importlib
import inspect
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from typer.main import get_command

import klazy as kl
from cases import PUBLIC, concrete
from command import call_klazy

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "howto").glob("*.md")),
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
]
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "urls"
]["Repository"]
SHOWS = {
    "{toctree}",
    "{eval-rst}",
    "{grid}",
    "{literalinclude}",
    "{include}",
    "{tab-set}",
    "{tab-item}",
    "{glossary}",
}  # directives, which are no code
# What a block that is shown and not run may say: how to install klazy.
INSTALLS = ("$ pip install ", "$ make demo", "$ docker build ")
FENCE = re.compile(
    r"^(?P<mark>```+|~~~+|:::+)[ ]?(?P<kind>\S*)[^\n]*\n(?P<body>.*?)^(?P=mark)[ ]*$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    kind: str
    body: str


def blocks(page: Path) -> list[Block]:
    return [
        Block(found["kind"], found["body"])
        for found in FENCE.finditer(page.read_text(encoding="utf-8"))
    ]


def test_a_block_is_what_stands_between_two_fences(tmp_path):
    page = tmp_path / "a.md"
    page.write_text(
        "```sh\nls\n```\nwords\n```{code-cell} python\nx = 1\n```\n````text\n```\n````\n```\n"
    )
    assert blocks(page) == [("sh", "ls\n"), ("{code-cell}", "x = 1\n"), ("text", "```\n")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_code_block_is_of_a_kind_that_is_run(page):
    """pytest runs doctests (pyproject.toml), Sphinx cells (tests/test_site.py), the next test commands; there is no other."""
    for block in blocks(page):
        if block.kind == "python":
            assert block.body.startswith(">>> ")
        elif block.kind == "{code-block}":
            assert all(line.startswith(INSTALLS) for line in block.body.splitlines())
        else:
            assert block.kind in {"sh", "{code-cell}", "bibtex"} | SHOWS


# The study that `klazy sweep --init` prints is played with two seeds, which takes a fifth of the time.
FEW_SEEDS = """
set -e -o pipefail
klazy() { command klazy "$@" | sed 's/^seeds = 10 /seeds = 2 /'; }
"""


def marks_of(page):
    """Pages play in groups of their own. Some take long, and what they show has tests of its own, too."""
    group = pytest.mark.xdist_group(page.stem)
    return (
        (group, pytest.mark.long)
        if page.stem in ("cluster", "forecasts", "leaderboard", "live_agent", "replay", "sweeps")
        else (group,)
    )


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=marks_of(page))
        for page in PAGES
        if any(block.kind == "sh" for block in blocks(page))
    ],
)
def test_the_commands_of_a_page_run(page, tmp_path):
    """In a folder of their own, one block after the other."""
    script = FEW_SEEDS + "".join(block.body for block in blocks(page) if block.kind == "sh")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=os.environ
        | {"PATH": path, "LOKY_MAX_CPU_COUNT": "1"},  # two would compile everything twice
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


def test_the_commands_of_the_cheat_sheet_take_their_arguments(tmp_path, monkeypatch):
    """Each is read to its end, and not run."""
    from klazy.cli import app

    monkeypatch.chdir(tmp_path)
    lines = re.findall(
        r"`klazy ([^`<>]+)[^`]*`", (ROOT / "docs" / "cheatsheet.md").read_text(encoding="utf-8")
    )
    assert len(lines) > 10
    for line in lines:
        words = line.split()
        command = get_command(app)
        context = click.Context(command)
        while words and words[0] in getattr(command, "commands", ()):
            command = command.commands[words.pop(0)]
            context = command.make_context(command.name, list(words), parent=context)
        assert context.parent is not None, line


def test_what_to_cite_is_what_the_citation_file_says():
    (block,) = (
        block.body for block in blocks(ROOT / "docs" / "cite.md") if block.kind == "bibtex"
    )
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    told = dict(re.findall(r"(version|eprint|year) = {(.*)}", block))
    titles = re.findall(r"^  title = {(.*)}", block, re.MULTILINE)
    assert titles == re.findall(r'title: "(.*)"', cited) != []
    assert f"version: {told['version']}\n" in cited
    assert f'"arXiv:{told["eprint"]}"' in cited
    assert f"year: {told['year']}\n" in cited


def test_the_readme_is_short():
    words = PAGES[0].read_text(encoding="utf-8").split()
    assert len(words) <= 600


def test_the_readme_links_to_whole_addresses():
    """PyPI shows it without the files beside it."""
    links = re.findall(r"\]\(([^)]*)\)", PAGES[0].read_text(encoding="utf-8"))
    assert len(links) > 10
    assert [link for link in links if not link.startswith(f"{REPOSITORY}/")] == []


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_what_is_said_of_the_picture_is_what_it_shows(page):
    """benchmarks/picture.py writes its numbers into the picture's file."""
    file = (ROOT / "docs" / "figures" / "load.png").read_bytes()
    both = rb"GD paid (\d+), .* in (\d+) .* auto paid (\d+), .* in (\d+) "
    shown = re.search(rb"Description\0" + both + rb".*: ([\d.]+%) less, .* was (\d+)", file)
    told = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert shown
    greedy, rounds, calm, moves, less, best = (each.decode() for each in shown.groups())
    assert f"in all {rounds} rounds and pays {greedy}." in told
    assert (
        f"moves in {moves} and pays {calm}: **{less} less**. The best possible total was {best}"
        in told
    )


def test_the_aims_of_speed_are_gathered_from_the_sections_of_their_page(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    aims = importlib.import_module("aims")
    page = aims.PAGE.read_text(encoding="utf-8")
    assert aims.read_section(page, "Aims").strip() == aims.make(ROOT, ROOT).strip()


def test_the_gains_are_those_of_the_reproduction_and_the_studies():
    """The table of the limits rounds what the two pages have, which commands print."""
    rows = (
        (ROOT / "docs" / "limits.md")
        .read_text(encoding="utf-8")
        .partition("| on | lazy | beside GD |")[2]
        .partition("\n\n")[0]
        .splitlines()[2:]
    )
    source = "".join(
        (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
        for name in ("reproduction", "sweeps")
    )
    printed = set(re.findall(r"\d+(?:\.\d+)?", source))
    told = [number for row in rows for number in re.findall(r"\d+\.\d+", row.split("|")[3])]
    assert len(told) >= 10
    assert set(told) <= printed


def test_what_was_tried_of_the_promises_is_what_the_records_say():
    """The numbers in the comparison with databases are those of the table that `make torture` writes."""
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    _, _, rest = page.partition("## What is promised next to")
    promises, _, tried = rest.partition("## What was tried")
    records = {row.split("|")[2].strip() for row in tried.splitlines() if row.startswith("|")}
    told = re.findall(
        r"\b\d{1,3}(?: \d{3})+\b|\b\d{3,}\b",
        " ".join(re.findall(r"[^|]*\|$", promises, re.MULTILINE)),
    )
    assert len(told) == 6
    assert set(told) <= records


@pytest.mark.parametrize("name", ["choose", "algorithms"])
def test_every_learner_is_chosen_from_and_explained(name):
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    learners, rules = (
        [kind.__name__ for kind in concrete(base)] for base in (kl.types.Learner, kl.types.Memory)
    )
    steps = {
        PUBLIC[learner].step.__qualname__ for learner in learners
    }  # rules of thumb share one
    assert len(learners) >= 8
    assert [
        learner
        for learner in learners
        if f"`{learner}`" not in text and f".{learner}\n" not in text
    ] == []
    if name == "algorithms":
        assert [step for step in steps if f":pyobject: {step}\n" not in text] == []
        assert [rule for rule in rules if f":pyobject: {rule}.theta\n" not in text] == []
    else:
        assert [rule for rule in rules if f"{rule}(" not in text] == []


@pytest.mark.parametrize("base", [kl.contrib.LookAhead, kl.contrib.ConversionRule])
def test_every_baseline_and_every_rule_for_jobs_is_explained(base):
    text = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")
    names = [kind.__name__ for kind in concrete(base)]
    assert len(names) >= 6
    assert [name for name in names if f":pyobject: {name}." not in text] == []


def test_every_baseline_is_in_the_table_that_says_when_not_to_use_it():
    text = (ROOT / "docs" / "optimum.md").read_text(encoding="utf-8")
    names = [kind.__name__ for kind in concrete(kl.contrib.LookAhead)]
    rows = re.findall(r"^\| `(\w+)\([^|]*\|[^|]+\|[^|]+\|[^|]+\|$", text, re.MULTILINE)
    assert sorted(rows) == names


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_links_lead_to_files_that_are_there(page):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    own = re.compile(
        rf"{re.escape(REPOSITORY)}/(?:blob|raw)/HEAD/"
    )  # the same files, as the README names them
    links = [own.sub(f"{ROOT}/", link) for link in links]
    made = {"api", "gallery"}  # by the build, which looks at these itself
    assert [
        link
        for link in links
        if "://" not in link
        and link.split("/")[0] not in made
        and not (page.parent / link).exists()
    ] == []


def test_a_learner_that_compiles_everywhere_takes_as_few_lines_as_its_guide_says():
    from klazy.kernels import rules

    def count(text):
        return sum(bool(line.strip()) for line in text.splitlines())

    learner = count((ROOT / "src/klazy/learners/patient.py").read_text()) - count(
        kl.contrib.Patient.__doc__ or ""
    )
    twin = count(inspect.getsource(rules.patient)) + count(inspect.getsource(rules.debt_is_due))
    others = 2 + 1 + 1  # learners/__init__.py, the entry in RULES, tests/cases.py
    assert (
        "four files and fewer than 70 lines" in (ROOT / "docs/howto/own_learner.md").read_text()
    )
    assert learner + twin + others < 70


def test_help_begins_with_what_klazy_is_for_and_names_every_command_once(monkeypatch):
    from klazy.cli import EXAMPLES, GROUPS, app

    monkeypatch.setenv("COLUMNS", "80")
    printed = call_klazy("--help").stdout
    assert (
        printed.splitlines()[2].strip()
        == "Decide again and again when changing your mind costs something."
    )
    told = re.findall(r"^  ([a-z]+) +[A-Z]", printed.partition("\nExamples:")[0], re.MULTILINE)
    known = [each.name for each in (*app.registered_commands, *app.registered_groups)]
    assert told[:4] == ["replay", "live", "arena", "reproduce"]
    assert len(told) == len(known)
    assert set(told) == set(known)
    assert all(heading in printed for heading in GROUPS)
    assert {example.split()[1] for example in EXAMPLES} == set(told[:4])


def test_the_help_of_a_sweep_is_headed_by_what_is_typed():
    assert call_klazy("sweep", "--help").stdout.startswith(
        "Usage: klazy sweep [OPTIONS] [study]\n"
    )
    assert call_klazy("sweep", "plot", "--help").stdout.startswith("Usage: klazy sweep plot ")


OTHERS = {
    "README",
    "index",
    "changelog",
    "contributing",
}  # they are for everybody, or other files


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.stem not in OTHERS], ids=lambda page: page.stem
)
def test_a_page_opens_with_a_few_sentences_about_its_content(page):
    found = re.search(
        r"^# [^\n]*\n\n(.*?)\n\n", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert found
    said = " ".join(found[1].split())
    assert not re.search(r"This (page|tutorial)|At its end", said.split(".")[0]), said
    assert 20 < len(said) < 500


def test_the_pictures_of_the_architecture_are_current_and_name_files_that_exist():
    scope = runpy.run_path(str(ROOT / "scripts" / "architecture.py"))
    for name, picture in scope["draw_all"]().items():
        drawn = (ROOT / "docs" / "figures" / name).read_text(encoding="utf-8")
        assert drawn == picture, "run python scripts/architecture.py"
        for places in re.findall(r'class="place"[^>]*>([^<]*)<', picture):
            for place in places.split():
                found = ROOT / "src" / "klazy" / place
                assert found.exists() or found.with_suffix(".py").exists(), place
