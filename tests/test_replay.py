"""Replay: a trace is read as it stands or refused by row and column, nobody beats the optimum."""

import copy
import io
import json
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from command import call_klazy
from klazy.base.checks import InvalidInput
from klazy.base.tables import write_latex
from klazy.live.inspection import check_store
from klazy.live.store import open_store
from klazy.studies.contenders import (
    REPLAY,
    TOLD,
    choose_patience,
    choose_states,
    choose_wealth,
    list_contenders,
)
from klazy.studies.replay import Source, make_setup
from klazy.studies.replay.page import LOOKS, make_report
from klazy.studies.replay.report import replay
from klazy.studies.replay.scoring import (
    CANDIDATES,
    STRETCHES,
    find_hindsight_optimum,
    find_profiles,
    list_misplaced,
    list_missed_seasons,
    list_tunables,
    measure_learners,
)
from klazy.studies.replay.setup import read_move_costs
from klazy.studies.replay.source import Forecasts, Steps
from klazy.studies.replay.wording import (
    explain_laziness,
    format_amount,
    format_column,
    format_interval,
    judge,
    judge_laziness,
)
from klazy.studies.tuning import charge_player, list_points, tune
from looks import look_at, watch
from served import run_service
from test_live import feed

pytestmark = pytest.mark.xdist_group("replay")  # one worker compiles what all of it needs
# Those of all games: rules for shares of wealth and for forecasts play where there are some.
NAMES = [
    contender.name
    for contender in list_contenders(REPLAY)
    if contender.style not in TOLD
    and contender.axes not in (choose_wealth, choose_patience, choose_states)
]
ROLLING = {"rolling maximum", "rolling quantile"}


def written(folder: Path, text: str, name: str = "trace.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


def name_columns(values: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame({f"c{i}": column for i, column in enumerate(values.T)})


class TestATrace:
    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("a,b\n1,2\n3,x\n", "Row 2, column b must be a number within +-1e+60, got 'x'."),
            ("a,b\n1,2\n3,\n", "Row 2, column b is missing, got None."),
            ("a,b\n1,nan\n", "Row 1, column b is missing, got 'nan'."),
            ("a,b\n1,2\n\n3,4\n", "Row 2, column a is missing, got None."),
            ("a,b\n1,2\n3\n", "must have 2 cells, but row 2 has 1."),
            ("a,b\n1,2\n3,4,5\n", "must have 2 cells, but row 2 has 3."),
            ("a,b\n1,-inf\n", "Row 1, column b must be a number within +-1e+60, got '-inf'."),
            ("a,b\n1,1e300\n", "Row 1, column b must be a number within +-1e+60, got '1e300'."),
            ("a;b\n1;2,5x\n", "Row 1, column b must be a number within +-1e+60, got '2,5x'."),
            ("a,b\n1,\n2,\n", "Row 1, column b is missing, got None."),
            ("time,a\n5,1\n2020-01-02,1\n", "Row 2, column time: time stamps must all be numbers, got '2020-01-02' after '5'."),
            ("time,a\n2020-01-01,1\n2020-01-02T00:00+01:00,1\n", "Row 2, column time: time stamps must all be dates without a zone, got "),
            ("time,a\n5,1\nnan,1\n", "Row 2, column time must be a number or an ISO date, got 'nan'."),
            ("date,a\n2013-01-01,1\n2013-01-01,2\n", "Row 2, column date: time stamps must ascend, got '2013-01-01' after '2013-01-01'."),
            ("time,a\n2,1\n10,1\n9,2\n", "Row 3, column time: time stamps must ascend, got '9' after '10'."),
            ("time,a\nsoon,1\n", "Row 1, column time must be a number or an ISO date, got 'soon'."),
            ("1,2\n3,4\n", "must have the names of the columns, got ['1', '2']."),
            ("a,a\n1,2\n", "Each column must have a name of its own, got ['a', 'a']."),
            ("a,b\n", "trace.csv has no rows."),
            ("", "must have a column of numbers, but its first line is empty."),
            ("time\n1\n", "The data must have a column of numbers, got ['time']."),
        ],
        ids=repr,
    )  # fmt: skip
    def test_that_is_wrong_is_refused_by_row_and_column(self, tmp_path, text, complaint):
        with pytest.raises(InvalidInput, match=re.escape(complaint)):
            Source(written(tmp_path, text))

    @given(
        values=st.lists(
            st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=3), min_size=1, max_size=30
        ),
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
        if not missing or fill is None or (fill == "forward" and row == 0) or len(values) == 1:
            name = "abc"[column]
            told = (
                f"Row {row + 1}, column {name}|has no complete rows|Column {name} has no numbers"
            )
            with pytest.raises(InvalidInput, match=told):
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
    def test_longer_than_a_piece_is_read_and_filled_across_pieces(
        self, tmp_path, name, monkeypatch
    ):
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
        for write, kind in (
            (pl.DataFrame.write_csv, "csv"),
            (pl.DataFrame.write_parquet, "parquet"),
        ):
            Path(name).mkdir(exist_ok=True)
            for file, value in (
                (f"{name}.{kind}", 7.0),
                (f"{name}/x.{kind}", 7.0),
                (f"delays1.{kind}", 1.0),
            ):
                with open(file, "wb") as there:
                    write(pl.DataFrame({"a": [value], "b": [value]}), there)
            assert Source(f"{name}.{kind}").read(0, 1).tolist() == [[7.0, 7.0]]
            assert Source(f"{name}/x.{kind}").read(0, 1).tolist() == [[7.0, 7.0]]

    def test_of_price_relatives_is_above_zero(self, tmp_path):
        with pytest.raises(InvalidInput, match=r"Row 2, column b must be above 0, got '-1'\."):
            Source(written(tmp_path, "a,b\n1,2\n3,-1\n"), positive=True)

    def test_finds_its_time_column_by_its_dates_or_is_told(self, tmp_path):
        path = written(tmp_path, "a,when,b\n1,2013-01-01 05:00:00,2\n3,2013-01-01 06:00:00,4\n")
        for source in (Source(path), Source(path, time="when")):
            assert (source.time, source.columns, source.has_dates) == ("when", ["a", "b"], True)
            assert source.times is not None
            assert np.diff(source.times) == [3600.0]
        with pytest.raises(
            InvalidInput, match=r"time must be a column of the data \(a, when, b\), got 'nope'"
        ):
            Source(path, time="nope")

    @pytest.mark.parametrize(
        "text",
        [
            "a;b\n1,5;-2\n1.003,25;4e1\n",
            "a\tb\n1.5\t-2\n1003.25\t40\n",
            ",a,b\n0,1.5,-2\n1,1003.25,40\n",
            'a,b\n"1.5",-2\n1003.25,40\n',
        ],
        ids=["semicolons and decimal commas", "tabs", "an index of pandas", "quotes"],
    )
    def test_is_read_in_the_forms_in_which_programs_write_it(self, tmp_path, text):
        source = Source(written(tmp_path, text))
        assert source.columns == ["a", "b"]
        assert source.read(0, 2).tolist() == [[1.5, -2.0], [1003.25, 40.0]]

    def test_is_the_same_from_a_file_a_frame_and_an_array(self, tmp_path):
        pandas = pytest.importorskip("pandas")
        values = np.random.default_rng(0).normal(size=(30, 2))
        days = [date(2024, 1, 1) + timedelta(days=i) for i in range(30)]
        frame = pl.DataFrame({"time": days, "a": values[:, 0], "b": values[:, 1]})
        frame.write_excel(tmp_path / "t.xlsx")
        frame.write_csv(tmp_path / "t.csv")
        indexed = pandas.DataFrame(
            {"a": values[:, 0], "b": values[:, 1]}, index=pandas.DatetimeIndex(days)
        )
        for data in (frame, indexed, tmp_path / "t.csv", tmp_path / "t.xlsx"):
            source = Source(data)
            assert source.columns == ["a", "b"]
            np.testing.assert_allclose(source.read(0, 30), values, rtol=1e-12)
            assert source.times is not None
            assert source.times.tolist() == [1704067200.0 + 86400.0 * i for i in range(30)]
        assert Source(values).columns == ["x1", "x2"]
        assert Source(values).read(0, 30).tolist() == values.tolist()

    def test_needs_polars_and_says_how_to_install_it(self):
        script = """
import sys
sys.modules["polars"] = None
import klazy
klazy.replay([[1.0]])
"""
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=300
        )
        assert "replay needs polars, which is not installed. Run: pip install" in done.stderr

    @pytest.mark.parametrize("fill", ["forward", "zero", "drop"])
    def test_with_a_column_in_which_everything_is_missing_is_refused(self, tmp_path, fill):
        path = written(tmp_path, "a,b\n1,\n2,NA\n")
        with pytest.raises(
            InvalidInput, match=r"Column b has no numbers: all its cells are missing\."
        ):
            Source(path, fill=fill)

    def test_says_where_clocks_changed_and_steps_are_missing(self):
        spring = np.datetime64("2024-03-31T00:00") + np.arange(6) * np.timedelta64(1, "h")
        hours = np.delete(spring.astype("datetime64[s]").astype(float), 2)
        spring = Steps(hours, is_naive=True)
        assert (spring.gaps, spring.springs) == (0, 1)
        later = Steps(hours + 86400.0, is_naive=True)
        assert (later.gaps, later.springs) == (1, 0)
        summer = [f"2024-10-27T0{hour}:00+02:00" for hour in range(3)]
        winter = [f"2024-10-27T0{hour}:00+01:00" for hour in range(2, 5)]
        source = Source(pl.DataFrame({"time": [*summer, *winter], "a": np.arange(6.0)}))
        assert source.list_notes() == [
            "The offset from UTC changes once, as for daylight saving."
        ]

    @pytest.mark.parametrize("month", [3, 10])
    def test_of_steps_that_are_all_the_same_has_no_gap_whatever_the_clocks_show(self, month):
        """Minutes around the last Sunday of the month, when clocks change, as text and with a zone of their own."""
        instants = np.datetime64(
            f"2024-{month:02}-30T22:00" if month == 3 else "2024-10-26T22:00"
        )
        frame = pl.DataFrame(
            {
                "time": instants + np.arange(300) * np.timedelta64(60_000, "ms"),
                "a": np.arange(300.0),
            }
        )
        zoned = frame.with_columns(
            pl.col("time").dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Berlin")
        )
        text = zoned.with_columns(pl.col("time").dt.to_string("%Y-%m-%dT%H:%M:%S%:z"))
        for data in (zoned, text):
            source = Source(data)
            assert source.list_notes() == [
                "The offset from UTC changes once, as for daylight saving."
            ]
            late = Source(data[[*range(40), *range(41, 300)]])
            assert late.list_notes()[1:] == [
                "1 gap in the time stamps (the usual step is 1 minute); rows are treated as consecutive."
            ]

    def test_of_business_days_or_hours_has_gaps_only_where_one_is_missing(self):
        days = np.arange(np.datetime64("2023-01-02"), np.datetime64("2023-06-30"))
        days = days[np.is_busday(days)]
        trading = (
            np.datetime64("1970-01-01T09:30")
            - np.datetime64("1970-01-01")
            + np.arange(14) * np.timedelta64(1_800_000, "ms")
        )
        hours = (days[:, None] + trading).ravel()
        for stamps, step in ((days, "1 day"), (hours, "30 minutes")):
            source = Source(pl.DataFrame({"time": stamps, "a": np.arange(float(len(stamps)))}))
            assert source.list_notes() == []
            one = len(stamps) // 2
            missing = Source(
                pl.DataFrame({"time": np.delete(stamps, one), "a": np.arange(len(stamps) - 1.0)})
            )
            told = f"1 gap in the time stamps, apart from those of every week (the usual step is {step}); rows are treated as consecutive."
            assert missing.list_notes() == [told]
        every = np.arange(
            np.datetime64("2023-01-02T00:00"),
            np.datetime64("2023-01-06T00:00"),
            np.timedelta64(3_600_000, "ms"),
        )
        source = Source(
            pl.DataFrame(
                {"time": np.delete(every, [30, 31, 50]), "a": np.arange(len(every) - 3.0)}
            )
        )
        assert source.list_notes() == [
            "2 gaps in the time stamps (the usual step is 1 hour); rows are treated as consecutive."
        ]

    @pytest.mark.parametrize(
        ("fill", "note"),
        [("zero", "1 missing cell was filled (zero)."), ("drop", "1 row was dropped.")],
    )
    def test_with_one_missing_cell_says_so(self, tmp_path, fill, note):
        assert Source(written(tmp_path, "a,b\n1,2\n3,\n5,6\n"), fill=fill).list_notes() == [note]


FAMILIES = [
    ("linear", {"domain": "simplex"}),
    ("rewards", {"domain": "simplex"}),
    ("quadratic", {"domain": "ball", "radius": 2.0}),
    ("pinball", {"domain": "box", "upper": 3.0, "short": 4.0}),
    ("log-wealth", {"domain": "simplex"}),
]


def rows_for(costs: str, n: int, seed: int = 0, d: int = 5) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(1.0, 0.5, (n, d))
    return np.exp(0.1 * rows) if costs == "log-wealth" else rows


class TestASetup:
    def test_has_floors_on_any_simplex(self):
        floors = [0.2, 0.0, 0.5]
        assert make_setup(3, total=2.0, floor=floors).domain == kl.CappedSimplex(
            3, 2.0, 2.0, floors
        )
        assert make_setup(3, total=2.0).domain == kl.Simplex(3, 2.0)

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            (
                {"move_cost": 1e308},
                "move_cost must be 0 or between 1e-15 and 1e+15, got 1e+308. Use other units.",
            ),
            (
                {"total": 1e308},
                "total must be 0 or between 1e-15 and 1e+15, got 1e+308. Use other units.",
            ),
            (
                {"domain": "ball", "radius": 1e-16},
                "radius must be 0 or between 1e-15 and 1e+15, got 1e-16. Use other units.",
            ),
            (
                {"domain": "box", "costs": "pinball", "short": 1e10, "excess": 1e-10},
                "short and excess must be within a factor of 1e+15, got 10000000000.0 and 1e-10.",
            ),
        ],
        ids=repr,
    )
    def test_has_no_numbers_whose_products_are_none(self, options, complaint):
        with pytest.raises(InvalidInput, match=re.escape(complaint)):
            make_setup(5, **options)


class TestAContender:
    def test_sees_nothing_that_is_still_to_come(self):
        of, rows = make_setup(5, move_cost=0.3), rows_for("linear", 60)
        changed = rows.copy()
        changed[30:] = 9.0
        for player, other in zip(*(everyone(of, data) for data in (rows, rows)), strict=True):
            assert np.array_equal(player.play(rows)[:31], other.play(changed)[:31])

    @pytest.mark.parametrize(("costs", "shape"), FAMILIES)
    def test_is_measured_as_it_is_charged(self, by_step, costs, shape):
        of, rows = make_setup(5, costs=costs, move_cost=0.3, **shape), rows_for(costs, 40)
        players = everyone(of, rows)
        measured = measure_learners(players, of, rows)
        for player, cost in zip(players, measured, strict=True):
            points, hitting, _ = charge_player(player, rows, of.charge)
            moving = of.movement.paid(
                points
            ).sum()  # without the last move, and before prices carry shares away
            assert hitting.sum() + moving == pytest.approx(cost, rel=1e-12, abs=1e-12)

    @pytest.mark.parametrize("comes_again", [False, True])
    def test_that_looks_for_a_season_plays_where_it_finds_one(self, by_step, comes_again, only):
        only("seasonal")
        rows = np.random.default_rng(2).normal(size=(240, 2))
        if comes_again:
            rows = np.tile(rows[:12], (20, 1))
        shown = {score.name for score in replay(rows, move_cost=0.1).scores}
        assert ("seasonal" in shown) == comes_again

    def test_takes_a_day_from_dates_and_moves_ahead_of_it(self, by_step):
        """Costs that change every six hours, the same every day: a rule that follows is late, a profile is not."""
        of = make_setup(3, move_cost=0.1)
        day = np.repeat(np.eye(3)[[0, 1, 2, 1]], 6, axis=0)
        rows = np.tile(day, (10, 1))
        contenders = list_tunables(
            of, rows, iter([rows]), 2 * len(rows), np.linspace(0.0, 239 * 3600.0, 240)
        )
        paid = {}
        for contender in contenders:
            if contender.name in ("seasonal", "dead band"):
                measure = partial(measure_learners, setup=of, rows=rows)
                found = tune(contender, rows, of.charge, measure)
                _, hitting, switching = charge_player(
                    contender.make(**found.parameters), rows, of.charge
                )
                paid[contender.name] = (
                    found.parameters,
                    hitting.sum(),
                    (hitting + switching).sum(),
                )
        parameters, hitting, cost = paid["seasonal"]
        assert parameters["period"] == 24
        assert hitting < 24  # all that it pays before it knows a day
        assert cost < paid["dead band"][2]

    @pytest.mark.parametrize(
        ("step", "n", "profiles"),
        [
            (3600.0, 1000, [24, 168]),
            (3600.0, 100, [24]),
            (600.0, 10_000, [144, 1008]),
            (60.0, 10_000, [1440]),
            (60.0, 20_160, [1440, 10_080]),
            (1.0, 200_000, []),
            (86400.0, 100, [7]),
            (3700.0, 10_000, []),
        ],
    )
    def test_knows_the_rows_of_a_day_and_a_week(self, step, n, profiles):
        assert find_profiles(np.linspace(0.0, step * (n - 1), n), 1) == profiles

    def test_counts_the_rows_of_a_day_whose_nights_have_none(self):
        hours = np.flatnonzero(np.arange(60 * 24) % 24 >= 5).astype(np.float64)
        assert find_profiles(3600.0 * hours, 1) == [19, 133]
        late = 600.0 * np.random.default_rng(0).random(len(hours))
        assert find_profiles(3600.0 * hours + late, 1) == []

    def test_counts_the_minutes_of_a_day_where_a_few_are_missing(self):
        there = np.random.default_rng(0).random(7 * 1440) > 0.005
        minutes = 60.0 * np.flatnonzero(there).astype(np.float64)
        (rows,) = find_profiles(minutes, 1)
        assert rows == round(len(minutes) / 7)

    @pytest.mark.parametrize(
        ("seconds", "width", "T", "notes"),
        [
            (60.0 * np.arange(20_160), 8, 40_320, []),
            (60.0 * np.arange(1000), 1, 2000, ["A day is 1440 rows; with 1000 rows to tune on"]),
            (
                60.0 * np.arange(6000),
                1,
                12_000,
                ["A week is 10080 rows; with 6000 rows to tune on"],
            ),
            (60.0 * np.arange(6000), 1, 10_000, []),  # nobody expects weeks there
            (
                60.0 * np.arange(20_160),
                9,
                40_320,
                ["at 9 numbers a row that is more than the 80640 that are stored"],
            ),
            (
                1.0 * np.arange(10_000),
                1,
                90_000,
                ["A day is 86400 rows; a season may have 10080, so"],
            ),
            (
                60.0 * np.arange(6000) + 1e4 * np.sin(np.arange(6000)),
                1,
                10_000,
                ["of the rows come a day after the row"],
            ),
            (
                None,
                1,
                4000,
                ["have no dates, so patterns that repeat after more than 512 rows were not"],
            ),
            (None, 1, 2000, []),
        ],
        ids=str,
    )
    def test_says_which_season_was_not_looked_for(self, seconds, width, T, notes):
        found = list_missed_seasons(seconds, width, T, has_found=False)
        assert len(found) == len(notes)
        for note, words in zip(found, notes, strict=True):
            assert words in note
            assert note.endswith("looked for.")

    def test_of_minutes_takes_the_day_and_auto_takes_it_too(self):
        rows = 5.0 + np.sin(2.0 * np.pi * np.arange(3000)[:, None] / 1440.0)
        of = make_setup(1, domain="box", costs="pinball", upper=10.0)
        contenders = list_tunables(of, rows, iter([rows]), 6000, np.arange(0.0, 180_000.0, 60.0))
        named = {contender.name: contender for contender in contenders}
        assert named["seasonal"].axes["period"] == [1440]
        player: Any = named["auto"].make()
        experts = player.learner.experts
        assert {getattr(expert, "period", None) for expert in experts} == {None, 1440}

    @pytest.mark.long
    def test_of_minutes_is_emitted_with_its_day(self):
        rng = np.random.default_rng(0)
        n = 4 * 1440
        start = np.datetime64("2026-02-02T00:00:00", "ms")
        stamps = start + np.arange(n) * np.timedelta64(60, "s")
        load = 5.0 + 3.0 * np.sin(2.0 * np.pi * np.arange(n) / 1440.0) + 0.1 * rng.normal(size=n)
        frame = pl.DataFrame({"time": stamps, "load": load})
        report = replay(frame, domain="box", costs="pinball", upper=10.0, move_cost=5.0)
        assert report.score("seasonal").parameters["period"] == 1440
        assert not [note for note in report.notes if "looked for" in note]
        agent = report.agent("seasonal")
        assert agent.learner.experts[0].period == 1440
        for row in load[:10]:
            agent.observe({"load": row})
        assert "It knows a season of 1440 rounds" in str(agent.explain())

    def test_has_no_seasons_where_a_move_costs_a_fee(self):
        rows = rows_for("linear", 40)
        for movement, missing in (("fee", {"seasonal", *ROLLING}), ("l2", ROLLING)):
            of = make_setup(5, movement=movement)
            contenders = list_tunables(of, rows, iter([rows]), 80)
            assert {contender.name for contender in contenders} == set(NAMES) - missing


def everyone(of, rows) -> list[Any]:
    """A player of each contender, with the last of the values to try."""
    tunables = list_tunables(of, rows, iter([rows]), 2 * len(rows))
    return [tunable.make(**list_points(tunable.axes)[-1]) for tunable in tunables]


@pytest.fixture
def few(only):
    """A few contenders: those with forecasts, and those that a report needs."""
    only("auto", "forecast", "advice", "auto with advice")


@pytest.fixture(scope="module")
def phased():
    """Shares whose costs change every two hundred rounds, under noise."""
    rng = np.random.default_rng(3)
    g = (
        2.0
        + np.repeat(rng.normal(size=(8, 5)), 100, axis=0)
        + rng.normal(scale=1.5, size=(800, 5))
    )
    return replay(name_columns(g), move_cost=8.0), g


class TestForPapers:
    def test_a_report_is_pickled_with_its_trace_and_continues_as_it_would_have(
        self, phased, only
    ):
        only()
        report, rows = phased
        report = replay(name_columns(rows), move_cost=8.0, baseline=kl.Simplex(5).nearest(rows))
        again = pickle.loads(pickle.dumps(report))
        assert again.to_json() == report.to_json()
        row = dict(zip(report.source.columns, rows[400], strict=True))
        assert again.agent().observe(row) == report.agent().observe(row)
        assert (
            again.source.read_baseline(3, 5).tolist()
            == report.source.read_baseline(3, 5).tolist()
        )

    def test_its_table_is_csv_latex_and_pandas_and_its_figures_are_files(self, phased, tmp_path):
        report, _ = phased
        text = report.to_csv(tmp_path / "table.csv")
        assert (tmp_path / "table.csv").read_text(encoding="utf-8") == text
        read = pl.read_csv(io.StringIO(text), null_values=[""])
        names = ["contender", "cost", "moves"]
        assert read.select(names).equals(report.table.select(names))
        assert report.to_pandas()["cost"].tolist() == report.table["cost"].to_list()
        body = report.to_latex().split("\\midrule\n")[1].split("\\bottomrule")[0]
        cells = [line.removesuffix(r" \\").split(" & ") for line in body.splitlines()]
        assert [each[0] for each in cells] == report.table["contender"].to_list()
        costs = [
            float(each[4].strip("$").replace(r" \cdot 10^{", "e").rstrip("}")) for each in cells
        ]
        assert costs == pytest.approx(report.table["cost"].to_list(), rel=1e-3)
        report.savefig(tmp_path / "decisions.pdf", kind="decisions")
        drawn = (tmp_path / "decisions.pdf").read_bytes()
        assert drawn.startswith(b"%PDF")
        assert b"/FontFile2" in drawn  # TrueType
        assert b"/Type3" not in drawn

    def test_latex_has_powers_of_ten_only_for_very_large_and_very_small_numbers(self):
        rows = [{"cost": value} for value in (11380.3, 99999.7, 1234567.0, 0.00001234, -12.0)]
        cells = [line.removesuffix(r" \\") for line in write_latex(rows).split("\n")[4:-3]]
        assert cells == [
            "$11380$",
            "$100000$",
            r"$1.235 \cdot 10^{6}$",
            r"$1.234 \cdot 10^{-5}$",
            "$-12$",
        ]

    @given(st.text(max_size=20))
    def test_latex_reads_no_cell_as_a_command(self, text):
        cell = write_latex([{"cell": text}]).split("\n")[4].removesuffix(r" \\")
        written = re.sub(
            r"\\text(backslash|asciitilde|asciicircum|less|greater)\{\}|\\[&%$#_{}]", "", cell
        )
        assert not set(written) & set("&%$#_{}~^\\\n")


class TestAReplay:
    @pytest.mark.parametrize(("costs", "shape"), FAMILIES)
    def test_is_paid_again_by_the_agents_it_emits_and_none_beats_the_optimum(
        self, tmp_path, by_step, costs, shape
    ):
        """To the last digit, for every contender: the agent is saved, loaded, and told the rows of the second part."""
        rows = rows_for(costs, 42)
        report = replay(name_columns(rows), costs=costs, move_cost=0.2, **shape)
        assert report.optimum is not None
        for score in report.scores:
            assert score.cost >= report.optimum.lower_bound - 1e-9 * abs(
                report.optimum.lower_bound
            )
            reproduce(report, score, rows, tmp_path)
        for one, other in pairwise(report.scores):
            assert one.cost <= other.cost or one.ties_with(other)

    def test_is_paid_again_by_compiled_agents(self, phased, tmp_path):
        report, g = phased
        for score in report.scores:
            reproduce(report, score, g, tmp_path)

    @pytest.mark.parametrize(
        "options", [{"whole": True}, {"guards": kl.Guards(hold=3, per_round=1.0)}]
    )
    def test_is_paid_again_within_guards(self, tmp_path, by_step, options):
        rows = 5.0 + 4.0 * rows_for("linear", 42)
        report = replay(
            name_columns(rows), "box", "quadratic", upper=20.0, move_cost=0.5, **options
        )
        for score in report.scores:
            agent = reproduce(report, score, rows, tmp_path)
            if "whole" in options:
                assert (score.points[1:] == score.points[1:].round()).all()
                assert agent.guards is not None
                assert agent.guards.integers

    def test_emits_agents_that_know_where_they_come_from(self, phased):
        report, _ = phased
        agent = report.agent("GD", at="end")
        assert (agent.t, list(agent.columns), agent.movement) == (
            801,
            report.source.columns,
            kl.TVMovement(8.0),
        )
        assert agent.origin["next_row"] == 801
        assert report.agent("GD").origin["next_row"] == 401
        assert agent.origin["paid"]["cost"] == report.score("GD").cost
        assert agent.origin["best"] == report.best.name
        with pytest.raises(InvalidInput, match=r"name must be one of .*, got 'nobody'"):
            report.agent("nobody")

    @pytest.mark.parametrize("rounds", [40, 800])
    def test_emits_an_auto_that_begins_with_all_that_the_rows_teach(self, phased, rounds):
        """Its leader, forecasts and seasons are those of an agent with this history, also of one shorter than its windows."""
        _, g = phased
        trace = name_columns(g[:rounds])
        agent = replay(trace, move_cost=8.0).agent("auto", at="end")
        assert agent.t == rounds + 1
        kept = {"costs": agent.costs, "columns": agent.columns, "movement": agent.movement}
        for past in (trace, g[:rounds]):
            told = kl.Agent(agent.learner, history=past, **kept)
            assert told.state.leader == agent.state.leader
            for name in ("x", "behind", "squares", "season", "regression"):
                ours, theirs = (getattr(each.state, name) for each in (told, agent))
                np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
            assert str(told.explain()) == str(agent.explain())
        assert np.abs(agent.state.regression).max() > 0.0

    def test_adds_up_what_a_slow_reference_adds_up(self, phased):
        report, g = phased
        first = report.rounds[0]
        for score in report.scores:
            learner = score.player.learner
            x = np.vstack((np.zeros((first, 5)), score.points, score.player.x))
            if not hasattr(learner, "experts"):  # those take seconds
                trace = kl.run(learner, g, movement=report.setup.movement, engine="step")
                x = np.vstack((trace.x, trace.state.x))
            hitting = sum(float(g[t] @ x[t]) for t in range(first, len(g)))
            switching = sum(
                8.0 * 0.5 * float(np.abs(x[t + 1] - x[t]).sum()) for t in range(first, len(g))
            )
            assert score.hitting == pytest.approx(hitting, rel=1e-9)
            assert score.switching == pytest.approx(switching, rel=1e-7, abs=1e-6)
            assert score.stretches.sum() == pytest.approx(score.cost, rel=1e-12)
            assert score.curve[-1] == pytest.approx(score.cost, rel=1e-12)

    def test_tunes_on_the_first_part_alone_each_on_as_many_candidates(self, phased):
        report, g = phased
        other = np.concatenate((g[:400], -3.0 * g[400:] + 1.0))
        again = replay(other, move_cost=8.0)
        assert {score.name: score.parameters for score in again.scores} == {
            score.name: score.parameters for score in report.scores
        }
        for score in report.scores:
            if score.parameters:
                assert CANDIDATES // 3 < score.candidates <= CANDIDATES
            else:
                assert score.candidates == 1

    def test_chooses_what_paid_least_of_what_it_tried_at_first_and_round_that(self, phased):
        report, g = phased
        score = report.score("GD")
        (greedy,) = (
            each
            for each in list_tunables(report.setup, g[:400], iter([g[:400]]), 800)
            if each.name == "GD"
        )

        def cost(sigma):
            learner = kl.GD(report.setup.domain, sigma)
            return kl.run(learner, g[:400], movement=report.setup.movement).totals.cost

        first = min(greedy.axes["sigma"], key=cost)
        at = greedy.axes["sigma"].index(first)
        finer = np.geomspace(
            greedy.axes["sigma"][at - 1], greedy.axes["sigma"][at + 1], len(greedy.axes["sigma"])
        ).tolist()
        assert score.parameters["sigma"] == min([*greedy.axes["sigma"], *finer], key=cost)
        assert score.at_limit == []

    def test_is_the_same_in_pieces(self, phased, monkeypatch):
        report, g = phased
        monkeypatch.setattr("klazy.studies.replay.source.ROWS", 13)
        monkeypatch.setattr("klazy.studies.replay.scoring.OPTIMUM_NUMBERS", 5 * 150)
        again = replay(g, move_cost=8.0)
        for one, other in zip(report.scores, again.scores, strict=True):
            assert (one.name, one.parameters) == (other.name, other.parameters)
            assert one.cost == pytest.approx(other.cost, rel=1e-9)
            np.testing.assert_allclose(one.points, other.points, atol=1e-9)
        assert report.optimum is not None
        assert again.optimum is not None
        assert again.optimum.pieces == 3
        assert again.optimum.lower_bound <= report.optimum.lower_bound * (1.0 + 1e-12)
        assert (
            again.optimum.lower_bound >= report.optimum.lower_bound - 2 * 8.0
        )  # two cuts, a move at most each
        assert report.optimum.cost <= again.optimum.cost * (1.0 + 1e-12)

    def test_needs_rows_on_both_sides(self):
        with pytest.raises(
            InvalidInput,
            match=f"train must leave at least {STRETCHES} rows on both sides, got 0.5 of 30 rows",
        ):
            replay(rows_for("linear", 30))

    def test_charges_a_baseline_the_same_prices(self, by_step, only):
        only()
        rows = rows_for("linear", 60, d=3)
        made = np.eye(3)[np.arange(60) // 7 % 3]
        frame = name_columns(rows).with_columns(
            pl.Series(f"now{i}", made[:, i]) for i in range(3)
        )
        report = replay(frame, move_cost=0.5, baseline=["now0", "now1", "now2"])
        score = report.score("baseline")
        assert report.source.columns == ["c0", "c1", "c2"]
        assert score.hitting == pytest.approx((rows * made)[30:].sum())
        assert score.switching == pytest.approx(
            0.5 * (made[31:] != made[30:-1]).any(axis=1).sum()
        )
        again = replay(rows, move_cost=0.5, baseline=made)
        assert again.score("baseline").cost == score.cost
        saving = report.savings["baseline"]
        assert saving.cost == pytest.approx(score.cost - report.best.cost)
        assert saving.share == pytest.approx(saving.cost / score.cost)
        with pytest.raises(
            InvalidInput,
            match=r"baseline must have 60 rows with 3 decisions each, .* got 59 rows with 3",
        ):
            replay(rows, baseline=made[1:])
        with pytest.raises(InvalidInput, match="The baseline cannot become an agent"):
            report.agent("baseline")

    def test_charges_trades_from_where_prices_have_carried_the_shares(self, by_step, only):
        """Holding half and half means to sell what rose, every day."""
        only()
        relatives = np.exp(np.random.default_rng(0).normal(0.0, 0.02, (60, 2)))
        halves = kl.Fixed(kl.Simplex(2))
        report = replay(
            relatives,
            costs="log-wealth",
            movement="l1",
            move_cost=0.01,
            baseline=np.full((60, 2), 0.5),
        )
        worth = 0.5 * relatives[30:]
        drifted = worth / worth.sum(axis=1, keepdims=True)
        traded = np.abs(0.5 - drifted).sum(axis=1)
        assert report.score("baseline").switching == pytest.approx(0.01 * traded.sum())
        agent = kl.Agent(halves, costs=kl.LogWealth(), movement=kl.L1Movement(0.01))
        for row in relatives[30:]:
            agent.observe(row)
        assert agent.switching == report.score("baseline").switching > 0.0

    @pytest.mark.parametrize("shape", [{}, {"domain": "capped-simplex", "cap": 0.6}], ids=repr)
    def test_of_shares_is_the_same_in_l1_as_in_total_variation_at_twice_the_price(self, shape):
        """What some shares gain, others lose."""
        relatives = np.exp(np.random.default_rng(0).normal(0.0, 0.01, (60, 3)))
        source = Source(relatives)
        options = {"costs": "log-wealth", **shape}
        best = find_hindsight_optimum(
            source, make_setup(3, movement="l1", move_cost=0.01, **options), 30, 60
        )
        same = find_hindsight_optimum(
            source, make_setup(3, movement="tv", move_cost=0.02, **options), 30, 60
        )
        assert best is not None
        assert same is not None
        assert best.lower_bound == same.lower_bound
        assert best.cost == pytest.approx(same.cost, rel=1e-12)
        family = kl.LogWealth()
        domain = kl.CappedSimplex(3, cap=shape.get("cap", 1.0))
        alone = float(family.value(relatives[30:], domain.lowest(-relatives[30:])).sum())
        assert alone < best.lower_bound < best.cost

    def test_of_rewards_is_one_of_their_negatives(self, by_step):
        rows = rows_for("linear", 50)
        report = replay(rows, costs="rewards")
        negative = replay(-rows)
        assert [(one.name, one.cost) for one in report.scores] == [
            (one.name, one.cost) for one in negative.scores
        ]
        assert report.optimum == negative.optimum

    def test_walks_forward_and_replays_several_prices(self):
        rows = np.random.default_rng(0).normal(1.0, 0.5, (80, 5))
        report = replay(rows, move_cost=[0.1, 1.0], folds=2)
        assert [(fold.first, fold.last) for fold in report.folds] == [(40, 60), (60, 80)]
        alone = replay(rows[:60], move_cost=1.0, train=40 / 60)
        assert {
            score.name: score.cost for score in report.folds[0].scores if score.name != "SAder-k"
        } == {
            score.name: score.cost
            for score in alone.scores
            if score.name != "SAder-k"  # is told how long it is
        }
        prices = json.loads(report.to_json())["move_costs"]
        assert [row["move_cost"] for row in prices] == [0.1, 1.0]
        assert [row["parameters"] for row in prices] == [
            each.best.parameters for each in report.move_costs
        ]
        folds = json.loads(report.to_json())["folds"]
        scores = [score for fold in report.folds for score in fold.scores]
        assert [row["parameters"] for row in folds] == [score.parameters for score in scores]
        assert "Who paid least depends on the move cost" in report.answer
        assert report.plot("move_costs").axes
        with pytest.raises(
            InvalidInput, match="folds must be 2 or more, with 20 rows each, got 3 for 40 rows"
        ):
            replay(rows, folds=3)

    def test_takes_prices_and_limits_by_column(self, by_step, only):
        only("last value")
        rows = rows_for("linear", 50, d=3)
        report = replay(rows, up=[1.0, 2.0, 3.0], down=0.5, move_cost=2.0)
        best = report.score("last value")
        steps = np.diff(np.vstack((best.points, best.player.x)), axis=0)
        paid = 2.0 * (
            np.maximum(steps, 0.0) @ [1.0, 2.0, 3.0] + 0.5 * np.maximum(-steps, 0.0).sum(axis=1)
        )
        assert best.switching == pytest.approx(paid.sum())
        capped = replay(rows, "capped-simplex", cap=[0.5, 0.6, 0.7], floor=[0.1, 0.0, 0.0])
        assert (capped.score("last value").points <= np.array([0.5, 0.6, 0.7]) + 1e-12).all()
        assert (capped.score("last value").points[:, 0] >= 0.1).all()
        fee = replay(rows, movement="fee", move_cost=0.3)
        assert fee.optimum is None
        assert fee.score("last value").switching == pytest.approx(
            0.3 * fee.score("last value").moves
        )


# How a problem is said: options of the command.
PROBLEMS = [
    ("--per", "60"),
    ("--per", "60,45", "--no-whole"),
    ("--per", "60", "--ramp-up", "2", "--ramp-down", "1,3"),
    ("--per", "60", "--no-whole", "--ramp-up", "1.5"),
    ("--per", "60", "--no-whole", "--lead", "3"),
    ("--per", "60", "--delay", "2"),
    ("--per", "60", "--lead", "2", "--delay", "1", "--ramp-up", "2"),
]


# The same with forecasts, and the rows that these are for.
LATE = ("--per", "60", "--lead", "2", "--ramp-up", "2", "--delay", "1")
FORECAST_PROBLEMS = [
    ("this", ("--per", "60", "--no-whole", "--fill", "forward"), "forecast"),
    ("this", LATE, "forecast"),
    ("next", LATE, "forecast"),
    ("this", ("--per", "60", "--no-whole", "--fill", "forward"), "auto with advice"),
    ("next", LATE, "auto with advice"),
]


def reproduce(report, score, rows, folder):
    """Tell the agent of a contender the rows of the second part, and compare what it paid."""
    report.agent(score.name).save(folder / "agent.json")
    agent = kl.Agent.load(folder / "agent.json")
    decision = agent.decision
    for row in rows[report.rounds[0] :]:
        decision = agent.observe(dict(zip(report.source.columns, row.tolist(), strict=True)))
    assert (agent.hitting, agent.switching) == (score.hitting, score.switching)
    assert list(decision.values()) == score.player.x.tolist()
    return agent


def write_with_holes(folder: Path) -> tuple[list[str], list[int]]:
    """A file of demands with missing cells in rows 3, 30 and 31 and every seventh one; its lines, and which are whole."""
    rng = np.random.default_rng(5)
    lines = ["day;eu;us"]
    whole = []
    for i in range(60):
        cells = [f"{rng.uniform(1000.0, 1900.0):.3f}", f"{rng.uniform(1.0, 9.0):.3f}"]
        cells = [cell.replace(".", ",") for cell in cells]
        if i in (2, 29, 30) or i % 7 == 6:
            cells[i % 2] = ("", "NA", "NaN")[i % 3]
        else:
            cells[0] = f"{cells[0][0]}.{cells[0][1:]}"  # 1.234,567: a point between thousands
            whole.append(i)
        lines.append(";".join([str(date(2024, 1, 1) + timedelta(days=i)), *cells]))
    written(folder, "\n".join(lines) + "\n", "load.csv")
    return lines, whole


class TestTheProblemAsItIs:
    """Units, limits and times of the user's own: one law for replay, live, stores and service."""

    OPTIONS = (
        "--domain",
        "box",
        "--upper",
        30,
        "--costs",
        "pinball",
        "--short",
        4,
        "--move-cost",
        0.5,
    )

    @pytest.mark.parametrize("contender", ["moving average", "GD"])
    @pytest.mark.parametrize("options", PROBLEMS, ids=" ".join)
    def test_is_paid_alike_by_replay_live_stores_and_service(
        self, tmp_path, by_step, only, options, contender
    ):
        """An emitted agent pays what the replay promised, to the last digit, wherever it runs, with missing cells too."""
        if contender == "GD":
            only()  # all of them play where the moving average is emitted
        rng = np.random.default_rng(8)
        demand = (
            600.0
            + 400.0 * np.sin(np.arange(50) / 6.0)[:, None]
            + rng.normal(scale=90.0, size=(50, 2))
        )
        lines = [
            f"{i},{row[0]:.3f},{'' if i % 9 == 4 else f'{row[1]:.3f}'}"
            for i, row in enumerate(demand)
        ]
        written(tmp_path, "\n".join(["time,eu,us", *lines]) + "\n", "load.csv")
        told = ("--fill", "forward", "--contender", contender, "--emit", "agent.json", "--json")
        ended = call_klazy("replay", "load.csv", *self.OPTIONS, *options, *told, folder=tmp_path)
        assert ended.status == 0, ended.stderr
        report = json.loads(ended.stdout)
        paid = {row["contender"]: row for row in report["table"]}
        for row in paid.values():
            assert row["cost"] >= report["lower_bound"] - 1e-9 * abs(report["lower_bound"])
        promised = (paid[contender]["hitting"], paid[contender]["switching"])

        rest = lines[report["rounds"]["first"] :]
        ended = feed(
            "\n".join(["time,eu,us", *rest]), tmp_path / "agent.json", "--state", "live.db"
        )
        assert ended.status == 0, ended.stderr
        with kl.Agent.open(tmp_path / "live.db", name="agent") as played:
            assert (played.hitting, played.switching) == promised
            decision = played.decision

        rows = [dict(zip(("time", "eu", "us"), line.split(","), strict=True)) for line in rest]
        rows = [
            {name: float(row[name]) if row[name] else None for name in ("eu", "us")}
            for row in rows
        ]
        file = tmp_path / "observed.db"
        kl.Agent.open(file, kl.Agent.load(tmp_path / "agent.json"), name="fleet").close()
        for at, row in enumerate(rows):
            with kl.Agent.open(file, name="fleet") as opened:
                assert opened.observe(row, id=at) == opened.observe(row, id=at)
        with kl.Agent.open(file, name="fleet") as opened:
            assert (opened.hitting, opened.switching, opened.decision) == (*promised, decision)
            rebuilt = copy.deepcopy(kl.Agent.load(tmp_path / "agent.json"))
            for row in rows:
                rebuilt.observe(row)
            assert (rebuilt.hitting, rebuilt.switching, rebuilt.decision) == (*promised, decision)
        assert [found.fault for found in check_store(open_store(file))] == [None, None]

        with run_service(tmp_path, insecure=True) as served:
            remote = served.client().agent("fleet", tmp_path / "agent.json")
            for row in rows:
                remote.observe(row)
            assert (remote.hitting, remote.switching, remote.decision) == (*promised, decision)

    def test_is_told_to_a_service_as_to_an_agent(self, tmp_path):
        family = kl.Pinball(4.0)
        rule = kl.LastValue(kl.Box(0, 30), family=family)
        given = {
            "costs": family,
            "columns": ["eu"],
            "per": 60,
            "lead": 2,
            "delay": 1,
            "movement": "l1",
        }
        agent = kl.Agent(rule, guards=kl.Guards(up=2.0), **given)
        with run_service(tmp_path, insecure=True) as served:
            remote = served.client().agent("new", rule, guards=kl.Guards(up=2.0), **given)
            for demand in (120.0, 600.0, 60.0, 300.0, 240.0):
                assert remote.observe({"eu": demand}) == agent.observe({"eu": demand})
            assert (remote.hitting, remote.switching) == (agent.hitting, agent.switching)
            assert [remote.about[name] for name in ("per", "lead", "delay")] == [[60.0], 2, 1]

    def test_has_decisions_in_units_of_their_own(self, by_step, only):
        """Dividing the demand by hand is the same, but for the rows that the agent takes; whole numbers are the default."""
        only("auto")
        demand = 600.0 + 400.0 * np.sin(np.arange(80) / 6.0)[:, None]
        options = {
            "domain": "box",
            "costs": "pinball",
            "upper": 30.0,
            "short": 4.0,
            "move_cost": 0.5,
        }
        found = replay(demand, per=60.0, **options)
        by_hand = replay(demand / 60.0, whole=True, **options)
        assert found.table.equals(by_hand.table)
        assert (found.score("auto").points == found.score("auto").points.round()).all()
        assert found.optimum.cost == pytest.approx(found.optimum.lower_bound, rel=1e-9)
        assert not replay(demand, per=60.0, whole=False, **options).setup.integers
        family = kl.Pinball(4.0)
        rule = kl.LastValue(kl.Box(0, 30), family=family)
        agent = kl.Agent(rule, costs=family, columns=["eu"], per=60)
        assert agent.observe({"eu": 120.0}) == {"eu": 2.0}
        assert (agent.hitting, agent.per) == (8.0, (60.0,))
        with pytest.raises(
            InvalidInput, match="per needs costs of demands or targets, pinball or quadratic"
        ):
            replay(demand, per=60.0)
        with pytest.raises(InvalidInput, match=r"per must be above 0, got 0\.0\."):
            replay(demand, per=0.0, **options)

    @pytest.mark.parametrize("whole", [True, False])
    def test_has_ramp_limits_that_everybody_keeps(self, monkeypatch, by_step, only, whole):
        """The optimum is that of offline_optimum, and keeps them from piece to piece, too."""
        only("auto", "last value", "moving average")
        demand = 10.0 + 8.0 * np.sin(np.arange(120) / 4.0)[:, None]
        options = {
            "domain": "box",
            "costs": "pinball",
            "upper": 30.0,
            "short": 4.0,
            "move_cost": 0.5,
        }
        options["whole"] = whole
        found = replay(demand, ramp_up=2.0, ramp_down=1.0, **options)
        free = replay(demand, **options)
        same = make_setup(1, guards=kl.Guards(up=[2.0], down=[1.0]), **options)
        assert found.setup.ramp == same.ramp
        with pytest.raises(InvalidInput, match=r"ramp_up must be above 0, got 0\.0\."):
            replay(demand, ramp_up=0.0, **options)
        with pytest.raises(InvalidInput, match="ramp_down must have shape"):
            replay(demand, ramp_down=[1.0, 2.0], **options)
        assert found.optimum.lower_bound > free.optimum.lower_bound
        for score in found.scores:
            steps = np.diff(score.points, axis=0)
            assert steps.max() <= 2.0 + 1e-12
            assert steps.min() >= -1.0 - 1e-12
        rows = kl.PinballCosts(demand[60:], short=4.0)
        box = kl.Box(0, 30)
        exact = kl.offline_optimum(
            rows, box, kl.L1Movement(0.5), ramp=(1, 2), integers=whole, gap=1e-3
        )
        assert found.optimum.cost == pytest.approx(exact.cost, rel=1e-3)
        monkeypatch.setattr("klazy.studies.replay.scoring.OPTIMUM_NUMBERS", 25)
        pieces = find_hindsight_optimum(found.source, found.setup, 60, 120)
        assert pieces.pieces == 3
        assert pieces.lower_bound <= exact.cost + 1e-9
        assert pieces.cost >= exact.lower_bound - 1e-9

    def test_has_a_lead_time_in_which_nobody_moves(self, by_step, only):
        """The optimum is that of offline_optimum, and the decisions in the report are those in force."""
        only("last value", "auto")
        demand = 10.0 + 8.0 * np.sin(np.arange(80) / 4.0)[:, None]
        options = {
            "domain": "box",
            "costs": "pinball",
            "upper": 30.0,
            "short": 4.0,
            "move_cost": 0.5,
        }
        late, plain = replay(demand, lead=3, **options), replay(demand, **options)
        for score in late.scores:
            assert (score.points[:4] == score.points[0]).all()
        moved = late.score("last value").points
        assert np.array_equal(moved[3:], plain.score("last value").points[:-3])
        rows = kl.PinballCosts(demand[40:], short=4.0)
        exact = kl.offline_optimum(rows, kl.Box(0, 30), kl.L1Movement(0.5), lead=3, gap=1e-3)
        assert late.optimum.cost == pytest.approx(exact.cost, rel=1e-3)
        assert late.optimum.lower_bound > plain.optimum.cost
        again = replay(demand, delay=3, **options)
        assert again.score("last value").cost == late.score("last value").cost
        assert again.optimum.lower_bound == plain.optimum.lower_bound

    @pytest.mark.parametrize("options", [{}, {"lead": 2, "ramp_up": 3.0, "per": 4.0}], ids=repr)
    def test_has_an_autoscaler_that_is_charged_like_any_other(self, by_step, options, only):
        only()
        rng = np.random.default_rng(3)
        demand = np.maximum(
            60.0 + 40.0 * np.sin(np.arange(120) / 9.0) + rng.normal(scale=8.0, size=120), 0.0
        )
        times = [datetime(2024, 1, 1) + timedelta(minutes=i) for i in range(120)]
        game: dict[str, Any] = {
            "domain": "box",
            "costs": "pinball",
            "upper": 200.0,
            "short": 4.0,
            **options,
        }
        frame = pl.DataFrame({"time": times, "demand": demand})
        report = replay(frame, baseline="hpa:target=0.5,window=3m", **game)
        found = report.score("baseline")
        assert found.parameters == {"target": 0.5, "window": 3}
        rule = kl.contrib.PodAutoscaler(kl.Box(0, 200), 0.5, 3, family=kl.Pinball(4.0))
        warm = kl.Agent(rule, history=demand[:60, None] / options.get("per", 1.0))
        given = {name: options[name] for name in ("lead", "per") if name in options}
        guards = report.setup.guards
        agent = kl.Agent(
            rule, costs=kl.Pinball(4.0), movement="l1", state=warm.state, guards=guards, **given
        )
        for row in demand[60:, None]:
            agent.observe(row)
        assert (agent.hitting, agent.switching) == (found.hitting, found.switching)
        assert "against the autoscaler's rule" in report.answer
        by_default = replay(frame, baseline="hpa", **game).score("baseline")
        assert by_default.parameters == {"target": 0.8, "window": 5}
        for wrong, message in (
            (
                "hpa:targt=1",
                "An option of hpa must be one of 'target', 'window', 'tolerance', 'step', got 'targt'.",
            ),
            ("hpa:target=x", "target of hpa must be a number, got 'x'."),
            ("hpa:window=5x", "window must be a length of time above zero, got 5x."),
        ):
            with pytest.raises(InvalidInput, match=re.escape(message)):
                replay(frame, baseline=wrong, **game)
        with pytest.raises(InvalidInput, match=r"Write baseline='hpa:step=60s'\."):
            replay(frame.drop("time"), baseline="hpa", **game)
        with pytest.raises(
            InvalidInput, match=r"needs costs='pinball' and domain='box', got Quadratic\(\) on"
        ):
            replay(frame, baseline="hpa", domain="box", costs="quadratic", upper=200.0)

    @pytest.mark.parametrize(("stand", "options", "contender"), FORECAST_PROBLEMS)
    def test_has_forecasts_that_replay_live_and_service_use_alike(
        self, tmp_path, by_step, few, stand, options, contender
    ):
        """In rows of their own or before, with some missing: what is promised is paid, to the last digit."""
        rng = np.random.default_rng(8)
        demand = (
            600.0
            + 400.0 * np.sin(np.arange(54) / 6.0)[:, None]
            + rng.normal(scale=90.0, size=(54, 2))
        )
        told = demand + rng.normal(scale=30.0, size=demand.shape)
        if contender == "auto with advice":
            told /= 60.0  # a decision, in the units of decisions
        ahead = 1 + sum(
            int(options[options.index(lag) + 1])
            for lag in ("--lead", "--delay")
            if lag in options
        )
        shift = 0 if stand == "this" else ahead
        rows = []
        for i in range(50):
            cells = [
                f"{i}",
                f"{demand[i, 0]:.3f}",
                "" if "--fill" in options and i % 9 == 4 else f"{demand[i, 1]:.3f}",
            ]
            forecasts = [f"{each:.3f}" for each in told[min(i + shift, 53)]]
            rows.append([*cells, *(["", forecasts[1]] if i % 11 == 7 else forecasts)])
        names = ["time", "eu", "us", "eu_told", "us_told"]
        lines = [",".join(row) for row in (names, *rows)]
        written(tmp_path, "\n".join(lines) + "\n", "load.csv")
        given = (
            f"--{contender.split()[-1]}",
            "*_told",
            "--forecast-for",
            stand,
            "--contender",
            contender,
            "--emit",
            "agent.json",
        )
        ended = call_klazy(
            "replay", "load.csv", *self.OPTIONS, *options, *given, "--json", folder=tmp_path
        )
        assert ended.status == 0, ended.stderr
        report = json.loads(ended.stdout)
        assert report["columns"] == ["eu", "us"]
        paid = {row["contender"]: row for row in report["table"]}
        promised = (paid[contender]["hitting"], paid[contender]["switching"])
        first = report["rounds"]["first"]

        ended = feed(
            "\n".join([lines[0], *lines[first + 1 :]]),
            tmp_path / "agent.json",
            "--state",
            "live.db",
        )
        assert ended.status == 0, ended.stderr
        with kl.Agent.open(tmp_path / "live.db", name="agent") as played:
            assert (played.hitting, played.switching) == promised
            decision = played.decision

        # An agent gets each forecast after the row before.
        cells = [dict(zip(names[1:], row[1:], strict=True)) for row in rows[first:]]
        cells = [
            {name: float(text) if text else None for name, text in row.items()} for row in cells
        ]
        if stand == "this":
            later = [*cells[ahead:], *[{}] * ahead]
            cells = [
                row | {name: other.get(name) for name in names[3:]}
                for row, other in zip(cells, later, strict=True)
            ]
        with run_service(tmp_path, insecure=True) as served:
            remote = served.client().agent("told", tmp_path / "agent.json")
            agent = kl.Agent.load(tmp_path / "agent.json")
            assert agent.forecast == ("eu_told", "us_told")
            for at, row in enumerate(cells):
                remote.observe(row, id=at)
                agent.observe(row)
            assert (agent.hitting, agent.switching, agent.decision) == (*promised, decision)
            assert (remote.hitting, remote.switching, remote.decision) == (*promised, decision)

    @pytest.mark.parametrize(
        ("stand", "moved"), list(product(["this", "next"], [-2, -1, 0, 1, 2]))
    )
    def test_has_forecasts_whose_rows_are_noticed_if_they_are_others(self, stand, moved):
        rng = np.random.default_rng(moved + 9)
        rows = np.cumsum(rng.normal(size=(200, 2)), axis=0) * [1.0, 100.0]
        told = rows + 0.3 * rng.normal(size=rows.shape) * [1.0, 100.0]
        shift = moved + (1 if stand == "next" else 0)
        standing = np.roll(told, -shift, axis=0)
        standing[::7] = np.nan
        source = Source(rows)
        source.forecasts = Forecasts(["a", "b"], standing, stand == "next")
        said = list_misplaced(source, make_setup(2, "box", "quadratic", upper=1e4))
        assert len(said) == (moved != 0)
        remedies = {
            (
                "this",
                1,
            ): "fit the next row better than their own row, .* Write forecast_for='next'.",
            (
                "this",
                -1,
            ): "fit the row before better than .* Move them up by 1 row, unless they only repeat",
            ("this", 2): "fit the row 2 rows later better than .* Move them down by 2 rows.",
            (
                "next",
                -1,
            ): "fit their own row better than the next row, .* write forecast_for='this'.",
            (
                "next",
                1,
            ): "fit the row 2 rows later better than the next row, .* Move them down by 1 row.",
        }
        assert re.search(remedies.get((stand, moved), ""), " ".join(said))

    @pytest.mark.parametrize("delta", [None, 0.1], ids=["forecast", "advice"])
    @pytest.mark.parametrize("lead", [0, 2, 5])
    @pytest.mark.parametrize("stand", ["this", "next"])
    def test_is_silent_once_the_remedy_for_misplaced_rows_was_taken(self, stand, lead, delta):
        """A lead changes which row the next decision meets, and so what each remedy does."""
        rows = np.cumsum(np.random.default_rng(lead).normal(size=(200, 2)), axis=0)
        setup = make_setup(2, "box", "quadratic", lower=-99.0, upper=99.0, lead=lead)
        own = 1 + lead if stand == "next" else 0
        for place in range(-2, lead + 4):
            source = Source(rows)
            told = np.roll(rows, -place, axis=0)
            source.forecasts = Forecasts(["a", "b"], told, stand == "next", delta)
            said = list_misplaced(source, setup)
            assert len(said) == (place != own)
            if not said:
                continue
            moved = re.search(r"Move them (up|down) by (\d+) row", said[0])
            other = re.search(r"rite forecast_for='(this|next)'", said[0])
            if moved is not None:
                by = int(moved[2]) if moved[1] == "down" else -int(moved[2])
                remedied = Forecasts(
                    ["a", "b"], np.roll(told, by, axis=0), stand == "next", delta
                )
            else:
                assert other is not None
                remedied = Forecasts(["a", "b"], told, other[1] == "next", delta)
            source.forecasts = remedied
            assert list_misplaced(source, setup) == []

    @pytest.mark.parametrize(("stand", "moved"), [("this", 1), ("next", -1), ("this", 0)])
    def test_has_advice_whose_rows_are_noticed_if_they_are_others(self, stand, moved):
        rows = np.cumsum(np.random.default_rng(moved + 9).normal(size=(200, 2)), axis=0)
        shift = moved + (1 if stand == "next" else 0)
        source = Source(rows)
        told = Forecasts(["a", "b"], np.roll(rows, -shift, axis=0), stand == "next", 0.1)
        source.forecasts = told
        said = list_misplaced(source, make_setup(2, "box", "quadratic", lower=-99.0, upper=99.0))
        assert len(said) == (moved != 0)
        assert all(line.startswith("The advised decisions in a row fit ") for line in said)
        other = "next" if stand == "this" else "this"
        assert all(line.endswith(f"rite forecast_for='{other}'.") for line in said)

    def test_weighs_advice_that_is_good_or_bad(self, by_step, few):
        """Good advice is followed; bad advice costs no more than the bound of the page Ensembles says."""
        rng = np.random.default_rng(3)
        demand = 50.0 + 30.0 * np.sin(np.arange(240) / 9.0) + rng.normal(scale=4.0, size=240)
        game: dict[str, Any] = {"domain": "box", "costs": "pinball", "short": 4.0, "upper": 120.0}
        for name, told in (("good", demand), ("bad", 120.0 - demand)):
            frame = pl.DataFrame({"load": demand, "load_advice": told})
            report = replay(frame, advice="*_advice", delta=0.5, move_cost=2.0, **game)
            mixed, alone = report.score("auto with advice"), report.score("advice")
            verdict = report.to_dict()["advice"]
            assert report.to_dict()["forecasts"] is None
            if name == "good":
                assert mixed.cost <= 1.5 * alone.cost
                assert verdict in ("help", "perhaps")
                assert "Your advice " in report.answer
            else:
                assert mixed.cost < 0.5 * alone.cost
                assert verdict == "do not help"
                assert "Your advice does not help here: " in report.answer
        for wrong, message in (
            ({"forecast": "load_advice"}, "advice and forecast do not go together."),
            ({"delta": 0.0}, "delta must be above 0, got 0.0."),
            ({"states": np.ones((1, 1))}, "advice and states do not go together."),
        ):
            with pytest.raises(InvalidInput, match=message):
                replay(frame, advice="*_advice", **(game | wrong))

    def test_has_forecasts_in_a_file_of_their_own_by_time(self, tmp_path, by_step, few):
        """Those of other times do not matter, nor does their order of columns; rows that are dropped need none."""
        rng = np.random.default_rng(0)
        rows = rng.uniform(1.0, 9.0, (90, 2))
        told = rows + rng.normal(size=rows.shape)
        times = [datetime(2024, 1, 1) + timedelta(hours=i) for i in range(90)]
        frame = pl.DataFrame({"time": times, "a": rows[:, 0], "b": rows[:, 1]})
        holes = frame.with_columns(
            pl.when(pl.int_range(90) % 8 == 3).then(None).otherwise(pl.col("b")).alias("b")
        )
        named = {"a_told": told[:, 0], "b_told": told[:, 1]}
        game: dict[str, Any] = {"domain": "box", "costs": "pinball", "upper": 9.0, "fill": "drop"}
        inside = replay(
            holes.with_columns(**{name: pl.Series(cells) for name, cells in named.items()}),
            forecast="*_told",
            **game,
        )
        more = pl.DataFrame(
            {
                "time": [datetime(2023, 1, 1), *times],
                "b": [1.0, *told[:, 1]],
                "a": [1.0, *told[:, 0]],
            }
        )
        more.write_csv(tmp_path / "told.csv")
        apart = replay(holes, forecast=str(tmp_path / "told.csv"), **game)
        assert inside.source.filled == 11
        assert apart.table.equals(inside.table)
        assert apart.agent("forecast").forecast == ("a_forecast", "b_forecast")
        assert apart.to_dict()["forecasts"] in ("help", "perhaps", "do not help")
        assert apart.agent("auto").forecast is None
        without = replay(holes, **game)
        assert without.to_dict()["forecasts"] is None
        assert without.score("auto").cost == inside.score("auto").cost
        for wrong, message in (
            (
                "a_told",
                r"forecast must name a column for each of \['a', 'b', 'b_told'\], got \['a_told'\]",
            ),
            (
                "c_told",
                r"forecast must be a file or columns of the data \(time, a, b, a_told, b_told\), got 'c_told'",
            ),
            (
                frame.select("time", "a"),
                r"forecast must have the columns \['a', 'b'\], got \['a'\]",
            ),
            (frame.select("a", "b").head(5), "forecast must have 90 rows or times, got 5 rows"),
            (more.head(1), "forecast must have time stamps of the data, and has none of them"),
        ):
            data = holes.with_columns(**{name: pl.Series(cells) for name, cells in named.items()})
            if not isinstance(wrong, str):
                data = holes
            with pytest.raises(InvalidInput, match=message):
                replay(data, forecast=wrong, **game)
        with pytest.raises(
            InvalidInput, match="forecast_for must be one of 'this', 'next', got 'that'"
        ):
            replay(holes, forecast=frame, forecast_for="that", **game)

    def test_does_not_know_the_optimum_within_limits_of_other_movements(self, by_step, only):
        only()
        demand = 10.0 + 8.0 * np.sin(np.arange(80) / 4.0)[:, None]
        guards = kl.Guards(up=2.0)
        found = replay(demand, "box", "pinball", upper=30.0, movement="l2", guards=guards)
        assert found.optimum is None
        assert (
            "The best possible total is not known for this movement within these limits."
            in found.answer
        )

    def test_names_the_flags_in_errors(self, tmp_path):
        written(tmp_path, "a\n" + "1\n2\n" * 30)
        for flags, message in (
            (("--ramp-up", "x"), "--ramp-up must be a number, or one per column, got x."),
            (("--ramp-down", "0"), "--ramp-down must be above 0, got 0.0."),
            (("--per", "60,x"), "--per must be a number, or one per column, got 60,x."),
        ):
            ended = call_klazy("replay", "trace.csv", *self.OPTIONS, *flags, folder=tmp_path)
            assert ended.status == 2
            assert message in ended.stderr


class TestMissingCells:
    OPTIONS = (
        "--domain",
        "box",
        "--upper",
        "2000,10",
        "--costs",
        "pinball",
        "--short",
        4,
        "--move-cost",
        0.5,
    )

    @pytest.mark.parametrize("fill", ["forward", "zero", "drop"])
    def test_are_filled_alike_by_replay_live_observe_and_the_service(
        self, tmp_path, by_step, fill, only
    ):
        """An emitted agent, told the rows with their holes, pays what the replay says of its second part, to the last digit."""
        only("moving average")
        lines, whole = write_with_holes(tmp_path)
        options = ("replay", "load.csv", *self.OPTIONS, "--fill", fill, "--json")
        ended = call_klazy(
            *options, "--emit", "agent.json", "--contender", "moving average", folder=tmp_path
        )
        assert ended.status == 0, ended.stderr
        report = json.loads(ended.stdout)
        (paid,) = (row for row in report["table"] if row["contender"] == "moving average")
        first = report["rounds"]["first"]
        rest = lines[1 + (whole[first - 1] + 1 if fill == "drop" else first) :]
        dropped = sum(line.count(",") < 2 for line in rest) if fill == "drop" else 0
        assert dropped or fill != "drop"
        agent = kl.Agent.load(tmp_path / "agent.json")
        assert (agent.fill, f"fill='{fill}'" in repr(agent)) == (fill, True)

        ended = feed("\n".join([lines[0], *rest]), tmp_path / "agent.json", "--state", "live.db")
        assert ended.status == 0, ended.stderr
        assert f"Rows taken: {len(rest) - dropped}, " in ended.stderr.splitlines()[-1]
        assert ended.stderr.count(": dropped, since a cell is missing.") == dropped
        with kl.Agent.open(tmp_path / "live.db", name="agent") as played:
            assert (played.hitting, played.switching) == (paid["hitting"], paid["switching"])
            decision = played.decision

        rows = [read_holes(line) for line in rest]
        file = tmp_path / "observed.db"
        kl.Agent.open(file, agent, name="fleet").close()
        for at, row in enumerate(rows):
            with kl.Agent.open(file, name="fleet") as opened:
                before = opened.t
                holds = opened.check_row(row)
                opened.observe(row, id=at)
                assert opened.t == before + holds
                assert opened.observe(row, id=at) == opened.decision  # it may be told again
        with kl.Agent.open(file, name="fleet") as opened:
            assert (opened.hitting, opened.switching) == (paid["hitting"], paid["switching"])
            assert opened.decision == decision
            assert opened.fill == fill
            opened.save(tmp_path / "saved.json")
        assert kl.Agent.load(tmp_path / "saved.json").decision == decision
        assert [found.fault for found in check_store(open_store(file))] == [None, None]

        with run_service(tmp_path, insecure=True) as served:
            remote = served.client().agent("fleet", tmp_path / "agent.json")
            answers = []
            for at, row in enumerate(rows):
                sent = {name: cell for name, cell in row.items() if at % 2 or cell is not None}
                answer = served.ask("POST", "/agents/fleet/observe", {"row": sent})
                assert answer.status_code == 200, answer.text
                answers.append(answer.json()["dropped"])
            assert (remote.hitting, remote.switching) == (paid["hitting"], paid["switching"])
            assert remote.decision == decision
            assert sum(answers) == dropped
            assert remote.about["fill"] == fill
            assert "missing cell" in str(remote.explain())

    @pytest.mark.parametrize(
        "text",
        ["a\n1\n\n3\n\n", "a,b\n1,2\n\n3,4\n", "a|b\n1|2\nnull|4\n", ",a,b\n0,1,2\n1,,4\n", "a;b\n1.002,5;1\n;N/A\n", "time,a\n1,2\n\n"],
        ids=repr,
    )  # fmt: skip
    @pytest.mark.parametrize("fill", ["forward", "zero", "drop"])
    def test_are_found_by_live_where_a_replay_finds_them(self, tmp_path, text, fill):
        path = written(tmp_path, text)
        expected = [
            [2.0]
        ]  # a blank line has no time stamp: a replay refuses it, live leaves it out
        if not text.startswith("time"):
            source = Source(path, fill=fill)
            expected = source.read(0, source.T).tolist()
        columns = ["a", "b"][: len(expected[0])]
        learner = kl.GD(kl.L2Ball(len(columns)), 1.0)
        origin = {"time": "index"}
        kl.Agent(
            learner, costs=kl.Linear(), columns=columns, fill=fill, engine="step", origin=origin
        ).save(tmp_path / "agent.json")
        assert feed(text, tmp_path / "agent.json", "--state", "live.db").status == 0
        with kl.Agent.open(tmp_path / "live.db", name="agent") as agent:
            rows = [list(json.loads(row).values()) for row in agent.history()["row"]]
        assert rows == expected

    def test_are_filled_from_the_last_row_of_whichever_process_took_it(self, tmp_path):
        options = {"costs": kl.Linear(), "columns": ["eu"], "fill": "forward", "engine": "step"}
        learner = kl.GD(kl.Box(-9, 9), 1.0)
        first = kl.Agent.open(tmp_path / "a.db", learner, **options)
        other = kl.Agent.open(tmp_path / "a.db")
        first.observe([1.0])
        other.observe([2.0], retry=True)
        first.observe([None], retry=True)
        assert [json.loads(row)["eu"] for row in first.history()["row"]] == [1.0, 2.0, 2.0]
        first.save(tmp_path / "agent.json")
        loaded = kl.Agent.load(tmp_path / "agent.json")
        for agent in (
            other,
            loaded,
            copy.deepcopy(loaded),
            kl.Agent.open(tmp_path / "b.db", loaded),
        ):
            agent.observe([float("nan")], retry=True)
            assert agent.x.tolist() == [-7.0]
            agent.close()
        first.close()

    def test_of_pandas_are_missing_too(self, by_step):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame({"a": [1, 2] * 25, "b": [3, 4] * 25}, dtype="Int64")
        frame.loc[3, "b"] = pandas.NA
        assert Source(frame, fill="forward").read(3, 4).tolist() == [[2.0, 3.0]]
        agent = kl.Agent(
            kl.GD(kl.Simplex(2), 1.0),
            costs=kl.Linear(),
            columns=["a", "b"],
            fill="forward",
            last_row=[9.0, 3.0],
        )
        agent.observe(frame.loc[3])
        whole = kl.Agent(kl.GD(kl.Simplex(2), 1.0), costs=kl.Linear(), columns=["a", "b"])
        assert agent.decision == whole.observe([2.0, 3.0])

    def test_of_the_first_row_cannot_be_filled_forward(self):
        agent = kl.Agent(
            kl.GD(kl.Box(0, 9), 1.0),
            costs=kl.Linear(),
            columns=["eu"],
            fill="forward",
            engine="step",
        )
        for row in (
            {"eu": None},
            {},
            {"eu": float("nan")},
            [None],
            np.array([np.nan]),
            pl.DataFrame({"eu": [None]}),
        ):
            with pytest.raises(
                InvalidInput,
                match=(
                    r"eu is missing, and there is no earlier row to fill it from. Give the first row a number in "
                    r"every column."
                ),
            ):
                agent.observe(row)
        agent.observe([2.0])
        agent.observe([None])
        agent.observe({"eu": float("nan")})
        assert agent.state == kl.run(kl.GD(kl.Box(0, 9), 1.0), [[2.0]] * 3, engine="step").state

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            ({"fill": "back"}, "fill must be one of 'forward', 'zero', 'drop', got 'back'."),
            ({"fill": "zero", "costs": kl.LogWealth()}, (
                "fill='zero' does not suit LogWealth(), whose rows must be above zero. Use fill='forward' or "
                "fill='drop'."
            )),
            ({"fill": "zero", "costs": None}, "fill needs costs that say what a row costs. Give costs, or leave fill out."),
            ({"last_row": [1.0, 2.0]}, "last_row is used by fill='forward' only, got fill=None. Leave last_row out."),
            ({"fill": "forward", "last_row": [1.0]}, "shape (2,)"),
        ],
        ids=repr,
    )  # fmt: skip
    def test_are_filled_in_ways_that_make_sense_only(self, options, complaint):
        with pytest.raises(InvalidInput, match=re.escape(complaint)):
            kl.Agent(kl.GD(kl.Simplex(2), 1.0), **{"costs": kl.Linear(), **options})
        with pytest.raises(
            InvalidInput,
            match=(
                r"fill='zero' does not suit LogWealth\(\), whose rows must be above zero. Use fill='forward' or "
                r"fill='drop'."
            ),
        ):
            replay(np.full((50, 2), 1.0), costs="log-wealth", fill="zero")


def read_holes(line: str) -> dict[str, float | None]:
    """A row of :func:`write_with_holes`, None where a cell is missing."""
    row = {}
    for name, cell in zip(("eu", "us"), line.split(";")[1:], strict=True):
        row[name] = float(cell.replace(".", "").replace(",", ".")) if "," in cell else None
    return row


class TestAGameWithoutContent:
    @pytest.mark.parametrize(
        ("rows", "options", "complaint"),
        [
            (
                np.ones((50, 1)),
                {},
                "A simplex shares a total among columns, got one column. Write domain='box' and upper=1.",
            ),
            (
                np.ones((50, 2)),
                {"domain": "box"},
                "Linear costs on a box must change sign, but all are positive",
            ),
            (
                np.full((50, 1), 57.0),
                {"domain": "box", "costs": "pinball"},
                "100% of column x1 are above upper=1, half of them beyond 57. Write upper=60.",
            ),
            (
                np.full((50, 2), 57.0),
                {"costs": "quadratic"},
                "Rows add up to 114, far from the total of 1. Write total=150, or domain='box'.",
            ),
        ],
    )
    def test_is_refused_with_what_was_meant(self, rows, options, complaint):
        with pytest.raises(InvalidInput, match=re.escape(complaint)):
            replay(rows, **options)

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            (
                {"domian": "box"},
                "replay has no option domian, got domian='box'. Did you mean domain?",
            ),
            ({"uper": 3.0}, "replay has no option uper, got uper=3.0. Did you mean upper?"),
            (
                {"zzz": 3},
                "replay has no option zzz, got zzz=3. Options are advice, baseline, cap, ",
            ),
            (
                {"cap": 0.3},
                "cap needs domain='capped-simplex', got simplex. Leave one of them out.",
            ),
            (
                {"floor": 0.3, "domain": "box"},
                "floor needs domain='simplex' or 'capped-simplex', got box.",
            ),
            (
                {"short": 0.3},
                "short and excess need costs='pinball', got linear. Leave one of them out.",
            ),
            (
                {"domain": "polytope"},
                "A polytope needs a JSON file with A and b. Write polytope='set.json'.",
            ),
        ],
        ids=repr,
    )
    def test_or_with_options_that_do_not_fit_is_refused_in_the_words_of_python(
        self, options, complaint
    ):
        with pytest.raises(InvalidInput, match=re.escape(complaint)):
            replay(np.ones((50, 2)), **options)

    def test_with_missing_cells_is_refused_in_the_words_of_who_asked(self, tmp_path):
        frame = pl.DataFrame({"a": [1.0, None], "b": [2.0, 3.0]})
        with pytest.raises(
            InvalidInput, match=re.escape("Fill it with fill='forward', 'zero' or 'drop'.")
        ):
            replay(frame)
        frame.write_csv(tmp_path / "t.csv")
        ended = call_klazy("replay", "t.csv", folder=tmp_path)
        assert ended.stderr.endswith("Fill it with --fill forward, zero or drop.\n")

    def test_is_flagged_where_it_may_be_meant(self, by_step):
        report = replay(np.tile([0.92, 0.76, 0.5], (60, 1)))
        assert judge(report) == "keep"
        assert report.notes == ["All rows are the same: there is nothing to follow."]
        assert "the same as fixed" in report.answer
        assert "One fixed decision is as good as any" in report.answer
        free = replay(rows_for("linear", 50), move_cost=0.0)
        assert "Moving costs nothing here, so laziness has nothing to save." in free.notes


class TestTheAnswer:
    def test_begins_with_what_is_saved_and_names_what_laziness_did(self):
        rng = np.random.default_rng(0)
        sign = np.repeat(rng.choice([-1.0, 1.0], 334), 18)[
            :6000, None
        ]  # as long as a slack that is tried
        g = sign * [1.0, -1.0, 1.0, -1.0, 0.0] + rng.normal(size=(6000, 5))
        report = replay(g, move_cost=1.0, unit="EUR")
        assert (judge(report), judge_laziness(report)) == ("saves", "helps")
        lazy = report.best_of("lazy")
        assert lazy.parameters["k"] == 18
        saving = report.savings["fixed"]
        said = report.answer.splitlines()
        assert said[0].startswith(
            f"You would have saved {format_interval(saving.cost, saving.half)} EUR ("
        )
        assert f"{format_amount(saving.per_round)} EUR a round" in said[0]
        assert said[0].endswith(
            "against never moving, with k-lazyGD (sigma="
            + f"{lazy.parameters['sigma']:.4g}, k=18)."
        )
        assert said[1].startswith("Laziness helps: k-lazyGD")
        assert (
            f"Decay, which has no clock, paid {format_amount(report.score('Decay').cost)} EUR"
            in said[1]
        )

    def test_says_that_laziness_does_not_help_and_why(self, by_step, only):
        only("LazyGD", "Decay", "moving average", "dead band")
        t = np.arange(400)
        load = 50.0 + 20.0 * np.sin(t / 30.0) + np.random.default_rng(0).normal(size=400)
        report = replay(load[:, None], "box", "pinball", upper=200.0, move_cost=0.5)
        assert judge_laziness(report) == "does not help"
        said = report.answer.splitlines()
        assert said[1].startswith("Laziness does not help here: the best lazy learner, ")
        assert said[1].endswith(
            f"Steps leave the set in {report.binds:.1%} of rounds; in all others every k decides what GD decides."
        )
        assert report.binds < 0.02

    @pytest.mark.parametrize(
        ("name", "parameters", "drifts"),
        [("moving average", {"window": 5}, True), ("dead band", {"window": 400, "horizon": 2}, False), ("GD", {}, True),
         ("follow the leader", {}, False)],
        ids=repr,
    )  # fmt: skip
    def test_blames_drift_only_where_a_short_memory_won(self, phased, name, parameters, drifts):
        report = replace(phased[0], repeats=0.9, binds=1.0)
        score = replace(report.scores[0], name=name, parameters=parameters)
        assert ("drift faster than they repeat" in explain_laziness(report, score)) == drifts

    def test_does_not_count_what_all_shares_have_in_common_as_binding(self, by_step, only):
        only()
        g = 5.0 + np.random.default_rng(1).normal(scale=0.01, size=(80, 3))
        report = replay(g, move_cost=100.0)
        x = kl.run(report.score("k-lazyGD").player.learner, g[40:], engine="step").x
        inside = (x[1:] > 1e-9).all(axis=1)
        assert report.binds <= 1.0 - inside.mean() + 1.0 / len(x)

    def test_speaks_of_what_you_do_only_if_you_said_it(self, by_step, only):
        only("Decay")
        rows = rows_for("linear", 60, d=3)
        for baseline in (None, np.eye(3)[rows.argmin(axis=1)]):
            report = replay(rows, move_cost=5.0, baseline=baseline)
            for verdict in ("saves", "perhaps", "keep"):
                shift = {"saves": 1e6, "perhaps": 1e-3, "keep": -1e6}[verdict] / STRETCHES
                noise = np.linspace(-1.0, 1.0, STRETCHES)
                best = report.reference.stretches - shift - noise
                greedy = replace(
                    report.score("GD"), stretches=best, hitting=best.sum(), switching=0.0
                )
                scores = [greedy, *(score for score in report.scores if score.name != "GD")]
                judged = replace(report, scores=scores)
                assert judge(judged) == verdict
                said = judged.answer.splitlines()[0]
                assert ("what you did until now" in said) == (baseline is not None)
                assert ("Keep doing what you do" in said) == (
                    baseline is not None and verdict != "saves"
                )

    def test_of_shares_does_not_call_daily_trades_never_moving(self, by_step, only):
        only()
        relatives = np.exp(0.01 * np.random.default_rng(0).normal(size=(60, 3)))
        report = replay(relatives, costs="log-wealth", move_cost=0.01)
        assert report.score("fixed").moves == 30
        assert "ebalancing to fixed shares" in report.answer
        assert "ever moving" not in report.answer
        # Total variation sells and buys what it moves.
        wealth = (
            f"rebalancing to fixed shares turned 1 into {np.exp(-report.score('fixed').cost):.4g}"
        )
        assert "At 50 basis points per side" in report.answer
        assert wealth in report.answer

    def test_of_shares_shows_the_benchmarks_and_the_figures_of_portfolios(self, by_step, only):
        only("1/N", "buy and hold")
        relatives = np.exp(0.01 * np.random.default_rng(0).normal(size=(60, 3)))
        days = pl.datetime_range(
            pl.datetime(2024, 1, 1), pl.datetime(2024, 2, 29), "1d", eager=True
        )
        frame = pl.DataFrame({"date": days} | dict(zip("ABC", relatives.T, strict=True)))
        report = replay(frame, costs="log-wealth", move_cost=0.01, start=[0.6, 0.2, 0.2])
        equal = report.score("1/N")
        np.testing.assert_allclose(equal.points, 1.0 / 3.0)
        scored = relatives[30:]
        moved = np.abs(
            equal.points - scored * equal.points / (scored * equal.points).sum(axis=1)[:, None]
        )
        rows = {row["contender"]: row for row in report.list_rows()}
        assert rows["1/N"]["turnover"] == pytest.approx(0.5 * moved.sum() * 365.25 / 30.0)
        wealth = (scored.mean(axis=1) * np.exp(-0.01 * 0.5 * moved.sum(axis=1))).prod()
        assert rows["1/N"]["growth"] == pytest.approx(wealth ** (365.25 / 30.0) - 1.0)
        held = report.score("buy and hold")
        assert held.moves == 0
        assert np.exp(-held.cost) == pytest.approx(
            relatives.prod(axis=0)
            @ [0.6, 0.2, 0.2]
            / (relatives[:30].prod(axis=0) @ [0.6, 0.2, 0.2])
        )
        assert {"growth a year", "turnover a year", "1/N", "buy and hold"} <= set(
            re.split(r"\s{2,}|\n", str(report))
        )
        page = report._repr_html_() or ""
        assert "growth a year" in page
        assert "growth a year" in make_report(report, "klazy replay")
        # Impact is no price of a side.
        assert (
            "basis points" not in replay(relatives, costs="log-wealth", movement="impact").answer
        )

    @pytest.mark.parametrize(
        ("make", "complaint"),
        [
            (
                lambda walk: walk,
                "These look like prices. Divide each price by the one before it.",
            ),
            (
                lambda walk: 80.0 * walk,
                "These look like prices. Divide each price by the one before it.",
            ),
            (
                lambda walk: np.abs(np.diff(walk, axis=0)) + 1e-9,
                "These look like returns. Add 1 to each.",
            ),
            (lambda walk: np.diff(walk, axis=0), "must be above 0, got -0.0"),
        ],
    )
    def test_of_prices_or_returns_is_refused(self, make, complaint):
        walk = np.exp(np.cumsum(0.01 * np.random.default_rng(0).normal(size=(90, 3)), axis=0))
        with pytest.raises(InvalidInput, match=re.escape(complaint)):
            replay(make(walk), costs="log-wealth")

    def test_saved_is_the_sum_of_differences_with_students_interval(self, phased):
        report, _ = phased
        one, other = report.scores[0], report.scores[-1]
        gain, half = one.compare(other)
        gaps = other.stretches - one.stretches
        assert gain == pytest.approx(other.cost - one.cost)
        assert half == pytest.approx(
            STRETCHES * 2.093024 * gaps.std(ddof=1) / np.sqrt(STRETCHES), rel=1e-5
        )

    def test_is_a_table_an_object_figures_a_card_and_a_page(self, phased):
        report, _ = phased
        names = [*(score.name for score in report.scores), "optimum in hindsight"]
        assert report.table["contender"].to_list() == names
        plain = json.loads(report.to_json())
        assert plain["table"][0]["cost"] == report.scores[0].cost
        assert plain["savings"]["fixed"]["cost"] == report.savings["fixed"].cost
        assert [row["parameters"] for row in plain["table"]] == [
            *(score.parameters for score in report.scores),
            {},
        ]
        shown = {score.name for score in report.scores}
        # Noise has no season, and rows of linear costs are no demands.
        assert set(NAMES) - {"seasonal", *ROLLING} == shown < set(LOOKS)
        assert len({look["color"] for look in LOOKS.values()}) == len(LOOKS)
        assert report.decisions.columns == ["row", "c0", "c1", "c2", "c3", "c4"]
        assert report.decisions["row"].to_list() == list(range(401, 801))
        page = make_report(report, "klazy replay trace.parquet")
        assert page.count("<img") == 3
        for shown in (page, report._repr_html_(), str(report)):
            assert report.answer.split(" (")[0].split("+-")[0] in shown
        own = re.sub(
            r"data:image/svg\+xml;base64,[^\"]*|<script>.*?</script>", "", page, flags=re.DOTALL
        )
        assert "http" not in own

    def test_the_page_fits_every_window_and_reads_all_lines_at_the_pointer(
        self, phased, browser, tmp_path
    ):
        report, _ = phased
        report.to_html(tmp_path / "report.html")
        url = (tmp_path / "report.html").as_uri()
        page = browser.new_page()
        watch(page, url)
        look_at(page, url)
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(url)
        saved = page.locator("#chart-cumulative")
        assert "saved against never moving" in page.inner_text("h1")
        last = saved.locator(".legend").inner_text()
        box = saved.locator(".u-over").bounding_box()

        def read_at(share):
            page.mouse.move(box["x"] + share * box["width"], box["y"] + 80)
            return saved.locator(".place").inner_text()

        middle = read_at(0.5)
        assert saved.locator(".legend").inner_text() != last
        # Dragging zooms in, a double click shows all again.
        read_at(0.6)
        page.mouse.down()
        read_at(0.8)
        page.mouse.up()
        assert int(read_at(0.5).split()[1]) > int(middle.split()[1]) + 20
        page.mouse.dblclick(box["x"] + 300, box["y"] + 80)
        assert read_at(0.5) == middle
        key = saved.locator(".key").first
        key.click()
        assert key.get_attribute("aria-pressed") == "false"
        # The chart of decisions has every contender, with its own numbers.
        decisions = page.locator("#chart-decisions")
        shown = decisions.locator(".legend").inner_text()
        decisions.locator("select").select_option("SAder-k")
        assert decisions.locator(".legend").inner_text() != shown
        heads = page.locator("#contenders th button")
        heads.filter(has_text="moves").click()
        moves = [
            int(each)
            for each in page.locator("#contenders td:nth-child(6)").all_inner_texts()
            if each
        ]
        assert moves == sorted(moves)
        assert page.wrong == []
        page.close()
        plain = browser.new_context(java_script_enabled=False).new_page()
        plain.goto(url)
        assert plain.locator("#cumulative img").is_visible()
        assert not plain.locator("#cumulative .canvas").is_visible()
        plain.context.close()

    def test_with_dates_counts_by_the_day_and_draws_periods(self, by_step, only):
        only()
        days = [date(2024, 1, 1) + timedelta(days=i) for i in range(60)]
        rows = rows_for("linear", 60)
        report = replay(name_columns(rows).with_columns(pl.Series("day", days)))
        saving = report.savings["fixed"]
        assert saving.per_day == pytest.approx(saving.cost / 30)
        assert report.decisions["day"][0].date() == days[30]
        assert len(report.plot("periods").axes[0].patches) == 30 * len(
            {*map(id, report.plot("periods").axes[0].containers)}
        )
        with pytest.raises(InvalidInput, match="several move costs"):
            report.plot("move_costs")


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([1306930.0, 1306931.0], ["1.307 M", "1.307 M"]),
        ([663.648, 663.648, 95.0], ["663.6", "663.6", "95.0"]),
        ([0.0039, 0.041], ["0.00390", "0.04100"]),
        ([1.0, None], ["1.000", ""]),
        ([0.0, 0.0], ["0", "0"]),
    ],
)
def test_numbers_of_a_column_have_one_unit_and_as_many_decimals(values, texts):
    assert format_column(values) == texts


@pytest.mark.parametrize(
    ("text", "prices"),
    [("5", [5.0]), ("0.1,1,5", [0.1, 1.0, 5.0]), ("0.1:10:3", [0.1, 1.0, 10.0])],
)
def test_prices_are_a_number_a_list_or_a_range(text, prices):
    assert read_move_costs(text) == prices


class TestTheCommand:
    @staticmethod
    def klazy(*arguments, folder, status=0):
        done = call_klazy("replay", *arguments, folder=folder)
        assert done.status == status, done.stderr
        return done.stdout if status == 0 else done.stderr

    def test_answers_first_then_shows_and_emits_an_agent_that_pays_the_same(
        self, phased, tmp_path
    ):
        report, g = phased
        name_columns(g).write_csv(tmp_path / "t.csv")
        text = self.klazy(
            "t.csv",
            "--move-cost",
            8,
            "--html",
            "report.html",
            "--emit",
            "agent.json",
            folder=tmp_path,
        )
        assert text.startswith(report.answer)
        assert (tmp_path / "report.html").stat().st_size > 20_000
        best = report.scores[0]
        assert text.splitlines()[-1].endswith(
            f"On the rows after it, it pays the same {best.cost!r}."
        )
        agent = kl.Agent.load(tmp_path / "agent.json")
        gain, half = best.compare(report.score("fixed"))
        assert agent.origin["promised"] == {"rounds": 400, "saved": gain, "half": half}
        for row in g[400:]:
            agent.observe(row)
        assert agent.hitting + agent.switching == best.cost

    def test_says_first_that_what_it_emits_is_not_the_best(self, phased, tmp_path):
        report, g = phased
        name_columns(g).write_csv(tmp_path / "t.csv")
        other = report.scores[-1].name
        options = (
            "--move-cost",
            8,
            "--emit",
            "agent.json",
            "--contender",
            other,
            "--emit-at",
            "end",
        )
        text = self.klazy("t.csv", *options, folder=tmp_path)
        best = report.best.name
        assert text.startswith(
            f"agent.json is {other}, which is not the winner: {best} paid less.\n"
        )
        assert kl.Agent.load(tmp_path / "agent.json").t == 801
        plain = json.loads(self.klazy("t.csv", *options, "--json", folder=tmp_path))
        assert (plain["best"], plain["emitted"]) == (best, other)

    def test_needs_a_package_for_polytopes_and_says_so_in_one_line(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "daqp", None)  # as if it were not installed
        pl.DataFrame({"a": np.arange(40.0), "b": np.ones(40)}).write_csv(tmp_path / "t.csv")
        sides = {
            "A": [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]],
            "b": [1.0, 0.0, 1.0, 0.0],
        }
        (tmp_path / "set.json").write_text(json.dumps(sides))
        said = self.klazy(
            "t.csv", "--domain", "polytope", "--polytope", "set.json", folder=tmp_path, status=2
        )
        assert re.fullmatch(
            r"Polytope .* need daqp, which is not installed\. Run: pip install .*\[polytope\]'?\n",
            said,
        )

    def test_refuses_a_polytope_without_bounds(self, tmp_path):
        pl.DataFrame({"a": np.arange(40.0), "b": np.ones(40)}).write_csv(tmp_path / "t.csv")
        (tmp_path / "set.json").write_text(json.dumps({"A": [[1.0, 1.0]], "b": [1.0]}))
        options = ["--domain", "polytope", "--polytope", "set.json"]
        said = self.klazy("t.csv", *options, folder=tmp_path, status=2)
        assert said == "polytope must have bounds in all directions, got set.json. Add sides.\n"

    def test_refuses_in_one_line(self, tmp_path):
        """Here, and for docs/replay.md in tests/test_docs.py, the command is a process of its own."""
        written(tmp_path, "a,b\n1,2\n3,x\n", "t.csv")
        command = [sys.executable, "-m", "klazy", "replay", "t.csv"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        complaint = "Row 2, column b must be a number within +-1e+60, got 'x'.\n"
        assert (done.returncode, done.stdout, done.stderr) == (2, "", complaint)

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            (
                ("--cap", 0.3),
                "--cap needs --domain capped-simplex, got simplex. Leave one of them out.",
            ),
            (
                ("--short", 2),
                "--short and --excess need --costs pinball, got linear. Leave one of them out.",
            ),
            (
                ("--emit", "none/agent.json"),
                "Cannot write none/agent.json: there is no folder none.",
            ),
            (
                ("--train", "nan"),
                "--train must leave at least 20 rows on both sides, got nan of 40 rows.",
            ),
            (
                ("--costs", "pinball", "--domain", "box", "--short", 0),
                "short must be above 0, got 0.0.",
            ),
        ],
        ids=repr,
    )
    def test_refuses_what_does_not_fit_together(self, tmp_path, options, complaint):
        pl.DataFrame({"a": np.arange(40.0), "b": np.ones(40) / 2}).write_csv(tmp_path / "t.csv")
        assert self.klazy("t.csv", *options, folder=tmp_path, status=2).startswith(complaint)
