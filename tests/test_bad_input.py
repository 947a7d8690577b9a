"""Bad input is refused where it enters, in one sentence that names the argument, the value and the remedy."""

import re
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import klazy as kl
from klazy.sequences import corrupted
from klazy.theory import resonance

BALL, G = kl.L2Ball(3), np.ones((4, 3))
FOLLOWER = kl.contrib.FollowForecast(BALL, "l2", 4.0, 2.0)
DRIFTED = kl.contrib.DriftedMovement(relatives=np.ones((3, 3)))
GD, MEMORY = kl.GD(BALL, 1.0), kl.MemoryGD(BALL, 1.0, memory=kl.memories.Full())


def holes(value, d=3):
    g = np.ones((4, d))
    g[2, 1] = value
    return g


def nested(depth):
    """A description that is nested too deep."""
    about = GD.to_dict()
    for _ in range(depth):
        about = {"class": "klazy.Blocks", "learner": about, "length": 2}
    return about


REJECTED = {
    # descriptions
    "Lists and objects may be nested at most 100 levels deep.": (
        lambda: kl.types.Learner.from_dict(nested(900))
    ),
    # sets
    "dim must be an integer of at least 1, got 0.": lambda: kl.L2Ball(0),
    "dim must be an integer of at least 1, got 2.5.": lambda: kl.L2Ball(2.5),  # pyright: ignore
    "radius must be above 0, got -1.": lambda: kl.L2Ball(2, -1),
    "radius must be a finite number, got nan.": lambda: kl.L1Ball(2, float("nan")),
    "center must have shape (2,), got (3,).": lambda: kl.L1Ball(2, 1.0, [0, 0, 0]),
    "lower[1] must be at most upper[1], 0.0, got 1.0.": lambda: kl.Box([0, 1], [1, 0]),
    "upper[0] must be a finite number, got inf. Remove or fill NaN and inf.": lambda: kl.Box(
        [0.0], [np.inf]
    ),
    "total must be above 0, got 0.": lambda: kl.Simplex(3, 0),
    "total must be between the floors' sum 0.0 and the caps' sum 1.5, got 2.0.": (
        lambda: kl.CappedSimplex(3, 2.0, 0.5)
    ),
    "floor[2] must be at most cap[2], 0.5, got 0.6.": (
        lambda: kl.CappedSimplex(3, 1.0, 0.5, [0.0, 0.0, 0.6])
    ),
    "The polytope is empty: no x has A x <= b.": (
        lambda: kl.Polytope([[1.0], [-1.0]], [-1.0, -1.0])
    ),
    (
        "domain must be bounded, got Polytope(A=[[1.0, 0.0]], b=[1.0]). Cut it, as in Intersection([domain, "
        "L2Ball(2, 10.0)]), or use contrib.CoinBetting."
    ): lambda: kl.auto(kl.Polytope([[1, 0]], [1])),
    "sets must be a list such as [Box(0, 1), Simplex(3)], got [].": lambda: kl.Product([]),  # pyright: ignore
    "sets[1] must be a ConvexSet such as Simplex(3), got 3.": lambda: kl.Product(
        [kl.Box(0, 1), 3]
    ),  # pyright: ignore
    "The sets must have the same dimension, got [2, 3]. Use Product for different coordinates.": (
        lambda: kl.Intersection((kl.L2Ball(2), kl.L2Ball(3)))
    ),
    "The intersection is empty: [L2Ball(dim=1), Box(lower=[2.0], upper=[3.0])] have no common point.": (
        lambda: kl.Intersection((kl.L2Ball(1), kl.Box(2, 3)))  # pyright: ignore
    ),
    "The last axis of y must have length 3, got shape (2,).": (lambda: BALL.project([1.0, 2.0])),
    "y[0] must be a finite number, got nan. Remove or fill NaN and inf.": (
        lambda: BALL.project(np.array([np.nan, 0.0, 0.0]))
    ),
    "lower must contain real numbers, got an array of dtype bool.": lambda: kl.Box(False, True),
    # schedules
    "sigma must be above 0, got 0. Give a regularisation above zero, 1 / learning rate.": lambda: (
        kl.GD(BALL, 0)
    ),  # pyright: ignore
    "offset must be above -1, so that sigma is above 0, got -1.0.": lambda: kl.Sqrt(1, -1),
    "sigma must be at least 1e-60, got 1e-310. Use smaller units.": lambda: kl.GD(BALL, 1e-310),
    "c must be within +-1e+60, got 1e+308. Use larger units.": lambda: kl.Sqrt(1e308),
    "diameter must be above 0, got 0. Use domain.diameter.": lambda: kl.ScaleFree(0),
    "sigma must be at least 1e-60 in every round, got 0.0 in round 3.": lambda: kl.run(
        kl.GD(BALL, Falling()), G
    ),
    # learners
    "sigma or learning_rate must be given": lambda: kl.GD(BALL),
    "sigma and learning_rate mean the same, got sigma=1.0 and learning_rate=0.5": (
        lambda: kl.GD(BALL, 1.0, learning_rate=0.5)
    ),
    "learning_rate must be above 0, got 0": lambda: kl.GD(BALL, learning_rate=0.0),
    "learning_rate must be a number, got Sqrt(c=2.0). Pass a schedule as sigma.": (
        lambda: kl.GD(BALL, learning_rate=kl.Sqrt(2.0))  # pyright: ignore
    ),
    "k must be an integer of at least 1, got 0. Use k=1 for greedy GD.": lambda: kl.KLazyGD(
        BALL, 1.0, k=0
    ),  # pyright: ignore
    "k must be an integer of at least 1, got 2.5. Use k=1 for greedy GD.": lambda: kl.KLazyFTRL(
        BALL,
        1.0,
        k=2.5,  # pyright: ignore
    ),
    "k must be an integer of at least 1, got -3. Use k=1 for greedy GD.": lambda: (
        kl.memories.Clock(-3)
    ),
    "m must be at least 1, got 0.5. Use m=1 for greedy GD.": lambda: kl.memories.Decay(0.5),
    "kappa must be above 0, got 0. Use Forget() to keep nothing.": lambda: kl.memories.Clip(0),
    "memory must be a Memory such as Decay(32) or Clock(65), got 32.": (
        lambda: kl.MemoryGD(BALL, 1.0, memory=32)  # pyright: ignore
    ),
    "domain must be a ConvexSet such as L2Ball(5), got 3.": lambda: kl.GD(3, 1.0),  # pyright: ignore
    "start must be in L2Ball(dim=3), got [1.0, 1.0, 1.0]. Project it onto the set first.": (
        lambda: kl.GD(BALL, 1.0, start=[1, 1, 1])  # pyright: ignore
    ),
    "start must have shape (3,), got (2,).": lambda: kl.GD(BALL, 1.0, start=[0, 0]),  # pyright: ignore
    # ensembles
    "experts must be a list of learners such as [GD(ball, 1.0), GD(ball, 2.0)], got [].": lambda: (
        kl.SAder([])
    ),
    "All experts must be on the same set, here L2Ball(dim=3), but experts[1] is on L2Ball(dim=2).": (
        lambda: kl.SAder([GD, kl.GD(kl.L2Ball(2), 1.0)])
    ),
    "beta must be 'self-tuned', got 'lemma'.": (lambda: kl.SAder([GD], "lemma")),
    "beta must be above 0, got 0.": lambda: kl.SAder([GD], 0),
    "prior must sum to 1, with each at least 1e-100, got [0.5, 0.6].": (
        lambda: kl.SAder([GD, GD], prior=[0.5, 0.6])
    ),
    "prior must have shape (1,), got (2,).": lambda: kl.SAder([GD], prior=[0.5, 0.5]),
    "prior must be one of 'harmonic', 'uniform', got 'flat'.": lambda: kl.SAder(
        [GD], prior="flat"
    ),
    "movement must be a norm with one weight, such as L2Movement(1.0), got SwitchFee(). Only contrib.Leader(experts, movement, guard=False) takes others.": (
        lambda: kl.SAder([GD], movement=kl.contrib.SwitchFee())
    ),
    "movement must have one weight, the usual price, got L2Movement(weight=[1.0, 2.0]). Give prices that change by round to run(..., movement=...).": (
        lambda: kl.contrib.ensemble_auto(BALL, kl.L2Movement([1.0, 2.0]))
    ),
    "experts must be a list of learners such as [GD(ball, 1.0), GD(ball, 2.0)], got 3.": (
        lambda: kl.contrib.Leader(3, kl.L2Movement())  # pyright: ignore
    ),
    "movement must be a norm with one weight, such as L2Movement(1.0), got SwitchFee(weight=2.0). Only contrib.Leader(experts, movement, guard=False) takes others.": (
        lambda: kl.contrib.Leader([GD], kl.contrib.SwitchFee(2.0))
    ),
    "movement must have one weight, the usual price, got L2Movement(weight=[1.0, 3.0]). Give prices that change by round to run(..., movement=...).": (
        lambda: kl.contrib.Leader([GD], kl.L2Movement([1.0, 3.0]))
    ),
    "caution must not be negative, got -1.": lambda: kl.contrib.Leader(
        [GD], kl.L2Movement(), caution=-1
    ),
    "guard must be True or False, got 2.": (
        lambda: kl.contrib.Leader([GD], kl.L2Movement(), guard=2)  # pyright: ignore
    ),
    "family must be a Family such as Pinball(2.0, 1.0), got 'pinball'.": (
        lambda: kl.contrib.Leader([GD], kl.L2Movement(), family="pinball")  # pyright: ignore
    ),
    "Experts must have the family of their leader, None, but experts[0].family is Quadratic().": (
        lambda: kl.contrib.Leader(
            [kl.contrib.Leader([GD], kl.L2Movement(), family=kl.Quadratic())], kl.L2Movement()
        )
    ),
    "window must be at least 1, got 0.5. Count it in rounds.": (
        lambda: kl.contrib.FollowForecast(BALL, "l2", 0.5, 1.0)
    ),
    "state.has_hint must be 0 or 1, got 2.": (
        lambda: FOLLOWER.check_state(FOLLOWER.init()._replace(has_hint=2))
    ),
    "forecast needs an agent with column names. Build the agent with columns=[...].": (
        lambda: kl.Agent(FOLLOWER, costs=kl.Linear(), forecast=["a", "b", "c"])
    ),
    "forecast needs a learner that takes hints, got GD(": (
        lambda: kl.Agent(GD, costs=kl.Linear(), columns=list("abc"), forecast=list("def"))
    ),
    "forecast must name one more column for each of ['a', 'b', 'c'], got ['c', 'd', 'e']. Use forecast=[": (
        lambda: kl.Agent(FOLLOWER, costs=kl.Linear(), columns=list("abc"), forecast=list("cde"))
    ),
    "d must be a finite number, got 'x'.": (
        lambda: kl.Agent(
            FOLLOWER, costs=kl.Linear(), columns=list("abc"), forecast=list("def")
        ).observe({"a": 1.0, "b": 1.0, "c": 1.0, "d": "x", "e": 1.0, "f": 1.0})
    ),
    "state.leader must be the index of an expert, below 1, got 1.": (
        lambda: kl.run(
            kl.contrib.Leader([GD], kl.L2Movement()),
            G,
            state=kl.contrib.Leader([GD], kl.L2Movement()).init()._replace(leader=1),
        )
    ),
    "A Leader with guard=False has no certificate. Build it with guard=True.": (
        lambda: kl.theory.certify_experts(
            kl.run(
                kl.contrib.Leader([GD], kl.L2Movement(), guard=False),
                G,
                record="experts",
                engine="step",
            )
        )
    ),
    "domain must be a ConvexSet such as L2Ball(5), got 4.": lambda: kl.auto(4),  # pyright: ignore
    "movement must be a Movement such as L2Movement(1.0), got 5.": lambda: kl.auto(BALL, 5),  # pyright: ignore
    "T must be an integer of at least 1, got 0. Give the number of rounds, or use auto, which does not need it.": (
        lambda: kl.sader(BALL, 0, 1.0)
    ),
    "G must be above 0, got 0. Give a bound on the gradients' norms, or use auto, which needs none.": (
        lambda: kl.sader_k(BALL, 10, 0)
    ),
    "beta must be one of 'lemma', 'tight', 'authors', 'self-tuned', got 'x'.": (
        lambda: kl.sader(BALL, 10, 1.0, beta="x")
    ),
    "domain must be a ConvexSet such as L2Ball(5), got 5.": lambda: kl.contrib.ader(
        5,  # pyright: ignore
        10,
        1.0,
    ),
    "up must have shape (3,), got (2,).": (
        lambda: kl.auto(BALL, kl.contrib.AsymmetricMovement(up=[1.0, 2.0]))
    ),
    "random_phases=True needs a seed. Use seed=0.": lambda: corrupted(random_phases=True),
    "state.experts[0].hint must be zero without hints, got [1. 1. 1.].": (
        lambda: kl.run(
            kl.SAder([MEMORY]),
            G,
            state=kl.SAder([MEMORY])
            .init()
            ._replace(experts=(MEMORY.init()._replace(hint=np.ones(3)),)),
        )
    ),
    "state.experts[0] must be in round 1, got t=2.": (
        lambda: kl.run(
            kl.SAder([GD]),
            G,
            state=kl.SAder([GD]).init()._replace(experts=(GD.init()._replace(t=2),)),
        )
    ),
    "levels must be an integer of at least 1, got 0.": (
        lambda: kl.contrib.StronglyAdaptive(BALL, 1.0, levels=0)
    ),
    "record='experts' is for SAder and Leader, got GD(": lambda: kl.run(GD, G, record="experts"),
    "state.experts must be a tuple of 1 states, got ().": (
        lambda: kl.run(kl.SAder([GD]), G, state=kl.SAder([GD]).init()._replace(experts=()))
    ),
    # costs
    "g[2, 1] must be a finite number, got nan. Remove or fill NaN and inf.": lambda: kl.run(
        GD, holes(np.nan), engine="step"
    ),
    "g[2, 1] must be a finite number, got -inf. Remove or fill NaN and inf.": lambda: kl.run(
        GD, holes(-np.inf), engine="step"
    ),
    "g must have shape (T, d), one row per round, got (3,).": lambda: kl.run(GD, [1.0, 2.0, 3.0]),
    "g must have shape (T, d), one row per round, got (0, 3).": lambda: kl.run(
        GD, np.ones((0, 3))
    ),
    "The rows of g must have equal length.": (lambda: kl.run(GD, [[1.0], [2.0, 3.0]])),
    "g must contain real numbers, got an array of dtype object.": (
        lambda: kl.run(GD, np.array([[None, 1.0, 2.0]]))
    ),
    "relatives must be above 0, got 0.0. Divide each price by the one before it.": (
        lambda: kl.LogWealthCosts([[1.0, 0.0]])
    ),
    "weight must not be negative, or costs are not convex, got -1.0.": lambda: kl.QuadraticCosts(
        G, -1.0
    ),
    "weight must have shape (4,), got (3,).": (lambda: kl.QuadraticCosts(G, [1.0, 1.0, 1.0])),
    "short must be a number or one per coordinate, none negative, got -2.0.": lambda: (
        kl.PinballCosts(G, -2.0)
    ),
    "labels must be 4 numbers, each -1 or +1, got [0, 1, 0, 1].": lambda: kl.contrib.HingeCosts(
        G, [0, 1, 0, 1]
    ),
    "subgradient(1) must have shape (3,), got (2,).": (
        lambda: kl.run(GD, kl.CallableCosts(2, 3, lambda t, x: 0.0, lambda t, x: [0.0, 0.0]))
    ),
    "value(1, x) must return one number, got an array of shape (3,).": (
        lambda: kl.run(GD, kl.CallableCosts(2, 3, lambda t, x: x, lambda t, x: x))  # pyright: ignore
    ),
    "value(1, x) must return one number, got an array of shape (1,).": (
        lambda: kl.CallableCosts(2, 3, lambda t, x: x[:1], lambda t, x: x).values(G[:2])  # pyright: ignore
    ),
    "value(2, x) must return one number, got None.": (
        lambda: kl.run(
            GD, kl.CallableCosts(2, 3, lambda t, x: 0.0 if t < 2 else None, lambda t, x: x)
        )  # pyright: ignore
    ),
    "subgradient(1) must have shape (3,), got (1,).": (
        lambda: kl.run(GD, Mine(subgradient=lambda t: np.ones(1)))
    ),
    "subgradient(4) must have shape (3,), got ().": (
        lambda: kl.run(GD, Mine(subgradient=lambda t: np.ones(3) if t < 4 else 1.0))
    ),
    "subgradient(1) must contain real numbers, got an array of dtype complex128.": (
        lambda: kl.run(GD, Mine(subgradient=lambda t: 1j * np.ones(3)))
    ),
    "value(1, x) must return one number, got an array of shape (2,).": (
        lambda: kl.run(GD, Mine(value=lambda t: np.ones(2)))
    ),
    # movement
    "weight must be a number or one per round, none negative, got -1.0.": lambda: kl.L2Movement(
        -1
    ),
    "weight must be one number or 4, one per round, got 2.": (
        lambda: kl.run(GD, G, movement=kl.L2Movement(np.ones(2)))
    ),
    "scale must have shape (3,), got (2,).": (
        lambda: kl.run(GD, G, movement=kl.contrib.WeightedL2Movement(scale=np.ones(2)))
    ),
    "scale must be a number or one per coordinate, none negative, got [].": (
        lambda: kl.contrib.ImpactMovement(scale=())
    ),
    "flips must be at most 1000000, got 9223372036854775808.": (
        lambda: resonance(kl.KLazyGD(BALL, 1.0, k=4), flips=2**63)
    ),
    "A must be a square matrix, got shape (2,).": (
        lambda: kl.contrib.MahalanobisMovement(A=[1.0, 2.0])
    ),
    "A must be symmetric, got [[1.0, 1.0], [0.0, 1.0]]. Use (A + A.T) / 2.": (
        lambda: kl.contrib.MahalanobisMovement(A=[[1.0, 1.0], [0.0, 1.0]])
    ),
    "A must have no negative eigenvalue, as a covariance matrix has none, got -1.0.": (
        lambda: kl.contrib.MahalanobisMovement(A=[[1.0, 0.0], [0.0, -1.0]])
    ),
    "A must have shape (3, 3), got (2, 2).": (
        lambda: kl.run(GD, G, movement=kl.contrib.MahalanobisMovement(A=np.eye(2)))
    ),
    "scale must be above 0, got [1.0, 0.0].": (
        lambda: kl.contrib.ImpactMovement(scale=[1.0, 0.0])
    ),
    "horizon must be a number of rounds for SquaredMovement(), got None.": (
        lambda: kl.contrib.Seasonal(BALL, kl.contrib.SquaredMovement())
    ),
    "A DriftedMovement depends on the rounds, so only run, run_batch, run_ahead and offline_optimum take it. Use TVMovement here.": (
        lambda: kl.SAder([GD], movement=DRIFTED)
    ),
    "relatives must be above 0, got -1.0. Divide each price by the one before it.": (
        lambda: kl.contrib.DriftedMovement(relatives=[[1.0, -1.0]])
    ),
    "relatives must have shape (4, d), one row per round, got (3, 3).": (
        lambda: kl.run(GD, G, movement=DRIFTED)
    ),
    "relatives must have shape (T, 2), one row per round, got (3, 3).": (
        lambda: kl.offline_optimum(np.ones((3, 2)), kl.Simplex(2), DRIFTED)
    ),
    "A DriftedMovement needs a Simplex or CappedSimplex, got L2Ball(dim=3). Use TVMovement(...) elsewhere.": (
        lambda: kl.offline_optimum(np.ones((3, 3)), BALL, DRIFTED)
    ),
    "move_cost must not be negative, got -1.0.": (
        lambda: kl.ScaleFree(1.0, move_cost=[1.0, -1.0])
    ),
    "up must be a number or one per coordinate, none negative, got [-1.0, 1.0].": (
        lambda: kl.contrib.AsymmetricMovement(up=np.array([-1.0, 1.0]))
    ),
    # run
    "learner must be a Learner such as GD(L2Ball(5), 1.0), got 3.": lambda: kl.run(3, G),  # pyright: ignore
    "costs must have dimension 3, as the set does, got 2.": lambda: kl.run(GD, np.ones((4, 2))),
    "engine must be one of 'auto', 'compiled', 'step', got 'fast'.": (
        lambda: kl.run(GD, G, engine="fast")
    ),
    "record must be one of 'experts', 'actions', 'costs', 'totals', got 'all'.": (
        lambda: kl.run(GD, G, record="all")
    ),
    "movement must be a Movement such as L2Movement(1.0), got 6.": lambda: kl.run(
        GD, G, movement=6
    ),  # pyright: ignore
    "learner must accept hints, as MemoryGD does, got GD(domain=L2Ball(dim=3), sigma=Constant(s=1.0)).": (
        lambda: kl.run(GD, G, hints=G)
    ),
    "hints must have shape (4, 3), one row per round, got (3, 3).": (
        lambda: kl.run(MEMORY, G, hints=G[1:])
    ),
    (
        "Give hints or next_hints, not both: a row of hints guesses its own round, a row of next_hints the round after it."
    ): lambda: kl.run(MEMORY, G, hints=G, next_hints=G),
    "next_hints must have shape (4, 3), one row per round, got (3, 3).": (
        lambda: kl.run(kl.MemoryGD(BALL, 1.0, memory=kl.memories.Full()), G, next_hints=G[:3])  # pyright: ignore
    ),
    "x0 must have shape (3,), got (1,).": lambda: kl.run(GD, G, x0=[0.0]),
    "u must have shape (4, 3), one row per round, got (2, 3).": lambda: kl.regret(
        kl.run(GD, G, engine="step"), G[:2]
    ),
    "state must come from a trace or agent of this KLazyGD, got GDState(": lambda: kl.run(
        kl.KLazyGD(BALL, 1.0, k=2), G, state=GD.init()
    ),
    "state.x must have shape (3,), got (2,).": (
        lambda: kl.run(GD, G, state=kl.GD(kl.L2Ball(2), 1.0).init())
    ),
    "costs must be those of the run, with T=4 and dim=3, got LinearCosts(T=1, dim=3).": (
        lambda: kl.regret(kl.run(GD, G, engine="step"), G, costs=G[:1])
    ),
    "u must have finite costs, got inf in round 1.": (
        lambda: kl.regret(
            kl.run(kl.GD(kl.L2Ball(3, 1.0, [2.0, 2.0, 2.0]), 1.0), STEEP), [1.0, 2.0, 2.0]
        )
    ),
    "u must be in L2Ball(dim=3), got a point outside. Use domain.project(u).": (
        lambda: kl.regret(kl.run(GD, G, engine="step"), [0.8, 0.8, 0.8])
    ),
    "trace must be what run returned, got 3.": lambda: kl.regret(3, G),  # pyright: ignore
    "trace must be what run returned, got None.": lambda: kl.theory.certify(None, G),  # pyright: ignore
    "G must be a finite number, got 'big'.": (
        lambda: kl.run(GD, G, engine="step").diagnose(G="big")  # pyright: ignore
    ),
    "path must be a path, as str or Path, got 1.": (
        lambda: kl.run(GD, G, engine="step").save(1)  # pyright: ignore
    ),
    "x_3 must be in L2Ball(dim=3), got [2.0, 0.0, 0.0]. Let Leaving.step project what it returns.": (
        lambda: kl.run(Leaving(BALL, 1.0), G)
    ),
    "x_3 must be in L2Ball(dim=3), got [2.0, 0.0, 0.0]. Let Leaving.step project what it returns": (
        lambda: kl.run(Leaving(BALL, 1.0), G, record="totals")
    ),
    # masked arrays, whose entries NumPy would take from under the mask
    "g has masked entries. Fill or remove them.": (
        lambda: kl.run(GD, np.ma.masked_greater(G + np.eye(4, 3), 1.5))
    ),
    "center has masked entries. Fill or remove them.": (
        lambda: kl.L2Ball(2, center=np.ma.array([1.0, 2.0], mask=[False, True]))
    ),
    "next_hints has masked entries. Fill or remove them.": (
        lambda: kl.run(MEMORY, G, next_hints=[np.ma.array(row, mask=row > 0.0) for row in G])
    ),
    "radius must be a finite number, got masked.": lambda: kl.L2Ball(
        2,
        np.ma.masked,  # pyright: ignore
    ),
    "radius must be a finite number, got an integer of 16610 bits.": (
        lambda: kl.L2Ball(2, 10**5000)
    ),
    "learners[1] must be a Learner such as GD(L2Ball(5), 1.0), got 3.": (
        lambda: kl.run_many([GD, 3], G)  # pyright: ignore
    ),
    "jobs must be an integer of at least 1, got 0. Leave it out for all cores.": lambda: (
        kl.run_many([GD], G, jobs=0)
    ),
    "value must be a function of t and x, got None.": (
        lambda: kl.CallableCosts(3, 2, None, None)  # pyright: ignore
    ),
    "k must be a finite number, got 1": lambda: kl.KLazyGD(BALL, 1.0, k=10**400),
    "learner must be a Learner, got 'GD'. Use Agent(GD(L2Ball(5), 1.0)).": lambda: kl.Agent("GD"),  # pyright: ignore
}


class Mine(kl.types.Costs):
    """Costs of one's own, whose rounds say what they are told to say."""

    T, dim = 4, 3

    def __init__(self, value=lambda t: 0.0, subgradient=lambda t: np.ones(3)):
        self._value, self._subgradient = value, subgradient

    def value(self, t, x):
        return self._value(t)

    def subgradient(self, t, x):
        return self._subgradient(t)

    def window(self, first, last):
        raise NotImplementedError


class Leaving(kl.GD):
    """A learner of one's own that leaves its set after two rounds."""

    def step(self, state, g):
        x = np.array([float(state.t == 2) * 2.0, 0.0, 0.0])
        return state._replace(t=state.t + 1, x=x)


STEEP = kl.CallableCosts(
    4, 3, lambda t, x: 0.0 if x[0] > 1.1 else np.inf, lambda t, x: np.zeros(3)
)


class Falling(kl.types.Schedule):
    def __call__(self, t):
        return 3.0 - t


@pytest.mark.parametrize("message", REJECTED)
def test_rejected_with_a_sentence_that_helps(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        REJECTED[message]()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("engine", ["compiled", "step"])
@pytest.mark.parametrize("sigma", [kl.Constant(1.0), kl.ScaleFree(2.0)], ids=repr)
def test_a_kernel_finds_what_is_not_finite_by_itself(value, engine, sigma):
    """Bare arrays are not searched before the run: the costs show every NaN and inf, even where x is zero."""
    for learner in (
        kl.GD(kl.L1Ball(5), sigma),
        kl.MemoryGD(kl.L2Ball(5), sigma, memory=kl.memories.Full()),
        kl.KLazyFTRL(kl.L2Ball(5), sigma, k=2),
    ):
        with pytest.raises(
            ValueError, match=re.escape(f"g[2, 1] must be a finite number, got {value}.")
        ):
            kl.run(learner, holes(value, d=5), engine=engine)
    g = np.zeros((3, 5))
    g[0, 0] = value
    with pytest.raises(
        ValueError, match=re.escape(f"g[0, 0] must be a finite number, got {value}.")
    ):
        kl.run(kl.GD(kl.L2Ball(5), sigma), g, engine=engine)


def test_a_configuration_cannot_be_changed_behind_its_checks():
    ball = kl.L2Ball(2, 1.0, [0.0, 0.0])
    with pytest.raises(AttributeError):
        ball.dim = 3  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ValueError, match="read-only"):
        ball.center[0] = 9.0  # pyright: ignore[reportOptionalSubscript]
    given = np.zeros(2)
    ball = kl.L2Ball(2, 1.0, given)
    given[0] = 9.0
    assert ball.project([0.0, 0.0]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: kl.run(kl.GD(kl.Box(0, 1), 1.0), [[1.0], ["a"]]),
        lambda: kl.run_many([kl.GD(kl.Box(0, 1), 1.0)], [[1.0, 2.0]], jobs=1),
        lambda: kl.regret(kl.run(kl.GD(kl.Box(0, 1), 1.0), [[1.0]], engine="step"), [[1.0, 2.0]]),
        lambda: kl.theory.certify(None, [0.0]),
    ],
)
def test_a_rejected_argument_ends_its_traceback_in_the_function_called(call):
    with pytest.raises(ValueError, match="got ") as caught:
        call()
    frames = traceback.extract_tb(caught.tb)
    assert [Path(frame.filename).name for frame in frames[-2:]] == [
        "test_bad_input.py",
        "options.py",
    ]
    shown = traceback.format_exception(caught.value)
    assert (
        sum(part.count("\n") for part in shown) <= 10 + 3
    )  # this test's own frame, which no user has


def test_an_unknown_keyword_names_the_one_that_is_meant():
    learner = kl.GD(kl.Box(0, 1), 1.0)
    with pytest.raises(
        TypeError, match=r"unexpected keyword argument 'movemnt'\. Did you mean 'movement'\?$"
    ):
        kl.run(learner, [[1.0]], movemnt="l1")  # pyright: ignore[reportCallIssue]
    with pytest.raises(
        TypeError, match=r"^run\(\) got an unexpected keyword argument 'colour'\.$"
    ):
        kl.run(learner, [[1.0]], colour="red")  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        kl.run(learner)  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (kl.GD, {"domian": kl.Box(0, 1), "sigma": 1.0}, "'domian'. Did you mean 'domain'?"),
        (kl.GD(kl.Box(0, 1), 1.0).replace, {"sgma": 2.0}, "'sgma'. Did you mean 'sigma'?"),
        (kl.GD, {"sel": 1}, "'sel'."),
        (kl.Simplex, {"dim": 3, "totl": 2.0}, "'totl'. Did you mean 'total'?"),
        (kl.Sqrt, {"c": 1.0, "colour": "red"}, "'colour'."),
    ],
)
def test_a_constructor_names_the_keyword_that_is_meant(
    make: Any, options: dict[str, Any], message: str
):
    """The message has the name of the class that was called, also if it inherits its constructor, as GD does."""
    owner = getattr(make, "__self__", None)
    name = make.__name__ if owner is None else type(owner).__name__
    with pytest.raises(TypeError) as caught:
        make(**options)
    assert str(caught.value) == f"{name}() got an unexpected keyword argument {message}"


def test_a_constructor_of_your_own_says_which_keyword_is_meant():
    class Halving(kl.GD):
        def __init__(self, domain: kl.types.ConvexSet, sigma: float, **options: Any) -> None:
            super().__init__(domain, sigma, **options)

    with pytest.raises(
        TypeError, match=r"^Halving\(\) got an .* 'strt'\. Did you mean 'start'\?$"
    ):
        Halving(kl.Box(0, 1), 1.0, strt=[0.5])
