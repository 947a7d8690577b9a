"""The arena: games stay as they are, parameters come from the first half, nobody beats the optimum, nothing is played twice."""

import importlib
import json
import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
import pytest
from check_jsonschema.cli import main as check_schema

import klazy as kl
from command import call_klazy
from klazy import show
from klazy.base.checks import InvalidInput
from klazy.studies.arena import SUITE_VERSION, Arena, list_games, play, submission, suite
from klazy.studies.arena.play import (
    GameTask,
    find_game_optimum,
    list_outside,
    make_facts,
    play_contender,
    play_game,
)
from klazy.studies.arena.submission import (
    Entrant,
    make_submission,
    read_submission,
    replay_sample,
)
from klazy.studies.arena.suite import Entry
from klazy.studies.arena.table import GameOptimum, GameScore, PlayedGame
from klazy.studies.contenders import (
    ARENA,
    CONTENDERS,
    FIXED,
    OTHER_PACKAGES,
    REPLAY,
    TUNED,
    TUNES_ITSELF,
    YOURS,
    Contender,
    import_own,
    list_contenders,
    make_own,
)
from looks import look_at, watch

GAMES = Path(__file__).with_name("arena.json")  # of versions 1 and 2


def choose_four(facts):
    return {"sigma": facts.choose_sigmas(4)}


SMALL = [
    Contender(FIXED, TUNED, lambda: None),
    Contender("GD", TUNED, kl.GD, choose_four),
    Contender("LazyGD", TUNED, kl.LazyGD, choose_four),
    Contender("auto", TUNES_ITSELF, kl.auto),
]
TINY = [Entry("regimes", "box", price, seed, 120) for seed in (0, 1) for price in (0.3, 3.0)]


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """Four short games and four contenders."""
    monkeypatch.setattr(play, "list_games", lambda seed, quick, suite: TINY)
    monkeypatch.setattr(play, "list_contenders", lambda study: SMALL)
    monkeypatch.setattr(play, "find_cache", lambda: tmp_path / "cache")
    return partial(play.play_suite, jobs=1)


class TestTheSuite:
    def test_a_version_has_the_same_games_for_ever(self):
        """The size of its rows and the price of moving: whoever changes a game needs a new version."""
        assert SUITE_VERSION == "2"
        told = {}
        for entry in list_games(7):
            if entry.price == 3.0 and entry.seed != 8 and entry.family != "stocks":
                game = entry.make()
                size = np.abs(game.costs.arrays()[0]).sum()
                told[entry.sequence] = f"{size:.8g} {game.movement.weight:.8g}"
        assert told == json.loads(GAMES.read_text(encoding="utf-8"))

    def test_version_1_has_the_games_it_had(self):
        for quick, count in ((False, 450), (True, 42)):
            first = list_games(7, quick=quick, suite="1")
            assert len(first) == count
            assert [
                entry for entry in list_games(7, quick=quick) if entry.family != "servers"
            ] == first

    def test_names_are_unique_and_only_drawn_games_change_with_the_seed(self):
        for quick in (False, True):
            games = list_games(quick=quick)
            assert len({entry.name for entry in games}) == len(games)
            data = {entry for entry in games if entry.seed is None}
            assert (
                data
                == {entry for entry in list_games(500, quick=quick) if entry.seed is None}
                != set()
            )
            assert {entry.seed for entry in list_games(500, quick=quick)} <= {None, 500, 501}

    def test_games_of_one_sequence_differ_in_price_alone(self):
        cheap, dear = (Entry("AR(1)", "simplex", price, 3, 200).make() for price in (0.1, 30.0))
        assert cheap.costs is dear.costs
        assert dear.movement.weight == pytest.approx(300.0 * cheap.movement.weight, rel=1e-12)

    @pytest.mark.parametrize("place", suite.SET_KINDS)
    def test_at_a_price_of_one_crossing_the_set_costs_what_a_round_differs_by(self, place):
        game = Entry("i.i.d.", place, 1.0, 0, 400).make()
        g = game.costs.arrays()[0][: game.half]
        ends = game.domain.argmin_linear(g), game.domain.argmin_linear(-g)
        spread = np.vecdot(g, ends[1] - ends[0]).mean()
        crossing = game.movement.weight * game.movement.distance(ends[1] - ends[0]).max()
        assert crossing == pytest.approx(spread, rel=1e-12)

    def test_an_unknown_family_is_refused(self):
        with pytest.raises(
            InvalidInput, match=r"family must be one of phases, bursts, .*, got 'tides'"
        ):
            Entry("tides", "box", 1.0, 0, 10).make()


class TestAGame:
    def test_a_score_is_what_run_pays_in_the_second_half(self):
        game = TINY[0].make()
        found = play_contender(game, make_facts(game), SMALL[1])
        trace = kl.run(
            kl.GD(game.domain, found.parameters["sigma"]), game.costs, movement=game.movement
        )
        assert found.first == pytest.approx(
            (trace.hitting + trace.switching)[: game.half].sum(), rel=1e-9
        )
        assert found.hitting == pytest.approx(trace.hitting[game.half :].sum(), rel=1e-9)
        assert found.switching == pytest.approx(trace.switching[game.half :].sum(), rel=1e-9)
        assert found.candidates == 8
        assert found.hindsight <= found.cost

    def test_parameters_come_from_the_first_half_alone(self):
        game = TINY[0].make()
        g = game.costs.arrays()[0].copy()
        g[game.half :] *= -3.0
        other = replace(game, costs=kl.contrib.LinearCosts(g))
        for contender in SMALL[1:3]:
            told, changed = (
                play_contender(each, make_facts(each), contender) for each in (game, other)
            )
            assert told.parameters == changed.parameters
            assert told.first == changed.first
            assert told.cost != changed.cost

    def test_the_fixed_point_is_the_first_halfs_best(self):
        game = TINY[1].make()
        found = play_contender(game, make_facts(game), SMALL[0])
        g = game.costs.arrays()[0]
        x = game.domain.argmin_linear(g[: game.half].sum(axis=0))
        assert (found.hitting, found.switching) == (
            pytest.approx((g[game.half :] @ x).sum()),
            0.0,
        )

    @pytest.mark.long
    def test_nobody_is_below_the_optimum(self):
        curved = Entry("demand", "wandering", 3.0, 0, 200)
        for entry in (TINY[0], curved):
            played = play_game(GameTask(entry, SMALL, None))
            for outcome in played.outcomes.values():
                assert outcome.cost >= played.best.lower_bound

    def test_an_optimum_is_found_once(self, tmp_path, monkeypatch):
        game = TINY[0].make()
        found = find_game_optimum(game, tmp_path)
        play._open_optima.cache_clear()  # as in another process
        with monkeypatch.context() as patch:
            patch.setattr(play, "offline_optimum", None)
            assert find_game_optimum(game, tmp_path) == found
        assert find_game_optimum(TINY[1].make(), tmp_path) != found


class TestContenders:
    def test_every_contender_of_the_list_plays_in_arena_and_replay_unless_it_says_where(self):
        for study, other in ((ARENA, REPLAY), (REPLAY, ARENA)):
            names = [contender.name for contender in list_contenders(study)]
            assert {"GD", "k-lazyGD", "dead band", "periodic", "auto"} <= set(names)
            assert len(set(names)) == len(names)
            assert names == [each.name for each in CONTENDERS if each.study != other]

    def test_version_1_has_fewer_contenders_and_whoever_does_not_play_never_moves(
        self, tiny, monkeypatch
    ):
        new = next(each for each in CONTENDERS if each.name == "rolling maximum")
        monkeypatch.setattr(play, "list_contenders", lambda study: [*SMALL, new])
        found = tiny(suite="1")
        assert new.name not in found.names
        assert found.to_dict()["suite"] == "1"
        costs = tiny().games[0].outcomes
        assert costs[new.name] == costs[FIXED]
        game = Entry("demand", "regimes", 1.0, 0, 120).make()
        assert set(play_contender(game, make_facts(game), new).parameters) == {
            "window",
            "headroom",
        }
        with pytest.raises(InvalidInput, match="suite must be one of '1', '2', got '3'"):
            tiny(suite="3")

    def test_shares_that_nobody_trades_drift_and_1_of_n_stays(self):
        game = Entry("wealth", "wandering", 1.0, 3, 200).make()
        rules = {each.name: each for each in CONTENDERS}
        holding = rules["buy and hold"].make_learner(make_facts(game))
        points = kl.run(holding, game.costs, movement=game.movement).x
        relatives = game.costs.arrays()[0]
        for t in range(3):
            assert points[t + 1] == pytest.approx(
                game.costs.family.drift(relatives[t], points[t]), rel=1e-12
            )
        facts = make_facts(game)
        kept = play_contender(game, facts, rules["1/N"])
        x = np.full((game.costs.T, 5), 0.2)
        assert kept.switching == 0.0
        assert kept.hitting == pytest.approx(game.costs.values(x)[game.half :].sum(), rel=1e-12)
        demand = Entry("servers", "days", 1.0, 3, 120).make()
        facts = make_facts(demand)
        for name in ("1/N", "buy and hold"):
            assert play_contender(demand, facts, rules[name]) == play_contender(
                demand, facts, SMALL[0]
            )

    def test_a_learner_is_told_what_it_names(self):
        def mine(movement, domain):
            return kl.auto(domain, movement)

        game = TINY[0].make()
        made = make_own(mine).make_learner(make_facts(game))
        assert made == kl.auto(game.domain, game.movement)
        assert make_own(kl.auto).name == "auto (yours)"

    def test_what_cannot_be_made_is_refused(self):
        with pytest.raises(
            InvalidInput, match=r"KLazyGD needs a value for its argument k. Give it a default"
        ):
            make_own(kl.KLazyGD)
        with pytest.raises(
            InvalidInput, match="learner must be a function that makes a learner, got 3"
        ):
            make_own(3)
        game = TINY[0].make()
        with pytest.raises(
            InvalidInput, match=r"none must return a klazy.types.Learner, got NoneType"
        ):
            make_own(lambda domain: None, "none").make_learner(make_facts(game))

    def test_own_code_is_imported_only_if_it_is_trusted(self):
        with pytest.raises(
            InvalidInput, match=r"klazy:auto would be imported and run. Add --trust"
        ):
            import_own(["klazy:auto"], trust=False)
        with pytest.raises(InvalidInput, match="No installed learner is named 'auto'"):
            import_own(["auto"], trust=True)
        with pytest.raises(InvalidInput, match="klazy:nobody cannot be imported: AttributeError"):
            import_own(["klazy:nobody"], trust=True)
        (found,) = import_own(["klazy:auto"], trust=True)
        assert (found.kind, found.make) == (YOURS, kl.auto)

    def test_models_of_other_packages_are_charged_for_what_they_play(self, monkeypatch):
        """A stand-in for PyNOL, whose models are told a round after they have played it."""

        class Follower:
            def __init__(self, domain, T, G, *price, prior):
                self.domain = domain
                self.x = domain.init_x(prior)

            def opt(self, env):
                played = self.x
                self.x = self.domain.project(played - 0.1 * env.grad_func(played))
                return played, env.func(played), None

        class Environment:
            def __init__(self, func, grad_func):
                self.func = func
                self.grad_func = grad_func

        contents = {"environment.environment": {"Environment": Environment}}
        contents |= {
            f"learner.models.dynamic.{name.lower()}": {name: Follower}
            for name in ("Ader", "Scream")
        }
        assert list_outside() == []
        for path, names in contents.items():
            parts = f"pynol.{path}".split(".")
            for i in range(1, len(parts) + 1):
                monkeypatch.setitem(sys.modules, ".".join(parts[:i]), ModuleType(parts[i - 1]))
            vars(sys.modules[f"pynol.{path}"]).update(names)
        monkeypatch.setattr(
            sys.modules["pynol"], "environment", sys.modules["pynol.environment"], raising=False
        )
        game = TINY[0].make()
        trace = kl.run(kl.GD(game.domain, 10.0), game.costs, movement=game.movement)
        paid = (trace.hitting + trace.switching)[game.half :].sum()
        for contender in list_outside():
            assert contender.kind == OTHER_PACKAGES
            assert play_contender(game, make_facts(game), contender).cost == pytest.approx(
                paid, rel=1e-9
            )
        assert len(list_outside()) == 2


def test_optimum_tuning_and_scoring_are_the_same_for_every_entrant(monkeypatch):
    """One learner scores the same to the last digit as a tuned contender, as one's own, and by the points that it plays."""

    def draw(game, largest):
        return kl.run(kl.GD(game.domain, 10.0), game.costs, movement=game.movement).x

    optima = []
    found_before = play.offline_optimum
    monkeypatch.setattr(
        play, "offline_optimum", lambda *a, **k: optima.append(1) or found_before(*a, **k)
    )
    tuned = Contender("tuned", TUNED, kl.GD, lambda facts: {"sigma": [10.0]})
    own = make_own(lambda domain: kl.GD(domain, 10.0), "own")
    outside = Contender("outside", OTHER_PACKAGES, draw, is_learner=False)
    for entry in (TINY[1], Entry("demand", "wandering", 3.0, 0, 120)):
        optima.clear()
        played = play_game(GameTask(entry, [tuned, own, outside], None))
        scores = [
            replace(score, parameters={}, candidates=1) for score in played.outcomes.values()
        ]
        assert scores[0] == scores[1]
        for name in ("first", "hitting", "switching", "hindsight"):
            assert getattr(scores[2], name) == pytest.approx(getattr(scores[0], name), rel=1e-12)
        assert len(optima) == 1
        found = Arena([played], [tuned, own, outside])
        assert found.above[0] == pytest.approx(found.above[0, 0], rel=1e-9)


class TestResultsFiles:
    @pytest.fixture
    def handed_in(self, tiny, monkeypatch):
        """Results of the tiny suite, which verifying knows too."""
        monkeypatch.setattr(submission, "list_games", lambda seed, quick, suite: TINY)
        monkeypatch.setattr(submission, "list_contenders", lambda study: SMALL)
        monkeypatch.setattr(submission, "find_cache", play.find_cache)
        return make_submission(tiny())

    def test_a_file_says_what_the_arena_says(self, handed_in, tiny, tmp_path):
        file = tmp_path / "all.json"
        file.write_text(handed_in.write(), encoding="utf-8")
        assert read_submission(file) == handed_in
        rows = {row["entrant"].name: row for row in handed_in.summarize()}
        for row in tiny().rank():
            for key in ("best_tuned", "picked", "worse_by_2_%"):
                # Shares have six digits, next to a floor of a thousandth.
                assert rows[row["contender"]][key] == pytest.approx(row[key], rel=1e-3)

    def test_ones_own_learner_is_handed_in_alone(self, tiny):
        own = make_own(lambda domain: kl.GD(domain, 1.0), "mine")
        results = make_submission(tiny([own]), ["mymodule:mine"])
        assert [(each.name, each.learner) for each in results.entrants] == [
            ("mine", "mymodule:mine")
        ]

    def test_replaying_finds_the_figures_that_are_not_true(self, handed_in):
        entries, differences = replay_sample(handed_in, 9, 0, jobs=1)
        assert (sorted(entries), differences) == (sorted(TINY), [])
        assert len(replay_sample(handed_in, 1, 0, jobs=1)[0]) == 1
        game = handed_in.games[2]
        better = game.model_copy(
            update={"costs": [*game.costs[:-1], game.costs[-1] * 0.9], "best_tuned": 1.0}
        )
        false = handed_in.model_copy(update={"games": [*handed_in.games[:2], better]})
        _, differences = replay_sample(false, 3, 0, jobs=1)
        found = [(row["game"], row["figure"]) for row in differences]
        assert found == [(game.entry.name, "the best tuned contender"), (game.entry.name, "auto")]
        assert differences[1]["replayed"] == pytest.approx(game.costs[-1], abs=1e-6)

    def test_a_learner_of_another_name_is_imported_only_if_trusted(self, handed_in):
        entrant = Entrant(name="mine", told="yours", learner="klazy:auto")
        games = [game.model_copy(update={"costs": game.costs[-1:]}) for game in handed_in.games]
        mine = handed_in.model_copy(update={"entrants": [entrant], "games": games})
        with pytest.raises(
            InvalidInput, match=r"klazy:auto would be imported and run. Add --trust"
        ):
            replay_sample(mine, 1, 0, jobs=1)
        assert replay_sample(mine, 4, 0, trust=True, jobs=1)[1] == []
        fake = Entrant(name="auto", told="yours", learner="klazy:auto")
        with pytest.raises(
            InvalidInput, match=r"auto is a contender of klazy. Give klazy:auto another name."
        ):
            replay_sample(mine.model_copy(update={"entrants": [fake]}), 1, 0, trust=True, jobs=1)

    def test_what_is_no_results_file_is_refused(self, handed_in, tmp_path):
        file = tmp_path / "mine.json"
        game = handed_in.games[0]
        faults = {
            "holds no results: format: Input should be 'klazy arena 1'": {"format": "other"},
            "has the game 'regimes, box, seed 9, price 0.3' of 120 rounds, which suite 2 does not have": {
                "games": [game.model_copy(update={"seed": 9})]
            },
            "has the game 'regimes, box, seed 0, price 0.3' twice": {"games": [game, game]},
            "must have 4 costs for the game 'regimes, box, seed 0, price 0.3', got 1": {
                "games": [game.model_copy(update={"costs": [0.0]})]
            },
            "has two entrants of one name": {"entrants": [handed_in.entrants[0]] * 4},
        }
        for said, change in faults.items():
            file.write_text(handed_in.model_copy(update=change).write(), encoding="utf-8")
            with pytest.raises(InvalidInput, match=re.escape(said)):
                read_submission(file)
        with pytest.raises(InvalidInput, match=r"Cannot read .*: No such file"):
            read_submission(tmp_path / "nowhere.json")

    def test_the_command_hands_in_and_verifies(self, tmp_path, handed_in):
        options = ("--out", "kept", "--jobs", 1)
        ran = call_klazy("arena", *options, "--every", 2, "--submit", "all.json", folder=tmp_path)
        assert (ran.status, ran.stderr) == (0, "")
        assert (
            "all.json; `klazy arena verify all.json` plays some of its games again" in ran.stdout
        )
        ran = call_klazy("arena", "verify", "all.json", "--jobs", 1, folder=tmp_path)
        assert ran.status == 0
        assert "2 of the 4 games of suite 2, seed 0." in ran.stdout
        assert "All figures are as claimed." in ran.stdout
        file = tmp_path / "all.json"
        text = file.read_text(encoding="utf-8")
        file.write_text(re.sub('"picked":[^,]*', '"picked":2.5', text), encoding="utf-8")
        ran = call_klazy(
            "arena", "verify", "all.json", "--draw", 3, "--json", "--jobs", 1, folder=tmp_path
        )
        assert ran.status == 1
        told = json.loads(ran.stdout)
        assert (told["draw"], len(told["games"])) == (3, 2)
        assert {row["figure"] for row in told["differences"]} == {"the picked contender"}


class TestTheLeaderboard:
    ROOT = Path(__file__).parents[1]

    @pytest.fixture
    def leaderboard(self, monkeypatch):
        """The module benchmarks/leaderboard.py."""
        monkeypatch.syspath_prepend(self.ROOT / "benchmarks")
        return importlib.import_module("leaderboard")

    def test_the_page_and_the_schema_are_what_the_command_writes(self, leaderboard):
        page = (self.ROOT / "docs" / "leaderboard.md").read_text(encoding="utf-8")
        assert leaderboard.SCHEMA.read_text(encoding="utf-8") == leaderboard.write_schema()
        _, _, tables = page.partition(leaderboard.HEADING)
        assert tables.strip() == leaderboard.write_tables().strip()

    def test_every_file_fits_the_schema(self, leaderboard, capsys):
        files = sorted(map(str, leaderboard.FOLDER.glob("*.json")))
        assert files
        with pytest.raises(SystemExit) as ended:
            check_schema(["--schemafile", str(leaderboard.SCHEMA), *files])
        assert ended.value.code == 0, capsys.readouterr()


class TestTheWhole:
    def test_what_was_played_is_not_played_again_but_ones_own_is(
        self, tiny, tmp_path, monkeypatch
    ):
        done = []
        found = tiny(out=tmp_path, progress=lambda at, total: done.append((at, total)))
        assert done == [(1, 4), (2, 4), (3, 4), (4, 4)]
        tasks = []
        monkeypatch.setattr(play, "play_game", lambda task: tasks.append(task) or play_game(task))
        assert tiny(out=tmp_path).games == found.games
        assert tasks == []
        own = make_own(lambda domain: kl.GD(domain, 1.0), "mine")
        for _ in range(2):
            tasks.clear()
            again = tiny([own], out=tmp_path)
            assert [[each.name for each in task.contenders] for task in tasks] == [["mine"]] * 4
            assert again.names == [*found.names, "mine"]
        monkeypatch.setattr(play, "hash_code", lambda *apart: "other code")
        tasks.clear()
        assert tiny(out=tmp_path).games == found.games
        assert len(tasks) == 4

    def test_a_learner_that_fails_is_named_with_its_game(self, tiny):
        def broken(domain):
            raise ZeroDivisionError("no idea")

        with pytest.raises(
            InvalidInput,
            match=r"broken failed in the game 'regimes, box, seed 0, price 0\.3': ZeroDivisionError: no idea",
        ):
            tiny([make_own(broken)])

    def test_the_command_plays_prints_and_writes(self, tiny, tmp_path, browser):
        (tmp_path / "mine_of_arena.py").write_text(
            "import klazy\n\n\ndef mine(domain):\n    return klazy.GD(domain, 2.0)\n"
        )
        options = ("--out", "kept", "--jobs", 1)
        ran = call_klazy(
            "arena", *options, "--learner", "mine_of_arena:mine", "--trust", folder=tmp_path
        )
        assert (ran.status, ran.stderr) == (0, "")
        assert "mine, which knows only the set and the move cost: " in ran.stdout
        page = (tmp_path / "kept" / "arena.html").read_text(encoding="utf-8")
        assert page.count("data:image/svg+xml") == 4
        shown = browser.new_page()
        watch(shown, "file:")
        look_at(shown, (tmp_path / "kept" / "arena.html").as_uri())
        assert shown.wrong == []
        shown.close()
        for name in ("ranking", "families", "worse-than-fixed"):
            table = pl.read_csv(tmp_path / "kept" / "tables" / f"{name}.csv")
            latex = (tmp_path / "kept" / "tables" / f"{name}.tex").read_text(encoding="utf-8")
            assert latex.count(r" \\") == len(table) + 1
        figures = {file.name for file in (tmp_path / "kept" / "figures").iterdir()}
        assert figures == {"ratios.pdf", "ranks.pdf", "pareto.pdf", "games.pdf"}
        for word in (
            f"suite {SUITE_VERSION}",
            "MIT licence",
            "Nemenyi",
            "Seeds below 100",
            "GD",
            "mine",
        ):
            assert word in page
        ran = call_klazy("arena", *options, "--json", folder=tmp_path)
        told = json.loads(ran.stdout)
        assert [row["contender"] for row in told["ranking"]] == [
            row["contender"] for row in tiny().rank()
        ]
        assert len(told["games"]) == 4
        for arguments, said in [
            (("--only", "tides"), "--only must be one of regimes, got 'tides'."),
            (
                ("--learner", "mine_of_arena:mine"),
                "mine_of_arena:mine would be imported and run. Add --trust",
            ),
        ]:
            ran = call_klazy("arena", *options, *arguments, folder=tmp_path)
            assert ran.status == 2
            assert said in ran.stderr
        assert call_klazy("arena", "--fresh", 99).status == 2

    def test_compare_takes_functions(self, tiny):
        found = kl.arena.compare(lambda domain: kl.LazyGD(domain, 3.0), jobs=1)
        assert found.names[-1] == "<lambda>"
        assert found.contenders[-1].kind == YOURS
        assert "&lt;lambda&gt;" in str(found._repr_html_())
        assert str(found).splitlines()[0].split()[:4] == ["contender", "best", "tuned", "picked"]


def make_arena(paid, firsts=None, hindsight=0.0):
    """Games of one sequence each, with an optimum of 0 and a spread of 1000, in which contenders pay these costs."""
    names = [FIXED, "tuned", "auto"]
    contenders = [
        Contender(FIXED, TUNED, kl.GD),
        Contender("tuned", TUNED, kl.GD),
        Contender("auto", TUNES_ITSELF, kl.auto),
    ]
    games = []
    for i, row in enumerate(paid):
        outcomes = {}
        for j, name in enumerate(names):
            first = row[j] if firsts is None else firsts[i][j]
            outcomes[name] = GameScore(first, row[j], 0.0, row[j] - hindsight, 1, {})
        games.append(
            PlayedGame(
                Entry("regimes", "box", 1.0, i, 10),
                1000.0,
                GameOptimum(0.0, 0.0, 0.0, 0.0),
                outcomes,
            )
        )
    return Arena(games, contenders)


class TestTheTable:
    def test_ratios_are_geometric_means_above_a_floor_of_a_thousandth_of_the_spread(self):
        found = make_arena([[99.0, 49.0, 24.0], [49.0, 99.0, 199.0]])
        rows = {row["contender"]: row for row in found.rank()}
        assert rows["auto"]["best_tuned"] == pytest.approx(np.sqrt(25.0 / 50.0 * 200.0 / 50.0))
        assert rows[FIXED]["best_tuned"] == pytest.approx(np.sqrt(2.0))
        assert rows["auto"]["worse_by_2_%"] == 0.5
        assert rows["auto"]["within_2_%"] == 0.5
        assert (rows["auto"]["worst_ratio"], rows["auto"]["worst_game"]) == (
            4.0,
            found.games[1].entry.name,
        )
        assert rows["auto"]["low"] == pytest.approx(0.5)
        assert rows["auto"]["high"] == pytest.approx(4.0)

    def test_the_picked_one_was_best_on_the_first_half(self):
        found = make_arena([[99.0, 49.0, 24.0]], firsts=[[1.0, 2.0, 0.0]], hindsight=25.0)
        assert found.picked.tolist() == [100.0]
        assert found.hindsight.tolist() == [25.0]

    def test_who_is_below_the_optimum_by_its_gap_counts_as_at_it(self):
        assert make_arena([[-0.5, 9.0, 9.0]]).above.tolist() == [[1.0, 10.0, 10.0]]

    def test_games_worse_than_never_moving_are_named(self):
        found = make_arena([[99.0, 49.0, 105.5], [99.0, 49.0, 103.0]])
        (row,) = found.list_worse_than_fixed()
        assert row["game"] == found.games[0].entry.name
        assert row["against_never_moving"] == pytest.approx(1.065)
        assert row["to_be_gained_%"] == pytest.approx(9.9)

    def test_the_critical_difference_is_nemenyis(self):
        """For three contenders and n games 2.343 sqrt(12 / 6n), by the table of Demsar (2006)."""
        found = make_arena([[3.0, 2.0, 1.0]] * 8)
        assert found.find_critical_difference() == pytest.approx(
            2.343 * np.sqrt(12.0 / 48.0), abs=1e-3
        )
        assert found.average_ranks.tolist() == [3.0, 2.0, 1.0]
        assert found.test_ranks() == pytest.approx(
            np.exp(-8.0)
        )  # chi-squared of 16 with two degrees of freedom

    def test_groups_hold_all_games(self):
        found = make_arena([[99.0, 49.0, 24.0], [49.0, 99.0, 199.0]])
        (row,) = found.group("family")
        assert (row["games"], row["auto"]) == (2, pytest.approx(np.sqrt(2.0)))
        assert [row["price"] for row in found.group("price")] == ["1"]


def test_bars_join_ranks_that_are_not_clearly_apart():
    figure = show.draw_ranks({"a": 1.0, "b": 1.8, "c": 2.7, "d": 4.0}, 1.0)
    bars = [
        np.asarray(line.get_xdata())
        for line in figure.axes[0].lines
        if line.get_linewidth() > 2.0
    ]
    spans = [(round(left + 0.04, 6), round(right - 0.04, 6)) for left, right in bars[:-1]]
    assert spans == [(1.0, 1.8), (1.8, 2.7)]
    assert np.ptp(bars[-1]) == pytest.approx(1.0)  # the scale
