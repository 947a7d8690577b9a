"""klazy's learners as portfolio optimizers of skfolio, which take their returns one window after the other."""

from typing import Any, Self

import numpy as np
import sklearn.utils.validation as skv
from skfolio.optimization import BaseOptimization

from klazy.contrib import ensemble_auto
from klazy.costs import LogWealthCosts
from klazy.game.run import run
from klazy.movement import TVMovement
from klazy.sets import Simplex
from klazy.studies.portfolio import make_learner

__all__ = ["OnlineLearner"]

# A learner knows price relatives above 0: an asset that loses more than all of its value loses nearly all of it here.
LEAST_RELATIVE = 1e-6


class OnlineLearner(BaseOptimization):
    """Choose weights by a learner of klazy, which sees returns row by row, and goes on learning with ``partial_fit``.

    It works in ``WalkForward``, ``cross_val_predict`` and ``online_predict``; the last is the quickest, as it shows a row once.

    Parameters
    ----------
    learner : callable, optional
        A class or a function that makes the learner from ``domain``, ``movement`` and ``costs``, or from those of them that it
        names, such as ``kl.contrib.SoftBayes`` or ``kl.auto``. Default: :func:`~klazy.contrib.ensemble_auto`.
    transaction_costs : float, optional
        What each side of a trade costs, as a share of it: 0.001 is ten basis points. The learner plans with it. skfolio charges
        it in every row of a window, so write 0.001 / 21 for windows of 21 rows. Default: 0.
    portfolio_params : dict, optional
        As for every optimizer of skfolio.
    fallback : optional
        As for every optimizer of skfolio.
    previous_weights : optional
        As for every optimizer of skfolio.
    raise_on_failure : bool, optional
        As for every optimizer of skfolio.

    Attributes
    ----------
    weights_ : ndarray
        The decision after the rows seen.
    learner_ : Learner
        The learner.
    state_ : State
        What it has learned.

    Examples
    --------
    >>> returns = np.array([[0.1, 0.0], [0.0, 0.1], [0.2, 0.0]])
    >>> model = OnlineLearner(BuyAndHold)
    >>> model.fit(returns).weights_.round(4)
    array([0.5455, 0.4545])
    >>> model.partial_fit([[0.0, 0.2]]).weights_.round(4).tolist()
    [0.5, 0.5]
    """

    def __init__(
        self,
        learner: Any = None,
        transaction_costs: float = 0.0,
        portfolio_params: dict[str, Any] | None = None,
        fallback: Any = None,
        previous_weights: Any = None,
        raise_on_failure: bool = True,
    ) -> None:
        super().__init__(portfolio_params, fallback, previous_weights, raise_on_failure)
        self.learner = learner
        self.transaction_costs = transaction_costs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from these returns alone.

        Parameters
        ----------
        X : array-like
            Returns, of shape (n_observations, n_assets).
        y : None, optional
            Not used.

        Returns
        -------
        OnlineLearner
            Itself.
        """
        return self._learn(X, restart=True)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Go on learning from the returns that came since.

        Parameters
        ----------
        X : array-like
            Returns, of shape (n_observations, n_assets).
        y : None, optional
            Not used.

        Returns
        -------
        OnlineLearner
            Itself.
        """
        return self._learn(X, restart=not hasattr(self, "state_"))

    def _learn(self, X: Any, restart: bool) -> Self:
        values: Any = skv.validate_data(self, X, reset=restart, dtype=np.float64)
        rows = np.maximum(1.0 + values, LEAST_RELATIVE)
        movement = TVMovement(2.0 * float(np.mean(self.transaction_costs)))
        if restart:
            domain = Simplex(rows.shape[1])
            self.learner_: Any = make_learner(
                self.learner or ensemble_auto, domain, movement, "learner"
            )
            self.state_: Any = self.learner_.init()
        trace = run(
            self.learner_,
            LogWealthCosts(rows),
            movement=movement,
            state=self.state_,
            record="totals",
        )
        self.state_ = trace.state
        self.weights_ = np.array(self.state_.x)
        return self
