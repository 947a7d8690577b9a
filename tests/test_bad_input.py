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
DRIFTED = kl.contrib.DriftedMovement(relatives=np.ones((3, 3)))
GD, MEMORY = kl.GD(BALL, 1.0), kl.MemoryGD(BALL, 1.0, kl.memories.Full())


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


REFUSED = {
    # descriptions
    "Learner needs at most 100 levels of lists and objects, got depth=more than 100; describe it with fewer.": (
        lambda: kl.types.Learner.from_dict(nested(900))
    ),
    # sets
    "L2Ball needs a dimension dim >= 1, got dim=0; give the number of coordinates.": lambda: kl.L2Ball(0),
    "L2Ball needs a dimension dim >= 1, got dim=2.5; give the number of coordinates.": lambda: kl.L2Ball(2.5),  # pyright: ignore
    "L2Ball needs radius > 0, got radius=-1; give a number above zero.": lambda: kl.L2Ball(2, -1),
    "L1Ball needs a finite number radius, got radius=nan; give a float.": lambda: kl.L1Ball(2, float("nan")),
    "L1Ball needs shape (2,), got center of shape=(3,); give one number per coordinate.": lambda: kl.L1Ball(
        2, 1.0, [0, 0, 0]
    ),
    "Box needs lower <= upper, 0.0 here, got lower[1]=1.0; swap the two or widen the box.": lambda: kl.Box(
        [0, 1], [1, 0]
    ),
    "Box needs finite numbers, got upper[0]=inf; remove or fill NaN and inf.": lambda: kl.Box(
        [0.0], [np.inf]
    ),
    "Simplex needs total > 0, got total=0; give a number above zero.": lambda: kl.Simplex(3, 0),
    "CappedSimplex needs total between the floors' sum 0.0 and the caps' sum 1.5, got total=2.0; the set is empty otherwise.": (
        lambda: kl.CappedSimplex(3, 2.0, 0.5)
    ),
    "CappedSimplex needs floor <= cap, 0.5 here, got floor[2]=0.6; raise the cap or lower the floor.": (
        lambda: kl.CappedSimplex(3, 1.0, 0.5, [0.0, 0.0, 0.6])
    ),
    "Polytope needs at least one point with A x <= b, got b=[-1.0, -1.0]; the set is empty otherwise.": (
        lambda: kl.Polytope([[1.0], [-1.0]], [-1.0, -1.0])
    ),
    "Polytope needs a bounded set, got A of shape=(1, 2); add bounds on every direction.": lambda: (
        kl.Polytope([[1, 0]], [1])
    ),
    "Product needs a list of sets, got sets=[]; write Product([Box(0, 1), Simplex(3)]).": lambda: kl.Product(
        []
    ),  # pyright: ignore
    "Intersection needs sets of one dimension, got dims=[2, 3]; use Product for different coordinates.": (
        lambda: kl.Intersection((kl.L2Ball(2), kl.L2Ball(3)))
    ),
    "Intersection needs sets that meet, got sets=[L2Ball(dim=1), Box(lower=[2.0], upper=[3.0])]; the set is empty otherwise.": (
        lambda: kl.Intersection((kl.L2Ball(1), kl.Box(2, 3)))  # pyright: ignore
    ),
    "L2Ball.project needs 3 coordinates along the last axis, got y of shape=(2,); match the dimensions.": (
        lambda: BALL.project([1.0, 2.0])
    ),
    "L2Ball.project needs finite numbers, got y[0]=nan; remove or fill NaN and inf.": (
        lambda: BALL.project(np.array([np.nan, 0.0, 0.0]))
    ),
    "Box needs real numbers, got lower=an array of dtype bool; convert it to float64.": lambda: kl.Box(
        False, True
    ),
    # schedules
    "Constant needs sigma > 0, got sigma=0; give a regularisation above zero, 1 / learning rate.": lambda: (
        kl.GD(BALL, 0)
    ),  # pyright: ignore
    "Sqrt needs offset > -1, so that sigma > 0 at every round, got offset=-1.0; use offset=0.": lambda: (
        kl.Sqrt(1, -1)
    ),
    "Constant needs sigma >= 1e-60, got sigma=1e-310; use smaller units.": lambda: kl.GD(BALL, 1e-310),
    "Sqrt needs c within +-1e+60, got c=1e+308; use larger units.": lambda: kl.Sqrt(1e308),
    "ScaleFree needs diameter > 0, got diameter=0; use domain.diameter.": lambda: kl.ScaleFree(0),
    "Falling needs sigma > 0 (1e-60 at least) at every round, got sigma(3)=0.0; raise it.": lambda: kl.run(
        kl.GD(BALL, Falling()), G
    ),
    # learners
    "KLazyGD needs a slack k >= 1, got k=0; use k=1 for greedy GD.": lambda: kl.KLazyGD(BALL, 1.0, 0),  # pyright: ignore
    "KLazyFTRL needs a slack k >= 1, got k=2.5; use k=1 for greedy GD.": lambda: kl.KLazyFTRL(BALL, 1.0, 2.5),  # pyright: ignore
    "Clock needs a slack k >= 1, got k=-3; use k=1 for greedy GD.": lambda: kl.memories.Clock(-3),
    "Decay needs a memory m >= 1, got m=0.5; use m=1 for greedy GD.": lambda: kl.memories.Decay(0.5),
    "Clip needs kappa > 0, got kappa=0; use Forget() to keep nothing.": lambda: kl.memories.Clip(0),
    "MemoryGD needs a memory rule, got memory=32; write Decay(32) or Clock(65).": (
        lambda: kl.MemoryGD(BALL, 1.0, 32)  # pyright: ignore
    ),
    "GD needs a set to play on, got domain=3; write GD(L2Ball(5), ...).": lambda: kl.GD(3, 1.0),  # pyright: ignore
    "GD needs a start point in L2Ball(dim=3), got start=[1.0, 1.0, 1.0]; project it onto the set first.": (
        lambda: kl.GD(BALL, 1.0, start=[1, 1, 1])  # pyright: ignore
    ),
    "GD needs shape (3,), got start of shape=(2,); give one number per coordinate.": lambda: kl.GD(
        BALL, 1.0, start=[0, 0]
    ),  # pyright: ignore
    # ensembles
    "SAder needs a list of learners, got experts=[]; write SAder([GD(ball, 1.0), GD(ball, 2.0)]).": lambda: (
        kl.SAder([])
    ),
    "SAder needs experts on one set, L2Ball(dim=3), got experts[1].domain=L2Ball(dim=2); build every expert on the same set.": (
        lambda: kl.SAder([GD, kl.GD(kl.L2Ball(2), 1.0)])
    ),
    "SAder needs beta to be one of 'self-tuned', got beta='lemma'; choose one of these.": (
        lambda: kl.SAder([GD], "lemma")
    ),
    "SAder needs beta > 0, got beta=0; give a number above zero.": lambda: kl.SAder([GD], 0),
    "SAder needs a prior of at least 1e-100 each that sums to 1, got prior=[0.5, 0.6]; divide it by its sum.": (
        lambda: kl.SAder([GD, GD], prior=[0.5, 0.6])
    ),
    "SAder needs shape (1,), got prior of shape=(2,); give one number per coordinate.": lambda: kl.SAder(
        [GD], prior=[0.5, 0.5]
    ),
    "SAder needs prior to be one of 'harmonic', 'uniform', got prior='flat'; choose one of these.": lambda: (
        kl.SAder([GD], prior="flat")
    ),
    "SAder needs a norm with one weight, got movement=SwitchFee(); an average moves whenever an expert does: "
    "follow one of them by Leader(..., guard=False).": (lambda: kl.SAder([GD], movement=kl.SwitchFee())),
    "SAder needs a norm with one weight, got movement=L2Movement(weight=[1.0, 2.0]);": (
        lambda: kl.contrib.ensemble_auto(BALL, kl.L2Movement([1.0, 2.0]))
    ),
    "Leader needs a list of learners, got experts=3; write Leader([GD(ball, 1.0), GD(ball, 2.0)], L2Movement(1.0)).": (
        lambda: kl.Leader(3, kl.L2Movement())  # pyright: ignore
    ),
    "Leader needs a norm with one weight, got movement=SwitchFee(); write L2Movement(1.0), or guard=False.": (
        lambda: kl.Leader([GD], kl.SwitchFee())
    ),
    "Leader needs a norm with one weight, got movement=L2Movement(weight=[1.0, 2.0]); write L2Movement(1.0), or guard=False.": (
        lambda: kl.Leader([GD], kl.L2Movement([1.0, 2.0]))
    ),
    "Leader needs caution >= 0, got caution=-1;": lambda: kl.Leader([GD], kl.L2Movement(), caution=-1),
    "Leader needs guard to be True or False, got guard=2; write guard=True or guard=False.": (
        lambda: kl.Leader([GD], kl.L2Movement(), guard=2)  # pyright: ignore
    ),
    "Leader needs a family of costs, got family='pinball'; leave it out, or write Pinball(2.0, 1.0).": (
        lambda: kl.Leader([GD], kl.L2Movement(), family="pinball")  # pyright: ignore
    ),
    "Leader needs experts of the family None, got experts[0].family=Quadratic(); give Leader the same family.": (
        lambda: kl.Leader([kl.Leader([GD], kl.L2Movement(), family=kl.Quadratic())], kl.L2Movement())
    ),
    "run needs a leader among 1 experts, got state.leader=1; go on from a trace or agent.": (
        lambda: kl.run(
            kl.Leader([GD], kl.L2Movement()),
            G,
            state=kl.Leader([GD], kl.L2Movement()).init()._replace(leader=1),
        )
    ),
    "certify_experts needs a Leader with a guard, got guard=False; build it with guard=True.": (
        lambda: kl.theory.certify_experts(
            kl.run(kl.Leader([GD], kl.L2Movement(), guard=False), G, record="experts", engine="step")
        )
    ),
    "auto needs a set to play on, got domain=3; write auto(L2Ball(5), ...).": lambda: kl.auto(3),  # pyright: ignore
    "auto needs a movement cost, got movement=5; write L2Movement(5).": lambda: kl.auto(BALL, 5),  # pyright: ignore
    "sader needs a horizon T >= 1, got T=0; give the number of rounds, or use auto, which needs none.": (
        lambda: kl.sader(BALL, 0, 1.0)
    ),
    "sader_k needs G > 0, got G=0; give a bound on the gradients' norms, or use auto, which needs none.": (
        lambda: kl.sader_k(BALL, 10, 0)
    ),
    "sader needs beta to be one of 'lemma', 'tight', 'authors', 'self-tuned', got beta='x';": (
        lambda: kl.sader(BALL, 10, 1.0, beta="x")
    ),
    "ader needs a set to play on, got domain=3; write ader(L2Ball(5), ...).": lambda: kl.contrib.ader(
        3,  # pyright: ignore
        10,
        1.0,
    ),
    "AsymmetricMovement needs shape (3,), got up of shape=(2,); give one number per coordinate.": (
        lambda: kl.auto(BALL, kl.AsymmetricMovement(up=[1.0, 2.0]))
    ),
    "corrupted needs a seed for random phases, got seed=None; give a number.": lambda: corrupted(
        random_phases=True
    ),
    "run needs experts without hints, got experts[0].hint=[1. 1. 1.]; an ensemble takes none.": (
        lambda: kl.run(
            kl.SAder([MEMORY]),
            G,
            state=kl.SAder([MEMORY]).init()._replace(experts=(MEMORY.init()._replace(hint=np.ones(3)),)),
        )
    ),
    "run needs experts in round t=1, got experts[0].t=2; go on from a trace.": (
        lambda: kl.run(
            kl.SAder([GD]), G, state=kl.SAder([GD]).init()._replace(experts=(GD.init()._replace(t=2),))
        )
    ),
    "StronglyAdaptive needs levels >= 1, got levels=0; give the number of interval lengths.": (
        lambda: kl.contrib.StronglyAdaptive(BALL, 1.0, levels=0)
    ),
    "run needs a SAder or Leader for record='experts', got learner=GD(": lambda: kl.run(
        GD, G, record="experts"
    ),
    "run needs the states of 1 experts, got state.experts=()": (
        lambda: kl.run(kl.SAder([GD]), G, state=kl.SAder([GD]).init()._replace(experts=()))
    ),
    # costs
    "LinearCosts needs finite numbers, got g[2, 1]=nan; remove or fill NaN and inf.": lambda: kl.run(
        GD, holes(np.nan), engine="step"
    ),
    "LinearCosts needs finite numbers, got g[2, 1]=-inf; remove or fill NaN and inf.": lambda: kl.run(
        GD, holes(-np.inf), engine="step"
    ),
    "LinearCosts needs shape (T, d), got g of shape=(3,); give one row per round.": lambda: kl.run(
        GD, [1.0, 2.0, 3.0]
    ),
    "LinearCosts needs shape (T, d), got g of shape=(0, 3); give one row per round.": lambda: kl.run(
        GD, np.ones((0, 3))
    ),
    "LinearCosts needs rows of equal length, got g=a ragged list; give every row the same length.": (
        lambda: kl.run(GD, [[1.0], [2.0, 3.0]])
    ),
    "LinearCosts needs real numbers, got g=an array of dtype object; convert it to float64.": (
        lambda: kl.run(GD, np.array([[None, 1.0, 2.0]]))
    ),
    "LogWealthCosts needs relatives > 0, got relatives=0.0; divide prices by the last.": (
        lambda: kl.LogWealthCosts([[1.0, 0.0]])
    ),
    "QuadraticCosts needs weight >= 0, got weight=-1.0; a negative one is not convex.": lambda: (
        kl.QuadraticCosts(G, -1.0)
    ),
    "QuadraticCosts needs shape (4,), got weight of shape=(3,); give one number per coordinate.": (
        lambda: kl.QuadraticCosts(G, [1.0, 1.0, 1.0])
    ),
    "Pinball needs short >= 0, got short=-2.0; a negative price is not convex.": lambda: kl.PinballCosts(
        G, -2.0
    ),
    "HingeCosts needs T=4 labels -1 or +1, got labels=[0, 1, 0, 1]; recode the classes.": lambda: (
        kl.contrib.HingeCosts(G, [0, 1, 0, 1])
    ),
    "CallableCosts needs shape (3,), got subgradient(1) of shape=(2,); give one number per coordinate.": (
        lambda: kl.run(GD, kl.CallableCosts(2, 3, lambda t, x: 0.0, lambda t, x: [0.0, 0.0]))
    ),
    "CallableCosts needs one number, got value(1) of shape=(3,); return f_t(x) as a float.": (
        lambda: kl.run(GD, kl.CallableCosts(2, 3, lambda t, x: x, lambda t, x: x))  # pyright: ignore
    ),
    "CallableCosts needs one number, got value(1) of shape=(1,); return f_t(x) as a float.": (
        lambda: kl.CallableCosts(2, 3, lambda t, x: x[:1], lambda t, x: x).values(G[:2])  # pyright: ignore
    ),
    "CallableCosts needs one number, got value(2)=None; return f_t(x) as a float.": (
        lambda: kl.run(GD, kl.CallableCosts(2, 3, lambda t, x: 0.0 if t < 2 else None, lambda t, x: x))  # pyright: ignore
    ),
    "Mine needs shape (3,), got subgradient(1) of shape=(1,); give one number per coordinate.": (
        lambda: kl.run(GD, Mine(subgradient=lambda t: np.ones(1)))
    ),
    "Mine needs shape (3,), got subgradient(4) of shape=(); give one number per coordinate.": (
        lambda: kl.run(GD, Mine(subgradient=lambda t: np.ones(3) if t < 4 else 1.0))
    ),
    "Mine needs real numbers, got subgradient(1)=an array of dtype complex128; convert it to float64.": (
        lambda: kl.run(GD, Mine(subgradient=lambda t: 1j * np.ones(3)))
    ),
    "Mine needs one number, got value(1) of shape=(1,); return f_t(x) as a float.": (
        lambda: kl.run(GD, Mine(value=lambda t: np.ones(1)))
    ),
    # movement
    "L2Movement needs weights >= 0, one or one per round, got weight=-1; give a number or a vector.": lambda: (
        kl.L2Movement(-1)
    ),
    "L2Movement needs one weight or T=4 of them, got weights=2; give one per round.": (
        lambda: kl.run(GD, G, movement=kl.L2Movement(np.ones(2)))
    ),
    "WeightedL2Movement needs shape (3,), got scale of shape=(2,); give one number per coordinate.": (
        lambda: kl.run(GD, G, movement=kl.contrib.WeightedL2Movement(scale=np.ones(2)))
    ),
    "ImpactMovement needs scale >= 0, got scale=[]; give a number or one per coordinate.": (
        lambda: kl.contrib.ImpactMovement(scale=())
    ),
    "resonance needs flips <= 1000000, got flips=9223372036854775808; the mean settles long before.": (
        lambda: resonance(kl.KLazyGD(BALL, 1.0, 4), flips=2**63)
    ),
    "MahalanobisMovement needs a square matrix, got A of shape=(2,); give one of shape (d, d).": (
        lambda: kl.contrib.MahalanobisMovement(A=[1.0, 2.0])
    ),
    "MahalanobisMovement needs a symmetric matrix, got A=[[1.0, 1.0], [0.0, 1.0]]; use (A + A.T) / 2.": (
        lambda: kl.contrib.MahalanobisMovement(A=[[1.0, 1.0], [0.0, 1.0]])
    ),
    "MahalanobisMovement needs eigenvalues >= 0, got the least=-1.0; give a covariance matrix, say.": (
        lambda: kl.contrib.MahalanobisMovement(A=[[1.0, 0.0], [0.0, -1.0]])
    ),
    "MahalanobisMovement needs shape (3, 3), got A of shape=(2, 2); give one row and one column per coordinate.": (
        lambda: kl.run(GD, G, movement=kl.contrib.MahalanobisMovement(A=np.eye(2)))
    ),
    "ImpactMovement needs scale > 0, got scale=[1.0, 0.0]; give a number above zero, or one per coordinate.": (
        lambda: kl.contrib.ImpactMovement(scale=[1.0, 0.0])
    ),
    "Seasonal needs a norm for a plan, got movement=SquaredMovement(); give a horizon in rounds.": (
        lambda: kl.Seasonal(BALL, kl.SquaredMovement())
    ),
    "SAder needs a price of the step alone, got movement=a DriftedMovement; write TVMovement(...) here, and charge it in run.": (
        lambda: kl.SAder([GD], movement=DRIFTED)
    ),
    "DriftedMovement needs price relatives > 0, got relatives=0.0; divide prices by the last.": (
        lambda: kl.contrib.DriftedMovement(relatives=[[1.0, 0.0]])
    ),
    "DriftedMovement needs T=4 rows, got relatives of shape=(3, 3); give those of every round.": (
        lambda: kl.run(GD, G, movement=DRIFTED)
    ),
    "DriftedMovement needs shape (T, 2), got relatives of shape=(3, 3); give one column per coordinate.": (
        lambda: kl.offline_optimum(np.ones((3, 2)), kl.Simplex(2), DRIFTED)
    ),
    "offline_optimum needs a Simplex for a DriftedMovement, got domain=L2Ball(dim=3); use Simplex(d), or TVMovement(...).": (
        lambda: kl.offline_optimum(np.ones((3, 3)), BALL, DRIFTED)
    ),
    "ScaleFree needs movement_weight >= 0, got movement_weight=-1.0; give zero or positive numbers.": (
        lambda: kl.ScaleFree(1.0, movement_weight=[1.0, -1.0])
    ),
    "AsymmetricMovement needs up >= 0, got up=[-1.0, 1.0]; give a number or one per coordinate.": (
        lambda: kl.AsymmetricMovement(up=np.array([-1.0, 1.0]))
    ),
    # run
    "run needs a learner, got learner=3; write run(GD(L2Ball(5), 1.0), costs).": lambda: kl.run(3, G),  # pyright: ignore
    "run needs costs on R^3, the set's space, got costs.dim=2; match the dimensions.": lambda: kl.run(
        GD, np.ones((4, 2))
    ),
    "run needs engine to be one of 'auto', 'compiled', 'step', got engine='fast'; choose one of these.": (
        lambda: kl.run(GD, G, engine="fast")
    ),
    "run needs record to be one of 'experts', 'actions', 'costs', 'totals', got record='all'; choose one of these.": (
        lambda: kl.run(GD, G, record="all")
    ),
    "run needs a movement cost, got movement=5; write L2Movement(5).": lambda: kl.run(GD, G, movement=5),  # pyright: ignore
    "run needs a learner that accepts hints, got learner=GD(domain=L2Ball(dim=3), sigma=Constant(s=1.0)); use MemoryGD, or no hints.": (
        lambda: kl.run(GD, G, hints=G)
    ),
    "run needs shape (4, 3), got hints of shape=(3, 3); give one row per round.": (
        lambda: kl.run(kl.MemoryGD(BALL, 1.0, kl.memories.Full()), G, hints=G[:3])  # pyright: ignore
    ),
    "run needs shape (3,), got x0 of shape=(1,); give one number per coordinate.": lambda: kl.run(
        GD, G, x0=[0.0]
    ),
    "regret needs shape (4, 3), got u of shape=(2, 3); give one row per round.": lambda: kl.regret(
        kl.run(GD, G, engine="step"), G[:2]
    ),
    "run needs a state of KLazyGD, got state=GDState(": lambda: kl.run(
        kl.KLazyGD(BALL, 1.0, 2), G, state=GD.init()
    ),
    "run needs shape (3,), got state.x of shape=(2,); give one number per coordinate.": (
        lambda: kl.run(GD, G, state=kl.GD(kl.L2Ball(2), 1.0).init())
    ),
    "regret needs the run's costs, T=4 and dim=3, got costs=LinearCosts(T=1, dim=3); pass those of the run.": (
        lambda: kl.regret(kl.run(GD, G), G, costs=G[:1])
    ),
    "regret needs finite costs of the comparator, got f_1(u_1)=inf; choose u in the set.": (
        lambda: kl.regret(kl.run(kl.GD(kl.L2Ball(3, 1.0, [2.0, 2.0, 2.0]), 1.0), STEEP), [1.0, 2.0, 2.0])
    ),
    "regret needs a comparator in L2Ball(dim=3), got u=a point outside; project it first.": (
        lambda: kl.regret(kl.run(GD, G, engine="step"), [0.8, 0.8, 0.8])
    ),
    "regret needs a trace, got trace=3; pass what run returned.": lambda: kl.regret(3, G),  # pyright: ignore
    "certify needs a trace, got trace=None; pass what run returned.": lambda: kl.theory.certify(None, G),  # pyright: ignore
    "Trace.diagnose needs a finite number G, got G='big'; give a float.": (
        lambda: kl.run(GD, G, engine="step").diagnose(G="big")  # pyright: ignore
    ),
    "Trace.save needs the path of a file, got path=1; give a str or a Path.": (
        lambda: kl.run(GD, G, engine="step").save(1)  # pyright: ignore
    ),
    "run needs points in L2Ball(dim=3), got x_3=[2.0, 0.0, 0.0]; let Leaving.step project what it returns.": (
        lambda: kl.run(Leaving(BALL, 1.0), G)
    ),
    "run needs points in L2Ball(dim=3), got x_3=[2.0, 0.0, 0.0]; let Leaving.step project what it returns": (
        lambda: kl.run(Leaving(BALL, 1.0), G, record="totals")
    ),
    # masked arrays, whose entries NumPy would take from under the mask
    "LinearCosts needs numbers that are all there, got g=a masked array; fill or remove what is masked.": (
        lambda: kl.run(GD, np.ma.masked_greater(G + np.eye(4, 3), 1.5))
    ),
    "L2Ball needs numbers that are all there, got center=a masked array; fill or remove what is masked.": (
        lambda: kl.L2Ball(2, center=np.ma.array([1.0, 2.0], mask=[False, True]))
    ),
    "run needs numbers that are all there, got hints=a masked array; fill or remove what is masked.": (
        lambda: kl.run(MEMORY, G, hints=[np.ma.array(row, mask=row > 0.0) for row in G])
    ),
    "L2Ball needs a finite number radius, got radius=masked; give a float.": lambda: kl.L2Ball(
        2,
        np.ma.masked,  # pyright: ignore
    ),
    "L2Ball needs a finite number radius, got radius=an integer of 16610 bits; give a float.": (
        lambda: kl.L2Ball(2, 10**5000)
    ),
    "run_many needs learners, got learners[1]=3; write run_many([GD(L2Ball(5), 1.0)], costs).": (
        lambda: kl.run_many([GD, 3], G)  # pyright: ignore
    ),
    "run_many needs jobs >= 1, got jobs=0; leave it out for all cores.": lambda: kl.run_many([GD], G, jobs=0),
    "CallableCosts needs a function value(t, x), got value=None; give a Python function.": (
        lambda: kl.CallableCosts(3, 2, None, None)  # pyright: ignore
    ),
    "KLazyGD needs a finite number k, got k=1": lambda: kl.KLazyGD(BALL, 1.0, 10**400),
    "Agent needs a learner, got learner='GD'; write Agent(GD(L2Ball(5), 1.0)).": lambda: kl.Agent("GD"),  # pyright: ignore
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


STEEP = kl.CallableCosts(4, 3, lambda t, x: 0.0 if x[0] > 1.1 else np.inf, lambda t, x: np.zeros(3))


class Falling(kl.types.Schedule):
    def __call__(self, t):
        return 3.0 - t


@pytest.mark.parametrize("message", REFUSED)
def test_refused_with_a_sentence_that_helps(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        REFUSED[message]()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("engine", ["compiled", "step"])
@pytest.mark.parametrize("sigma", [kl.Constant(1.0), kl.ScaleFree(2.0)], ids=repr)
def test_a_kernel_finds_what_is_not_finite_by_itself(value, engine, sigma):
    """Bare arrays are not searched before the run: the costs show every NaN and inf, even where x is zero."""
    for learner in (
        kl.GD(kl.L2Ball(5), sigma),
        kl.MemoryGD(kl.L2Ball(5), sigma, kl.memories.Full()),
        kl.KLazyFTRL(kl.L1Ball(5), sigma, 2),
    ):
        with pytest.raises(
            ValueError, match=re.escape(f"LinearCosts needs finite numbers, got g[2, 1]={value};")
        ):
            kl.run(learner, holes(value, d=5), engine=engine)
    g = np.zeros((3, 5))
    g[0, 0] = value
    with pytest.raises(ValueError, match=re.escape(f"got g[0, 0]={value};")):
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
    assert [Path(frame.filename).name for frame in frames[-2:]] == ["test_bad_input.py", "options.py"]
    shown = traceback.format_exception(caught.value)
    assert sum(part.count("\n") for part in shown) <= 10 + 3  # this test's own frame, which no user has


def test_an_unknown_keyword_names_the_one_that_is_meant():
    learner = kl.GD(kl.Box(0, 1), 1.0)
    with pytest.raises(
        TypeError, match=r"unexpected keyword argument 'movemnt'\. Did you mean 'movement'\?$"
    ):
        kl.run(learner, [[1.0]], movemnt="l1")  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match=r"^run\(\) got an unexpected keyword argument 'colour'\.$"):
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
def test_a_constructor_names_the_keyword_that_is_meant(make: Any, options: dict[str, Any], message: str):
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

    with pytest.raises(TypeError, match=r"^Halving\(\) got an .* 'strt'\. Did you mean 'start'\?$"):
        Halving(kl.Box(0, 1), 1.0, strt=[0.5])
