"""Bayes' rule for the arena's games: the dynamic program is what trying every decision gives, and signals are the suite's."""

from functools import cache

import numpy as np
import pytest

from klazy.studies.arena.suite import Entry
from klazy.studies.bayes import (
    FAMILIES,
    Signal,
    find_signal,
    make_filter,
    plan_switches,
    play_bayes,
)

ENDS = (-1.0, -0.4, 0.0, 0.7, 1.0)


@pytest.mark.parametrize(
    "signal",
    [
        Signal(first=1.0, keep=1.0, step=0.0, noise=1.0),
        Signal(first=0.4, keep=1.0, step=0.5, noise=0.5),
        Signal(first=0.6, keep=0.8, step=0.6, noise=0.5),
    ],
)
@pytest.mark.parametrize("price", [0.3, 0.9])
def test_the_plan_costs_what_the_best_of_all_decisions_costs(signal, price):
    """On a tree of four rounds, in which an error of the forecast has three values and decisions five."""
    T = 4
    known = make_filter(signal, T)
    values, shares = np.polynomial.hermite_e.hermegauss(3)
    shares = shares / shares.sum()
    bounds = plan_switches(signal, T, price, nodes=3)

    def follow(t, mean):
        return signal.keep * (mean + known.gains[t] * known.errors[t] * values)

    @cache
    def cost(t, mean, x, planned):
        if t == T:
            return 0.0
        choices = ENDS
        if planned:
            choices = [-1.0] if mean > bounds[t] else [1.0] if mean < -bounds[t] else [x]
        later = follow(t, mean)
        return min(
            u * mean
            + price * abs(u - x)
            + sum(p * cost(t + 1, m, u, planned) for p, m in zip(shares, later, strict=True))
            for u in choices
        )

    for mean in (-0.8, -0.1, 0.0, 0.3, 1.5):
        for x in (-1.0, 0.0, 1.0):
            assert cost(0, mean, x, True) == pytest.approx(cost(0, mean, x, False), abs=1e-9)
    assert cost(0, 0.3, 0.0, True) < cost(0, 0.3, 0.0, False) + 1e-9 < price * T


@pytest.mark.parametrize("family", FAMILIES)
def test_forecasts_are_as_wrong_as_the_filter_says(family):
    """If the signal were not the suite's, errors would be larger or smaller than the filter expects."""
    entry = Entry(family, "box", 1.0, 3, 4000)
    rows = entry.make().costs.arrays()[0]
    signal = find_signal(entry)
    known = make_filter(signal, len(rows))
    mean = np.zeros(rows.shape[1])
    errors = []
    for t, row in enumerate(rows):
        errors.append((row - mean) / known.errors[t])
        mean = signal.keep * (mean + known.gains[t] * (row - mean))
    # Five times 4000 independent standard normal numbers.
    assert np.mean(np.square(errors)) == pytest.approx(1.0, abs=0.04)
    together = np.mean(np.array(errors[1:]) * np.array(errors[:-1]))
    assert together == pytest.approx(0.0, abs=0.03)


def test_it_moves_between_the_ends_and_less_where_moving_costs_more():
    moved = []
    for price in (0.3, 30.0):
        game = Entry("AR(1)", "box", price, 3, 400).make()
        points = play_bayes(game, 1.0)
        assert set(np.unique(points)) <= {-1.0, 0.0, 1.0}
        moved.append(np.abs(np.diff(points, axis=0)).sum())
    assert moved[0] > 5.0 * moved[1]
