"""A user's own recipe and rules, which studies in the tests name as ``own:...``."""

import os
import signal
import time

import numpy as np
from threadpoolctl import threadpool_info

import klazy as kl
from klazy.sequences import Scenario

broken = {3}  # slacks that do not work at the moment
threads: list[int] = []


def coin(seed, T: int, odds: float = 0.5) -> Scenario:
    """Costs of +-1 on an interval, by tosses of a coin."""
    threads.extend(library["num_threads"] for library in threadpool_info())
    g = np.where(np.random.default_rng(seed).random((T, 1)) < odds, 1.0, -1.0)
    return Scenario("coin", kl.Box(-1.0, 1.0), kl.contrib.LinearCosts(g), np.zeros((T, 1)))


def clashing(seed, T: int, k: int, sigma: float = 1.0, label: str = "") -> Scenario:
    """Costs whose keys have names that learners have too."""
    g = np.random.default_rng(seed).normal(loc=k, scale=sigma, size=(T, 1))
    return Scenario(label, kl.Box(-1.0, 1.0), kl.contrib.LinearCosts(g), np.zeros((T, 1)))


def ragged(seed, mean: float) -> Scenario:
    """Costs whose number is drawn."""
    rng = np.random.default_rng(seed)
    g = rng.normal(mean, size=(int(rng.integers(5, 50)), 1))
    return Scenario("ragged", kl.Box(-1.0, 1.0), kl.contrib.LinearCosts(g), np.zeros(g.shape))


def targets(seed, T: int) -> Scenario:
    """Costs that are not linear."""
    goals = np.random.default_rng(seed).random((T, 5))
    return Scenario("targets", kl.L2Ball(5), kl.QuadraticCosts(goals), goals)  # pyright: ignore[reportArgumentType]


def crooked(seed, how: str) -> Scenario:
    """Recipes that do not work."""
    if how == "exit":
        raise SystemExit(3)
    return Scenario(
        "crooked", kl.Box(-1.0, 1.0), kl.contrib.LinearCosts(np.ones((9, 1))), np.zeros((8, 1))
    )


def slow(domain, sigma: float, wait: float) -> kl.types.Learner:
    """GD that takes its time to be built."""
    time.sleep(wait)
    return kl.GD(domain, sigma)


def far(domain, length: int, sigma: float = 1.0, **more) -> kl.types.Learner:
    """A rule whose key has the name of a recipe's."""
    return kl.KLazyGD(domain, sigma, k=length)


def fragile(domain, sigma: float, k: int) -> kl.types.Learner:
    """k-lazyGD that cannot be built for some k, and fails when it is played for others."""
    if k in broken:
        raise RuntimeError(f"no slack {k} today")
    return Tripping(domain, sigma, k=k) if -k in broken else kl.KLazyGD(domain, sigma, k=k)


def deadly(domain, sigma: float, k: int) -> kl.types.Learner:
    """k-lazyGD that ends its process for k = 5."""
    if k == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return kl.KLazyGD(domain, sigma, k=k)


class Tripping(kl.KLazyGD):
    def step(self, state, g):
        raise ZeroDivisionError("tripped")
