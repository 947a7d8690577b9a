"""Replay: a trace is read as it stands or refused by row and column, nobody beats the optimum."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from command import call_klazy
from klazy.base.checks import Refused
from klazy.studies.replay import Source, make_setup, replay
from klazy.studies.replay.contenders import CANDIDATES, list_contenders, measure_learners
from klazy.studies.replay.page import draw_figures, make_report
from klazy.studies.replay.score import STRETCHES
from klazy.studies.replay.words import _explain, answer, judge, tabulate, to_dict
from klazy.studies.tuning import Candidate

pytestmark = pytest.mark.xdist_group("replay")  # one worker compiles what all of it needs


def written(folder: Path, text: str, name: str = "trace.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


def trace(folder: Path, values: np.ndarray, name: str = "trace.parquet") -> Source:
    frame = pl.DataFrame(
        {"time": np.arange(len(values))} | {f"c{i}": column for i, column in enumerate(values.T)}
    )
    (frame.write_parquet if name.endswith("parquet") else frame.write_csv)(folder / name)
    return Source(folder / name)


class TestATrace:
    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("a,b\n1,2\n3,x\n", "a number in every cell, got row 2, column b='x'; correct the file."),
            ("a,b\n1,2\n3,\n", "no missing cell, got row 2, column b=None"),
            ("a,b\n1,nan\n", "no missing cell, got row 1, column b='nan'"),
            ("a,b\n1,2\n\n3,4\n", "no missing cell, got row 2, column a=None"),
            ("a,b\n1,2\n3\n", "2 cells in every row, got row 2 with=1 cells"),
            ("a,b\n1,2\n3,4,5\n", "2 cells in every row, got row 2 with=3 cells"),
            ("a,b\n1,-inf\n", "numbers within +-1e+60, got row 1, column b='-inf'"),
            ("a,b\n1,1e300\n", "numbers within +-1e+60, got row 1, column b='1e300'"),
            ("a;b\n1;2\n", "a number in every cell, got row 1, column a;b='1;2'; separate cells by commas."),
            ("time,a\n5,1\n2020-01-02,1\n", "time stamps of one kind, numbers, got row 2, column time='2020-01-02' after '5'"),
            ("time,a\n2020-01-01,1\n2020-01-02T00:00+01:00,1\n", "time stamps of one kind, dates without a zone, got row 2"),
            ("time,a\n5,1\nnan,1\n", "a number or an ISO date as time, got row 2, column time='nan'"),
            ("date,a\n2013-01-01,1\n2013-01-01,2\n", "no time stamp twice, got row 2, column date='2013-01-01' after '2013-01-01'"),
            ("time,a\n2,1\n10,1\n9,2\n", "time stamps that ascend, got row 3, column time='9' after '10'"),
            ("time,a\nsoon,1\n", "a number or an ISO date as time, got row 1, column time='soon'"),
            ("1,2\n3,4\n", "column names in the first line, got first line=['1', '2']; add a line of names"),
            ("a,a\n1,2\n", "a name for each column, each once, got first line=['a', 'a']"),
            ("a,b\n", "rows, got file="),
            ("", "a column of numbers, got columns=[]"),
            ("time\n1\n", "a column of numbers, got columns=['time']"),
        ],
        ids=repr,
    )  # fmt: skip
    def test_that_is_wrong_is_refused_by_row_and_column(self, tmp_path, text, complaint):
        with pytest.raises(Refused, match=re.escape(f"replay needs {complaint}")):
            Source(written(tmp_path, text))

    @given(
        values=st.lists(st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=3), min_size=1, max_size=30),
        row=st.integers(0, 29),
        column=st.integers(0, 2),
        junk=st.sampled_from(["", "NA", "x", "inf", "1e999", "--", "NaN"]),
        fill=st.sampled_from([None, "forward", "zero", "drop"]),
    )
    def test_is_read_as_it_stands_or_refused_at_the_cell_that_is_wrong(
        self, tmp_path_factory, values, row, column, junk, fill
    ):
        row, cells = row % len(values), [[repr(value) for value in row] for row in values]
        folder = tmp_path_factory.mktemp("trace")
        path = written(folder, "a,b,c\n" + "\n".join(map(",".join, cells)) + "\n")
        source = Source(path)
        np.testing.assert_array_equal(source.read(0, source.T), values)
        cells[row][column] = junk
        path = written(folder, "a,b,c\n" + "\n".join(map(",".join, cells)) + "\n")
        missing = junk in ("", "NA", "NaN")
        if (
            not missing
            or fill is None
            or (fill == "forward" and row == 0)
            or (fill == "drop" and len(values) == 1)
        ):
            with pytest.raises(
                Refused, match=f"row {row + 1}, column {'abc'[column]}|it has none that are whole"
            ):
                Source(path, fill=fill)
            return
        repaired = [list(each) for each in values]
        if fill == "drop":
            del repaired[row]
        else:
            repaired[row][column] = 0.0 if fill == "zero" else values[row - 1][column]
        source = Source(path, fill=fill)
        assert source.filled == 1
        np.testing.assert_array_equal(source.read(0, source.T), repaired)

    @pytest.mark.parametrize("name", ["trace.csv", "trace.parquet"])
    def test_longer_than_a_piece_is_read_and_filled_across_pieces(self, tmp_path, name, monkeypatch):
        monkeypatch.setattr("klazy.studies.replay.source.ROWS", 7)
        values = np.random.default_rng(0).normal(size=(100, 2)).round(3)
        frame = pl.DataFrame({"a": values[:, 0], "b": values[:, 1]})
        frame = frame.with_columns(
            pl.when(pl.int_range(pl.len()) % 7 == 0, pl.int_range(pl.len()) > 0)
            .then(None)
            .otherwise("b")
            .alias("b")
        )
        (frame.write_parquet if name.endswith("parquet") else frame.write_csv)(tmp_path / name)
        source = Source(tmp_path / name, fill="forward")
        expected = values.copy()
        for i in range(7, 100, 7):
            expected[i, 1] = expected[i - 1, 1]
        np.testing.assert_array_equal(np.vstack(list(source.read_pieces(0, 100))), expected)
        assert source.filled == 14

    def test_may_have_large_time_stamps_and_odd_names(self, tmp_path):
        text = 'time,"a ""q""",_b\n1700000000000000001,1,2\n1700000000000000002,3,4\n'
        assert Source(written(tmp_path, text)).columns == ['a "q"', "_b"]

    @pytest.mark.parametrize("name", ["delays[1]", "delay?1", "~"])
    def test_is_the_file_of_that_name_and_no_pattern(self, tmp_path, monkeypatch, name):
        monkeypatch.chdir(tmp_path)
        for write, kind in ((pl.DataFrame.write_csv, "csv"), (pl.DataFrame.write_parquet, "parquet")):
            Path(name).mkdir(exist_ok=True)
            for file, value in ((f"{name}.{kind}", 7.0), (f"{name}/x.{kind}", 7.0), (f"delays1.{kind}", 1.0)):
                with open(file, "wb") as there:
                    write(pl.DataFrame({"a": [value], "b": [value]}), there)
            assert Source(f"{name}.{kind}").read(0, 1).tolist() == [[7.0, 7.0]]
            assert Source(f"{name}/x.{kind}").read(0, 1).tolist() == [[7.0, 7.0]]

    def test_of_price_relatives_is_above_zero(self, tmp_path):
        with pytest.raises(Refused, match=r"numbers above zero, got row 2, column b='-1'; correct the file"):
            Source(written(tmp_path, "a,b\n1,2\n3,-1\n"), positive=True)

    def test_of_dates_and_with_a_column_named(self, tmp_path):
        path = written(tmp_path, "when,a,b\n2013-01-01 05:00:00,1,2\n2013-01-01 06:00:00,3,4\n")
        with pytest.raises(Refused, match="a number in every cell, got row 1, column when"):
            Source(path)
        assert Source(path, time="when").columns == ["a", "b"]
        with pytest.raises(Refused, match=r"a column of the file \(when, a, b\), got time=nope"):
            Source(path, time="nope")


FAMILIES = [
    ("linear", {"domain": "simplex"}),
    ("quadratic", {"domain": "ball", "radius": 2.0}),
    ("pinball", {"domain": "box", "upper": 3.0, "short": 4.0}),
    ("log-wealth", {"domain": "simplex"}),
]


def rows_for(costs: str, n: int, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(1.0, 0.5, (n, 3))
    return np.exp(0.1 * rows) if costs == "log-wealth" else rows


class TestASetup:
    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            (
                {"move_cost": 1e308},
                "sizes and prices within 1e-15 and 1e+15, got move_cost=1e+308; measure in other units.",
            ),
            (
                {"total": 1e308},
                "sizes and prices within 1e-15 and 1e+15, got total=1e+308; measure in other units.",
            ),
            (
                {"domain": "ball", "radius": 1e-16},
                "sizes and prices within 1e-15 and 1e+15, got radius=1e-16; measure in other units.",
            ),
            (
                {"domain": "box", "costs": "pinball", "short": 1e10, "excess": 1e-10},
                "--short and --excess within a factor of 1e+15, got short=10000000000.0; bring them nearer to each other.",
            ),
        ],
        ids=repr,
    )
    def test_has_no_numbers_whose_products_are_none(self, options, complaint):
        with pytest.raises(Refused, match=re.escape(f"replay needs {complaint}")):
            make_setup(3, **options)


class TestAContender:
    def test_sees_nothing_that_is_still_to_come(self):
        of, rows = make_setup(3, move_cost=0.3), rows_for("linear", 60)
        changed = rows.copy()
        changed[30:] = 9.0
        for candidate, other in zip(*(everyone(of, data) for data in (rows, rows)), strict=True):
            assert np.array_equal(candidate.player.play(rows)[:31], other.player.play(changed)[:31])

    @pytest.mark.parametrize(("costs", "shape"), FAMILIES)
    def test_is_measured_as_it_is_charged(self, by_step, costs, shape):
        of, rows = make_setup(3, costs=costs, move_cost=0.3, **shape), rows_for(costs, 40)
        candidates = everyone(of, rows)
        measured = measure_learners([candidate.player for candidate in candidates], of, rows)
        for candidate, cost in zip(candidates, measured, strict=True):
            candidate.play(rows, of.charge)
            assert candidate.cost == pytest.approx(cost, rel=1e-12, abs=1e-12)


def everyone(of, rows) -> list[Candidate]:
    return [
        contender.make_candidates()[-1]
        for contender in list_contenders(of, rows, lambda: iter([rows]), 2 * len(rows))
    ]


@pytest.fixture
def by_step(monkeypatch):
    """Learners as plain NumPy: a few hundred rounds are played sooner than kernels are compiled for them."""

    def run(learner, costs, **options):
        engine = "step" if learner.follow is None else "auto"
        return kl.run(learner, costs, engine=engine, **options)

    def run_batch(learners, costs, movement):
        paid = [run(learner, costs, movement=movement).totals for learner in learners]
        hitting, switching = np.transpose(paid)
        return kl.Batch(hitting, switching, np.zeros(0), np.zeros(0), "runs")

    monkeypatch.setattr("klazy.studies.replay.contenders.run", run)
    monkeypatch.setattr("klazy.studies.replay.contenders.run_batch", run_batch)
    monkeypatch.setattr("klazy.studies.replay.score.run", run)


@pytest.fixture(scope="module")
def phased(tmp_path_factory):
    """Shares whose costs change every two hundred rounds, under noise."""
    rng = np.random.default_rng(3)
    g = 2.0 + np.repeat(rng.normal(size=(8, 5)), 100, axis=0) + rng.normal(scale=1.5, size=(800, 5))
    source = trace(tmp_path_factory.mktemp("phased"), g)
    return replay(source, make_setup(5, move_cost=8.0)), g


class TestAReplay:
    @pytest.mark.parametrize(("costs", "shape"), FAMILIES)
    def test_has_no_contender_that_beats_the_optimum(self, tmp_path, by_step, costs, shape):
        found = replay(
            trace(tmp_path, rows_for(costs, 120)), make_setup(3, costs=costs, move_cost=0.2, **shape)
        )
        assert found.optimum is not None
        for score in found.scores:
            assert score.cost >= found.optimum.lower_bound - 1e-9 * abs(found.optimum.lower_bound)
        for one, other in pairwise(found.scores):
            assert one.cost <= other.cost or one.ties_with(other)

    def test_adds_up_what_a_slow_reference_adds_up(self, phased):
        found, g = phased
        first = found.rounds[0]
        for score in found.scores:
            x = kl.run(score.player.learner, g, movement=found.setup.movement, engine="step").x
            hitting = sum(float(g[t] @ x[t]) for t in range(first, len(g)))
            switching = sum(8.0 * 0.5 * float(np.abs(x[t] - x[t - 1]).sum()) for t in range(first, len(g)))
            assert score.hitting == pytest.approx(hitting, rel=1e-9)
            assert score.switching == pytest.approx(switching, rel=1e-7, abs=1e-6)
            assert score.stretches.sum() == pytest.approx(score.cost, rel=1e-12)

    def test_tunes_on_the_first_part_alone_each_on_as_many_candidates(self, phased, tmp_path):
        found, g = phased
        other = np.concatenate((g[:400], -3.0 * g[400:] + 1.0))
        again = replay(trace(tmp_path, other), make_setup(5, move_cost=8.0))
        assert {score.name: score.parameters for score in again.scores} == {
            s.name: s.parameters for s in found.scores
        }
        for score in found.scores:
            assert (
                score.candidates == 1
                if not score.parameters
                else CANDIDATES // 3 < score.candidates <= CANDIDATES
            )

    def test_chooses_what_paid_least_of_what_it_tried_at_first_and_round_that(self, phased):
        found, g = phased
        (score,) = (score for score in found.scores if score.name == "GD")
        (greedy,) = (
            each
            for each in list_contenders(found.setup, g[:400], lambda: iter([g[:400]]), 800)
            if each.name == "GD"
        )

        def cost(sigma):
            return kl.run(
                kl.GD(found.setup.domain, sigma), g[:400], movement=found.setup.movement
            ).totals.cost

        first = min(greedy.axes["sigma"], key=cost)
        at = greedy.axes["sigma"].index(first)
        finer = np.geomspace(
            greedy.axes["sigma"][at - 1], greedy.axes["sigma"][at + 1], len(greedy.axes["sigma"])
        ).tolist()
        assert score.parameters["sigma"] == min([*greedy.axes["sigma"], *finer], key=cost)
        assert score.edges == []

    def test_is_the_same_in_pieces(self, phased, tmp_path, monkeypatch):
        found, g = phased
        monkeypatch.setattr("klazy.studies.replay.source.ROWS", 13)
        again = replay(trace(tmp_path, g), make_setup(5, move_cost=8.0))
        for one, other in zip(found.scores, again.scores, strict=True):
            assert (one.name, one.parameters) == (other.name, other.parameters)
            assert one.cost == pytest.approx(other.cost, rel=1e-9)
            np.testing.assert_allclose(one.points, other.points, atol=1e-9)

    def test_needs_rows_on_both_sides(self, tmp_path):
        with pytest.raises(
            Refused, match=f"a share with {STRETCHES} rows on both sides, got train=0.5 of 30 rows"
        ):
            replay(trace(tmp_path, np.ones((30, 2))), make_setup(2))


class TestTheAnswer:
    def test_names_who_saves_what_and_at_what_movement_where_laziness_helps(self, tmp_path):
        rng = np.random.default_rng(0)
        sign = np.resize(np.repeat([1.0, -1.0], 55), 6000)[:, None]  # phases as long as a slack that is tried
        found = replay(
            trace(tmp_path, sign + rng.normal(size=(6000, 5))), make_setup(5, "ball", move_cost=1.0)
        )
        assert judge(found) == "helps"
        assert found.best("lazy").parameters["k"] == 55
        lazy, simple, greedy = found.best("lazy"), found.best("simple"), found.best("greedy")
        said = answer(found)
        assert said[1].startswith(f"Use {lazy.name}")
        assert f"{simple.cost - lazy.cost:.6g}" in said[1]
        assert f"{greedy.cost - lazy.cost:.6g}" in said[1]
        (decay,) = (score for score in found.scores if score.name == "Decay")
        assert said[3].endswith(f"luck that need not last; Decay, which has no clock, paid {decay.cost:.6g}.")
        assert (
            said[2]
            == f"It paid {lazy.switching:.6g} for moving; {simple.name} {simple.switching:.6g}, GD {greedy.switching:.6g}."
        )

    def test_says_that_it_does_not_help_and_why(self, tmp_path, by_step):
        t = np.arange(400)
        load = 50.0 + 20.0 * np.sin(t / 30.0) + np.random.default_rng(0).normal(size=400)
        found = replay(
            trace(tmp_path, load[:, None]), make_setup(1, "box", "pinball", upper=200.0, move_cost=0.5)
        )
        assert judge(found) == "does not help"
        said = answer(found)
        assert said[1].startswith("Laziness does not help here: the best that is lazy, ")
        assert (
            said[2]
            == f"The projection binds in {found.binds:.1%} of rounds; where it does not, every k plays what GD plays."
        )
        assert found.binds < 0.02

    @pytest.mark.parametrize(
        ("name", "parameters", "drifts"),
        [("moving average", {"window": 5}, True), ("dead band", {"window": 400, "horizon": 2}, False), ("GD", {}, True),
         ("follow the leader", {}, False)],
        ids=repr,
    )  # fmt: skip
    def test_blames_drift_only_where_a_short_memory_won(self, phased, name, parameters, drifts):
        found = replace(phased[0], repeats=0.9, binds=1.0)
        score = replace(found.scores[0], name=name, parameters=parameters)
        assert ("drift faster than they repeat" in _explain(found, score)) == drifts

    def test_takes_rounding_for_a_tie(self, tmp_path, by_step):
        found = replay(trace(tmp_path, np.tile([0.92, 0.76, 0.5], (60, 1))), make_setup(3, move_cost=1.0))
        assert judge(found) == "does not help"
        assert "neither less nor more than fixed" in answer(found)[1]
        assert "One fixed decision is as good as any" in answer(found)[2]

    def test_does_not_count_what_all_shares_have_in_common_as_binding(self, tmp_path, by_step):
        g = 5.0 + np.random.default_rng(1).normal(scale=0.01, size=(80, 3))
        found = replay(trace(tmp_path, g), make_setup(3, move_cost=100.0))
        (lazy,) = (score.player.learner for score in found.scores if score.name == "k-lazyGD")
        x = kl.run(lazy, g[40:], engine="step").x
        inside = (x[1:] > 1e-9).all(axis=1)
        assert found.binds <= 1.0 - inside.mean() + 1.0 / len(x)

    def test_saved_is_the_sum_of_differences_with_students_interval(self, phased):
        found, _ = phased
        one, other = found.scores[0], found.scores[-1]
        gain, half = one.compare(other)
        gaps = other.stretches - one.stretches
        assert gain == pytest.approx(other.cost - one.cost)
        assert half == pytest.approx(STRETCHES * 2.093024 * gaps.std(ddof=1) / np.sqrt(STRETCHES), rel=1e-5)

    def test_is_a_table_an_object_figures_and_a_page(self, phased):
        found, _ = phased
        rows = tabulate(found)
        assert [row["contender"] for row in rows] == [
            *(score.name for score in found.scores),
            "optimum in hindsight",
        ]
        plain = json.loads(json.dumps(to_dict(found)))
        assert plain["table"][0]["cost"] == found.scores[0].cost
        assert [name for name, _, _ in draw_figures(found)] == ["pareto", "decisions"]
        page = make_report(found, "klazy replay trace.parquet")
        assert page.count("<img") == 2
        assert answer(found)[1].split(":")[0] in page
        assert "http" not in re.sub(r"data:image/svg\+xml;base64,[^\"]*", "", page)


class TestTheCommand:
    @staticmethod
    def klazy(*arguments, folder, status=0):
        done = call_klazy("replay", *arguments, folder=folder)
        assert done.status == status, done.stderr
        return done.stdout if status == 0 else done.stderr

    def test_answers_first_then_shows_and_emits_an_agent_that_goes_on(self, phased, tmp_path):
        found, g = phased
        pl.DataFrame({f"c{i}": g[:, i] for i in range(5)}).write_csv(tmp_path / "t.csv")
        text = self.klazy(
            "t.csv", "--move-cost", 8, "--html", "report.html", "--emit", "agent.json", folder=tmp_path
        )
        assert text.splitlines()[: len(answer(found))] == answer(found)
        assert (tmp_path / "report.html").stat().st_size > 20_000
        agent = kl.Agent.load(tmp_path / "agent.json")
        best = found.scores[0]
        assert agent.t == 801
        assert repr(agent.learner) == repr(best.player.learner)
        np.testing.assert_allclose(agent.x, best.player.state.x, atol=1e-12)
        plain = json.loads(self.klazy("t.csv", "--move-cost", 8, "--json", folder=tmp_path))
        assert plain["best"] == found.scores[0].name

    def test_refuses_in_one_line(self, tmp_path):
        """Here, and for docs/replay.md in tests/test_docs.py, the command is a process of its own."""
        written(tmp_path, "a,b\n1,2\n3,x\n", "t.csv")
        command = [sys.executable, "-m", "klazy", "replay", "t.csv"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        complaint = "replay needs a number in every cell, got row 2, column b='x'; correct the file.\n"
        assert (done.returncode, done.stdout, done.stderr) == (2, "", complaint)

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            (("--cap", 0.3), "--domain capped-simplex for --cap, got domain=simplex; leave one of them out."),
            (
                ("--short", 2),
                "--costs pinball for --short and --excess, got costs=linear; leave one of them out.",
            ),
            (
                ("--emit", "none/agent.json"),
                "a file in a folder that is there, got file=none/agent.json; choose another.",
            ),
            (("--train", "nan"), "a share with 20 rows on both sides, got train=nan of 40 rows"),
            (
                ("--costs", "pinball", "--domain", "box", "--short", 0),
                "short > 0, got short=0.0; give a number above zero.",
            ),
        ],
        ids=repr,
    )
    def test_refuses_what_does_not_fit_together(self, tmp_path, options, complaint):
        pl.DataFrame({"a": np.arange(40.0), "b": np.ones(40)}).write_csv(tmp_path / "t.csv")
        assert self.klazy("t.csv", *options, folder=tmp_path, status=2).startswith(
            f"replay needs {complaint}"
        )
