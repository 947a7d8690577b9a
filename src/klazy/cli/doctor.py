"""``klazy doctor``: what is installed, what this machine has, and where compiled kernels are kept."""

import json
import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Annotated, Any

import typer
from packaging.requirements import Requirement

import klazy
from klazy.base.install import CACHE_REMEDY, advise_install, find_origin
from klazy.cli.terminal import Json, print_table, say

PATIENCE = 10.0  # seconds for the driver of a GPU to answer
NOT_FOR_USERS = ("dev", "docs", "release")  # extras of those who work on klazy


def doctor(
    clear_cache: Annotated[
        bool, typer.Option("--clear-cache", help="First delete all compiled kernels.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what is installed, what is missing and how to add it, what this machine has, and where compiled kernels are kept.

    The exit status is 1 if something is wrong: a package that klazy needs is missing, one has a version that klazy does not
    take, or kernels cannot be kept. They are kept in the user's cache folder; set KLAZY_CACHE_DIR to move them. They are code:
    klazy uses no folder and no file that a user other than you and root owns, or that others can write to. When they are
    cleared, running processes go on, and the next ones compile them again.

    \b
    Examples:
      klazy doctor
      klazy doctor --json
      klazy doctor --clear-cache
    """  # fmt: skip
    cleared = _clear() if clear_cache else None
    found = examine()
    if as_json:
        print(json.dumps(found | {"cleared": cleared}))
    else:
        if cleared is not None:
            print(f"Removed {cleared} compiled kernels.\n")
        _print(found)
    if found["problems"]:
        raise typer.Exit(1)


def _clear() -> int:
    from klazy.kernels.binding import clear_kernels

    return clear_kernels()


def examine() -> dict[str, Any]:
    """All that the command tells, as JSON takes it."""
    needed, extras = _examine_packages()
    cache = _examine_cache()
    problems = [f"klazy needs {line}" for line in needed]
    problems += [
        f"the extra {name} needs {line}" for name, about in extras.items() for line in about["wrong"]
    ]
    if cache["obstacle"] is not None:
        problems.append(
            f"compiled kernels cannot be kept in {cache['folder']} ({cache['obstacle']}); {CACHE_REMEDY}"
        )
    return {
        "versions": _list_versions(),
        "origin": find_origin()[0] or "an index",
        "machine": _examine_machine(),
        "gpus": _list_gpus(),
        "extras": extras,
        "cache": cache,
        "problems": problems,
    }


def _list_versions() -> dict[str, str | None]:
    names = ("numpy", "scipy", "numba", "llvmlite")
    return {
        "klazy": klazy.__version__,
        "python": platform.python_version(),
        **{name: _find_version(name) for name in names},
    }


def _find_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _examine_packages() -> tuple[list[str], dict[str, dict[str, Any]]]:
    """What klazy itself lacks; and for each extra what is missing, what is wrong, and the command that adds it.

    An extra of which nothing is installed was not asked for; one of another version than klazy takes is wrong.
    """
    needed: list[str] = []
    extras: dict[str, dict[str, Any]] = {}
    for requirement in _list_requirements():
        extra = _find_extra(requirement)
        if extra in NOT_FOR_USERS or not _is_for_here(requirement, extra):
            continue
        installed = _find_version(requirement.name)
        fits = installed is not None and requirement.specifier.contains(installed, prereleases=True)
        wanted = f"{requirement.name}{requirement.specifier}"
        if extra is None:
            if not fits:
                needed.append(f"{wanted}, found {installed or 'none'}")
            continue
        about = extras.setdefault(extra, {"missing": [], "wrong": [], "install": advise_install(extra)})
        if installed is None:
            about["missing"].append(requirement.name)
        elif not fits:
            about["wrong"].append(f"{wanted}, found {installed}")
    return needed, extras


def _list_requirements() -> list[Requirement]:
    try:
        lines = requires("klazy") or []
    except PackageNotFoundError:  # it runs from a folder, and nobody wrote down what it needs
        return []
    return [Requirement(line) for line in lines]


def _find_extra(requirement: Requirement) -> str | None:
    """The extra that a requirement is of, or None if klazy always has it."""
    if requirement.marker is None:
        return None
    _, found, name = str(requirement.marker).partition('extra == "')
    return name.partition('"')[0] if found else None


def _is_for_here(requirement: Requirement, extra: str | None) -> bool:
    """Whether this system and this Python need it."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra or ""})


def _examine_machine() -> dict[str, Any]:
    cores = os.cpu_count()
    if hasattr(os, "sched_getaffinity"):  # those that this process may use
        cores = len(os.sched_getaffinity(0))
    return {"system": platform.system(), "processor": platform.machine(), "cores": cores}


def _list_gpus() -> list[dict[str, Any]]:
    """The GPUs that NVIDIA's driver knows."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    asked = [command, "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    except (OSError, subprocess.SubprocessError):  # there is a driver, and no device that answers
        return []
    gpus = []
    for line in told.splitlines():
        name, _, memory = line.rpartition(",")
        try:
            megabytes = int(memory)
        except ValueError:  # some devices have none of their own
            megabytes = None
        gpus.append({"name": name.strip(), "memory_mib": megabytes})
    return gpus


def _examine_cache() -> dict[str, Any]:
    """Where kernels are kept, how many, and whether more can be."""
    try:
        from klazy.kernels import binding
    except ImportError as failed:
        return {"folder": None, "obstacle": str(failed), "kernels": 0, "current": 0, "bytes": 0}
    obstacle = binding.find_obstacle()
    try:
        folder = binding.cache_folder()
        files = binding.list_kernels()
        current = binding.list_kernels(current=True)
    except RuntimeError:  # there is no home
        return {"folder": None, "obstacle": obstacle, "kernels": 0, "current": 0, "bytes": 0}
    return {
        "folder": str(folder),
        "obstacle": obstacle,
        "kernels": len(files),
        "current": len(current),
        "bytes": sum(_measure(file) for file in files),
    }


def _measure(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # another process has just removed it
        return 0


def _print(found: dict[str, Any]) -> None:
    versions = found["versions"]
    machine = found["machine"]
    say(f"klazy {versions['klazy']}, from {found['origin']}")
    others = [f"{name} {number}" for name, number in versions.items() if name not in ("klazy", "python")]
    say(f"Python {versions['python']}, {', '.join(others)}")
    cores = "1 core" if machine["cores"] == 1 else f"{machine['cores']} cores"
    gpus = [_describe_gpu(gpu) for gpu in found["gpus"]]
    say(f"{machine['system']} on {machine['processor']}, {cores}; GPU: {', '.join(gpus) or 'none found'}")
    print()
    if found["extras"]:
        print_table([_make_row(name, about) for name, about in found["extras"].items()])
        print()
    _print_cache(found["cache"])
    print()
    for problem in found["problems"]:
        say(f"Wrong: {problem}.")
    if not found["problems"]:
        print("Nothing is wrong.")


def _describe_gpu(gpu: dict[str, Any]) -> str:
    if gpu["memory_mib"] is None:
        return gpu["name"]
    return f"{gpu['name']} ({gpu['memory_mib']} MiB)"


def _make_row(name: str, about: dict[str, Any]) -> dict[str, str]:
    if not about["missing"]:
        return {"extra": name, "state": "installed", "add": ""}
    return {"extra": name, "state": f"without {', '.join(about['missing'])}", "add": about["install"]}


def _print_cache(cache: dict[str, Any]) -> None:
    if cache["folder"] is None:
        return
    size = cache["bytes"] / 1e6
    say(f"Compiled kernels: {cache['folder']}")
    say(f"{cache['kernels']} kept, {size:.1f} MB; {cache['current']} of them are of this version of klazy.")
