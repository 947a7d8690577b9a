"""Compile common kernels ahead and put them into a wheel of their own, klazy-kernels.

``python scripts/kernels.py --out dist`` plays common learners on common sets, once for each level of processors that has
kernels (klazy.kernels.target), and packs what was compiled. ``--folder`` leaves the package unpacked in a folder, as if it were
installed there. Run it with the Python of an environment in which klazy is installed with the extra ``cli``: the kernels are
for that klazy, that Python and that Numba. The processor must have the features of every level.
"""

import argparse
import base64
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import klazy as kl
from klazy.kernels.binding import ABOUT, PACK, describe_making
from klazy.kernels.target import LEVELS, list_levels

PLATFORM = "manylinux_2_17_x86_64"  # Kernels call functions of libm that every glibc has.
METADATA = """\
Metadata-Version: 2.4
Name: klazy-kernels
Version: {version}
Summary: Kernels of klazy that are compiled ahead, so that first calls take less time
License-Expression: MIT
License-File: LICENSE
Requires-Dist: klazy=={version}
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: klazy
Root-Is-Purelib: false
Tag: {tag}
"""
LICENSE = Path(__file__).parents[1] / "LICENSE"
# Nine stands for all larger dimensions, which share a kernel.
DIMS = (1, 2, 3, 4, 5, 6, 7, 8, 9)
# Enough rows for a replay to compile what it plays, and few enough to be quick.
ROWS = 2000
SETS: dict[str, Callable[[int], kl.types.ConvexSet]] = {
    "simplex": kl.Simplex,
    "box": lambda dim: kl.Box(np.zeros(dim), np.ones(dim)),
    "l2 ball": kl.L2Ball,
    "l1 ball": kl.L1Ball,
}
# What is replayed, and what auto plays; on the other sets single learners play.
REPLAYED: dict[str, dict[str, kl.types.Family]] = {
    "simplex": {"linear": kl.Linear()},
    "box": {"linear": kl.Linear(), "quadratic": kl.Quadratic(), "pinball": kl.Pinball(4.0)},
}
LEARNERS: tuple[Callable[[Any], Any], ...] = (
    lambda domain: kl.GD(domain, 1.0),
    lambda domain: kl.KLazyGD(domain, 1.0, k=2),
    lambda domain: kl.MemoryGD(domain, 1.0, memory=kl.memories.Decay(2.0)),
)


def play(dims: Sequence[int]) -> None:
    """Play what is common, so that its kernels are compiled."""
    for dim in dims:
        rows = np.random.default_rng(0).uniform(size=(ROWS, dim))
        for name, make_set in SETS.items():
            domain = make_set(dim)
            for make in LEARNERS:
                kl.run(make(domain), rows[:3])
                kl.Agent(make(domain)).update(rows[0])
                kl.Fleet(make(domain), 1).update(rows[:1])
            for costs, family in REPLAYED.get(name, {}).items():
                print(f"auto on {name} of dimension {dim}, {costs} costs", flush=True)
                # A replay refuses linear costs on a box that are all positive.
                given = rows - 0.5 if costs == "linear" else rows
                learner = kl.auto(domain, costs=family)
                kl.run(learner, family.costs(given[:3]))
                kl.Agent(learner, costs=family).observe(given[0])
                if domain.diameter > 0.0:
                    play_replay(domain, family, given)


def play_replay(domain: Any, family: kl.types.Family, rows: np.ndarray) -> None:
    """Replay rows, and let each contender go on as an agent."""
    report = kl.replay(rows, domain, family, move_cost=0.1)
    for score in report.scores:
        print(f"  {score.name}: {report.agent(score.name).engine}", flush=True)


def compile_for(level: str, dims: Sequence[int], folder: Path) -> None:
    """Compile kernels for a level into a folder, in a process of its own."""
    target = {"NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": LEVELS[level]}
    command = [sys.executable, __file__, "--play", *(f"--dim={dim}" for dim in dims)]
    subprocess.run(
        command, env=os.environ | target | {"KLAZY_CACHE_DIR": str(folder)}, check=True
    )


def make_package(folder: Path, levels: Sequence[str], dims: Sequence[int]) -> Path:
    """Make the package of kernels in a folder, and return its own."""
    package = folder / PACK
    package.mkdir(parents=True)
    about = '"""Kernels of klazy that are compiled ahead; klazy finds them here."""\n'
    (package / "__init__.py").write_text(about, encoding="utf-8")
    (package / ABOUT).write_text(json.dumps(describe_making()), encoding="utf-8")
    for level in levels:
        compile_for(level, dims, package / level)
    return package


def write_wheel(out: Path, package: Path) -> Path:
    """Write the package as a wheel into a folder, and return its path."""
    python = sys.implementation.cache_tag.replace("cpython-", "cp")
    tag = f"{python}-{python}-{PLATFORM}"
    about = f"{PACK}-{kl.__version__}.dist-info"
    files = {
        f"{PACK}/{file.relative_to(package)}": file.read_bytes()
        for file in sorted(package.rglob("*"))
        if file.is_file()
    }
    files[f"{about}/licenses/LICENSE"] = LICENSE.read_bytes()
    files[f"{about}/METADATA"] = METADATA.format(version=kl.__version__).encode()
    files[f"{about}/WHEEL"] = WHEEL.format(tag=tag).encode()
    record = "".join(f"{name},{write_digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{about}/RECORD"] = f"{record}{about}/RECORD,,\n".encode()
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"{PACK}-{kl.__version__}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return wheel


def write_digest(data: bytes) -> str:
    """Write the digest of a file as RECORD has it."""
    digest = base64.urlsafe_b64encode(sha256(data).digest()).rstrip(b"=").decode()
    return f"sha256={digest}"


def main() -> None:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(description="Compile common kernels ahead of time.")
    parser.add_argument("--out", type=Path, default=Path("dist"), help="where the wheel goes")
    parser.add_argument("--folder", type=Path, help="leave the package in this folder; no wheel")
    parser.add_argument("--level", action="append", choices=LEVELS, help="default: all")
    parser.add_argument(
        "--dim", action="append", type=int, choices=DIMS, help="default: all; 9 is 9 and more"
    )
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    levels = asked.level or list(LEVELS)
    dims = asked.dim or list(DIMS)
    if asked.play:
        play(dims)
        return
    lacking = set(levels) - set(list_levels())
    if lacking:
        parser.error(f"this processor lacks features of {', '.join(sorted(lacking))}")
    if asked.folder is not None:
        print(make_package(asked.folder, levels, dims))
        return
    with tempfile.TemporaryDirectory() as folder:
        wheel = write_wheel(asked.out, make_package(Path(folder), levels, dims))
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
