"""Prepare a release: where the repository is, the tag, and the recipe for conda-forge.

``fill OWNER/NAME`` puts the repository's address in every place. ``check`` compares versions and addresses; ``--tag`` and
``--repository`` hold them to those. ``recipe`` writes version and digest of the sdist in dist/ into recipe/recipe.yaml.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACEHOLDER = "OWNER"
# Whatever ends in our name may be a place to clone from. PyPI's pages are none.
ADDRESS = re.compile(
    r"(?:(?:git\+)?(?:https?|ssh|git)://|git@)(?!pypi\.org/)[\w.:/@~-]*/klazy(?![\w-])(?:\.git)?"
)
ENDS = {".cff", ".css", ".html", ".js", ".json", ".md", ".py", ".toml", ".yaml", ".yml"}


def read_project() -> dict:
    """What pyproject.toml says of the project."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read_version() -> str:
    """The version that the package has."""
    source = (ROOT / "src" / "klazy" / "__init__.py").read_text(encoding="utf-8")
    return re.findall(r'^__version__ = "(.*)"$', source, re.MULTILINE)[0]


def list_files() -> Iterator[Path]:
    """The repository's files that people read."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.split("\0"):
        file = ROOT / name
        if (file.suffix in ENDS or name == "Makefile") and file.is_file():
            yield file


def find_addresses() -> dict[str, list[str]]:
    """Each address of a repository of this name, with the files in which it stands."""
    found: dict[str, list[str]] = {}
    for file in list_files():
        for address in set(ADDRESS.findall(file.read_text(encoding="utf-8"))):
            found.setdefault(address, []).append(str(file.relative_to(ROOT)))
    return found


def find_faults(tag: str | None = None, repository: str | None = None) -> list[str]:
    """What is wrong, a sentence each."""
    faults = []
    version = read_version()
    address = read_project()["urls"]["Repository"]
    for other, files in find_addresses().items():
        if other != address:
            faults.append(
                f"{', '.join(files)}: {other} is not {address}, the Repository of pyproject.toml."
            )
    if f"\n## {version}" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        faults.append(f"CHANGELOG.md has no section {version}.")
    if f"\nversion: {version}\n" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8"):
        faults.append(f"CITATION.cff has another version than {version}.")
    if f'\n  version: "{version}"\n' not in (ROOT / "recipe" / "recipe.yaml").read_text(
        encoding="utf-8"
    ):
        faults.append(f"recipe/recipe.yaml has another version than {version}.")
    if tag is not None and tag != f"v{version}":
        faults.append(f"The tag is {tag}, and the package's version {version}; tag v{version}.")
    if repository is not None and address != f"https://github.com/{repository}":
        remedy = f"run python scripts/release.py fill {repository}, and commit"
        faults.append(
            f"The repository is {repository}, and pyproject.toml says {address}; {remedy}."
        )
    return faults


def fill(repository: str) -> list[str]:
    """Put the repository's address in the place of the old one everywhere; the names of the files that changed."""
    old = read_project()["urls"]["Repository"]
    new = f"https://github.com/{repository}"
    owner = repository.partition("/")[0]
    changed = []
    for file in list_files():
        text = file.read_text(encoding="utf-8")
        filled = ADDRESS.sub(lambda found: found[0].replace(old, new), text)
        if file == ROOT / "recipe" / "recipe.yaml":
            filled = filled.replace(f"\n    - {PLACEHOLDER}\n", f"\n    - {owner}\n")
        if filled != text:
            file.write_text(filled, encoding="utf-8")
            changed.append(str(file.relative_to(ROOT)))
    return changed


def write_recipe() -> str:
    """Write the sdist's version and digest into the recipe; the digest."""
    version = read_version()
    digest = sha256((ROOT / "dist" / f"klazy-{version}.tar.gz").read_bytes()).hexdigest()
    recipe = ROOT / "recipe" / "recipe.yaml"
    text = recipe.read_text(encoding="utf-8")
    text = re.sub(r'(?m)^  version: ".*"$', f'  version: "{version}"', text, count=1)
    text = re.sub(r'(?m)^  sha256: ".*"$', f'  sha256: "{digest}"', text, count=1)
    recipe.write_text(text, encoding="utf-8")
    return digest


def main() -> None:
    """Read the command line, do it, and exit with 1 if something is wrong."""
    parser = argparse.ArgumentParser(description="Prepare a release of klazy.")
    commands = parser.add_subparsers(dest="command", required=True)
    checking = commands.add_parser("check", help="compare versions and addresses")
    checking.add_argument("--tag", help="the tag that is being released, such as v0.2.0")
    checking.add_argument("--repository", help="where it is released from, as OWNER/NAME")
    filling = commands.add_parser("fill", help="put the repository's address everywhere")
    filling.add_argument("repository", help="OWNER/NAME on GitHub")
    commands.add_parser(
        "recipe", help="write the digest of dist/'s sdist into recipe/recipe.yaml"
    )
    asked = parser.parse_args()
    if asked.command == "fill":
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", asked.repository):
            parser.error(f"fill needs OWNER/NAME, got {asked.repository}")
        print("\n".join(fill(asked.repository)))
    elif asked.command == "recipe":
        print(write_recipe())
    else:
        faults = find_faults(asked.tag, asked.repository)
        if faults:
            sys.exit("\n".join(faults))
        print(f"klazy {read_version()}, {read_project()['urls']['Repository']}")


if __name__ == "__main__":
    main()
