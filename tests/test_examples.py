"""The worked examples: short, tuned on their first part alone, nobody below the certified bound, exact where they say so."""

import ast
import importlib.util
import io
import tokenize
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from klazy.datasets import CARRIERS, flights

FOLDER = Path(__file__).parents[1] / "examples"
SMALL = {
    "caching": {"every": 64, "shares": (0.1,), "prices": (0.1, 1.0)},
    "carriers": {"prices": (10.0,), "days": 120},
    "portfolio": {"since": 2020},
    "right_sizing": {},
}
LOADERS = {
    "caching": "cache_requests",
    "carriers": "flights",
    "portfolio": "stock_prices",
    "right_sizing": "llm_requests",
}
ROUNDED = 0.0005  # the bounds are printed with three digits
LONG = {"carriers": [pytest.mark.long]}  # the others show the same ways of tuning and scoring
every_example = pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            path.stem, marks=[pytest.mark.xdist_group(path.stem), *LONG.get(path.stem, [])]
        )
        for path in sorted(FOLDER.glob("*.py"))
    ],
)


@cache
def example(name):
    """The module, where what it needs is installed."""
    if name == "portfolio":
        pytest.importorskip("skfolio")
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def table(name):
    return example(name).main(**SMALL[name])


def cases(name):
    """The table's cases, each with the certified bound of its optimum."""
    frame = table(name)
    keys = frame.columns[: frame.columns.index("contender")]
    for rows in frame.partition_by(keys) if keys else [frame]:
        optimum = rows.row(by_predicate=pl.col("contender") == "optimum", named=True)
        yield rows, float(optimum["chosen"].removeprefix("nobody below "))


def code_lines(source):
    """The lines that hold code: no comments, no docstrings, no blanks."""
    silent = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    words = [
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in silent
    ]
    nodes = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
    ]
    said = [node.body[0] for node in nodes if ast.get_docstring(node) is not None]
    texts = {line for text in said for line in range(text.lineno, (text.end_lineno or 0) + 1)}
    return {line for word in words for line in range(word.start[0], word.end[0] + 1)} - texts


def test_lines_of_code_are_counted_without_words():
    assert code_lines(
        '"""Says\nwhat."""\n\n# why\nx = (\n    1\n)  # here\n\n\ndef f():\n    """What."""\n'
    ) == {5, 6, 7, 10}


def test_every_example_is_looked_at_here():
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == sorted(SMALL) == sorted(LOADERS)


@every_example
def test_every_example_is_short_and_says_what_moving_costs(name):
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert len(code_lines(source)) < 90
    about = ast.get_docstring(ast.parse(source)) or ""
    assert all(
        word in about
        for word in (
            "You decide on",
            "costs",
            "ook at",
            "first half" if name != "carriers" else "January to June",
        )
    )


@every_example
def test_nobody_pays_less_than_the_certified_bound(name):
    for rows, bound in cases(name):
        assert rows["total"].min() >= bound - ROUNDED
        assert rows.height == rows["contender"].n_unique() > 4


@every_example
def test_the_total_is_what_was_paid_for_the_costs_and_for_moving(name):
    frame = table(name)
    np.testing.assert_allclose(frame["hitting"] + frame["switching"], frame["total"], rtol=1e-12)
    assert frame["switching"].min() >= 0.0


@every_example
def test_what_happens_in_the_second_part_changes_no_choice(name, monkeypatch):
    module, load = example(name), getattr(example(name), LOADERS[name])
    choices = [table(name)]  # before anything is changed

    def otherwise(*arguments, **options):
        frame = load(*arguments, **options)
        if name == "carriers":
            frame = frame.head(SMALL[name]["days"])
        if name == "portfolio":
            frame = frame.filter(pl.col("time").dt.year() >= SMALL[name]["since"])
        return pl.concat(
            (frame.head(-(frame.height // 5)), frame.tail(frame.height // 5).reverse())
        )

    monkeypatch.setattr(module, LOADERS[name], otherwise)
    choices.append(module.main(**SMALL[name]))
    known, found = (frame.filter(pl.col("contender") != "optimum") for frame in choices)
    assert found["chosen"].to_list() == known["chosen"].to_list()
    assert found["total"].to_list() != known["total"].to_list()


@every_example
def test_the_script_prints_its_table_and_says_who_wins(name, capsys):
    block = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8")).body[-1]
    assert isinstance(block, ast.If)
    with pl.Config():
        exec(
            compile(ast.Module(block.body, []), name, "exec"),
            {**vars(example(name)), "main": lambda: table(name)},
        )
    printed = capsys.readouterr().out
    assert all(contender in printed for contender in table(name)["contender"])
    assert max(map(len, printed.splitlines()[: table(name).height])) <= 140
    assert {"caching": "pays least", "portfolio": "Clearly ahead"}.get(
        name, "the lowest total has"
    ) in printed


# Caching, against caches written as plainly as possible.


def plain_lru(requests, capacity):
    """The items held before each request, most recent last."""
    held, before = [], []
    for item in requests:
        before.append(list(held))
        held = [other for other in held if other != item] + [item]
        held = held[-capacity:]
    return before


def plain_s3_fifo(requests, capacity):
    """The items held before each request."""
    tenth = max(1, capacity // 10)
    small, main, ghost, asked, before = [], [], [], {}, []
    for item in requests:
        before.append(small + main)
        if item in small or item in main:
            asked[item] = min(3, asked[item] + 1)
            continue
        while len(small) + len(main) == capacity:
            if len(small) >= tenth:
                oldest = small.pop(0)
                if asked[oldest] > 1:
                    asked[oldest] = 0
                    main.append(oldest)
                else:
                    ghost = [*ghost, oldest][max(0, len(ghost) + 1 - (capacity - tenth)) :]
            else:
                oldest = main.pop(0)
                if asked[oldest] > 0:
                    asked[oldest] -= 1
                    main.append(oldest)
        if item in ghost:
            ghost.remove(item)
            main.append(item)
        else:
            small.append(item)
        asked[item] = 0
    return before


POLICIES = pytest.mark.parametrize(
    ("rule", "plain"), [("lru", plain_lru), ("s3_fifo", plain_s3_fifo)], ids=["LRU", "S3-FIFO"]
)
requested = st.lists(st.integers(0, 12), min_size=1, max_size=120)


@POLICIES
@given(requests=requested, capacity=st.integers(1, 9))
def test_caches_miss_what_a_plain_one_misses(rule, plain, requests, capacity):
    missed = [
        item not in held for item, held in zip(requests, plain(requests, capacity), strict=True)
    ]
    assert getattr(example("caching"), rule)(requests, capacity).tolist() == missed


@POLICIES
def test_larger_caches_miss_what_a_plain_one_misses(rule, plain):
    requests = np.random.default_rng(1).zipf(1.2, 4000) % 500
    for capacity in (20, 57):
        missed = [
            item not in held
            for item, held in zip(requests, plain(requests, capacity), strict=True)
        ]
        assert getattr(example("caching"), rule)(requests, capacity).tolist() == missed


@POLICIES
@given(requests=requested, capacity=st.integers(1, 9))
def test_caches_pay_as_sequences_of_points_do(rule, plain, requests, capacity):
    """A miss costs 1 and an object brought in its price: the same as the cache's contents, as points, are charged."""
    contents = [*plain([*requests, 0], capacity)]
    x = np.array([[float(item in held) for item in range(13)] for held in contents])
    missed = getattr(example("caching"), rule)(requests, capacity).sum()
    assert len(requests) - x[np.arange(len(requests)), requests].sum() == missed
    assert kl.contrib.AsymmetricMovement(0.5, up=1.0, down=0.0).paid(x).sum() == 0.5 * missed


# Portfolio: wealth day by day, by bisection.


def left_after_trading(wanted, before, fee):
    """The share of wealth that is left when shares are traded from ``before`` to ``wanted`` and the fee is paid from it."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        paid = fee * sum(abs(middle * to - at) for to, at in zip(wanted, before, strict=True))
        low, high = (middle, high) if middle + paid < 1.0 else (low, middle)
    return low


@given(seed=st.integers(0, 2**16), fee=st.sampled_from([0.0, 0.001, 0.01]))
def test_exact_is_what_a_simulation_of_wealth_pays(seed, fee):
    rng = np.random.default_rng(seed)
    x, r = rng.dirichlet(np.ones(4), 20), np.exp(rng.normal(0.0, 0.05, (20, 4)))
    wealth, before, logs = 1.0, x[0], []
    for today, relative in zip(x, r, strict=True):
        after = wealth * left_after_trading(today, before, fee) * today * relative
        logs.append(-np.log(after.sum() / wealth))
        wealth, before = after.sum(), after / after.sum()
    # Six steps that each leave at most two fees of the error, which is two fees at first; bisection leaves 1e-18.
    np.testing.assert_allclose(
        example("portfolio").exact(x, r, fee), logs, atol=(2 * fee) ** 7 + 1e-14, rtol=0.0
    )


def test_buy_and_hold_pays_no_fee_and_constant_rebalancing_does():
    frame = table("portfolio")
    rows = {row["contender"]: row for row in frame.to_dicts()}
    assert rows["buy and hold"]["exact"] == pytest.approx(
        rows["buy and hold"]["hitting"], abs=1e-12
    )
    assert rows["rebalanced"]["switching"] == 0.0
    assert rows["rebalanced"]["exact"] > rows["rebalanced"]["hitting"]


# What the others say of themselves.


def test_us_airways_is_the_most_punctual_of_the_eight_in_every_month_and_no_day_is_missing():
    days = flights(hours=24, carriers=CARRIERS[:9])
    assert days.null_count().sum_horizontal().item() == 0
    months = (
        days.group_by(pl.col("time").dt.month())
        .agg(pl.exclude("time").mean())
        .drop("time")
        .to_numpy()
    )
    assert months.shape == (12, 9)
    assert (months.argmin(axis=1) == CARRIERS.index("US")).all()


def test_where_there_is_room_right_sizing_is_greedy_with_the_same_sigma():
    rows = table("right_sizing").filter(pl.col("room") == 2.0, pl.col("binds").is_not_null())
    assert rows["binds"].max() == 0.0
    np.testing.assert_allclose(
        rows["total"], rows["greedy"], rtol=1e-9
    )  # sums of 175 rounds, in another order
    assert (table("right_sizing").filter(pl.col("binds") > 0.0)["room"] == 1.0).all()
