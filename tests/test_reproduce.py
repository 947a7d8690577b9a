"""One command reproduces the paper: its parts, what they keep on disk, the JSON it prints, and the report in a browser."""

import inspect
import json
import math
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from command import call_klazy
from klazy.base.checks import InvalidInput
from klazy.base.files import lock_file
from klazy.show.style import make_pdf, make_png
from klazy.studies import results
from klazy.studies.paper import EXPERIMENTS, PRESETS, report, section
from klazy.studies.paper.claims import CLAIMS
from klazy.studies.paper.definitions import PaperSettings
from klazy.studies.paper.reproduce import (
    FIRST_LOOK,
    PARTS,
    compute_results,
    group_results,
    list_jobs,
    load_sections,
    run_jobs,
    select_names,
)
from klazy.studies.paper.section import REPORT_TEXT, Stored
from klazy.studies.paper.verdicts import (
    CHANGED,
    COLOURS,
    FAILS,
    HOLDS,
    PARTLY,
    VERDICT_RULES,
    judge_claims,
)
from looks import look_at, watch

QUICK = PaperSettings(quick=True, seeds=3)
FEW = ["example-i", "worst-case", "geometry"]


@pytest.fixture(scope="module", autouse=True)
def one_of_each_form():
    """Draw the first figure as PNG and as PDF, which stand for those of all others: they take as long as all else."""
    drawn = {}

    def draw_once(form, draw):
        def give_first(figure):
            if form not in drawn:
                drawn[form] = draw(figure)
            return drawn[form]

        return give_first

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(section, "make_png", draw_once("png", make_png))
        patched.setattr(section, "make_pdf", draw_once("pdf", make_pdf))
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Every part in small, and its report."""
    out = tmp_path_factory.mktemp("reproduction")
    rounded = list_jobs(
        ["worst-case", "ensemble-corrupted"], ["authors"], QUICK, out
    )  # the others take as long and show no more
    jobs = list_jobs([], ["paper"], QUICK, out) + rounded
    assert set(run_jobs(jobs, 1)) == set(jobs)
    sections = load_sections(jobs)
    assert len(sections) == len(jobs)
    return out, sections, report.write_report(out, sections, QUICK, "klazy reproduce --quick")


@pytest.fixture(scope="module")
def sections(made):
    return made[1]


IN_ONE_WORKER = pytest.mark.xdist_group("reproduction")  # which makes the parts once


@IN_ONE_WORKER
class TestParts:
    def test_every_part_has_words_tables_and_figures(self, made, sections):
        assert {name for name, _ in sections} == set(PARTS)
        for stored in sections.values():
            assert stored.text
            assert stored.captions or stored.tables
            for name in stored.captions:
                assert b"<svg" in stored.read_figure(name)
                assert stored.read_figure(name, "png")[:4] == b"\x89PNG"
                assert (stored.folder / f"{name}.svg").read_bytes() == stored.read_figure(name)
                paper = made[0] / "figures" / f"{'-'.join(stored.folder.parts[-2:])}-{name}.pdf"
                assert paper.read_bytes()[:5] == b"%PDF-"
            for name, rows in stored.tables.items():
                assert pl.read_parquet(stored.folder / f"{name}.parquet").to_dicts() == rows
                table = made[0] / "tables" / f"{'-'.join(stored.folder.parts[-2:])}-{name}"
                assert len(pl.read_csv(f"{table}.csv", infer_schema=False)) == len(rows)
                assert (
                    Path(f"{table}.tex").read_text(encoding="utf-8").count(r" \\")
                    == len(rows) + 1
                )

    def test_every_experiment_has_the_three_figures_and_a_bound_that_holds(self, sections):
        for (name, _), stored in sections.items():
            if PARTS[name].kind == "experiment":
                assert {"switching", "dynamic-regret", "total-regret"} <= set(stored.captions)
            for row in stored.tables.get("results", []):
                rounded = (
                    2e-5 * row["T"] if row["preset"] == "authors" else 0.0
                )  # points are off by up to 5e-6 a coordinate
                assert row["total_regret"] <= row["certified_bound"] + rounded

    def test_the_examples_show_actions(self, sections):
        for name in ("example-i", "example-ii"):
            captions = sections[name, "paper"].captions
            assert {"actions", "hitting"} <= set(captions)

    def test_all_rows_are_in_one_table(self, made):
        table = pl.read_parquet(made[0] / "results.parquet")
        assert set(table["experiment"]) == set(EXPERIMENTS)
        assert set(table["preset"]) == set(PRESETS)
        wanted = {
            "learner",
            "switching",
            "hitting",
            "dynamic_regret",
            "total_regret",
            "certified_bound",
        }
        assert wanted <= set(table.columns)
        assert table.null_count().sum_horizontal().to_list() == [0]
        assert np.isfinite(table.select(pl.selectors.float()).to_numpy()).all()

    def test_numbers_in_the_words_come_from_the_run(self, sections):
        words = " ".join(sections["seeds", "paper"].text)
        rows = sections["seeds", "paper"].tables["seeds"]
        row = next(row for row in rows if row["learner"] == "k=65")
        assert (
            f"k=65 {row['gain']:.1f}% ({row['gain_low']:.1f} to {row['gain_high']:.1f})" in words
        )

    def test_lazy_experts_cost_an_ensemble_less_the_larger_beta_is(self):
        """Against greedy experts alone, on the paper's own worst case: with them they fall back at large rates only."""
        lemma, ten, hundred, own = PARTS["fallback"].make(PaperSettings()).tables["fallback"]
        excess = [row["together"] / row["greedy_alone"] for row in (lemma, ten, hundred, own)]
        assert excess[0] > 1.3 > 1.1 > excess[1] > excess[2] > excess[3]
        for row in (lemma, ten, hundred, own):
            assert 0.5 < row["greedy_weight_at_first"] < row["greedy_weight_at_last"] < 0.8

    def test_every_statement_is_measured_in_its_own_form(self, sections):
        tables = sections["statements", "paper"].tables
        for row in tables["theorem-1"]:
            assert row["difference_from_origin"] < 1e-12 < 0.1 < row["difference_from_elsewhere"]
            assert row["pruned_from_origin"] > 0
        for row in tables["theorem-5"]:
            assert row["regret"] <= row["realised_bound"] <= row["worst_case_bound"]
        for row in tables["variance"]:
            assert (row["above_printed"], row["above_corrected"]) == (0, 0)
            assert row["moved"] <= row["corrected"] < row["printed"]
        for row in tables["theorem-8"]:
            assert row["regret"] <= row["corrected"]
            assert row["log_printed"] < row["log_needs"]  # the step that does not hold
            assert row["expert_needs"] > 1.0
        switching = [row["mean_switching"] for row in tables["random-moves"]]
        assert switching == sorted(switching, reverse=True)

    def test_the_slack_of_one_is_greedy_and_the_seeds_are_those_of_the_experiment(self, sections):
        first = sections["resonance", "paper"].tables["slacks"][0]
        rows = sections["stochastic", "paper"].tables["results"]
        greedy = next(row for row in rows if row["learner"] == "GD")
        assert (first["sequence"], first["k"]) == ("stochastic", 1)
        assert first["equal_phases"] == pytest.approx(greedy["total_regret"])


def change(sections, part, table, **values):
    """The sections with some values of every row of a table changed."""
    stored = sections[part]
    rows = [row | values for row in stored.tables[table]]
    return sections | {part: replace(stored, tables=stored.tables | {table: rows})}


def judge(sections, word, quick=True):
    (verdict,) = [each.verdict for each in judge_claims(sections, quick) if word in each.claim]
    return verdict


@IN_ONE_WORKER
class TestVerdicts:
    def test_every_sentence_has_a_rule_that_takes_its_tables(self):
        needs = {name: len(words["needs"]) for name, words in REPORT_TEXT["verdicts"].items()}
        assert {
            name: len(inspect.signature(rule).parameters) for name, rule in VERDICT_RULES.items()
        } == needs

    def test_theorems_hold_and_errata_stand_apart(self, sections):
        found = {each.claim.split(":")[0]: each for each in judge_claims(sections, quick=True)}
        holding = [
            "Theorem 1",
            "Theorem 5",
            "Theorem 8",
            "Proposition 11",
            "Example (i)",
            "Example (ii)",
        ]
        assert {name: found[name].verdict for name in holding} == dict.fromkeys(holding, HOLDS)
        assert found["Theorem 2"].verdict == CHANGED
        assert found["Switching decreases in k"].verdict == PARTLY
        assert all(found[name].erratum for name in holding[:4])

    def test_every_verdict_quotes_one_short_sentence_and_says_where_it_is(self, sections):
        verdicts = judge_claims(sections)
        assert (
            len(verdicts) == 17 - 3
        )  # three gains lack the authors' preset here, and are not judged
        for each in verdicts:
            assert 15 < len(each.quotation) < 110
            assert ". " not in each.quotation
            assert re.match(r"(Thm\.|Sec\.|App\.) ", each.where)

    def test_short_sequences_do_not_judge_numbers(self, sections):
        quick = {each.claim for each in judge_claims(sections, quick=True)}
        assert quick < {each.claim for each in judge_claims(sections)}
        assert not any(
            word in claim for claim in quick for word in ("%", "worst case", "sequence")
        )
        rows = compute_results(["ensemble-corrupted"], "paper", QUICK)
        assert list(report.check_claims(rows, quick=True)[0]) == [
            "claim",
            "printed",
            "paper",
            "authors",
        ]

    @pytest.mark.parametrize(
        ("word", "part", "table", "values"),
        [
            ("Theorem 1", ("statements", "paper"), "theorem-1", {"difference_from_origin": 0.1}),
            ("Theorem 2", ("lower-bound", "paper"), "lower-bound", {"measured": 0.0}),
            ("Theorem 5", ("statements", "paper"), "theorem-5", {"regret": 1e9}),
            ("Theorem 8", ("statements", "paper"), "theorem-8", {"regret": 1e9}),
            ("Proposition 11", ("statements", "paper"), "variance", {"above_printed": 1}),
            ("Switching", ("statements", "paper"), "random-moves", {"mean_switching": 1.0}),
            (
                "Example (i):",
                ("example-i", "paper"),
                "results",
                {"switching": 1.0, "hitting": 1.0},
            ),
        ],
    )
    def test_a_run_against_it_turns_a_verdict(self, sections, word, part, table, values):
        assert judge(sections, word) != FAILS
        assert judge(change(sections, part, table, **values), word) == FAILS

    @pytest.mark.parametrize(
        ("together", "verdict"),
        [((120.0, 105.0), PARTLY), ((105.0, 101.0), HOLDS), ((120.0, 111.0), FAILS)],
    )
    def test_falling_back_is_measured_against_greedy_experts_alone(
        self, sections, together, verdict
    ):
        stored = sections["fallback", "paper"]
        rows = [row | {"greedy_alone": 100.0} for row in stored.tables["fallback"]]
        rows = [row | {"together": together[min(i, 1)]} for i, row in enumerate(rows)]
        changed = sections | {("fallback", "paper"): replace(stored, tables={"fallback": rows})}
        assert judge(changed, "falls back", quick=False) == verdict

    @pytest.mark.parametrize(
        ("paper", "authors", "verdict"),
        [(74.6, 74.0, HOLDS), (-80.0, 73.5, CHANGED), (10.0, 60.0, PARTLY), (-80.0, -5.0, FAILS)],
    )
    def test_a_gain_may_come_out_with_settings_that_are_not_printed(
        self, sections, paper, authors, verdict
    ):
        changed = dict(sections)
        for preset, gain in (("paper", paper), ("authors", authors)):
            stored = sections["ensemble-corrupted", preset]
            rows = [row | {"dynamic_regret": 0.0} for row in stored.tables["results"]]
            rows = [
                row | {"total_regret": 100.0 - gain * (row["learner"] == "SAder-k")}
                for row in rows
            ]
            changed["ensemble-corrupted", preset] = replace(stored, tables={"results": rows})
        assert judge(changed, "74% less", quick=False) == verdict

    @pytest.mark.long
    def test_in_full_ten_claims_hold_five_with_a_change_two_in_part(self, tmp_path):
        jobs = list_jobs(
            [*EXPERIMENTS, "lower-bound", "statements", "fallback"],
            PRESETS,
            PaperSettings(),
            tmp_path,
        )
        list(run_jobs(jobs))
        verdicts = [each.verdict for each in judge_claims(load_sections(jobs))]
        assert [verdicts.count(grade) for grade in COLOURS] == [10, 5, 2, 0]


class TestStore:
    def test_what_is_there_is_not_made_again_unless_inputs_change(self, tmp_path):
        few = ["example-i", "phases", "geometry"]
        jobs = list_jobs(few, ["paper"], QUICK, tmp_path)
        assert set(run_jobs(jobs, 1)) == set(jobs)
        files = sorted(jobs[0].store.iterdir())
        assert list(run_jobs(jobs, 1)) == jobs
        assert sorted(jobs[0].store.iterdir()) == files
        other = list_jobs(few, ["paper"], QUICK._replace(seed=7), tmp_path)
        done = [name for name, _ in load_sections(other)]
        assert done == ["example-i", "geometry"]  # they draw nothing

    def test_a_failure_leaves_finished_parts_and_the_rerun_makes_the_rest(
        self, tmp_path, monkeypatch
    ):
        jobs = list_jobs(FEW, ["paper"], QUICK, tmp_path)
        broken = PARTS["worst-case"]._replace(
            report=lambda section, settings: 1 / 0, seconds=0.0
        )  # the last to be made
        monkeypatch.setitem(PARTS, "worst-case", broken)
        with pytest.raises(ZeroDivisionError):
            list(run_jobs(jobs, 1))
        monkeypatch.undo()
        assert [name for name, _ in load_sections(jobs)] == ["example-i", "geometry"]
        list(run_jobs(jobs, 1))
        assert len(load_sections(jobs)) == len(jobs)

    def test_a_killed_run_leaves_finished_parts_intact(self, tmp_path):
        names = ["example-i", "stochastic", "worst-case"]
        command = [
            sys.executable,
            "-m",
            "klazy",
            "reproduce",
            *names,
            "--quick",
            "--jobs",
            "1",
            "--out",
            str(tmp_path),
        ]
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as running:
            deadline = time.monotonic() + 240
            while not list(tmp_path.glob("store/*.parquet")) and time.monotonic() < deadline:
                time.sleep(0.05)
            running.send_signal(signal.SIGKILL)
        jobs = list_jobs(names, PRESETS, PaperSettings(quick=True), tmp_path)
        finished = load_sections(jobs)
        assert 0 < len(finished) < len(jobs)
        for stored in finished.values():
            assert all(b"</svg>" in stored.read_figure(name) for name in stored.captions)

    def test_results_of_other_settings_stay_in_the_store(self, tmp_path):
        first = list_jobs(["phases"], ["paper"], QUICK, tmp_path)
        other = list_jobs(["phases"], ["paper"], QUICK._replace(seed=7), tmp_path)
        list(run_jobs(first, 1))
        list(run_jobs(other, 1))
        assert load_sections(first) != load_sections(other)
        for jobs in (other, first):
            (stored,) = load_sections(jobs).values()
            report.write_report(
                tmp_path, load_sections(jobs), jobs[0].settings, "klazy reproduce"
            )
            name = next(iter(stored.captions))
            assert (jobs[0].folder / f"{name}.svg").read_bytes() == stored.read_figure(name)

    def test_a_changed_kernel_makes_what_was_kept_out_of_date(self, tmp_path, monkeypatch):
        kernels = tmp_path / "kernels"
        kernels.mkdir()
        (kernels / "step.py").write_text("STEP = 1.0")
        assert (results.CODE_FOLDER / "kernels" / "__init__.py").exists()
        monkeypatch.setattr(results, "CODE_FOLDER", tmp_path)
        monkeypatch.setattr(section, "hash_code", results.hash_code.__wrapped__)
        before = section.make_section_key("part")
        (kernels / "step.py").write_text("STEP = 2.0")
        assert section.make_section_key("part") != before


class TestCommand:
    def test_json_is_one_object_and_nothing_else(self):
        ran = call_klazy("reproduce", "--json", "--quick")
        assert (ran.status, ran.stderr) == (0, "")
        found = json.loads(ran.stdout)
        assert list(found) == ["preset", "experiments"]
        assert found["preset"] == "paper"
        assert list(found["experiments"]) == list(EXPERIMENTS)
        for experiment in found["experiments"].values():
            assert list(experiment) == ["T", "comparator", "learners"]
            assert isinstance(experiment["T"], int)
            assert list(experiment["comparator"]) == ["switching", "hitting"]
            for learner in experiment["learners"].values():
                assert list(learner) == ["switching", "hitting", "dynamic_regret", "total_regret"]
                assert all(math.isfinite(value) for value in learner.values())
        assert list(found["experiments"]["stochastic"]["learners"]) == [
            "GD",
            "LazyGD",
            "k=65",
            "k=150",
            "k=300",
            "k=1500",
        ]
        assert list(found["experiments"]["ensemble-corrupted"]["learners"]) == [
            "SAder",
            "SAder-k",
        ]

    def test_json_with_out_prints_the_same_and_keeps_the_figures(self, tmp_path):
        ran = call_klazy(
            "reproduce",
            "worst-case",
            "--quick",
            "--preset",
            "authors",
            "--json",
            "--out",
            tmp_path / "here",
        )
        assert json.loads(ran.stdout) == group_results(
            "authors", compute_results(["worst-case"], "authors", PaperSettings(quick=True))
        )
        assert (tmp_path / "here" / "authors" / "worst-case" / "total-regret.svg").exists()

    @pytest.mark.long
    def test_piped_it_ends_with_the_path_of_the_report(self, tmp_path):
        """As a process of its own, which has others make the part in both presets."""
        command = [
            sys.executable,
            "-m",
            "klazy",
            "reproduce",
            "worst-case",
            "--quick",
            "--out",
            "here",
        ]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert ran.stdout.splitlines()[-1] == "here/report.html"
        assert "\x1b" not in ran.stdout
        assert re.search(r"authors +worst-case +k=19 +[\d.]+", ran.stdout)
        assert report.QUICK in ran.stdout

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["stochastc"], "No part is named 'stochastc'. Did you mean 'stochastic'? `klazy list` lists all."),
            (["zzz"], "No part is named 'zzz'. `klazy list` lists all."),
            (["geometry", "--json"], "No experiment is named 'geometry'. `klazy list` lists all."),
            (["phases", "--out", "/dev/null/x"], "Cannot write to the folder /dev/null/x: Not a directory."),
            (["--preset", "prnted"], "--preset must be one of 'paper', 'authors', got 'prnted'."),
        ],
    )  # fmt: skip
    def test_bad_input_is_one_line_and_a_status(self, arguments, message):
        assert call_klazy("reproduce", *arguments) == (2, "", f"{message}\n")

    def test_one_at_a_time_works_in_a_folder(self, tmp_path):
        with lock_file(tmp_path / ".lock", wait=False):
            ended = call_klazy("reproduce", "geometry", "--quick", "--out", tmp_path)
        complaint = f"Another process writes to {tmp_path}."
        assert ended == (
            2,
            "",
            f"{complaint} Wait for it, or choose another folder with --out.\n",
        )

    def test_a_folder_may_look_like_a_pattern_and_hold_links(self, tmp_path):
        out = tmp_path / "out[1]"
        (out / "illustrations").mkdir(parents=True)
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "kept").write_text("mine")
        (out / "illustrations" / "geometry").symlink_to(tmp_path / "mine")
        for name in ("report.html", "results.parquet", ".report", ".results"):
            (out / name).symlink_to(tmp_path / "mine" / "kept")
        for _ in range(2):
            ended = call_klazy(
                "reproduce",
                "geometry",
                "example-i",
                "--quick",
                "--preset",
                "paper",
                "--jobs",
                1,
                "--out",
                out,
            )
            assert ended.status == 0, ended.stderr
        assert [file.name for file in (tmp_path / "mine").iterdir()] == ["kept"]
        assert (tmp_path / "mine" / "kept").read_text() == "mine"
        assert len(
            pl.read_parquet((out / "paper" / "example-i" / "results.parquet").read_bytes())
        )
        (out / "extras").symlink_to(tmp_path / "mine")
        with pytest.raises(
            InvalidInput, match=r"extras must be a folder, got a link\. Remove it\."
        ):
            Stored(out / "extras" / "kept", "title", ["words"], {}, {}, {}, "").write_files()

    def test_a_full_disk_is_one_line_and_a_status(self):
        with open("/dev/full", "w") as full:
            command = [sys.executable, "-m", "klazy", "list"]
            ran = subprocess.run(
                command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
            )
        complaint = "Cannot read or write standard output: No space left on device."
        assert (ran.returncode, ran.stderr) == (2, f"{complaint}\n")

    def test_a_part_made_later_joins_the_report(self, tmp_path):
        for name in ("worst-case", "geometry"):
            call_klazy("reproduce", name, "--quick", "--preset", "paper", "--out", tmp_path)
        page = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert 'id="worst-case"' in page
        assert 'id="geometry"' in page
        assert set(pl.read_parquet(tmp_path / "results.parquet")["experiment"]) == {"worst-case"}

    def test_a_preset_that_was_not_played_is_not_judged(self):
        rows = compute_results(["ensemble-corrupted"], "paper", QUICK)
        assert {claim["comes out in"] for claim in report.check_claims(rows)} == {"not in paper"}

    def test_list_names_every_part(self):
        listed = call_klazy("list").stdout
        assert all(
            re.search(rf"^{name} +{part.kind} ", listed, re.MULTILINE)
            for name, part in PARTS.items()
        )
        assert [
            part["name"] for part in json.loads(call_klazy("list", "--json").stdout)["parts"]
        ] == list(PARTS)

    def test_help_has_an_example_that_runs(self):
        said = call_klazy("reproduce", "--help").stdout
        assert "klazy reproduce worst-case --preset authors --json" in said
        assert (
            json.loads(
                call_klazy("reproduce", "worst-case", "--preset", "authors", "--json").stdout
            )["preset"]
            == "authors"
        )

    def test_version(self):
        assert re.fullmatch(r"klazy \d+\.\d+\.\d+\n", call_klazy("--version").stdout)


def test_names_come_in_the_order_of_the_reproduction():
    assert select_names(["geometry", "example-i"]) == ["example-i", "geometry"]
    assert select_names([]) == list(PARTS)


def test_a_quick_look_makes_what_the_paper_has_and_what_short_sequences_judge():
    assert set(FIRST_LOOK) >= set(EXPERIMENTS)
    assert [name for name in FIRST_LOOK if PARTS[name].kind == "extra"] == ["statements"]


def test_a_claim_is_recomputed_from_rows():
    claim = next(claim for claim in CLAIMS if claim.printed == "45")
    rows = [
        {
            "experiment": "stochastic",
            "learner": "GD",
            "total_regret": 200.0,
            "dynamic_regret": 0.0,
        },
        {
            "experiment": "stochastic",
            "learner": "k=300",
            "total_regret": 111.0,
            "dynamic_regret": 0.0,
        },
    ]
    assert claim.measure(rows) == pytest.approx(44.5)
    assert [claim.agrees(gain) for gain in (44.5, 45.9, 44.0, 46.0, None)] == [
        True,
        True,
        False,
        False,
        False,
    ]


@pytest.fixture(scope="module")
def page(made, browser):
    page, heard, asked = browser.new_page(), [], []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(made[2].as_uri())
    return page, heard, asked


@IN_ONE_WORKER
class TestReport:
    def test_it_is_silent_and_asks_nobody(self, page):
        _, heard, asked = page
        assert heard == []
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
        assert len([url for url in asked if url.startswith("file:")]) == 1  # itself

    def test_every_figure_is_drawn_and_described(self, page, made):
        shown = page[0].evaluate(
            "[...document.images].map(i => [i.complete && i.naturalWidth > 0, i.alt])"
        )
        assert len(shown) == sum(len(stored.captions) for stored in made[1].values())
        assert all(drawn and alt for drawn, alt in shown)

    def test_it_says_how_it_was_made(self, page):
        words = page[0].inner_text("#made")
        for word in ("klazy reproduce --quick", "numpy", "numba", "Python", "cores", "42"):
            assert word in words

    def test_it_shows_the_claims_beside_the_printed_values(self, page):
        cells = page[0].evaluate(
            "[...document.querySelectorAll('#claims tr')].map(r => [...r.cells].map(c => c.innerText))"
        )
        assert cells[0] == ["claim", "printed", "paper", "authors"]
        assert [row[1] for row in cells[1:]] == [claim.printed for claim in CLAIMS]

    def test_its_first_screen_has_a_verdict_on_each_claim(self, page, sections):
        page[0].set_viewport_size({"width": 1280, "height": 900})
        said = page[0].inner_text("#verdicts .answer")
        shown = page[0].evaluate(
            "[...document.querySelectorAll('#verdicts .verdict')].map(v => [v.className, v.innerText])"
        )
        assert said == (
            "Of 8 claims 6 hold, 1 holds with a correction or with settings that are not printed, 1 holds in part."
        )
        assert len(shown) == 8
        assert {(f"verdict {COLOURS[verdict]}", verdict) for _, verdict in shown} == set(
            map(tuple, shown)
        )
        quoted = page[0].locator("#verdicts td q").all_inner_texts()
        assert [text.strip("“”") for text in quoted] == [
            each.quotation for each in judge_claims(sections, quick=True)
        ]
        assert page[0].locator("#verdicts .answer").bounding_box()["y"] < 900

    def test_contents_stay_in_view_and_the_second_preset_is_folded(self, page):
        page[0].set_viewport_size({"width": 1280, "height": 900})
        page[0].evaluate("window.scrollTo(0, document.body.scrollHeight / 2)")
        assert page[0].locator("nav").bounding_box()["y"] == pytest.approx(0.0, abs=1.0)
        folded = page[0].locator("#in-worst-case > details", has_text="Preset authors")
        assert folded.count() == 1
        assert folded.get_attribute("open") is None

    def test_it_fits_holds_still_and_is_accessible(self, made, browser):
        page = browser.new_page()
        watch(page, "file:")
        look_at(page, made[2].as_uri())
        page.close()

    def test_a_quick_look_says_so(self, page):
        assert "no number here is the paper's" in page[0].inner_text("body")
