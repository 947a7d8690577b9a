"""The offline optimum against cvxpy with Clarabel, and its dynamic programme against the same recursion in Python loops."""

import json
import statistics
import subprocess
import sys
import time

import numpy as np

import klazy as kl

T_LOOPS = 1_000_000

# One contender in a process of its own: seconds, cost, and the peak beyond what was there before, in kB (Linux can forget
# the peak of what came before, such as compiling).
SCRIPT = """
import json, sys, time
from pathlib import Path
import numpy as np, klazy as kl
from klazy.sequences import stochastic
scenario = stochastic(42)
g, T = scenario.costs.arrays()[0], scenario.costs.T

def ours():
    found = kl.offline_optimum(g, scenario.domain, gap=1e-4)
    return found.cost, found.gap

def clarabel():
    import cvxpy as cp
    u = cp.Variable(g.shape)
    moved = cp.sum(cp.norm(u[1:] - u[:-1], 2, axis=1))
    problem = cp.Problem(cp.Minimize(cp.sum(cp.multiply(g, u)) + moved), [cp.norm(u, 2, axis=1) <= 1])
    problem.solve(solver="CLARABEL", tol_gap_rel=1e-4, tol_gap_abs=1e-4, tol_feas=1e-6)
    return float(problem.value), problem.solver_stats.solve_time

if sys.argv[1] == "ours":
    kl.offline_optimum(g[:100], scenario.domain)  # compile
else:
    import cvxpy
def memory(name):
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1])

Path("/proc/self/clear_refs").write_text("5")
before = memory("VmRSS")
start = time.perf_counter()
cost, detail = {"ours": ours, "clarabel": clarabel}[sys.argv[1]]()
seconds = time.perf_counter() - start
print(json.dumps([seconds, cost, detail, memory("VmHWM") - before]))
"""


def _contender(name: str) -> list[float]:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, name], check=True, capture_output=True, text=True
    )
    return json.loads(ran.stdout.splitlines()[-1])


def against_clarabel(repeats: int = 3) -> list[str]:
    """In turn, each in a process of its own, after its kernels are compiled or cvxpy is imported."""
    pairs = [(_contender("ours"), _contender("clarabel")) for _ in range(repeats)]
    whole = statistics.median(theirs[0] / ours[0] for ours, theirs in pairs)
    solver = statistics.median(theirs[2] / ours[0] for ours, theirs in pairs)
    memory = statistics.median(ours[3] / theirs[3] for ours, theirs in pairs)
    ours, theirs = pairs[0]
    return [
        f"T = 60 000, d = 5, l2 ball, l2 movement, the paper's stochastic sequence, relative gap 1e-4 (reached {ours[2]:.1e}): "
        f"{whole:.0f} times as fast as cvxpy with Clarabel asked for the same gap, {solver:.0f} times as fast as its own "
        f"time; {memory:.2f} of its peak memory ({ours[3] / 1024:.0f} and {theirs[3] / 1024:.0f} MB beyond what was there "
        f"before). Cost found: {ours[1]:.2f} and {theirs[1]:.2f}. The aims: 5 times, and a third of the memory."
    ]


def in_loops(g: np.ndarray, weight: float) -> tuple[float, list[int]]:
    """The dynamic programme on the simplex with total variation, in plain Python over T: the cost, and the vertices played."""
    rows, values, cheapest, stays = g.tolist(), [0.0] * g.shape[1], [], []
    for row in rows:
        least = min(values)
        enter = least + weight
        cheapest.append(values.index(least))
        stays.append([value <= enter for value in values])
        values = [
            cost + (value if value <= enter else enter)
            for cost, value in zip(row, values, strict=True)
        ]
    at = values.index(min(values))
    played = [at]
    for t in range(len(rows) - 1, 0, -1):
        at = at if stays[t][at] else cheapest[t]
        played.append(at)
    return min(values), played[::-1]


def against_loops(repeats: int = 5) -> list[str]:
    g = np.random.default_rng(0).normal(size=(T_LOOPS, 5))
    domain, movement = kl.Simplex(5), kl.TVMovement(2.0)
    kl.offline_optimum(g[:10], domain, movement)  # compile
    quotients = []
    for _ in range(repeats):
        start = time.perf_counter()
        found = kl.offline_optimum(g, domain, movement)
        middle = time.perf_counter()
        value, played = in_loops(g, 2.0)
        quotients.append((time.perf_counter() - middle) / (middle - start))
        assert abs(found.cost - value) <= 1e-9 * abs(value)
        assert abs(found.hitting - g[np.arange(T_LOOPS), played].sum()) <= 1e-9 * abs(value)
    return [
        f"T = 10^6, d = 5, simplex, total-variation movement: {statistics.median(quotients):.0f} times as fast as the same "
        f"dynamic programme in plain Python loops over T ({min(quotients):.0f} to {max(quotients):.0f} in {repeats} calls, the "
        "first of which must get its memory from the system). The aim: 20 times."
    ]
