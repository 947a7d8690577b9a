"""A user's own recipe and rules, which studies in the tests name as ``own:...``."""

import os
import signal

import numpy as np
from threadpoolctl import threadpool_info

import klazy as kl
from klazy.environments import Scenario

broken = {3}  # slacks that do not work at the moment
threads: list[int] = []


def coin(seed, T: int, odds: float = 0.5) -> Scenario:
    """Costs of +-1 on an interval, by tosses of a coin."""
    threads.extend(library["num_threads"] for library in threadpool_info())
    g = np.where(np.random.default_rng(seed).random((T, 1)) < odds, 1.0, -1.0)
    return Scenario("coin", kl.Box(-1.0, 1.0), kl.LinearCosts(g), np.zeros((T, 1)))


def fragile(domain, sigma: float, k: int) -> kl.Learner:
    """k-lazyGD that cannot be built for some k, and fails when it is played for others."""
    if k in broken:
        raise RuntimeError(f"no slack {k} today")
    return Tripping(domain, sigma, k) if -k in broken else kl.KLazyGD(domain, sigma, k)


def deadly(domain, sigma: float, k: int) -> kl.Learner:
    """k-lazyGD that ends its process for k = 5."""
    if k == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return kl.KLazyGD(domain, sigma, k)


class Tripping(kl.KLazyGD):
    def step(self, state, g):
        raise ZeroDivisionError("tripped")
