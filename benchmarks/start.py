"""What the first second costs: CPU-seconds of the first run, agent and replay of a new process.  python benchmarks/start.py

Each row is a process of its own, once with an empty folder of compiled kernels, once with that and the pack of kernels that
scripts/kernels.py makes, and again with those that the first has left there, all several times; the least counts. Time is the
processor's, of the child and all its threads, so others do not count, though on a busy machine every instruction takes longer.
Bytecode is compiled before, as an installer would.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import pages
from klazy.kernels.target import list_levels

HEADING = "## The first second"
PACKER = Path(__file__).parents[1] / "scripts" / "kernels.py"
ROWS = (2000, 5)  # of the table that is replayed
TRACE = "import numpy as np, klazy as kl; g = np.random.default_rng(0).normal(size=(1000, 5))"
CALLS = {
    "first `kl.run` of GD, l2 ball": f"{TRACE}; kl.run(kl.GD(kl.L2Ball(5), 1.0), g)",
    "first `kl.run` of KLazyGD, l2 ball": f"{TRACE}; kl.run(kl.KLazyGD(kl.L2Ball(5), 1.0, k=65), g)",
    "first `kl.run` of KLazyGD, l1 ball": f"{TRACE}; kl.run(kl.KLazyGD(kl.L1Ball(5), 1.0, k=65), g)",
    "first `kl.run` of auto, simplex": f"{TRACE}; kl.run(kl.auto(kl.Simplex(5)), g)",
    "first `Agent.observe` of auto, simplex": f"{TRACE}; kl.Agent(kl.auto(kl.Simplex(5)), costs=kl.Linear()).observe(g[0])",
}
REPLAY = f"first `klazy replay` of {ROWS[0]} x {ROWS[1]}, simplex"
# CPU-seconds that are aimed at: without kernels, and with them.
AIMS = dict.fromkeys(CALLS, (1.2, 0.35))
AIMS["first `kl.run` of auto, simplex"] = (3.0, 0.35)
AIMS["first `Agent.observe` of auto, simplex"] = (3.0, 0.35)
AIMS[REPLAY] = (6.0, 0.8)


def spend(command: list[str], cache: Path, *sites: Path) -> float:
    """Return the CPU-seconds of a new process that finds kernels in a folder, and modules in further ones."""
    # Other users have no such settings.
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    path = os.pathsep.join(map(str, sites))
    child = subprocess.Popen(
        [sys.executable, *command],
        env=kept | {"KLAZY_CACHE_DIR": str(cache), "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"This command failed: {command}")
    return used.ru_utime + used.ru_stime


def list_commands(folder: Path) -> dict[str, list[str]]:
    """List what is measured, and write the table that is replayed into a folder."""
    table = folder / "costs.csv"
    rows = np.random.default_rng(0).normal(size=ROWS)
    np.savetxt(table, rows, fmt="%.6f", delimiter=",", header="a,b,c,d,e", comments="")
    commands = {name: ["-c", call] for name, call in CALLS.items()}
    return commands | {REPLAY: ["-m", "klazy", "replay", str(table), "--domain", "simplex"]}


def hide_coverage(folder: Path) -> Path:
    """Return a folder for the path of processes to which ``coverage`` is not installed.

    It is there for tests, and Numba imports it wherever it finds it.
    """
    hidden = folder / "hidden"
    hidden.mkdir()
    (hidden / "coverage.py").write_text("raise ImportError", encoding="utf-8")
    return hidden


def make_pack(folder: Path) -> Path:
    """Compile the pack of kernels for this dimension and this processor, and return the folder in which it is."""
    site = folder / "site"
    options = [f"--folder={site}", f"--dim={ROWS[1]}", f"--level={list_levels()[0]}"]
    subprocess.run([sys.executable, str(PACKER), *options], check=True, stdout=subprocess.DEVNULL)
    return site


def measure(
    command: list[str], folder: Path, hidden: Path, pack: Path, repeats: int
) -> tuple[float, float, float]:
    """Return the least CPU-seconds without kernels, with the pack, and with kernels."""
    without: list[float] = []
    packed: list[float] = []
    filled: list[float] = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory(dir=folder) as cache:
            packed.append(spend(command, Path(cache), hidden, pack))
        with tempfile.TemporaryDirectory(dir=folder) as cache:
            without.append(spend(command, Path(cache), hidden))
            filled.append(spend(command, Path(cache), hidden))
    return min(without), min(packed), min(filled)


def judge(seconds: float, aim: float, digits: int) -> str:
    """Return a figure, marked if it misses its aim."""
    mark = "" if seconds <= aim else " (missed)"
    return f"{seconds:.{digits}f}{mark}"


def make_table(repeats: int) -> Iterator[dict[str, str | None]]:
    """Yield a row for everything that is measured."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spend(
            ["-c", "import klazy, klazy.cli, klazy.kernels.ensemble"], folder
        )  # This compiles bytecode.
        hidden = hide_coverage(folder)
        pack = make_pack(folder)
        for what, command in list_commands(folder).items():
            without, packed, filled = measure(command, folder, hidden, pack, repeats)
            aim, aim_filled = AIMS[what]
            yield {
                "what": what,
                "CPU-s": judge(without, aim, 1),
                "with the pack": judge(packed, aim, 2),
                "aim": f"{aim:.1f}",
                "with kernels": judge(filled, aim_filled, 2),
                "aim there": f"{aim_filled:.2f}",
            }
        # It says how fast the machine was at that time.
        alone = min(spend(["-c", "import numba"], folder, hidden) for _ in range(repeats))
        yield {
            "what": "`import numba`, for comparison",
            "CPU-s": None,
            "with the pack": None,
            "aim": None,
            "with kernels": f"{alone:.2f}",
            "aim there": None,
        }


REPEATS = 3
BEFORE = [
    "CPU-seconds of a new process until its first result, interpreter and imports included: with an empty folder of compiled "
    "kernels, with an empty folder and [the pack](start.md#compiled-kernels), and with what a process without the pack left "
    f"there. The least of {REPEATS}, 1000 rounds, d = 5. Printed by `python benchmarks/start.py`.",
    "",
]
AFTER = [
    "What limits it: most of the time in which `auto` compiles is Numba itself, which is Python, and takes time for each of "
    "some hundred parts and for each of their instructions; less than half is LLVM. With kernels, importing NumPy and Numba is "
    "most of the time of a run, and importing these, polars, and the packages of the command that of a replay. Other load on "
    "the machine makes the same work take more CPU-seconds, also those of the last row.",
    "",
]


def make(out: Path, folder: Path) -> str:
    """Return the text after the heading."""
    return "\n".join([*BEFORE, *pages.markdown(list(make_table(REPEATS))), *AFTER])


if __name__ == "__main__":
    pages.run(__doc__, HEADING, "build/start", make)
