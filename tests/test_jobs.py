"""Jobs with a deadline, replayed on a trace: scored as by hand, without a look at later rows, in words and as a page."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command import call_klazy
from klazy.contrib import (
    RORO,
    Job,
    PauseResume,
    RunAtOnce,
    SpreadEvenly,
    best_conversion,
    convert,
)
from klazy.studies.replay import jobs, replay_jobs
from looks import look_at, watch

HOURS = 24 * 30
WHOLE = st.booleans()


def draw_trace(seed, n=HOURS):
    """Draw prices that repeat themselves from day to day, with noise, and a perfect forecast."""
    rng = np.random.default_rng(seed)
    prices = 60.0 - 30.0 * np.sin(np.arange(n) / 24.0 * 2.0 * np.pi) + rng.uniform(-20.0, 20.0, n)
    start = pl.datetime(2024, 1, 1)
    times = pl.select(
        pl.datetime_range(start, start + pl.duration(hours=n - 1), "1h")
    ).to_series()
    return pl.DataFrame({"time": times, "price": prices, "ahead": prices})


def replay(trace, **options):
    game = {"convert": 3, "deadline": 12, "move_cost": 4.0, "price": "price", "every": 17}
    return replay_jobs(trace, **(game | options))


class TestScores:
    @pytest.mark.parametrize("whole", [False, True])
    def test_they_are_those_of_the_library_job_by_job(self, whole):
        trace = draw_trace(0)
        found = replay(trace, whole=whole)
        prices = trace["price"].to_numpy()
        low, high = prices[:360].min(), prices[:360].max()
        job = Job(low, high, amount=3.0, rate=1.0, move_cost=4.0, whole=whole)
        windows = [prices[at : at + 12] for at in range(360, 720 - 11, 17)]
        sure = (PauseResume if whole else RORO)(job)
        paid = [convert(sure, each).cost for each in windows]
        best = [best_conversion(job, each).cost for each in windows]
        assert found.threshold.cost == pytest.approx(sum(paid))
        assert found.optimum.cost == pytest.approx(sum(best))
        assert found.ratios(found.threshold) == pytest.approx(np.divide(paid, best))
        assert found.proved_ratio(found.threshold) == sure.ratio
        tuned = found.score(f"{found.threshold.name} tuned")
        assert found.proved_ratio(tuned) == SpreadEvenly(job).ratio
        at_once = [convert(RunAtOnce(job), each).cost for each in windows]
        gain, half = found.best.compare(found.score("run at once"))
        assert gain == pytest.approx(sum(at_once) - found.best.cost)
        assert half > 0.0

    @settings(max_examples=5)
    @given(seed=st.integers(0, 2**16), whole=WHOLE, fee=st.sampled_from([0.0, 4.0, 30.0]))
    def test_nobody_exceeds_the_ratio_that_is_proved(self, seed, whole, fee):
        trace = draw_trace(seed)
        found = replay(trace, whole=whole, move_cost=fee, low=5.0, high=120.0, forecast="ahead")
        for score in found.scores:
            assert found.ratios(score).min() >= 1.0 - 1e-9
            assert found.ratios(score).max() <= found.proved_ratio(score) * (1.0 + 1e-7)

    @settings(max_examples=5)
    @given(seed=st.integers(0, 2**16), whole=WHOLE)
    def test_nobody_sees_later_rows(self, seed, whole):
        trace = draw_trace(seed)
        changed = trace["price"].to_numpy().copy()
        rng = np.random.default_rng(seed)
        row = int(rng.integers(361, 720))
        changed[row:] = rng.uniform(10.0, 100.0, 720 - row)
        later = trace.with_columns(price=changed)
        one = replay(trace, whole=whole)
        two = replay(later, whole=whole)
        for score in one.scores:
            other = two.score(score.name)
            assert other.parameters == score.parameters
            for at, start in enumerate(one.starts):
                known = max(0, row - start)
                assert other.points[at, :known] == pytest.approx(score.points[at, :known])

    def test_no_job_is_tuned_on_a_scored_row(self, monkeypatch):
        played = []
        monkeypatch.setattr(
            jobs, "play", lambda rule, prices: played.append(prices) or convert(rule, prices)
        )
        trace = draw_trace(4)
        replay(trace)
        places = {price: at for at, price in enumerate(trace["price"].to_list())}
        spans = {(places[each[0]], places[each[-1]]) for each in played}
        assert all(last < 360 or first >= 360 for first, last in spans)
        assert max(last for _, last in spans if last < 360) >= 360 - 17

    @pytest.mark.parametrize("whole", [False, True])
    def test_a_perfect_forecast_is_the_optimum(self, whole):
        found = replay(draw_trace(3), whole=whole, forecast="ahead")
        assert found.score("plan for the forecast").cost == pytest.approx(found.optimum.cost)
        assert "Your forecast helps" in found.answer

    def test_constant_prices_are_best_run_at_once(self):
        found = replay_jobs(np.full(200, 5.0), 3, 12, move_cost=0.0)
        assert found.answer.startswith(
            "Run jobs at once: they paid 15 a job, and no rule paid less."
        )


class TestRules:
    def test_a_rule_goes_on_after_the_last_row(self):
        trace = draw_trace(1)
        found = replay(trace[:-12], forecast="ahead", every=5)
        future = trace["price"].to_numpy()[-12:]
        run = found.rule("RORO").start(12)
        decided = [run.decide(price) for price in future.tolist()]
        assert decided == convert(RORO(found.job), future).x.tolist()
        plan = found.rule("plan for the forecast", forecast=future)
        assert convert(plan, future).cost == pytest.approx(
            best_conversion(found.job, future).cost
        )
        past = found.rule("plan for past prices")
        lag = 24 * int(found.score("plan for past prices").parameters["days"])
        last = trace["price"].to_numpy()[708 - lag : 708 - lag + 12]
        assert past.start(12).rule.plan == pytest.approx(best_conversion(found.job, last).x)
        with pytest.raises(ValueError, match="needs forecast, the prices of the 12 rows"):
            found.rule("plan for the forecast")


class TestCommand:
    def test_the_page_fits_every_window_and_shows_the_job_of_each(self, browser, tmp_path):
        found = replay(draw_trace(2), forecast="ahead", every=17)
        found.to_html(tmp_path / "jobs.html")
        url = (tmp_path / "jobs.html").as_uri()
        page = browser.new_page()
        watch(page, url)
        look_at(page, url)
        assert "saved a job against running at once" in page.inner_text("h1")
        names = page.locator("#chart-job option").all_inner_texts()
        assert [name.split(":")[0] for name in names] == [
            row["contender"] for row in found.list_rows()
        ]
        assert not page.wrong

    def test_it_answers_in_words_as_json_and_as_a_page(self, tmp_path):
        trace = draw_trace(2)
        trace.write_csv(tmp_path / "spot.csv")
        game = ["replay", "spot.csv", "--convert", 3, "--deadline", 12, "--move-cost", 4]
        game += ["--price", "price", "--every", 17, "--unit", "EUR"]
        found = replay(trace, unit="EUR")
        ended = call_klazy(*game, "--html", "jobs.html", folder=tmp_path)
        assert ended.status in (0, None)
        assert ended.stdout.startswith(found.answer)
        assert "EUR a job" in found.answer
        page = (tmp_path / "jobs.html").read_text()
        assert all(score.name in page for score in found.scores)
        told = json.loads(call_klazy(*game, "--json", folder=tmp_path).stdout)
        assert told["best"] == found.best.name
        assert told["table"][-1]["cost"] == pytest.approx(found.optimum.cost / len(found.starts))

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            ("--convert 6", "A job needs an amount and a deadline: --convert 6 --deadline 24."),
            ("--deadline 6", "A job needs an amount and a deadline"),
            ("--convert 6 --deadline 4", "takes 6 rounds, but its deadline is 4"),
            ("--convert 6 --deadline 700", "--deadline 700 must leave room for a job"),
            ("--convert 6.5 --deadline 24 --whole", "must be a multiple of rate=1, got 6.5"),
            ("--convert -1 --deadline 24", "--convert must be above 0"),
            ("--convert 6 --deadline 24 --low -3", "--low must be above 0"),
            ("--convert 6 --deadline 24 --high 2", "high must be at least low"),
            ("--convert 6 --deadline 24 --move-cost 1,2", "--move-cost must be one number"),
            ("--convert 6 --deadline 24 --hold 3", "--hold does not go together with --convert"),
            ("--convert 6 --deadline 24 --emit a.json", "--emit does not go together"),
            ("--convert 6 --deadline 24 --forecast b", "columns of the data (time, price, ahead)"),
        ],
    )  # fmt: skip
    def test_what_is_wrong_is_said_in_words(self, tmp_path, flags, message):
        draw_trace(2).write_csv(tmp_path / "spot.csv")
        game = ["replay", "spot.csv", "--price", "price", *flags.split()]
        ended = call_klazy(*game, folder=tmp_path)
        assert ended.status not in (0, None)
        assert message in ended.stderr
        assert ended.stderr.count("\n") == 1

    def test_wrong_columns_and_prices_are_named(self, tmp_path):
        trace = draw_trace(2)
        trace.write_csv(tmp_path / "spot.csv")
        game = ["--convert", 6, "--deadline", 24]
        for more, message in [
            ([], "the data have price, ahead. Name one: --price price."),
            (["--price", "co2"], "--price must be a column of the data (time, price, ahead), got 'co2'."),
        ]:  # fmt: skip
            assert (
                message in call_klazy("replay", "spot.csv", *game, *more, folder=tmp_path).stderr
            )
        prices = trace["price"].to_numpy().copy()
        prices[4] = -2.5
        with pytest.raises(
            ValueError, match=r"Row 5, column x1 must be above 0, got -2.5.*fees and taxes"
        ):
            replay_jobs(prices, 6, 24)
        with pytest.raises(
            ValueError, match=r"forecast must have a price for each row, got nan in row 5"
        ):
            replay_jobs(
                trace.with_columns(ahead=np.where(prices < 0.0, np.nan, prices)),
                6,
                24,
                price="price",
                forecast="ahead",
            )
