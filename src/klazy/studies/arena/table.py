"""The results of a suite: ratios of costs above the optimum, ranks, and games that went badly."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from klazy.base.checks import Array, one_of
from klazy.base.html import load_macros, show_card
from klazy.base.tables import Tabular
from klazy.studies.arena.suite import SUITE_VERSION, Entry, list_games
from klazy.studies.contenders import FIXED, SELF_TUNING, TUNED, Contender

if TYPE_CHECKING:
    from klazy.show import Figure

# This share of the spread of a game's costs is added to every cost above the optimum: ratios of less mean nothing.
FLOOR = 1e-3
# A game counts as lost from this multiple of the best tuned contender on.
CLEARLY = 1.02
# A game is named from this multiple of what never moving pays above the optimum on.
WORSE = 1.05
# In per cent of the spread: if never moving is this near to the optimum, a game has nothing to gain.
CONTENT = 1.0
# Draws of the bootstrap.
DRAWS = 2000
LEVEL = 0.05
Row = dict[str, Any]


@dataclass(frozen=True)
class GameScore:
    """The costs of a contender on the second half, with the parameters that were best on the first.

    ``first`` is its cost there, ``hindsight`` the least cost on the second half of all ``candidates``.
    """

    first: float
    hitting: float
    switching: float
    hindsight: float
    candidates: int
    parameters: dict[str, float]

    @property
    def cost(self) -> float:
        return self.hitting + self.switching


@dataclass(frozen=True)
class GameOptimum:
    """The certified optimum of the second half, which may begin anywhere; no cost is below ``lower_bound``."""

    hitting: float
    switching: float
    lower_bound: float
    gap: float

    @property
    def cost(self) -> float:
        return self.hitting + self.switching


class PlayedGame(NamedTuple):
    """A game with the scores of all contenders; ``scale`` is the spread of all costs that were scored."""

    entry: Entry
    scale: float
    best: GameOptimum
    outcomes: dict[str, GameScore]


@dataclass(frozen=True, eq=False)
class Arena(Tabular):
    """A played suite: the costs of each contender in every game. :func:`compare` and :func:`play_suite` make it.

    Parameters
    ----------
    games : list of PlayedGame
        The games.
    contenders : list of Contender
        Who played.
    seed : int, optional
        The first seed of the synthetic games. Default: 0.
    quick : bool, optional
        Whether it was a quick look. Default: False.
    only : tuple of str, optional
        The families that were played. Default: all.
    micros : dict of str to float, optional
        Microseconds of a round, by contender.
    missing : dict of str to str, optional
        What was not played, and why.
    suite : str, optional
        The version of the suite. Default: the newest.
    """

    games: list[PlayedGame]
    contenders: list[Contender]
    seed: int = 0
    quick: bool = False
    only: tuple[str, ...] = ()
    micros: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    suite: str = SUITE_VERSION

    @property
    def names(self) -> list[str]:
        """The contenders, in the order of the columns of :attr:`above` and :attr:`ratios`."""
        return [contender.name for contender in self.contenders]

    def by_name(self, values: Array) -> dict[str, float]:
        """Name a value of each contender.

        Parameters
        ----------
        values : array
            The values, in the order of :attr:`names`.

        Returns
        -------
        dict of str to float
            The values by name.
        """
        return dict(zip(self.names, values.tolist(), strict=True))

    def _collect(self, name: str) -> Array:
        """Return a number of every outcome, of shape (games, contenders)."""
        return np.array(
            [[getattr(game.outcomes[each], name) for each in self.names] for game in self.games]
        )

    @cached_property
    def _scales(self) -> Array:
        """The spread of the costs of every game, of shape (games, 1)."""
        return np.array([[game.scale] for game in self.games])

    def _above_optimum(self, costs: Array) -> Array:
        """Return costs of every game above the optimum, and never below it, plus the floor."""
        optimum = np.array([[game.best.cost] for game in self.games])
        return np.maximum(costs - optimum, 0.0) + FLOOR * self._scales

    @cached_property
    def above(self) -> Array:
        """Cost above the optimum with the floor, of shape (games, contenders)."""
        return self._above_optimum(self._collect("cost"))

    @cached_property
    def _tuned(self) -> list[int]:
        return [at for at, contender in enumerate(self.contenders) if contender.kind == TUNED]

    @cached_property
    def best_tuned(self) -> Array:
        """The least of all tuned contenders in every game."""
        return self.above[:, self._tuned].min(axis=1)

    @cached_property
    def picked(self) -> Array:
        """The cost of the tuned contender that was best on the first half: the one that a user would have picked."""
        best = self._collect("first")[:, self._tuned].argmin(axis=1)
        return self.above[np.arange(len(self.games)), np.array(self._tuned)[best]]

    @cached_property
    def hindsight(self) -> Array:
        """The least of all candidates of all tuned contenders, chosen on the very rounds that are scored."""
        least = self._collect("hindsight")[:, self._tuned].min(axis=1, keepdims=True)
        return self._above_optimum(least)[:, 0]

    @cached_property
    def ratios(self) -> Array:
        """Cost above the optimum, relative to the best tuned contender, of shape (games, contenders)."""
        return self.above / self.best_tuned[:, None]

    @cached_property
    def sequences(self) -> NDArray[np.int64]:
        """The number of the sequence of each game: games of one sequence differ in price alone."""
        names = [game.entry.sequence for game in self.games]
        known = list(dict.fromkeys(names))
        return np.array([known.index(name) for name in names])

    @property
    def sequence_count(self) -> int:
        """The number of sequences, which count in tests: games of one sequence are not independent."""
        return int(self.sequences[-1]) + 1

    def bootstrap(self, logs: Array) -> tuple[float, float]:
        """Compute the 95 % interval of a geometric mean; whole sequences are drawn, because their games are alike.

        Parameters
        ----------
        logs : array
            The logarithms, one per game.

        Returns
        -------
        low : float
            The lower end.
        high : float
            The upper end.
        """
        sums = np.bincount(self.sequences, logs)
        sizes = np.bincount(self.sequences)
        drawn = np.random.default_rng(0).integers(
            self.sequence_count, size=(DRAWS, self.sequence_count)
        )
        means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
        low, high = np.exp(np.quantile(means, (0.025, 0.975))).tolist()
        return low, high

    def rank(self) -> list[Row]:
        """Rank the contenders: geometric means of ratios, and how often and where each loses.

        Returns
        -------
        list of dict
            A row for each contender, the best first.
        """
        rows = [self._summarize(at) for at in range(len(self.contenders))]
        return sorted(rows, key=lambda row: row["best_tuned"])

    def _summarize(self, at: int) -> Row:
        """Return the row of a contender in the ranking."""
        contender = self.contenders[at]
        above = self.above[:, at]
        ratios = self.ratios[:, at]
        low, high = self.bootstrap(np.log(ratios))
        worst = int(ratios.argmax())
        return {
            "contender": contender.name,
            "told": contender.kind,
            "best_tuned": average_ratios(ratios),
            "low": low,
            "high": high,
            "picked": average_ratios(above / self.picked),
            "hindsight": average_ratios(above / self.hindsight),
            "worse_by_2_%": float((ratios > CLEARLY).mean()),
            "within_2_%": float((above <= CLEARLY * self.above.min(axis=1)).mean()),
            "rank": float(self.average_ranks[at]),
            "worst_ratio": float(ratios[worst]),
            "worst_game": self.games[worst].entry.name,
            "us_per_round": self.micros.get(contender.name),
        }

    @cached_property
    def average_ranks(self) -> Array:
        """The rank of every contender, averaged over games."""
        from scipy.stats import rankdata

        return rankdata(self.above, axis=1).mean(axis=0)

    def find_critical_difference(self) -> float:
        """Compute Nemenyi's critical difference: average ranks that differ by less may be luck.

        Returns
        -------
        float
            The difference; sequences count, not games, which are not independent.
        """
        from scipy.stats import studentized_range

        k = len(self.contenders)
        scale = np.sqrt(k * (k + 1) / (6.0 * self.sequence_count))
        return float(studentized_range.ppf(1.0 - LEVEL, k, np.inf) / np.sqrt(2.0)) * scale

    def test_ranks(self) -> float:
        """Compute Friedman's probability that ranks as different as these are luck; sequences count, not games.

        Returns
        -------
        float
            The probability.
        """
        from scipy.stats import chi2

        k = len(self.contenders)
        scale = 12.0 * self.sequence_count / (k * (k + 1))
        statistic = scale * ((self.average_ranks - (k + 1) / 2.0) ** 2).sum()
        return float(chi2.sf(statistic, k - 1))

    def restrict(self, games: "Sequence[Entry] | None" = None, suite: str = "") -> "Arena":
        """Keep some of the games, or those games and contenders that an earlier version of the suite has.

        Parameters
        ----------
        games : sequence of Entry, optional
            The games to keep. Default: those of the suite.
        suite : str, optional
            The version of the suite. Default: that which was played.

        Returns
        -------
        Arena
            A smaller one, with the same costs.
        """
        suite = suite or self.suite
        kept = list_games(self.seed, quick=self.quick, suite=suite) if games is None else games
        return replace(
            self,
            games=[game for game in self.games if game.entry in kept],
            contenders=[each for each in self.contenders if int(each.since) <= int(suite)],
            suite=suite,
        )

    def group(self, key: str) -> list[Row]:
        """Average the ratios of groups of games.

        Parameters
        ----------
        key : str
            What groups them: ``"family"``, ``"place"`` or ``"price"``.

        Returns
        -------
        list of dict
            A row for each group, with a column for every contender.
        """
        values = [getattr(game.entry, key) for game in self.games]
        rows = []
        for value in dict.fromkeys(values):
            own = np.array([each == value for each in values])
            row = {
                key: f"{value:g}" if isinstance(value, float) else value,
                "games": int(own.sum()),
            }
            row |= {
                name: average_ratios(self.ratios[own, at]) for at, name in enumerate(self.names)
            }
            rows.append(row)
        return rows

    def list_worse_than_fixed(self) -> list[Row]:
        """List the games in which a self-tuned contender, or your own, is clearly worse than never moving.

        Returns
        -------
        list of dict
            The games, the worst first. Shares are of the spread: what there was to be gained above never moving, what the
            contender paid for moving, and how much less its rounds cost for it, which is negative where its points were worse.
        """
        if FIXED not in self.names:
            return []
        still = self.above[:, self.names.index(FIXED)]
        rows = []
        for at, contender in enumerate(self.contenders):
            if contender.kind not in SELF_TUNING:
                continue
            for i in np.flatnonzero(self.above[:, at] > WORSE * still):
                game = self.games[i]
                played = game.outcomes[contender.name]
                gained = game.outcomes[FIXED].hitting - played.hitting
                rows.append(
                    {
                        "contender": contender.name,
                        "game": game.entry.name,
                        "against_never_moving": float(self.above[i, at] / still[i]),
                        "to_be_gained_%": 100.0 * float(still[i] / game.scale - FLOOR),
                        "paid_for_moving_%": 100.0 * played.switching / game.scale,
                        "gained_by_moving_%": 100.0 * gained / game.scale,
                    }
                )
        return sorted(rows, key=lambda row: -row["against_never_moving"])

    def average_payments(self) -> tuple[dict[str, float], dict[str, float], tuple[float, float]]:
        """Average what contenders paid over games, in shares of the spread.

        Returns
        -------
        switching : dict of str to float
            Switching, by contender.
        hitting : dict of str to float
            Hitting above the optimum's.
        optimum : tuple of float
            The optimum's own.
        """
        optimum = np.array([[game.best.switching, game.best.hitting] for game in self.games])
        switching = (self._collect("switching") / self._scales).mean(axis=0)
        hitting = ((self._collect("hitting") - optimum[:, 1:]) / self._scales).mean(axis=0)
        moved = float((optimum[:, :1] / self._scales).mean())
        return self.by_name(switching), self.by_name(hitting), (moved, 0.0)

    def to_dict(self) -> Row:
        """Give everything as one object that JSON holds.

        Returns
        -------
        dict
            Games, ranking and groups.
        """
        games = []
        for game in self.games:
            about = {"game": game.entry.name, **game.entry._asdict(), "scale": game.scale}
            paid = {name: game.outcomes[name].cost - game.best.cost for name in self.names}
            games.append(
                about | {"optimum": game.best.cost, "gap": game.best.gap, "above_optimum": paid}
            )
        return {
            "suite": self.suite,
            "seed": self.seed,
            "quick": self.quick,
            "only": list(self.only),
            "games": games,
            "ranking": self.rank(),
            "by_family": self.group("family"),
            "by_price": self.group("price"),
            "critical_difference": self.find_critical_difference(),
            "worse_than_never_moving": self.list_worse_than_fixed(),
            "not_played": self.missing,
        }

    def list_rows(self) -> list[Row]:
        return self.rank()

    def plot(self, kind: str = "ratios") -> "Figure":
        """Draw the arena.

        Parameters
        ----------
        kind : str, optional
            ``"ratios"``: cost above the optimum, with intervals. ``"ranks"``: average ranks, and which may be luck.
            ``"pareto"``: operating cost over switching cost. ``"games"``: every contender in every game.

        Returns
        -------
        Figure
            A matplotlib figure.
        """
        from klazy.studies.arena.page import ARENA_FIGURES

        return ARENA_FIGURES[one_of(kind, "kind", tuple(ARENA_FIGURES))](self)

    def __repr__(self) -> str:
        best = self.rank()[0]
        return f"Arena({len(self.games)} games, {len(self.contenders)} contenders, best: {best['contender']})"

    def __str__(self) -> str:
        lines = [
            f"{'contender':20}{'best tuned':>12}{'picked':>9}{'hindsight':>11}{'lost by 2 %':>13}"
        ]
        for row in self.rank():
            shares = f"{row['best_tuned']:12.3f}{row['picked']:9.3f}{row['hindsight']:11.3f}"
            lines.append(f"{row['contender']:20}{shares}{row['worse_by_2_%']:13.0%}")
        return "\n".join(lines)

    @show_card
    def _repr_html_(self) -> str:
        parts = load_macros()
        about = f"suite {self.suite}, {len(self.games)} games"
        return parts.card("Arena", about, parts.table(shorten_ranking(self.rank()), 3))


def average_ratios(ratios: Array) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.log(ratios).mean()))


def shorten_ranking(ranking: Sequence[Row]) -> list[Row]:
    """Return the ranking for a table: shares in per cent, an interval in one cell."""
    return [
        {
            "contender": row["contender"],
            "told": row["told"],
            "best tuned = 1": round(row["best_tuned"], 3),
            "95 % interval": f"{row['low']:.2f} to {row['high']:.2f}",
            "picked = 1": round(row["picked"], 3),
            "hindsight = 1": round(row["hindsight"], 3),
            "lost by 2 %": f"{row['worse_by_2_%']:.0%}",
            "among the best": f"{row['within_2_%']:.0%}",
            "rank": round(row["rank"], 2),
            "worst": f"{row['worst_ratio']:.3g} in {row['worst_game']}",
            "us a round": row["us_per_round"] and round(row["us_per_round"], 2),
        }
        for row in ranking
    ]
