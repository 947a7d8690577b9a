"""The data sets: facts read from the sources without klazy, nulls where the source has nothing, sources and licences named."""

import subprocess
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import klazy.datasets
from klazy import LogWealthCosts
from klazy.base.checks import InvalidInput
from klazy.base.install import advise_install
from klazy.datasets import CARRIERS, SOURCES, cache_requests, flights, llm_requests, stock_prices

README = Path(klazy.datasets.__file__).with_name("README.md")
COPIED = [name for name, source in SOURCES.items() if source.file]
MEASURES = [
    ("departure_delay", pl.Float64),
    ("arrival_delay", pl.Float64),
    ("scheduled", pl.Int64),
    ("cancelled", pl.Int64),
]


def test_importing_loads_no_polars():
    script = "import sys, klazy.datasets; print([name for name in ('polars', 'skfolio', 'pandas') if name in sys.modules])"
    assert (
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True
        ).stdout.strip()
        == "[]"
    )


@pytest.mark.parametrize("name", SOURCES)
def test_every_set_has_a_function_and_its_source_and_licence_in_the_readme(name):
    (entry,) = [
        part
        for part in README.read_text(encoding="utf-8").split("\n## ")
        if part.startswith(f"`{name}`")
    ]
    package, version = SOURCES[name].package.split("==")
    assert f"{package} {version}" in entry
    assert "**Licence** " + SOURCES[name].licence.split(" (")[0] in entry
    assert SOURCES[name].licence in str(SOURCES[name])
    assert callable(getattr(klazy.datasets, name))
    assert ("CC BY" in SOURCES[name].licence) == ("**Attribution** " in entry)


@pytest.mark.parametrize("name", COPIED)
def test_every_file_is_small_and_has_the_rows_that_are_told(name):
    file = SOURCES[name].file
    assert file
    assert file.stat().st_size < 300_000
    assert len(pl.read_parquet(file)) == SOURCES[name].rows


def test_no_file_is_without_a_source():
    assert sorted(path.stem for path in README.parent.glob("*.parquet")) == sorted(COPIED)


# Flights: the expected numbers were counted in flights.csv with the csv module.


@pytest.mark.parametrize(("measure", "dtype"), MEASURES)
def test_flights_have_a_row_per_hour_and_a_column_per_carrier(measure, dtype):
    frame = flights(measure)
    assert frame.schema == {"time": pl.Datetime("us")} | dict.fromkeys(CARRIERS[:9], dtype)
    assert frame["time"].is_sorted()
    assert frame["time"].n_unique() == frame.height == 6936
    assert (frame["time"][0], frame["time"][-1]) == (
        datetime(2013, 1, 1, 5),
        datetime(2013, 12, 31, 23),
    )


def test_carriers_are_ordered_by_their_flights():
    counted = [
        58665,
        54635,
        54173,
        48110,
        32729,
        26397,
        20536,
        18460,
        12275,
        5162,
        3260,
        714,
        685,
        601,
        342,
        32,
    ]
    assert flights("scheduled", 24, CARRIERS).drop("time").sum().row(0) == tuple(counted)


def test_cancelled_flights_are_counted_on_their_day():
    days = flights("cancelled", 24, CARRIERS).select(
        "time", cancelled=pl.sum_horizontal(CARRIERS)
    )
    assert days["cancelled"].sum() == 8255
    assert days.sort("cancelled").tail(2).rows() == [
        (datetime(2013, 2, 9), 393),
        (datetime(2013, 2, 8), 472),
    ]  # a blizzard


@pytest.mark.parametrize("hours", [1, 3, 24])
def test_weighted_by_their_flights_the_mean_delays_give_the_sum_of_all_delays(hours):
    flown = flights("scheduled", hours, CARRIERS).drop("time") - flights(
        "cancelled", hours, CARRIERS
    ).drop("time")
    minutes = (
        (flights("departure_delay", hours, CARRIERS).drop("time") * flown)
        .sum()
        .sum_horizontal()
        .item()
    )
    assert minutes == pytest.approx(4_152_200, rel=1e-12)  # 1e5 roundings of 1e-16 each


def test_arrival_delays_leave_out_flights_without_one():
    hour = flights("arrival_delay").filter(
        time=datetime(2013, 7, 10, 17)
    )  # ten flights of DL, all of which arrived
    assert hour["DL"].item() == pytest.approx(
        np.mean([93, 62, 101, 93, 24, 89, 59, -2, 218, 217])
    )
    assert hour["WN"].item() == (197 + 251) / 2  # and one that was cancelled


@pytest.mark.parametrize("hours", [1, 6, 24])
def test_a_mean_is_null_exactly_where_no_flight_departed(hours):
    flown = flights("scheduled", hours, CARRIERS).drop("time") - flights(
        "cancelled", hours, CARRIERS
    ).drop("time")
    delays = flights("departure_delay", hours, CARRIERS).drop("time")
    assert delays.select(pl.all().is_null()).equals(flown.select(pl.all() == 0))
    assert not delays.select(pl.any_horizontal(pl.all().is_nan().any())).item()


def test_carriers_come_in_the_order_asked_for():
    assert flights(carriers=["WN", "AA"]).columns == ["time", "WN", "AA"]
    assert flights(carriers=["WN", "AA"])["AA"].equals(flights()["AA"])


# Requests: counted and added up in the sources with the csv module.


def test_cache_requests_are_those_of_the_sampled_objects():
    frame = cache_requests()
    assert frame.schema == {"time": pl.Int64, "object": pl.Int64, "size": pl.Int64}
    assert frame["time"].is_sorted()
    assert (frame.height, frame["size"].sum(), frame["time"].max(), frame["time"].min()) == (
        112_004,
        27_330_962,
        5293,
        0,
    )
    assert frame["object"].value_counts(sort=True)["count"][:3].to_list() == [4860, 4699, 3728]


def test_objects_of_the_cache_are_numbered_as_they_appear_and_keep_their_size():
    objects = cache_requests()["object"].to_numpy()
    assert (objects <= np.concatenate(([-1], np.maximum.accumulate(objects)[:-1])) + 1).all()
    assert cache_requests().group_by("object").agg(pl.col("size").n_unique())["size"].max() == 1


@pytest.mark.parametrize(
    ("service", "requests", "prompt", "output", "last"),
    [
        ("conversation", 19_366, 22_361_870, 4_088_665, 3501.721937),
        ("code", 8_819, 18_059_974, 245_896, 3435.948056),
    ],
)
def test_llm_requests_are_all_of_a_service(service, requests, prompt, output, last):
    frame = llm_requests(service)
    assert frame.schema == {
        "time": pl.Float64,
        "prompt_tokens": pl.Int64,
        "output_tokens": pl.Int64,
    }
    assert frame["time"].is_sorted()
    assert (frame["time"][0], frame["time"][-1]) == (0.0, last)
    assert (frame.height, frame["prompt_tokens"].sum(), frame["output_tokens"].sum()) == (
        requests,
        prompt,
        output,
    )


def test_llm_requests_have_the_medians_of_the_paper():
    """Splitwise, section III: 1020 and 129 tokens for conversation, 1500 and 13 for code (in round numbers)."""
    median = {
        of: llm_requests(of).select("prompt_tokens", "output_tokens").median().row(0)
        for of in ("conversation", "code")
    }
    assert median == {"conversation": (1020.0, 129.0), "code": (1469.0, 13.0)}


@pytest.mark.parametrize("seconds", [1, 7.5, 60, 3000])
@pytest.mark.parametrize("service", ["conversation", "code"])
def test_intervals_hold_the_requests_that_came_in_them(service, seconds):
    single, frame = llm_requests(service).to_numpy(), llm_requests(service, seconds)
    edges = np.arange(len(frame) + 1) * seconds
    assert (
        edges[-1] <= single[-1, 0] < edges[-1] + seconds
    )  # whole intervals only, and all of them
    times, prompt, output = single[single[:, 0] < edges[-1]].T
    for name, weights in (
        ("requests", None),
        ("prompt_tokens", prompt),
        ("output_tokens", output),
    ):
        np.testing.assert_array_equal(frame[name], np.histogram(times, edges, weights=weights)[0])
    np.testing.assert_array_equal(frame["time"], edges[:-1])


# Prices, where skfolio is installed.


def test_stock_prices_are_positive_and_complete():
    pytest.importorskip("skfolio")
    frame = stock_prices()
    assert frame.schema["time"] == pl.Date
    assert set(frame.drop("time").dtypes) == {pl.Float64}
    assert (frame.height, frame.width) == (SOURCES["stock_prices"].rows, 21)
    assert frame["time"].is_sorted()
    assert frame["time"].n_unique() == frame.height
    assert frame.null_count().sum_horizontal().item() == 0
    assert frame.drop("time").min().min_horizontal().item() > 0.0


def test_price_relatives_grow_a_price_from_the_first_day_to_the_last():
    pytest.importorskip("skfolio")
    prices, relatives = stock_prices(), stock_prices("relative")
    assert relatives["time"].equals(prices["time"][1:])
    costs = LogWealthCosts(relatives.drop("time").to_numpy())
    assert (costs.T, costs.dim) == (prices.height - 1, 20)
    grown = prices["AAPL"][0] * relatives["AAPL"].product()
    assert grown == pytest.approx(
        prices["AAPL"][-1], rel=1e-11
    )  # 8 313 roundings of 1e-16 each, and room


# What is refused, and what is not installed.

REFUSED = {
    "measure must be one of 'departure_delay', 'arrival_delay', 'scheduled', 'cancelled', got 'delay'.": lambda: (
        flights("delay")
    ),
    "hours must be an integer of at least 1, got 0.": lambda: flights(hours=0),
    "hours must be 1, 2, 3, 4, 6, 8, 12 or 24, got 5.": lambda: flights(hours=5),
    "carriers must have at least one carrier, and each of them once, got [].": lambda: flights(
        carriers=[]
    ),
    "carriers must have at least one carrier, and each of them once, got ['UA', 'UA'].": lambda: (
        flights(carriers=["UA", "UA"])
    ),
    "service must be one of 'conversation', 'code', got 'chat'.": lambda: llm_requests("chat"),
    "seconds must be above 0, got -1.": lambda: llm_requests(seconds=-1),
    "seconds must be between 0.001 and 3501, got 7200.": lambda: llm_requests(seconds=7200),
    "measure must be one of 'price', 'relative', got 'volume'.": lambda: stock_prices("volume"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_wrong_arguments_are_refused_in_one_sentence(message):
    with pytest.raises(InvalidInput) as refused:
        REFUSED[message]()
    assert str(refused.value) == message


def test_an_unknown_carrier_is_refused_with_those_there_are():
    with pytest.raises(
        InvalidInput,
        match=(
            "carrier must be one of 'UA', 'B6', 'EV', 'DL', 'AA', 'MQ', 'US', '9E', 'WN', 'VX', 'FL', 'AS', "
            r"'F9', 'YV', 'HA', 'OO', got 'LH'."
        ),
    ):
        flights(carriers=["UA", "LH"])


@pytest.mark.parametrize("name", SOURCES)
def test_without_polars_one_is_told_what_to_install(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError) as missing:
        getattr(klazy.datasets, name)()
    assert (
        str(missing.value)
        == f"{name} needs polars, which is not installed. Run: {advise_install('cli')}"
    )


def test_without_skfolio_one_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "skfolio.datasets", None)
    with pytest.raises(ImportError) as missing:
        stock_prices()
    assert (
        str(missing.value)
        == f"stock_prices needs skfolio, which is not installed. Run: {advise_install('datasets')}"
    )
