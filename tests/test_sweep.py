"""Sweeps: a study is checked whole, a run is what run plays, and is kept once whatever happens."""

import errno
import hashlib
import io
import json
import os
import pickle
import re
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from threading import Thread, Timer
from typing import Any, ClassVar

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import klazy as kl
import own
from cases import PUBLIC, THUMBS
from command import call_klazy
from klazy.base import parallel
from klazy.base.checks import InvalidInput
from klazy.base.files import lock_file
from klazy.sequences import Scenario
from klazy.studies import results
from klazy.studies.sweep import Study, drawing, load_sweep, sweep
from klazy.studies.sweep import tasks as tasks_module
from klazy.studies.sweep.catalogue import LEARNER_RULES, RECIPES, make_scenario
from klazy.studies.sweep.drawing import draw_cells
from klazy.studies.sweep.frame import RUN_COLUMNS, average_cells, choose_best, summarize_cells
from klazy.studies.sweep.player import play_task
from klazy.studies.sweep.study import expand, read_example
from klazy.studies.sweep.tasks import deal, list_keys, list_tasks
from swept import MANY, assert_whole, served, start_scheduler, until

WAVES = {"recipe": "phases_of_length", "length": [5, 10], "T": 100, "dim": 5}
LAZY = {"rule": "KLazyGD", "sigma": 2.0, "k": [1, 5, 10]}
REMEDY = "`klazy sweep --init` shows a study with every key."


def study(**changes) -> Study:
    return Study(**{"scenarios": [WAVES], "learners": [LAZY], **changes})


def keys(of: Study) -> list[str]:
    return results.write_keys(list_keys(list_tasks(of))).to_list()


class TestAStudySays:
    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"seeds": 0}, "seeds must be greater than or equal to 1, got 0."),
            ({"sed": 3}, "study: there is no key sed. Did you mean seed? Its keys are name, scenarios, learners, "),
            ({"movement": "l3"}, "movement must be 'l2', 'l1' or 'tv', got 'l3'."),
            ({"move_cost": [1.0, -1.0]}, "move_cost must be greater than or equal to 0, got "),
            ({"move_cost": []}, "move_cost must be a grid: a value, a list of values, { linspace = "),
            ({"metrics": ["cots"]}, "metrics must be 'cost', 'hitting', 'switching', 'dynamic_regret', "),
            ({"learners": []}, "learners must be a list with something in it, got []."),
            ({"learners": [LAZY | {"k": 0}]}, "learners[0] (KLazyGD): k must be greater than or equal to 1, got 0."),
            ({"learners": [LAZY, LAZY | {"kk": 2}]}, "learners[1] (KLazyGD): there is no key kk. Did you mean k? Its keys are "),
            ({"learners": [{"rule": "KLazyGD", "sigma": 1.0}]}, "learners[0] (KLazyGD): the key k is missing. Its keys are rule, sigma, learning_rate, c, k."),
            ({"learners": [{"rule": "KLazy"}]}, "learners[0]: rule must be one of GD, LazyGD, KLazyGD, "),
            ({"learners": [{"rule": "GD", "sigma": -2.0}]}, "learners[0] (GD): sigma must be above 0, got -2.0."),
            ({"learners": [{"rule": "GD", "sigma": "2"}]}, "learners[0] (GD): sigma must be a valid number, got '2'."),
            ({"learners": [{"rule": "GD", "sigma": 1.0, "c": 2.0}]}, "learners[0] (GD): give one of sigma, for a constant one, learning_rate, "),
            ({"learners": [{"rule": "GD"}]}, "learners[0] (GD): give one of sigma, for a constant one, learning_rate, "),
            ({"learners": [{"rule": "Decay", "sigma": 1.0, "m": [2, 0.5]}]}, "learners[0] (Decay): m must be at least 1, got 0.5."),
            ({"learners": [{"rule": "GD", "sigma": {"logspace": [0, 1, 4]}}]}, "sigma must be a grid: a value, "),
            ({"learners": [{"rule": "GD", "sigma": {"linspace": [0.1, 1, 1e9]}}]}, "sigma must be a grid: a value, "),
            ({"learners": [{"rule": "nowhere:to_be_found"}]}, "nowhere:to_be_found cannot be imported: ModuleNotFoundError: No module named 'nowhere'."),
            ({"learners": [{"rule": "own:fragile", "sigma": 1.0, "q": 1}]}, "(own:fragile): there is no key q. Its keys are rule, sigma, learning_rate, c, k."),
            ({"scenarios": [WAVES | {"length": 2.5}]}, "scenarios[0] (phases_of_length): length must be a valid integer, got 2.5."),
        ],
        ids=lambda value: str(value)[:60],
    )  # fmt: skip
    def test_what_is_wrong_by_key_value_and_what_is_allowed(self, changes, complaint):
        with pytest.raises(InvalidInput) as refused:
            study(**changes)
        assert complaint in str(refused.value)
        assert str(refused.value).endswith(REMEDY)

    def test_that_it_is_too_large_before_anything_is_listed(self):
        huge = study(
            learners=[LAZY | {"k": list(range(1, 3001)), "sigma": {"linspace": [1, 2, 3000]}}]
        )
        with pytest.raises(InvalidInput, match="at most 20,000,000 runs, got 36,000,000"):
            list(list_tasks(Study(**huge.to_dict() | {"move_cost": [1.0, 2.0]})))
        with pytest.raises(
            InvalidInput, match="seed must be less than or equal to 9223372036854775807"
        ):
            study(seed=2**70)

    def test_all_that_is_wrong_at_once(self):
        with pytest.raises(ValueError, match="seeds") as refused:
            study(seeds=0, learners=[LAZY | {"k": 0}], scenarios=[WAVES | {"length": "ten"}])
        assert len(str(refused.value).splitlines()) == 3 + 1  # the last one is the remedy

    def test_the_same_after_a_way_through_a_file(self):
        once = study(
            learners=[
                LAZY,
                {"rule": "GD", "c": {"logspace": [1, 100, 3]}},
                {"rule": "sader_k", "beta": ["lemma", 0.1]},
            ]
        )
        assert Study(**json.loads(json.dumps(once.to_dict()))) == once

    def test_the_example_is_a_study_that_explains_every_key_recipe_and_rule(self):
        text = read_example()
        assert Study(**tomllib.loads(text)).seeds > 1
        for word in (
            *Study.model_fields,
            *RECIPES,
            *LEARNER_RULES,
            "linspace",
            "logspace",
            "powers",
        ):
            assert re.search(rf"\b{word}\b", text), word
        for name, entry in RECIPES.items():
            assert all(re.search(rf"\b{key}\b", text) for key in entry.parameters), name

    @given(first=st.floats(0.01, 10), ratio=st.floats(1.5, 100), count=st.integers(2, 40))
    def test_spaces_are_numpys(self, first, ratio, count):
        last = first * ratio
        np.testing.assert_array_equal(
            expand({"linspace": [first, last, count]}), np.linspace(first, last, count)
        )
        np.testing.assert_array_equal(
            expand({"logspace": [first, last, count]}), np.geomspace(first, last, count)
        )
        whole = (
            study(learners=[LAZY | {"k": {"logspace": [1, 10 * ratio, count]}}])
            .learners[0]
            .axes["k"]
        )
        assert list(whole) == sorted({round(k) for k in np.geomspace(1, 10 * ratio, count)})


class TestAKey:
    def test_tells_runs_apart_and_nothing_else(self):
        base = study(
            move_cost=[1.0, 2.0],
            scenarios=[WAVES, {"recipe": "stochastic", "length": 10}],
            seeds=3,
        )
        found = keys(base)
        assert len(set(found)) == len(found) == 3 * 2 * (2 + 3)
        same = {
            "name": "other",
            "metrics": ["cost", "switching"],
            "learners": [LAZY | {"k": [10, 5]}, LAZY | {"k": [1, 10]}],
        }
        assert set(keys(Study(**base.to_dict() | same))) == set(found)
        assert set(keys(Study(**base.to_dict() | {"seeds": 4}))) > set(found)

    @pytest.mark.parametrize(
        "change",
        [
            {"record": "curves"},
            {"metrics": ["optimum_regret"]},
            {"movement": "l1"},
            {"move_cost": 3.0},
            {"seed": 1},
        ],
        ids=repr,
    )
    def test_changes_with_what_the_run_is(self, change):
        noisy = [{"recipe": "stochastic", "length": 10}]
        assert not set(keys(study(scenarios=noisy))) & set(keys(study(scenarios=noisy, **change)))

    def test_is_what_it_was_in_every_version(self):
        """A sweep that an older klazy began goes on: hashes of the sequence and of learner and price are added as words."""
        base = study(
            scenarios=[{"recipe": "stochastic", "length": 10}], seeds=2, move_cost=[1.0, 2.0]
        )
        recipe = {"phases": 15, "length": 10, "dim": 5, "random_phases": False}

        def hash_words(*parts):
            text = "".join(json.dumps(part, sort_keys=True) for part in parts)
            return np.frombuffer(hashlib.blake2b(text.encode(), digest_size=16).digest(), "<u8")

        expected = []
        for seed in (0, 1):
            sequence = [kl.__version__, "stochastic", recipe, [0, seed], "l2", 0, []]
            for k in (1, 5, 10):
                for weight in (1.0, 2.0):
                    learner = ["KLazyGD", {"sigma": 2.0, "k": k}, weight]
                    expected.append((hash_words(sequence) + hash_words(learner)).tobytes().hex())
        assert keys(base) == expected

    def test_changes_with_the_version(self, monkeypatch):
        before = keys(study())
        monkeypatch.setattr(kl, "__version__", "99.0")
        assert not set(before) & set(keys(study()))


# Every rule at two values or so, on sets of five dimensions, for which kernels are compiled anyway.
TRIED = {
    "KLazyGD": {"k": [1, 7]}, "KLazyFTRL": {"k": [7]}, "Clock": {"k": 7}, "Decay": {"m": [1.5, 20]},
    "Clip": {"kappa": 2.0}, "Event": {"kappa": 3.0}, "MovingAverage": {"window": [3, 9]}, "Periodic": {"every": 4},
    "MinimumHold": {"hold": [2, 6], "window": 9}, "DeadBand": {"horizon": 5.0, "window": 9},
}  # fmt: skip


@pytest.fixture(scope="module")
def everything():
    """All rules on two random sequences and a fixed one, at two prices."""
    plain = [{"rule": rule} | TRIED.get(rule, {}) for rule in LEARNER_RULES]
    learners = [
        spec | ({"sigma": [1.0, 8.0]} if "sigma" in LEARNER_RULES[spec["rule"]].parameters else {}) for spec in plain
    ] + [{"rule": "GD", "c": 16.0}]  # fmt: skip
    scenarios = [
        {"recipe": "stochastic", "phases": 3, "length": 40, "random_phases": [False, True]},
        WAVES | {"length": 7},
    ]
    return sweep(
        study(scenarios=scenarios, learners=learners, seeds=2, seed=5, move_cost=[0.5, 3.0]),
        jobs=1,
    )


class TestARun:
    def test_is_there_once_for_every_combination(self, everything):
        rows = everything.rows
        assert (
            rows["error"].null_count()
            == everything.runs
            == everything.computed
            == rows["key"].n_unique()
        )
        assert set(rows["learner"]) == set(LEARNER_RULES)
        per_sequence = rows.group_by("scenario", "random_phases", "seed", "move_cost").len()[
            "len"
        ]
        assert per_sequence.n_unique() == 1
        assert (
            rows.filter(pl.col("scenario") == "phases_of_length")["seed"].null_count()
            == 2 * per_sequence[0]
        )

    def test_pays_what_run_pays_and_has_the_regret_that_regret_finds(self, everything):
        sequences: dict[object, Scenario] = {}
        for row in everything.rows.sample(fraction=0.5, seed=0).iter_rows(named=True):
            about = ("scenario", "phases", "length", "random_phases", "dim", "T", "seed")
            at = tuple(row[name] for name in about)
            if at not in sequences:
                point = {name: row[name] for name in RECIPES[row["scenario"]].parameters}
                seed = (
                    None
                    if row["seed"] is None
                    else np.random.SeedSequence(5, spawn_key=(row["seed"],))
                )
                sequences[at] = make_scenario(row["scenario"], point, seed)
            place, movement = sequences[at], kl.L2Movement(row["move_cost"])
            trace = kl.run(learner_of(row, place, movement), place.costs, movement=movement)
            size = np.abs(trace.hitting).sum() + trace.totals.switching
            assert row["hitting"] == pytest.approx(trace.totals.hitting, rel=0, abs=1e-12 * size)
            assert row["switching"] == pytest.approx(
                trace.totals.switching, rel=0, abs=1e-12 * size
            )
            found = kl.regret(trace, place.comparator)
            size += np.abs(
                place.costs.values(place.comparator)
            ).sum()  # a difference of sums, one of them the comparator's
            assert row["dynamic_regret"] == pytest.approx(found.dynamic, rel=0, abs=1e-11 * size)
            assert row["total_regret"] == pytest.approx(found.total, rel=0, abs=1e-11 * size)
            assert row["cost"] == row["hitting"] + row["switching"]

    def test_has_a_curve_that_ends_in_its_totals(self):
        rows = sweep(
            study(record="curves", move_cost=[2.0], scenarios=[WAVES | {"T": 1000}]), jobs=1
        ).rows
        for row in rows.iter_rows(named=True):
            assert len(row["rounds"]) == len(row["hitting_curve"]) == 200
            assert (row["rounds"][-1], row["hitting_curve"][-1], row["switching_curve"][-1]) == (
                1000, row["hitting"], row["switching"],
            )  # fmt: skip

    def test_can_be_held_against_the_best_fixed_point_and_the_optimum(self):
        rows = sweep(
            study(metrics=["optimum_regret", "static_regret"], move_cost=[0.1, 5.0]), jobs=1
        ).rows
        for row in rows.iter_rows(named=True):
            place = make_scenario(
                "phases_of_length", {name: row[name] for name in ("length", "T", "dim")}, None
            )
            best = kl.offline_optimum(place.costs, place.domain, kl.L2Movement(row["move_cost"]))
            assert row["optimum_regret"] == pytest.approx(
                row["cost"] - best.lower_bound, abs=1e-9
            )
            assert row["optimum_regret"] > 0.0
            assert row["static_regret"] == pytest.approx(
                row["cost"] - kl.best_fixed(place.costs, place.domain).cost, abs=1e-9
            )
        assert sweep(study(), jobs=1).rows["optimum_regret"].null_count() == 6

    def test_is_sent_without_its_sequence_and_comes_back_small(self):
        wide = study(
            scenarios=[{"recipe": "stochastic", "length": 4000}],
            learners=[LAZY | {"k": list(range(1, 101))}],
        )
        (task,) = deal(list_tasks(wide), workers=1)[:1]
        assert len(pickle.dumps(task)) < 200 * len(task.team)
        assert (
            len(pickle.dumps(play_task(task)))
            < 200 * len(task.team)
            < task.sequence.point["length"] * 15 * 5 * 8 / 100
        )

    def test_is_played_on_one_thread(self):
        own.threads.clear()
        sweep(study(scenarios=[{"recipe": "own:coin", "T": 10}]), jobs=1)
        assert set(own.threads) == {1}


def learner_of(row, place, movement):
    """The learner of a row, written out."""
    domain, rule, g = place.domain, row["learner"], place.costs.arrays()[0]
    sigma = kl.Sqrt(row["c"]) if row["sigma"] is None and row["c"] is not None else row["sigma"]
    told = {"T": len(g), "G": float(np.linalg.norm(g, axis=1).max())}
    if rule in ("Decay", "Clip", "Event", "Clock"):
        (parameter,) = (row[name] for name in ("m", "kappa", "k") if row[name] is not None)
        return kl.MemoryGD(domain, sigma, memory=getattr(kl.memories, rule)(parameter))
    if rule in THUMBS:
        given = json.loads(row["learner_options"] or "{}")
        if rule == "DeadBand":
            given["movement"] = movement
        return PUBLIC[rule](domain, **given)
    if rule in ("auto", "ensemble_auto"):
        return PUBLIC[rule](domain, movement)
    if rule == "ader":
        return kl.contrib.ader(domain, **told)
    if sigma is None:
        return PUBLIC[rule](domain, **told, move_cost=movement.weight)
    return PUBLIC[rule](domain, sigma, **({} if row["k"] is None else {"k": row["k"]}))


class TestOnesOwn:
    def test_keys_are_all_in_the_row_whatever_their_names(self):
        recipes = [{"recipe": "own:clashing", "T": 20, "k": [1, 2], "label": "a"}]
        rules = [{"rule": "own:far", "length": [1, 5]}, {"rule": "own:fragile", "c": 2.0, "k": 2}]
        found = sweep(study(scenarios=recipes, learners=rules, seeds=3), jobs=1)
        assert found.failed == 0
        for row in found.rows.iter_rows(named=True):
            where, what = (
                json.loads(row[name] or "{}") for name in ("scenario_options", "learner_options")
            )
            assert (row["T"], where["sigma"], where["label"]) == (20, 1.0, "a")
            assert where["k"] in (1, 2)
            assert what == ({"length": what["length"]} if row["learner"] == "own:far" else {})
            assert (row["sigma"], row["c"], row["k"]) == (
                (1.0, None, None) if what else (None, 2.0, 2)
            )
        assert set(found.cells()["runs"]) == {3}
        assert len(found.cells()) == 2 * 3

    def test_sequences_may_differ_in_length_by_seed(self):
        found = sweep(study(scenarios=[{"recipe": "own:ragged", "mean": 0.5}], seeds=6), jobs=1)
        assert found.cells()["runs"].to_list() == [6, 6, 6]
        assert len(found.cells(held_out=True)) == 3

    def test_runs_that_are_loaded_are_cells_and_figures_by_the_metric_of_their_study(
        self, tmp_path
    ):
        found = sweep(study(metrics=["total_regret", "cost"]), tmp_path, jobs=1)
        runs = load_sweep(tmp_path)
        assert runs.cells().sort("mean").equals(found.cells().sort("mean"))
        assert (runs.metric, len(runs), pl.DataFrame(runs).shape) == (
            "total_regret",
            found.runs,
            found.rows.shape,
        )
        assert runs.plot("k").axes[0].get_ylabel() == "total regret"
        assert len(pl.read_csv(io.StringIO(runs.to_csv()))) == len(runs.cells())

    def test_values_count_by_what_they_are(self):
        one = study(
            scenarios=[{"recipe": "own:coin", "T": 9}], learners=[{"rule": "sader_k", "beta": 1}]
        )
        other = study(
            scenarios=[{"recipe": "own:coin", "T": 9, "odds": 0.5}],
            learners=[{"rule": "sader_k", "beta": 1.0}],
        )
        assert keys(one) == keys(other)

    def test_learners_are_told_no_gradient_where_it_depends_on_the_point(self):
        found = sweep(
            study(
                scenarios=[{"recipe": "own:targets", "T": 30}],
                learners=[{"rule": "sader_k"}, LAZY],
            ),
            jobs=1,
        )
        assert found.failed == 1
        assert (
            "sader_k needs linear costs, from which G is known"
            in found.rows.filter(pl.col("error").is_not_null())["error"][0]
        )


def test_a_learning_rate_is_one_over_sigma():
    def play(**step_size):
        learners = [
            {"rule": "KLazyGD", "k": [1, 4], **step_size},
            {"rule": "Decay", "m": 4.0, **step_size},
        ]
        scenarios = [{"recipe": "square_wave", "period": 8, "T": 64}]
        return sweep(Study(scenarios=scenarios, learners=learners), jobs=1).rows

    rows = play(learning_rate=[0.5, 0.125])
    columns = ["learner", "sigma", "k", "m", "cost"]
    assert rows[columns].equals(play(sigma=[2.0, 8.0])[columns])
    with pytest.raises(ValueError, match="learning_rate must be above 0, got 0"):
        play(learning_rate=[0.5, 0.0])


class TestAFailure:
    STUDY: ClassVar = {
        "scenarios": [{"recipe": "own:coin", "T": 20, "odds": [0.2, 0.5]}],
        "learners": [{"rule": "own:fragile", "sigma": [1.0, 2.0], "k": [2, 3, 4]}],
        "seeds": 2,
    }

    def test_is_recorded_stops_nothing_and_is_tried_again_only_if_asked(
        self, tmp_path, monkeypatch
    ):
        monkeypatch.setattr(own, "broken", {3, -4})
        first = sweep(Study(**self.STUDY), tmp_path, jobs=1)
        assert (first.runs, first.computed, first.failed) == (24, 24, 16)
        told = {k: set(first.rows.filter(pl.col("k") == k)["error"]) for k in (2, 3, 4)}
        assert told == {
            2: {None},
            3: {"RuntimeError: no slack 3 today"},
            4: {"ZeroDivisionError: tripped"},
        }
        assert first.rows.filter(pl.col("error").is_not_null())["cost"].null_count() == 16
        again = sweep(Study(**self.STUDY), tmp_path, jobs=1)
        assert (again.computed, again.reused, again.failed) == (0, 24, 16)
        monkeypatch.setattr(own, "broken", {3})
        mended = sweep(Study(**self.STUDY), tmp_path, jobs=1, retry_failed=True)
        assert (mended.runs, mended.computed, mended.failed) == (24, 16, 8)
        rows = load_sweep(tmp_path).rows
        assert len(rows) == rows["key"].n_unique() == 24
        assert (
            rows.filter(pl.col("k") == 2)
            .sort("key")
            .equals(first.rows.filter(pl.col("k") == 2).sort("key"))
        )

    def test_of_a_sequence_is_that_of_its_runs(self):
        waves = [{"recipe": "square_wave", "period": [4, 50], "T": 20}]
        found = sweep(study(scenarios=waves, record="curves"), jobs=1)
        assert found.failed == 3
        for name in ("rounds", "hitting_curve", "switching_curve", "cost"):
            assert (found.rows[name].is_null() == found.rows["error"].is_not_null()).all(), name
        (error,) = set(found.rows.filter(pl.col("period") == 50)["error"])
        assert error == "InvalidInput: T must be at least k=50, got 20."

    def test_of_somebodys_recipe_is_that_of_its_runs_alone(self):
        crooked = {"recipe": "own:crooked", "how": ["exit", "shape"]}
        found = sweep(study(scenarios=[crooked, WAVES | {"length": 5}]), jobs=1)
        assert (found.runs, found.failed) == (9, 6)
        assert set(found.rows["error"].drop_nulls()) == {
            "SystemExit: 3",
            "InvalidInput: The comparator of own:crooked must have shape (9, 1), got (8, 1).",
        }

    def test_that_ends_the_process_is_found_among_the_others(self):
        deadly = {"rule": "own:deadly", "sigma": 1.0, "k": [4, 5]}
        found = sweep(study(scenarios=[WAVES | {"length": 5}], learners=[deadly]), jobs=2)
        assert (found.runs, found.failed) == (2, 1)
        assert set(found.rows.filter(pl.col("error").is_not_null())["k"]) == {5}
        assert (
            "WorkerLost: the process that played it ended"
            in found.rows.filter(pl.col("k") == 5)["error"][0]
        )


def writes(store: Any) -> results.ResultWriter:
    """A writer whose rows are the results."""
    as_they_are: Any = list
    return results.ResultWriter(store, as_they_are)


class TestTheStore:
    @pytest.mark.long
    def test_loses_tears_and_doubles_nothing_when_killed_at_any_moment(self, tmp_path):
        of = Study(**MANY)
        lines = served(
            """
random.seed(1)
killed = True
while killed:
    told, tell = os.pipe()
    pid = child(pipe=tell)
    os.close(tell)
    for _ in range(random.randrange(6)):
        os.read(told, 1)  # a task was played and written; at the end, nothing
    time.sleep(random.uniform(0.0, 0.01))
    os.kill(pid, signal.SIGKILL)
    killed = os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    os.close(told)
    print(json.dumps([name for name in os.listdir(out) if name.endswith(".parquet")] if os.path.isdir(out) else []))
""",
            of,
            tmp_path,
        )
        there = [set(json.loads(line)) for line in lines]
        assert all(before <= after for before, after in pairwise(there))  # nothing goes away
        assert (
            sum(before < after for before, after in pairwise(there)) >= 10
        )  # it was killed in the middle
        reused = len(load_sweep(tmp_path))
        found = sweep(of, tmp_path, jobs=1)
        assert (found.reused, found.computed) == (reused, found.runs - reused)
        assert_whole(tmp_path, of)

    def test_has_rows_soon_even_if_nothing_comes_after_them(self, tmp_path):
        slow = [
            {"rule": "own:slow", "sigma": 1.0, "wait": 0.0},
            {"rule": "own:slow", "sigma": 2.0, "wait": 2.0},
        ]
        places = [WAVES | {"length": 5}, WAVES | {"length": 7}]
        of, seen = study(scenarios=places, learners=slow), []
        one = {"scenarios": [WAVES | {"length": 5}], "learners": slow[:1]}
        watch = Timer(1.7, lambda: seen.append(len(load_sweep(tmp_path))))

        def begin(done, total, learner_rounds):
            if done == 1:
                watch.start()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tasks_module, "SEVERAL", 1000)
            patch.setattr(tasks_module, "HEAVY", 1)
            sweep(of, tmp_path, jobs=1, progress=begin)
        watch.join()
        assert seen
        assert seen[0] >= 1
        assert sweep(Study(**one), tmp_path, jobs=1).reused == 1

    def test_names_a_file_that_is_not_its_own(self, tmp_path):
        sweep(study(), tmp_path, jobs=1)
        (tmp_path / "part-junk.parquet").write_bytes(b"junk")
        for reads in (lambda: load_sweep(tmp_path), lambda: sweep(study(), tmp_path, jobs=1)):
            with pytest.raises(
                InvalidInput, match=r"klazy did not write .*part-junk\.parquet\. Remove it"
            ):
                reads()

    def test_is_shared_by_two_sweeps_at_once(self, tmp_path):
        of = Study(**MANY)
        script = "pids = [child(lambda found: print(found.computed, flush=True)) for _ in range(2)]\n[os.waitpid(pid, 0) for pid in pids]"
        computed = [int(line) for line in served(script, of, tmp_path)]
        assert len(computed) == 2
        assert sum(computed) > 480, "they did not meet"
        assert_whole(tmp_path, of)

    def test_keeps_what_was_done_when_it_is_interrupted(self, tmp_path):
        def stop(done, total, learner_rounds):
            if done >= total // 2:
                raise KeyboardInterrupt

        of = Study(**MANY)
        with pytest.raises(KeyboardInterrupt):
            sweep(of, tmp_path, jobs=1, progress=stop)
        there = len(load_sweep(tmp_path))
        assert 240 <= there < 480
        assert sweep(of, tmp_path, jobs=1).reused == there
        assert_whole(tmp_path, of)

    def test_has_the_same_columns_whatever_the_study_so_that_duckdb_reads_it_by_path(
        self, tmp_path
    ):
        for learner in (
            LAZY,
            {"rule": "Decay", "sigma": 1.0, "m": 3.0},
            {"rule": "own:fragile", "c": 2.0, "k": 2},
        ):
            sweep(study(learners=[learner], record="curves"), tmp_path, jobs=1)
        assert load_sweep(tmp_path).rows.schema == pl.Schema(RUN_COLUMNS)
        query = f"SELECT learner, count(*), avg(total_regret) FROM '{tmp_path}/*.parquet' GROUP BY learner ORDER BY learner"
        assert [row[:2] for row in duckdb.execute(query).fetchall()] == [
            ("Decay", 2),
            ("KLazyGD", 6),
            ("own:fragile", 2),
        ]

    def test_tells_runs_apart_whose_keys_begin_alike(self):
        source = results.StoredRows(
            pl.DataFrame(), np.array([[1, 2], [1, 3], [0, 5], [1, 9]], dtype="<u8")
        )
        wanted = np.array([[1, 9], [1, 4], [1, 2], [0, 5], [7, 7], [1, 3]], dtype="<u8")
        assert source.find(results.write_keys(wanted)).tolist() == [3, -1, 0, 2, -1, 1]

    def test_says_soon_that_it_cannot_write_and_loses_nothing_if_it_can_again(self, monkeypatch):
        """Rows are written in the background; whoever adds the next one meets the error."""
        stored = []
        full = True

        class Store:
            def add(self, rows):
                if full:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                stored.extend(rows)

        added = []

        def add(writer, count):
            for _ in range(count):
                added.append(len(added))
                writer.add(added[-1])

        monkeypatch.setattr(results, "WRITE_SECONDS", 0.0)
        with writes(Store()) as writer:
            with pytest.raises(OSError, match="No space left"):
                add(writer, 1000)
            full = False
            add(writer, 100)
        assert len(added) < 1100
        assert stored == added

    def test_makes_a_player_wait_for_the_disk(self, monkeypatch):
        """Few rows wait at a time, however slow the disk is."""
        waited = []

        class Store:
            def add(self, rows):
                waited.append(len(rows))
                time.sleep(0.02)

        monkeypatch.setattr(results, "WRITE_ROWS", 8)
        with writes(Store()) as writer:
            for number in range(100):
                writer.add(number)
        assert sum(waited) == 100
        assert max(waited) <= 2 * 8

    def test_says_where_there_is_none(self, tmp_path):
        with pytest.raises(
            ValueError,
            match=r"has no runs\. `klazy sweep study\.toml --out .*` plays a study into it",
        ):
            kl.load_sweep(tmp_path)
        (tmp_path / "file").touch()
        with pytest.raises(ValueError, match=r"Cannot write to the folder .*: File exists"):
            sweep(study(), tmp_path / "file", jobs=1)


@pytest.fixture(scope="class")
def dask(tmp_path_factory):
    with start_scheduler(tmp_path_factory.mktemp("dask"), failures=0) as started:
        yield started


# A recipe whose sequences are made only when so many threads have come to make one, or it is too late.
TOGETHER = """
import os, threading, time
from pathlib import Path
import numpy as np
import klazy as kl
from klazy.sequences import Scenario

def together(seed, folder: str, threads: int, late: float) -> Scenario:
    Path(folder, f"{os.getpid()}-{threading.get_ident()}").touch()
    while len(os.listdir(folder)) < threads and time.time() < late:
        time.sleep(0.1)
    return Scenario("together", kl.Box(-1.0, 1.0), kl.contrib.LinearCosts(np.ones((9, 1))), np.zeros((9, 1)))
"""


class TestElsewhere:
    def test_processes_of_this_machine_play_the_same(self, tmp_path):
        of = Study(**MANY)
        found = sweep(of, tmp_path, jobs=2)
        assert found.computed == 480
        assert_whole(tmp_path, of)

    def test_a_dask_scheduler_with_two_workers_plays_the_same(self, dask, tmp_path):
        of = Study(**MANY)
        with dask.worker(wait=False), dask.worker(wait=False):
            until(lambda: dask.workers() == 2)
            found = sweep(of, tmp_path, backend="dask", address=dask.address)
        assert (found.computed, found.failed) == (480, 0)
        assert_whole(tmp_path, of)

    @pytest.mark.long
    def test_a_single_dask_worker_is_used_and_so_are_those_that_come_later(
        self, dask, tmp_path, monkeypatch
    ):
        (tmp_path / "togetherness.py").write_text(TOGETHER)
        monkeypatch.syspath_prepend(tmp_path)
        folder, threads = tmp_path / "folder", 8
        folder.mkdir()
        place = {
            "recipe": "togetherness:together",
            "folder": str(folder),
            "threads": threads,
            "late": time.time() + 60.0,
        }
        with ExitStack() as stack, ThreadPoolExecutor() as pool:
            first = stack.enter_context(dask.worker(path=tmp_path))
            of = study(scenarios=[place], learners=[LAZY | {"k": 1}], seeds=4 * threads)
            found = pool.submit(sweep, of, backend="dask", address=dask.address)
            until(lambda: os.listdir(folder))
            second = stack.enter_context(dask.worker(threads - 1, path=tmp_path, wait=False))
            assert found.result(60).failed == 0
        assert {int(name.partition("-")[0]) for name in os.listdir(folder)} == {
            first.pid,
            second.pid,
        }
        assert len(os.listdir(folder)) == threads

    @pytest.mark.long
    def test_a_run_that_ends_its_dask_worker_has_that_as_its_error(self, dask):
        deadly = {"rule": "own:deadly", "sigma": 1.0, "k": 5}
        of, errors = study(scenarios=[WAVES | {"length": 5}], learners=[deadly]), []
        with dask.worker(path=Path(__file__).parent):
            playing = Thread(
                target=lambda: errors.extend(
                    sweep(of, backend="dask", address=dask.address).rows["error"]
                )
            )
            playing.daemon = True  # joblib's own backend would wait for ever
            playing.start()
            playing.join(60)
        assert errors == [
            "WorkerLost: the process that played it ended, was killed or ran out of memory"
        ]

    def test_a_dask_scheduler_without_workers_is_refused(self, dask, monkeypatch):
        monkeypatch.setattr(parallel, "_SECONDS", 1)
        complaint = (
            f"The dask scheduler at {dask.address} had no worker for 1 seconds. Start one."
        )
        with pytest.raises(InvalidInput, match=re.escape(complaint)):
            sweep(study(), backend="dask", address=dask.address)

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            (
                {"backend": "slurm"},
                "backend must be one of 'local', 'dask', 'ray', 'spark', got 'slurm'.",
            ),
            (
                {"address": "tcp://here:1"},
                "Local processes have no address, got 'tcp://here:1'.",
            ),
            (
                {"backend": "dask"},
                "dask needs the address of its scheduler, such as address='tcp://host:8786'.",
            ),
            (
                {"backend": "ray"},
                "ray is not installed. Run: pip install ray",
            ),
            (
                {"jobs": 0},
                "jobs must be an integer of at least 1, got 0. Leave it out for all cores.",
            ),
        ],
        ids=repr,
    )
    def test_what_is_missing_is_said(self, options, complaint):
        with pytest.raises(ValueError, match=re.escape(complaint)):
            sweep(study(), **options)


@pytest.fixture(scope="module")
def drawn():
    """A study with two learner parameters, two settings and four seeds."""
    learners = [
        {"rule": "GD", "sigma": {"logspace": [0.3, 30, 5]}},
        {"rule": "KLazyGD", "sigma": {"logspace": [0.3, 30, 5]}, "k": {"powers": [2, 0, 4]}},
        {"rule": "LazyGD", "sigma": 3.0},
    ]
    noisy = [{"recipe": "stochastic", "phases": 4, "length": [20, 50]}]
    return sweep(study(scenarios=noisy, learners=learners, seeds=4, move_cost=[0.3, 3.0]), jobs=1)


class TestASummary:
    @given(
        values=st.lists(
            st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=9), min_size=1, max_size=4
        )
    )
    def test_has_students_interval_of_every_cell(self, values):
        rows = [
            dict.fromkeys(RUN_COLUMNS) | {"k": k, "seed": i, "cost": value}
            for k, some in enumerate(values)
            for i, value in enumerate(some)
        ]
        cells = average_cells(pl.DataFrame(rows, schema=RUN_COLUMNS), "cost")
        for cell in cells.iter_rows(named=True):
            some = np.array(values[cell["k"]])
            assert (cell["runs"], cell["mean"]) == (
                len(some),
                pytest.approx(some.mean(), abs=1e-9),
            )
            half = stats.t.ppf(0.975, len(some) - 1) * stats.sem(some)
            assert cell["half"] == pytest.approx(half, rel=1e-9, abs=1e-9)

    def test_relative_to_a_learner_pairs_runs_of_one_sequence(self, drawn):
        cells = drawn.cells(relative_to="GD").filter(
            pl.col("length") == 50, pl.col("move_cost") == 3.0
        )
        raw = drawn.rows.filter(pl.col("length") == 50, pl.col("move_cost") == 3.0)
        means = (
            raw.filter(pl.col("learner") == "GD")
            .group_by("sigma")
            .agg(pl.col("total_regret").mean())
        )
        best = means.sort("total_regret")["sigma"][0]
        base = (
            raw.filter(pl.col("learner") == "GD", pl.col("sigma") == best)
            .sort("seed")["total_regret"]
            .to_numpy()
        )
        lazy = raw.filter(pl.col("learner") == "LazyGD").sort("seed")["total_regret"].to_numpy()
        more = 100.0 * (lazy - base) / abs(base.mean())
        (cell,) = cells.filter(pl.col("learner") == "LazyGD").to_dicts()
        assert cell["mean"] == pytest.approx(more.mean())
        assert cell["half"] == pytest.approx(stats.t.ppf(0.975, 3) * stats.sem(more))
        assert cells.filter(pl.col("learner") == "GD", pl.col("sigma") == best)[
            "half"
        ].to_list() == [0.0]
        with pytest.raises(
            ValueError,
            match=r"relative_to must be a learner of the study \(GD, KLazyGD, LazyGD\), got 'gd'",
        ):
            drawn.cells(relative_to="gd")

    def test_held_out_chooses_by_even_seeds_and_shows_the_odd_ones(self, drawn):
        cells = drawn.cells(held_out=True)
        for cell in cells.sample(10, seed=0).iter_rows(named=True):
            about = [
                pl.col(name).eq_missing(cell[name])
                for name in ("learner", "sigma", "k", "length", "move_cost")
            ]
            runs = drawn.rows.filter(*about)
            even, odd = (
                runs.filter(pl.col("seed") % 2 == parity)["total_regret"].mean()
                for parity in (0, 1)
            )
            assert (cell["choice"], cell["mean"], cell["runs"]) == (
                pytest.approx(even),
                pytest.approx(odd),
                2,
            )
        best = summarize_cells(cells, most=1)
        assert [row["mean"] for row in best] != [
            row["mean"] for row in summarize_cells(drawn.cells(), most=1)
        ]
        group = cells.filter(
            pl.col("length") == 20, pl.col("move_cost") == 0.3, pl.col("learner") == "KLazyGD"
        )
        chosen = next(
            row
            for row in best
            if (row["length"], row["move_cost"], row["learner"]) == (20, 0.3, "KLazyGD")
        )
        assert chosen["mean"] == group.sort("choice")["mean"][0]
        with pytest.raises(
            ValueError, match="held_out needs random scenarios with several seeds"
        ):
            sweep(study(), jobs=1).cells(held_out=True)

    def test_has_no_best_cell_among_those_that_failed_on_some_seeds(self, drawn):
        cells = drawn.cells()
        spared = cells["mean"].arg_max()
        fewer = pl.when(pl.int_range(pl.len()) == spared).then(1).otherwise("runs").alias("runs")
        lucky = (
            pl.when(pl.int_range(pl.len()) == spared)
            .then(-1e9)
            .otherwise("choice")
            .alias("choice")
        )
        assert choose_best(cells.with_columns(fewer, lucky), ())["choice"][0] > -1e9
        assert choose_best(cells.with_columns(lucky), ())["choice"][0] == -1e9

    @pytest.mark.parametrize("metric", ["k", "seed", "regrets"])
    def test_is_of_a_metric(self, drawn, metric):
        with pytest.raises(InvalidInput, match=f"metric must be one of .* got '{metric}'"):
            drawn.cells(metric)

    def test_shows_the_best_cell_of_each_learner_and_says_when_it_is_at_a_limit_of_its_grid(
        self, drawn
    ):
        cells = drawn.cells()
        rows = summarize_cells(cells, most=10)
        assert len(rows) == 2 * 2 * 3
        for row in rows:
            same = [row[name] for name in ("length", "move_cost", "learner")]
            group = cells.filter(
                pl.col("length") == same[0],
                pl.col("move_cost") == same[1],
                pl.col("learner") == same[2],
            )
            assert row["mean"] == group["mean"].min()
            ends = {"sigma": (0.3, 30.0), "k": (1, 16)}
            at = [
                name for name in ("sigma", "k") if same[2] != "LazyGD" and row[name] in ends[name]
            ]
            assert row["at grid limit"] == ", ".join(at)
        assert {row["at grid limit"] for row in rows} > {""}
        assert len(summarize_cells(cells, most=len(cells))) == len(cells)


class TestAFigure:
    def test_is_a_heat_map_of_two_parameters_with_the_best_cell_marked(self, drawn):
        cells = drawn.cells()
        made = dict(draw_cells(cells, "total regret"))
        assert set(made) == {"KLazyGD-k-sigma", "length", "move_cost"}
        panels = [ax for ax in made["KLazyGD-k-sigma"].axes if ax.get_title()]
        lazy = cells.filter(pl.col("learner") == "KLazyGD")
        assert len(panels) == 4
        for ax, ((_, _), group) in zip(
            panels, lazy.group_by("length", "move_cost", maintain_order=True), strict=True
        ):
            best = group.sort("mean").row(0, named=True)
            ks, sigmas = sorted(set(group["k"])), sorted(set(group["sigma"]))
            (ring,) = ax.lines
            assert tuple(np.ravel(np.array(ring.get_data()))) == (
                ks.index(best["k"]) + 0.5,
                sigmas.index(best["sigma"]) + 0.5,
            )
            colours = np.reshape(np.array(ax.collections[0].get_array()), (len(sigmas), len(ks)))
            assert (
                colours.min()
                == colours[sigmas.index(best["sigma"]), ks.index(best["k"])]
                == best["mean"]
            )

    def test_is_lines_with_bands_of_what_is_best_for_each_learner(self, drawn):
        cells = drawn.cells()
        ((_, figure),) = draw_cells(cells, "total regret", "move_cost")
        assert len(figure.axes) == 2  # one for each length
        for ax, length in zip(figure.axes, (20, 50), strict=True):
            lines = {line.get_label(): line for line in ax.lines}
            assert set(lines) == {"GD", "KLazyGD", "LazyGD"}
            assert len(ax.collections) == 3
            for learner, line in lines.items():
                group = cells.filter(pl.col("length") == length, pl.col("learner") == learner)
                least = [
                    group.filter(pl.col("move_cost") == weight)["mean"].min()
                    for weight in (0.3, 3.0)
                ]
                np.testing.assert_array_equal(line.get_ydata(), least)

    def test_marks_what_was_chosen_where_seeds_are_held_out(self, drawn):
        cells = drawn.cells(held_out=True)
        made = dict(draw_cells(cells, "total regret"))
        lazy = cells.filter(pl.col("learner") == "KLazyGD")
        panels = [ax for ax in made["KLazyGD-k-sigma"].axes if ax.get_title()]
        for ax, (_, group) in zip(
            panels, lazy.group_by("length", "move_cost", maintain_order=True), strict=True
        ):
            best = group.sort("choice").row(0, named=True)
            ks, sigmas = sorted(set(group["k"])), sorted(set(group["sigma"]))
            at = tuple(np.ravel(np.array(ax.lines[0].get_data())))
            assert at == (ks.index(best["k"]) + 0.5, sigmas.index(best["sigma"]) + 0.5)
            assert f"at {best['k']}," in ax.get_title()

    def test_has_a_line_and_a_level_for_a_learner_with_sigma_and_with_c(self):
        rules = [{"rule": "GD", "sigma": [1, 2, 4]}, {"rule": "GD", "c": [1, 10]}]
        ((_, figure),) = draw_cells(
            sweep(study(learners=rules, scenarios=[WAVES | {"length": 5}]), jobs=1).cells(),
            "cost",
            "sigma",
        )
        assert {line.get_label() for line in figure.axes[0].lines} >= {"GD", "GD, no sigma"}

    def test_over_a_setting_compares_each_column_with_its_least(self, drawn):
        ((name, figure), *_) = draw_cells(drawn.cells(), "total regret", "length", "k")
        assert name == "KLazyGD-length-k"
        for ax in (ax for ax in figure.axes if ax.get_title()):
            colours = np.reshape(np.array(ax.collections[0].get_array()), (5, 2))
            np.testing.assert_array_equal(colours.min(axis=0), [1.0, 1.0])
            assert len(ax.lines) == 2

    def test_has_no_more_panels_than_can_be_read(self, drawn, monkeypatch):
        monkeypatch.setattr(drawing, "PANELS", 3)
        names = [name for name, _ in draw_cells(drawn.cells(), "total regret", "k", "sigma")]
        assert names == ["KLazyGD-k-sigma-1", "KLazyGD-k-sigma-2"]

    def test_of_what_does_not_vary_is_refused(self, drawn):
        with pytest.raises(
            ValueError, match=r"several values, got m. Those that do: k, sigma, length, move_cost"
        ):
            list(draw_cells(drawn.cells(), "total regret", "m"))


class TestTheCommand:
    TOML = """
name = "slacks"
seeds = 3
[[scenarios]]
recipe = "stochastic"
phases = 4
length = 50
[[learners]]
rule = "KLazyGD"
sigma = { logspace = [1, 10, 3] }
k = { powers = [2, 0, 3] }
"""

    @staticmethod
    def klazy(*arguments, folder, status=0):
        done = call_klazy("sweep", *arguments, folder=folder)
        assert done.status == status, done.stderr
        return done.stdout if status == 0 else done.stderr

    def test_plays_a_study_goes_on_where_it_was_and_draws_it(self, tmp_path):
        (tmp_path / "slacks.toml").write_text(self.TOML)
        text = self.klazy("slacks.toml", "--out", "here", "--jobs", 1, folder=tmp_path)
        assert "36 runs: 36 computed, 0 reused, 0 failed" in text
        assert "mean and 95 % interval" in text
        assert "learner-rounds per second" in text
        (tmp_path / "slacks.toml").write_text(self.TOML.replace("seeds = 3", "seeds = 4"))
        counts = json.loads(
            self.klazy("slacks.toml", "--out", "here", "--jobs", 1, "--json", folder=tmp_path)
        )
        assert {name: counts[name] for name in ("runs", "computed", "reused", "failed")} == {
            "runs": 48, "computed": 12, "reused": 36, "failed": 0,
        }  # fmt: skip
        assert counts["seconds"] > 0.0
        drawn = json.loads(self.klazy("plot", "here", "--json", folder=tmp_path))["figures"]
        assert drawn == [f"here/figures/{name}.png" for name in ("KLazyGD-k-sigma", "k", "sigma")]
        assert all((tmp_path / file).stat().st_size > 10_000 for file in drawn)

    def test_takes_functions_of_modules_in_the_current_folder(self, tmp_path):
        (tmp_path / "mine.py").write_text(
            "import klazy\n\ndef rule(domain, k: int) -> klazy.types.Learner:\n    return klazy.KLazyGD(domain, 1.0, k=k)\n"
        )
        for name in (
            "polars",
            "joblib",
            "pydantic",
        ):  # those that are installed come first, in workers, too
            (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')")
        (tmp_path / "mine.toml").write_text(
            self.TOML + '[[learners]]\nrule = "mine:rule"\nk = [1, 2]\n'
        )
        command = [
            str(Path(sys.executable).with_name("klazy")),
            "sweep",
            "mine.toml",
            "--out",
            "here",
            "--json",
            "--trust",
        ]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["failed"] == 0
        assert not (tmp_path / "executed").exists()

    @pytest.mark.parametrize(
        "own", ['recipe = "os:system"', 'rule = "os:system"'], ids=["recipe", "rule"]
    )
    def test_runs_no_code_of_others_unless_it_is_trusted_and_made_for_it(self, tmp_path, own):
        table = "scenarios" if "recipe" in own else "learners"
        (tmp_path / "bad.toml").write_text(
            self.TOML + f'[[{table}]]\n{own}\ncommand = "touch executed"\n'
        )
        kind = own.split()[0]
        said = self.klazy("bad.toml", "--jobs", 1, folder=tmp_path, status=2)
        assert said == (
            f"bad.toml would run code that is not klazy's: {kind} = 'os:system'. "
            "If you know it, allow it with --trust.\n"
        )
        said = self.klazy("bad.toml", "--jobs", 1, "--trust", folder=tmp_path, status=2)
        wanted = "Scenario" if kind == "recipe" else "Learner"
        assert (
            f"os:system must be a function annotated with `-> {wanted}`, or a {wanted} class."
            in said
        )
        assert sorted(file.name for file in tmp_path.iterdir()) == ["bad.toml"]

    def test_draws_nothing_that_names_code_of_others_unless_it_is_trusted(
        self, tmp_path, monkeypatch
    ):
        monkeypatch.syspath_prepend(tmp_path)
        (tmp_path / "of_somebody.py").write_text(
            f"import os\n\nos.mkdir({str(tmp_path / 'executed')!r})"
        )
        rows = {"scenarios": [WAVES], "learners": [{"rule": "of_somebody:rule"}]}
        (tmp_path / "study.json").write_text(json.dumps(rows))
        said = self.klazy("plot", ".", folder=tmp_path, status=2)
        assert said.startswith(
            "study.json would run code that is not klazy's: rule = 'of_somebody:rule'. "
        )
        assert not (tmp_path / "executed").exists()
        self.klazy("plot", ".", "--trust", folder=tmp_path, status=2)
        assert (tmp_path / "executed").exists()

    def test_goes_on_in_a_folder_whose_name_looks_like_a_pattern(self, tmp_path):
        (tmp_path / "slacks.toml").write_text(self.TOML)
        for reused in (0, 36):
            said = self.klazy(
                "slacks.toml", "--out", "res[1]", "--jobs", 1, "--json", folder=tmp_path
            )
            assert json.loads(said)["reused"] == reused
        self.klazy(
            "slacks.toml", "--out", "res[1]", "--jobs", 1, "--retry-failed", folder=tmp_path
        )
        assert json.loads(self.klazy("plot", "res[1]", "--x", "k", "--json", folder=tmp_path))[
            "figures"
        ] == ["res[1]/figures/k.png"]

    def test_leaves_what_is_not_its_own_and_follows_no_links(self, tmp_path):
        (tmp_path / "slacks.toml").write_text(self.TOML)
        here = tmp_path / "here"
        (here / "figures").mkdir(parents=True)
        for name in ("thesis.partial", "part-of-it.parquet.partial"):
            (here / name).write_text("mine")
        (here / f"part-{'0' * 32}.parquet.partial").write_text(
            "klazy's, of a writer that was killed"
        )
        (tmp_path / "kept").write_text("mine")
        for name in ("cells.csv", "study.json", "figures/k.png", "figures/k.svg"):
            (here / name).symlink_to(tmp_path / "kept")
        self.klazy("slacks.toml", "--out", "here", "--jobs", 1, folder=tmp_path)
        self.klazy("plot", "here", "--x", "k", folder=tmp_path)
        assert (tmp_path / "kept").read_text() == "mine"
        assert {file.name for file in here.glob("*.partial")} == {
            "thesis.partial",
            "part-of-it.parquet.partial",
        }
        assert {file.name for file in (here / "figures").iterdir()} == {"k.png", "k.svg"}

    def test_says_that_somebody_else_has_its_folder(self, tmp_path, monkeypatch):
        monkeypatch.setattr(results, "LOCK_SECONDS", 0.1)
        (tmp_path / "slacks.toml").write_text(self.TOML)
        (tmp_path / "here").mkdir()
        with lock_file(tmp_path / "here" / ".lock", wait=False):
            said = self.klazy(
                "slacks.toml", "--out", "here", "--jobs", 1, folder=tmp_path, status=2
            )
        assert said == (
            "Another process has locked here/.lock for 0.1 seconds. "
            "End it, or choose another folder with --out.\n"
        )

    def test_says_in_a_line_that_the_disk_is_full(self, tmp_path, monkeypatch):
        (tmp_path / "slacks.toml").write_text(self.TOML)

        def fail(path, data):
            if path.suffix == ".parquet":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

        monkeypatch.setattr(results, "write_durably", fail)
        said = self.klazy("slacks.toml", "--jobs", 1, "--out", "here", folder=tmp_path, status=2)
        wanted = r"Cannot read or write here/part-.*parquet: No space left on device\.\n"
        assert re.fullmatch(wanted, said)

    def test_shows_names_as_they_are_and_obeys_none(self, tmp_path):
        named = self.TOML.replace('"slacks"', '"[red]{x}[/y] \\u001b[31m \\u202e"')
        (tmp_path / "slacks.toml").write_text(named)
        said = self.klazy("slacks.toml", "--jobs", 1, "--out", "\x1b[2J[b]", folder=tmp_path)
        assert r"[red]{x}[/y] \x1b[31m \u202e: total regret" in said
        assert r"\x1b[2J[b]; `klazy sweep plot" in said
        assert not {"\x1b", "\u202e"} & set(said)

    def test_says_why_when_all_fail(self, tmp_path):
        (tmp_path / "none.toml").write_text(
            self.TOML.replace(
                'recipe = "stochastic"', 'recipe = "square_wave"\nperiod = 50'
            ).replace("phases = 4\nlength = 50", "T = 9")
        )
        ended = call_klazy("sweep", "none.toml", "--jobs", 1, folder=tmp_path)
        assert ended.status == 2
        assert ended.stderr.startswith("All 12 runs failed, the first with InvalidInput: ")
        assert "12 runs: 12 computed, 0 reused, 12 failed" in ended.stdout
        assert "All 12 runs failed, the first with InvalidInput: " in self.klazy(
            "plot", "none", folder=tmp_path, status=2
        )

    @pytest.mark.parametrize(
        ("fixed", "complaint"),
        [
            (
                "",
                "--held-out needs at least 2 seeds, got 1. Raise seeds in the study.",
            ),
            (
                '[[scenarios]]\nrecipe = "square_wave"\nperiod = 5\nT = 20\n',
                "--held-out needs random scenarios, but square_wave depends on no seed. Leave one of them out.",
            ),
            (
                '[[scenarios]]\nrecipe = "corrupted"\nrandom_phases = [true, false]\n',
                "--held-out needs random scenarios, but corrupted depends on no seed. Leave one of them out.",
            ),
        ],
        ids=["one seed", "no seed", "no seed at some values"],
    )
    def test_plays_nothing_where_no_seeds_can_be_held_out(self, tmp_path, fixed, complaint):
        (tmp_path / "slacks.toml").write_text(
            (self.TOML if fixed else self.TOML.replace("seeds = 3", "seeds = 1")) + fixed
        )
        said = self.klazy("slacks.toml", "--held-out", "--jobs", 1, folder=tmp_path, status=2)
        assert said == complaint + "\n"
        assert not (tmp_path / "slacks").exists()

    def test_prints_a_study_to_begin_with(self, tmp_path):
        assert self.klazy("--init", folder=tmp_path) == read_example()

    def test_refuses_in_lines_that_name_the_file(self, tmp_path):
        (tmp_path / "bad.toml").write_text(self.TOML.replace("seeds = 3", "seeds = -3"))
        said = self.klazy("bad.toml", folder=tmp_path, status=2)
        assert said == f"bad.toml: seeds must be greater than or equal to 1, got -3.\n{REMEDY}\n"
        assert "none.toml cannot be read: No such file" in self.klazy(
            "none.toml", folder=tmp_path, status=2
        )
        (tmp_path / "bad.toml").write_text("seeds = = 3")
        assert "bad.toml is not valid TOML: " in self.klazy("bad.toml", folder=tmp_path, status=2)


def test_workers_that_run_import_from_folders_that_are_added_later(tmp_path, monkeypatch):
    assert list(parallel.map_unordered(abs, [-1], 2)) == [1]
    (tmp_path / "added").mkdir()
    (tmp_path / "entered").mkdir()
    (tmp_path / "added" / "later.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "entered" / "still_later.py").write_text("def treble(x):\n    return 3 * x\n")
    monkeypatch.syspath_prepend(tmp_path / "added")
    import later  # pyright: ignore[reportMissingImports]

    assert sorted(parallel.map_unordered(later.double, [1, 2], 2)) == [2, 4]
    # A notebook imports from the current folder.
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.chdir(tmp_path / "entered")
    import still_later  # pyright: ignore[reportMissingImports]

    assert sorted(parallel.map_unordered(still_later.treble, [1, 2], 2)) == [3, 6]
