"""SAder that sees f_t first."""

from functools import partial

import numpy as np

from klazy.base.checks import Array, refusal
from klazy.contrib.lookahead.base import LookAhead
from klazy.game.game import Game
from klazy.movement import DriftedMovement, Movement


class LookAheadSAder(LookAhead):
    r"""Mix experts that take proximal steps on f_t, weighed by what they pay in round t itself.

    .. math:: x^i_t = \arg\min_x f_t(x) + \tfrac{\sigma_i}{2} \|x - x^i_{t-1}\|^2, \qquad
              w_{t,i} \propto \pi_i \exp\Bigl(-\beta \sum_{s \le t} f_s(x^i_s) + \lambda \|x^i_s - x^i_{s-1}\|\Bigr)

    with :math:`\sigma_i = \lambda \sqrt{T} / (2^{i-1} D)`, :math:`\beta = \sqrt{8/T} / (\lambda D)`, the harmonic prior, and
    :math:`N = \lceil \tfrac12 \log_2(1 + 2T) \rceil + 1` experts. It needs no bound on the gradients.

    From an x_0 in the set, an expert's cost exceeds that of any u by at most
    :math:`\sigma_i (D^2 + 2 D P_T) / 2 + \lambda^2 T / (2 \sigma_i)`, for a proximal step gains
    :math:`\sigma_i \delta^2 / 2`, and :math:`\lambda \delta \le \sigma_i \delta^2 / 2 + \lambda^2 / (2 \sigma_i)`.
    The ensemble's exceeds an expert's by at most :math:`\ln(1/\pi_i) / \beta + \beta \lambda^2 D^2 T / 8`: reweighting moves by
    at most D times the total variation of the weights, which Pinsker's inequality bounds by their divergence, and
    weights that have seen the loss gain that divergence over beta. Other norms than the Euclidean enter lambda by their
    Lipschitz constant.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.

    Examples
    --------
    >>> costs = QuadraticCosts([[1.0], [1.0]])
    >>> run_ahead(LookAheadSAder(Box(0, 1)), costs, x0=[0.0]).x.round(3).ravel().tolist()
    [0.475, 0.72]
    """

    def parameters(self, T: int, movement: Movement) -> tuple[Array, Array, float]:
        """Compute the parameters for a game of T rounds.

        Parameters
        ----------
        T : int
            The number of rounds.
        movement : Movement
            What moving costs.

        Returns
        -------
        sigmas : array
            The experts' sigma_i.
        prior : array
            Their weights at the start.
        beta : float
            The rate.

        Raises
        ------
        ValueError
            If moving costs nothing, or a fee.
        """
        weight = float(movement.weights(T).max()) * movement.lipschitz(self.domain.dim)
        D = self.domain.scale
        is_norm = movement.degree == 1.0 and not isinstance(movement, DriftedMovement)
        if not 0.0 < weight < np.inf or not is_norm:
            raise refusal(
                "LookAheadSAder",
                "a norm that costs something",
                "movement",
                repr(movement),
                "use L2Movement()",
            )
        i = np.arange(1, int(np.ceil(0.5 * np.log2(1 + 2 * T))) + 2)
        prior = (1.0 + 1.0 / len(i)) / (i * (i + 1))
        return weight * np.sqrt(T) / (2.0 ** (i - 1) * D), prior, float(np.sqrt(8.0 / T) / (weight * D))

    def experts(self, game: Game) -> tuple[Array, Array]:
        """Play all experts.

        Parameters
        ----------
        game : Game
            The game.

        Returns
        -------
        points : array
            What they play, of shape (N, T, d).
        paid : array
            What they have paid by each round, of shape (N, T).
        """
        sigmas, *_ = self.parameters(game.costs.T, game.movement)
        played = [self.by_round(game, partial(self.step, r=float(sigma))) for sigma in sigmas]
        paid = [game.costs.values(x) + game.movement.paid(x, game.x0) for x in played]
        return np.array(played), np.cumsum(paid, axis=1)

    def points(self, game: Game) -> Array:
        _, prior, beta = self.parameters(game.costs.T, game.movement)
        played, paid = self.experts(game)
        scores = np.log(prior)[:, None] - beta * paid
        w = np.exp(scores - scores.max(axis=0))
        return np.einsum("it,itd->td", w / w.sum(axis=0), played)
