"""Tuning: who pays least on the first part is who is scored on the second, in pieces as in one."""

from functools import partial

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from klazy.studies.tuning import (
    Tunable,
    find_quantile,
    list_points,
    rank,
    refine_values,
    score,
    search,
    tune,
)


def test_the_quantile_of_twenty_stretches_is_that_of_scipy():
    assert find_quantile(19) == stdtrit(19, 0.975)
    assert find_quantile(7) == stdtrit(7, 0.975)


class Shift:
    """Plays a level that drifts, so that it matters where it goes on from."""

    def __init__(self, level: float, drift: float = 0.0) -> None:
        self.level = level
        self.drift = drift

    @property
    def x(self):
        return np.array([self.level])

    def play(self, rows):
        points = self.level + self.drift * np.arange(len(rows) + 1.0)
        self.level = points[-1]
        return points[:-1, None]


def charge(rows, path):
    """The squared distance from each row, and half the way from point to point."""
    moved = np.abs(np.diff(path, axis=0)).sum(axis=1)
    return ((path[:-1] - rows) ** 2).sum(axis=1), moved / 2.0


LEVELS = np.linspace(0.5, 8.0, 16).tolist()
traces = st.lists(st.floats(0.0, 9.0), min_size=6, max_size=30).map(
    lambda values: np.array(values)[:, None]
)


@given(rows=traces)
def test_the_best_is_the_cheapest_of_all_that_were_tried(rows):
    tunable = Tunable("constant", "simple", Shift, {"level": LEVELS})
    found = tune(tunable, rows, charge)
    first = min(LEVELS, key=lambda level: ((level - rows) ** 2).sum())
    level = found.parameters["level"]
    assert ((level - rows) ** 2).sum() <= ((first - rows) ** 2).sum()
    assert found.candidates == 2 * len(LEVELS)
    assert found.player.x == [level]


def test_whole_numbers_stay_whole_when_they_are_refined():
    assert refine_values([1, 4, 16], 4) == [1, 4, 16]
    assert refine_values([1, 4, 16], 1) == [1, 2, 4]


def test_a_search_finds_the_same_from_lists_and_arrays():
    axes = {"a": [1.0, 4.0, 16.0], "b": [1, 2, 4, 8]}

    def pay(points):
        return [abs(point["a"] - 7.0) + abs(point["b"] - 3) for point in points]

    points, best = search(axes, pay)
    assert search(axes, lambda points: np.array(pay(points))) == (points, best)
    assert best == int(np.argmin(pay(points)))
    assert points[:12] == list_points(axes)


def test_a_parameter_at_the_end_of_what_was_tried_is_at_its_grid_limit():
    tunable = Tunable("constant", "simple", Shift, {"level": LEVELS})
    inside = tune(tunable, np.full((9, 1), 3.0), charge)
    outside = tune(tunable, np.full((9, 1), 99.0), charge)
    assert inside.at_limit == []
    assert outside.at_limit == ["level"]
    assert (
        tune(
            Tunable("plain", "simple", partial(Shift, 2.0), {}), np.ones((3, 1)), charge
        ).at_limit
        == []
    )


@given(rows=traces, later=traces, every=st.integers(1, 7), cut=st.integers(1, 5))
def test_scores_are_the_same_in_pieces_and_go_on_from_the_tuning(rows, later, every, cut):
    tunables = [
        Tunable("constant", "simple", Shift, {"level": LEVELS}),
        Tunable("drifting", "lazy", partial(Shift, drift=0.1), {"level": LEVELS}),
    ]
    edges = [0, 3, len(later)]
    whole = score([tune(each, rows, charge) for each in tunables], [later], edges, charge, every)
    pieces = [piece for piece in np.split(later, [cut, cut + 2]) if len(piece)]
    parts = score([tune(each, rows, charge) for each in tunables], pieces, edges, charge, every)
    for one, other in zip(whole, parts, strict=True):
        assert one.name == other.name
        np.testing.assert_allclose(one.stretches, other.stretches, rtol=1e-12)
        np.testing.assert_allclose(one.points, other.points, rtol=1e-12)
        np.testing.assert_allclose(one.stretches.sum(), one.cost)
        assert len(one.points) == -(-len(later) // every)
    (drifting,) = (each for each in whole if each.name == "drifting")
    last = drifting.parameters["level"] + 0.1 * len(rows)
    np.testing.assert_allclose(drifting.points[0], last)
    np.testing.assert_allclose(drifting.began.x, last)
    np.testing.assert_allclose(
        drifting.curve[-1], drifting.cost if every == 1 else drifting.curve[-1]
    )
    assert drifting.moves == len(later)


def test_who_differs_by_rounding_alone_stays_where_it_was():
    tunable = Tunable("constant", "simple", Shift, {"level": [1.0]})
    rows = np.zeros((4, 1))
    one, other = score([tune(tunable, rows, charge) for _ in range(2)], [rows], [0, 4], charge)
    other.hitting -= 1e-13
    assert one.ties_with(other)
    assert rank([one, other]) == [one, other]
    other.hitting -= 1.0
    assert rank([one, other]) == [other, one]
