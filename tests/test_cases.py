"""The examples that other tests share: what is tried in pairs is tried in every pair."""

from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from cases import cover_pairs

FACTORS = st.lists(st.integers(1, 6), min_size=2, max_size=5).map(
    lambda sizes: [
        [f"{factor}{i}" for i in range(size)]
        for factor, size in zip("abcde", sizes, strict=False)
    ]
)


@given(FACTORS)
def test_any_two_values_of_two_factors_share_a_row(factors):
    rows = cover_pairs(*factors)
    for (one, first), (other, second) in combinations(enumerate(factors), 2):
        assert {(row[one], row[other]) for row in rows} == set(product(first, second))


@given(FACTORS)
def test_rows_are_few_and_always_the_same(factors):
    rows = cover_pairs(*factors)
    assert rows == cover_pairs(*factors)
    assert len(rows) == len(set(rows))
    sizes = sorted(map(len, factors))
    assert sizes[-1] * sizes[-2] <= len(rows) <= 2 * sizes[-1] * sizes[-2]
