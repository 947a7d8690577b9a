"""Shares over states by mirror descent on a tree of clusters, with a proved ratio."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array, InvalidInput, non_negative, positive
from klazy.contrib.learners.states import StatesRule
from klazy.movement import Movement
from klazy.sets import ConvexSet

# How many times wider a cluster is than those in it, at the least; 1 makes no clusters.
NARROWINGS = (1.0, 2.0, 4.0, 8.0, 16.0)
MULTIPLIER_STEPS = 100  # some ten are needed


class Cluster(NamedTuple):
    """A node of a tree: its parts, which are states or clusters, and how far each is from its middle.

    Parameters
    ----------
    parts : array of int
        The states, by their numbers, and the clusters, numbered from n on.
    width : float
        The length of the way between a part and the cluster.
    share : array
        The share of its states that each part has: theta.
    eta : array
        How quickly each part gives in: 1 + log(1 / theta).
    """

    parts: np.ndarray
    width: float
    share: Array
    eta: Array

    @property
    def delta(self) -> Array:
        """What is added to the share of each part: theta / eta."""
        return self.share / self.eta

    def respond(self, costs: Array, q: Array, rate: float) -> tuple[Array, float]:
        """Minimise the cost of shares plus their divergence from ``q``; return the shares and the minimum."""
        least = float(costs.min())
        costs = costs - least
        delta = self.delta
        slopes = rate * self.eta / self.width
        before = q + delta
        total = before.sum()
        # Shares of this level sum to at least 1, and are a convex function of it: no step of Newton's goes too far.
        level = float((costs + np.log((1.0 + delta) / before) / slopes).min())
        after = before
        for _ in range(MULTIPLIER_STEPS):
            after = np.maximum(before * np.exp(slopes * (level - costs)), delta)
            lower = level - (after.sum() - total) / (slopes * after)[after > delta].sum()
            if not lower < level:
                break
            level = lower
        p = after - delta
        p /= p.sum()
        after = p + delta
        divergence = (after * np.log(after / before) - p + q) / slopes
        return p, least + float(costs @ p + divergence.sum())

    def reach(self) -> float:
        """Return the range of the potential of its movement, in multiples of its width.

        The potential is convex: highest at a corner, and lowest at theta.
        """
        share, eta, delta = self.share, self.eta, self.delta
        weight = (delta + share) / eta
        corners = 1.0 / eta - weight * np.log1p(1.0 / delta) - weight @ np.log(delta)
        return float(corners.max() - (share / eta).sum() + weight @ np.log(share + delta))


class Tree(NamedTuple):
    r"""A tree of clusters over states, on which no way is shorter than in the table, and what is proved on it.

    Parameters
    ----------
    clusters : tuple of Cluster
        From the narrowest to the one of all states.
    distances : array
        The lengths of all ways on the tree, of shape (n, n).
    spread : float
        P: a switch adds at most P / rate times what it costs to the potential.
    pull : float
        R: all movement is at most R times the rate times all costs, plus ``constant``.
    constant : float
        C, as above.
    """

    clusters: tuple[Cluster, ...]
    distances: Array
    spread: float
    pull: float
    constant: float


def grow_tree(D: Array, narrowing: float) -> Tree:
    """Make a tree of clusters, each as narrow as is possible, and narrower by a factor than the one around it."""
    n = len(D)
    nodes: list[list[int]] = []
    _nest(D, list(range(n)), narrowing, nodes)
    clusters: dict[int, Cluster] = {}
    members = {i: np.array([i]) for i in range(n)}
    potential = np.zeros((n, n))
    distances = np.zeros((n, n))
    # For every state: the way up to its cluster, what going down it adds to the potential, and how much a unit of cost moves.
    height, below, pulls = np.zeros((3, n))
    fed = constant = 0.0
    for number, parts in enumerate(nodes, n):
        inside = [members[part] for part in parts]
        states = members[number] = np.concatenate(inside)
        part = np.repeat(np.arange(len(parts)), [len(each) for each in inside])
        at = np.ix_(states, states)
        is_apart = part[:, None] != part
        ways = height[states][:, None] + height[states]
        inner = [clusters[each].width for each in parts if each in clusters]
        width = max(0.5 * float((D[at] - ways)[is_apart].max()), *inner, 0.0)
        share = np.array([len(each) / len(states) for each in inside])
        cluster = clusters[number] = Cluster(np.array(parts), width, share, 1.0 - np.log(share))
        distances[at] = np.where(is_apart, ways + 2.0 * width, distances[at])
        # The most that leaving a part, and entering one, adds to the potential.
        log = np.log1p(1.0 / cluster.delta)
        leave = (1.0 - cluster.delta * log) / cluster.eta
        enter = ((1.0 + cluster.delta) * log - 1.0) / cluster.eta
        added = width * (leave[part][:, None] + enter[part]) + below[states]
        potential[at] = np.where(is_apart, added, potential[at])
        others = np.array([np.delete(leave, i).max() for i in range(len(parts))])
        below[states] += width * (enter + others)[part]
        height[states] += width
        pulls[states] += 1.0 + cluster.eta[part]
        constant += 2.0 * width * cluster.reach()
        # Clusters within this one move as a whole, too.
        for each in set(parts) & set(clusters):
            moved = clusters[each].width / width * (1.0 + clusters[each].reach())
            fed = max(fed, moved)
    apart = ~np.eye(n, dtype=bool)
    spread = float(np.max(potential[apart] / D[apart], initial=0.0)) or 1.0
    left = max(1.0 - fed, 0.0)
    pull = 2.0 * float(pulls.max()) / left if left > 0.0 else np.inf
    constant = constant / left if left > 0.0 else np.inf
    return Tree(tuple(clusters.values()), distances, spread, pull, constant)


def _nest(D: Array, states: list[int], narrowing: float, nodes: list[list[int]]) -> int:
    """List clusters of these states, those within others first, each by its parts; return the number of the last.

    They are those of complete linkage, which knows how wide they are.
    """
    if len(states) == 1:
        return states[0]
    parts = states
    if narrowing > 1.0:
        from scipy.cluster.hierarchy import fcluster, linkage
        from scipy.spatial.distance import squareform

        inner = D[np.ix_(states, states)]
        links = linkage(squareform(inner, checks=False), "complete")
        labels = fcluster(links, inner.max() / narrowing, "distance")
        groups = [np.array(states)[labels == label].tolist() for label in np.unique(labels)]
        parts = [_nest(D, group, narrowing, nodes) for group in groups]
    nodes.append(parts)
    return len(D) + len(nodes) - 1


class TreeState(NamedTuple):
    """The round, the shares of states, and of every state and cluster the share of the cluster around it that it has."""

    t: int
    x: Array
    parts: Array


class TreeDescent(StatesRule[TreeState]):
    r"""Divide probability among states by mirror descent with a multiscale entropy, on a tree of clusters.

    States that are near each other are a cluster, and clusters are in wider ones. From the narrowest up, every cluster u
    divides its own share anew between its parts v, of which each is a state or a cluster and costs :math:`\hat c_v`:

    .. math:: \hat c_u = \min_p \sum_v \hat c_v p_v + \frac{w_u}{\kappa \eta_v}
              \Bigl( (p_v + \delta_v) \log \frac{p_v + \delta_v}{q_v + \delta_v} - p_v + q_v \Bigr), \qquad
              \eta_v = 1 + \log \frac1{\theta_v}, \quad \delta_v = \frac{\theta_v}{\eta_v}

    where q are the shares so far, :math:`\theta_v` is the share of u's states that v has and :math:`w_u` about half of how
    wide u is. This is the regularisation of Coester and Lee, *Pure Entropic Regularization for Metrical Task Systems* (2019),
    for rounds of any cost: a cluster is charged for what moves within it, too. Who knows a round's costs before deciding, as
    ``run_ahead(PlayNext(TreeDescent(...)))`` does, pays at most :attr:`ratio` times what the best sequence of states pays,
    plus a constant (:meth:`bound`). On equal distances that is of the order log n, and no rule has less (Borodin, Linial and
    Saks, 1992).

    A point is a distribution: :func:`~klazy.contrib.sample_actions` draws states from a run, and
    :class:`~klazy.contrib.OneState` round by round.

    Parameters
    ----------
    domain : Simplex
        The states, as its corners.
    movement : Movement or str
        What switching costs, a norm: ``FiniteMetric(D=...)``, or ``"tv"``. No switch may be free.
    rate : float, optional
        Above 0: how quickly it moves, in multiples of what has the least proved ratio. Default: 1.
    start : array_like, optional
        The first state, as a corner. Default: the first one.

    Examples
    --------
    >>> costs = np.tile([[3.0, 0.0, 2.0]], (6, 1))
    >>> learner = TreeDescent(Simplex(3), FiniteMetric(5.0, D=[[0, 1, 1], [1, 0, 1], [1, 1, 0]]))
    >>> run(learner, costs, movement=learner.movement).x[:, 1].round(2).tolist()
    [0.0, 0.24, 0.63, 0.94, 1.0, 1.0]
    >>> round(learner.ratio, 2), learner.distortion
    (3.93, 1.0)
    """

    rate: float

    def __init__(
        self, domain: ConvexSet, movement: Movement | str, rate: float = 1.0, *, start: Any = None
    ) -> None:
        super().__init__(domain, movement, start=start)
        self._keep(rate=positive(rate, "rate"))
        if (self.switching + np.eye(domain.dim) <= 0.0).any():
            raise InvalidInput(f"movement must charge every switch, got {self.movement!r}.")

    @cached_property
    def tree(self) -> Tree:
        """The tree of the least proved ratio, of some that complete linkage finds."""
        D = self.switching
        trees = [grow_tree(D, narrowing) for narrowing in NARROWINGS]
        return min(trees, key=lambda tree: tree.pull * tree.spread)

    @property
    def distortion(self) -> float:
        """How many times longer a way on the tree is than in the table, at the most."""
        apart = ~np.eye(self.domain.dim, dtype=bool)
        return float(np.max(self.tree.distances[apart] / self.switching[apart], initial=1.0))

    @property
    def kappa(self) -> float:
        """The rate of the formula."""
        return self.rate * self.tree.spread

    @property
    def ratio(self) -> float:
        """How many times the optimum it pays at most, plus a constant, if it sees costs first."""
        return (1.0 + self.kappa * self.tree.pull) * max(1.0, 1.0 / self.rate)

    def bound(self, hitting: float, switching: float, steepness: float | None = None) -> float:
        r"""Bound what it pays, switching included, if no cost is negative.

        .. math:: (1 + R \kappa) \Bigl( S + \frac P\kappa M \Bigr) + C

        Parameters
        ----------
        hitting, switching : float
            What a sequence of states pays from the same first state, S and M: ``optimum.hitting``, ``optimum.switching``.
        steepness : float, optional
            How many times what switching costs two states ever differ in a round, at the most; then the bound is for a learner,
            that decides before it sees the round's costs, with :math:`(1 + \mathrm{steepness})` times R and C. Default: it sees
            them.

        Returns
        -------
        float
            The bound.

        Examples
        --------
        >>> learner = TreeDescent(Simplex(2), "tv")
        >>> round(learner.bound(10.0, 2.0), 1), round(learner.bound(10.0, 2.0, steepness=0.5), 1)
        (40.5, 54.7)
        """
        late = 1.0 if steepness is None else 1.0 + non_negative(steepness, "steepness")
        paid = hitting + self.tree.spread / self.kappa * switching
        return (1.0 + late * self.kappa * self.tree.pull) * paid + late * self.tree.constant

    def init(self, x: Array | None = None) -> TreeState:
        point = self.first_point(x)
        at = int(np.argmax(point))
        n = self.domain.dim
        parts = np.ones(n + len(self.tree.clusters))
        for number, cluster in enumerate(self.tree.clusters, n):
            inside = cluster.parts == at
            parts[cluster.parts] = inside if inside.any() else cluster.share
            at = number if inside.any() else at
        return TreeState(1, point, parts)

    def step(self, state: TreeState, g: Array) -> TreeState:
        n = self.domain.dim
        parts = state.parts.copy()
        costs = np.empty_like(parts)
        costs[:n] = self.total * g
        for number, cluster in enumerate(self.tree.clusters, n):
            at = cluster.parts
            parts[at], costs[number] = cluster.respond(costs[at], parts[at], self.kappa)
        shares = parts.copy()
        for number, cluster in reversed(list(enumerate(self.tree.clusters, n))):
            shares[cluster.parts] *= shares[number]
        return TreeState(state.t + 1, self.total * shares[:n], parts)
