"""``klazy doctor``: check the installation, the machine and the folder of compiled kernels."""

import json
import os
import platform
import re
import subprocess
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Annotated, Any

import typer
from packaging.requirements import Requirement

import klazy
from klazy.base.install import CACHE_REMEDY, advise_install, find_origin
from klazy.cli.terminal import Json, flag, print_table, say

# Seconds for the driver of a GPU to answer.
GPU_TIMEOUT = 10.0
# Extras for working on klazy itself.
NOT_FOR_USERS = ("dev", "docs", "release")


def doctor(
    clear_cache: Annotated[
        bool, flag("--clear-cache", "First delete all compiled kernels.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check the installation, this machine and the cache of compiled kernels.

    The exit status is 1 if a required package is missing or has an unsupported version, or if kernels cannot be stored. Set
    KLAZY_CACHE_DIR to move the cache. Kernels are code, so klazy ignores folders that other users can write to.

    \b
    Examples:
      klazy doctor
      klazy doctor --json
      klazy doctor --clear-cache
    """  # fmt: skip
    cleared = None
    if clear_cache:
        from klazy.kernels.binding import clear_kernels

        cleared = clear_kernels()
    found = examine()
    if as_json:
        print(json.dumps(found | {"cleared": cleared}))
    else:
        if cleared is not None:
            print(f"Removed {cleared} compiled kernels.\n")
        _print(found)
    if found["problems"]:
        raise typer.Exit(1)


def examine() -> dict[str, Any]:
    """Return everything that the command prints, as JSON values."""
    needed, extras = _examine_packages()
    cache = _examine_cache()
    problems = [f"klazy needs {line}" for line in needed]
    for name, about in extras.items():
        problems += [f"the extra {name} needs {line}" for line in about["wrong"]]
    if cache["obstacle"] is not None:
        obstacle = f"{cache['folder']} ({cache['obstacle']})"
        problems.append(f"compiled kernels cannot be kept in {obstacle}; {CACHE_REMEDY}")
    packages = {name: _find_version(name) for name in ("numpy", "scipy", "numba", "llvmlite")}
    # Only some systems say which cores this process may use.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "versions": {"klazy": klazy.__version__, "python": platform.python_version(), **packages},
        "origin": find_origin()[0] or "an index",
        "machine": {"system": platform.system(), "processor": platform.machine(), "cores": cores},
        "gpus": _list_gpus(),
        "extras": extras,
        "cache": cache,
        "pack": _examine_pack(),
        "problems": problems,
    }


def _find_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _examine_packages() -> tuple[list[str], dict[str, dict[str, Any]]]:
    """List required packages that are missing; and for each extra its missing and wrong packages, and how to add them.

    An extra of which nothing is installed is optional. A package with an unsupported version is wrong.
    """
    needed: list[str] = []
    extras: dict[str, dict[str, Any]] = {}
    # A klazy that runs from a folder has no metadata.
    lines = [] if _find_version("klazy") is None else requires("klazy") or []
    for requirement in map(Requirement, lines):
        found = re.search('extra == "(.+?)"', str(requirement.marker))
        extra = found[1] if found else None
        if requirement.marker is not None and not requirement.marker.evaluate(
            {"extra": extra or ""}
        ):
            continue
        installed = _find_version(requirement.name)
        fits = installed is not None and requirement.specifier.contains(
            installed, prereleases=True
        )
        problem = f"{requirement.name}{requirement.specifier}, found {installed or 'none'}"
        if extra is None and not fits:
            needed.append(problem)
        if extra is None or extra in NOT_FOR_USERS:
            continue
        about = extras.setdefault(
            extra, {"missing": [], "wrong": [], "install": advise_install(extra)}
        )
        if installed is None:
            about["missing"].append(requirement.name)
        elif not fits:
            about["wrong"].append(problem)
    return needed, extras


def _list_gpus() -> list[dict[str, Any]]:
    """List the GPUs that NVIDIA's driver reports."""
    command = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        output = subprocess.run(
            command, capture_output=True, text=True, timeout=GPU_TIMEOUT, check=True
        ).stdout
    # There is no driver, or none that answers.
    except (OSError, subprocess.SubprocessError):
        return []
    gpus = []
    for line in output.splitlines():
        name, _, memory = line.rpartition(",")
        # Some devices have no memory of their own.
        megabytes = int(memory) if memory.strip().isdecimal() else None
        gpus.append({"name": name.strip(), "memory_mib": megabytes})
    return gpus


def _examine_cache() -> dict[str, Any]:
    """Return where kernels are stored, how many, and what prevents storing more."""
    found: dict[str, Any] = {
        "folder": None,
        "obstacle": None,
        "kernels": 0,
        "current": 0,
        "bytes": 0,
    }
    try:
        from klazy.kernels import binding
    except ImportError as failed:
        return found | {"obstacle": str(failed)}
    found["obstacle"] = binding.find_cache_obstacle()
    try:
        found["folder"] = str(binding.cache_folder())
        files = binding.list_kernels()
        found["current"] = len(binding.list_kernels(current=True))
    # The user has no home folder.
    except RuntimeError:
        return found
    found["kernels"] = len(files)
    for file in files:
        # Another process may remove a file at any time.
        with suppress(FileNotFoundError):
            found["bytes"] += file.stat().st_size
    return found


def _examine_pack() -> dict[str, Any] | None:
    """Return which kernels of the wheel klazy-kernels are used, or why none are; None if it is not installed."""
    try:
        from klazy.kernels import binding
    except ImportError:
        return None
    pack = binding.find_pack()
    if pack is None:
        return None
    found = pack._asdict() | {"folder": str(pack.folder), "kernels": 0}
    if pack.level is not None:
        found["kernels"] = len(list((pack.folder / pack.level).glob("*.nbc")))
    return found


def _print(found: dict[str, Any]) -> None:
    packages = dict(found["versions"])
    say(f"klazy {packages.pop('klazy')}, from {found['origin']}")
    python = packages.pop("python")
    say(f"Python {python}, {', '.join(f'{name} {number}' for name, number in packages.items())}")
    machine = found["machine"]
    cores = "1 core" if machine["cores"] == 1 else f"{machine['cores']} cores"
    gpus = []
    for gpu in found["gpus"]:
        memory = "" if gpu["memory_mib"] is None else f" ({gpu['memory_mib']} MiB)"
        gpus.append(gpu["name"] + memory)
    say(
        f"{machine['system']} on {machine['processor']}, {cores}; GPU: {', '.join(gpus) or 'none found'}\n"
    )
    if found["extras"]:
        print_table([_make_row(name, about) for name, about in found["extras"].items()])
        print()
    cache = found["cache"]
    if cache["folder"] is not None:
        say(f"Compiled kernels: {cache['folder']}")
        size = f"{cache['bytes'] / 1e6:.1f} MB"
        say(
            f"{cache['kernels']} kept, {size}; {cache['current']} of them are of this version of klazy."
        )
    pack = found["pack"]
    if pack is not None:
        used = f"{pack['kernels']} for {pack['level']}"
        if pack["obstacle"] is not None:
            used = f"not used: {pack['obstacle']}"
        say(f"Kernels compiled ahead: {pack['folder']}, {used}.")
    print()
    for problem in found["problems"]:
        say(f"Wrong: {problem}.")
    if not found["problems"]:
        print("Nothing is wrong.")


def _make_row(name: str, about: dict[str, Any]) -> dict[str, str]:
    if not about["missing"]:
        return {"extra": name, "state": "installed", "add": ""}
    return {
        "extra": name,
        "state": f"without {', '.join(about['missing'])}",
        "add": about["install"],
    }
