"""What a release is made of: metadata, addresses, workflows and the recipe, as far as they can be checked without a network."""

import errno
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import PathDistribution
from itertools import chain
from pathlib import Path
from threading import Timer

import pytest
from check_jsonschema.cli import main as check_schema
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

import klazy as kl
from klazy.base import files, install
from klazy.datasets import SOURCES

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
OTHER = "some-one/klazy"
# The files of each schema that check-jsonschema brings along.
SCHEMAS = {
    "vendor.github-workflows": WORKFLOWS,
    "vendor.github-issue-config": [ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"],
    "vendor.github-issue-forms": sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")),
    "custom.github-workflows-require-timeout": WORKFLOWS,
    "vendor.dependabot": [ROOT / ".github" / "dependabot.yml"],
    "vendor.readthedocs": [ROOT / ".readthedocs.yaml"],
    "vendor.citation-file-format": [ROOT / "CITATION.cff"],
}
pytestmark = pytest.mark.skipif(
    not (ROOT / ".git").exists(), reason="a checkout has these files, an sdist not"
)


@pytest.fixture
def release(monkeypatch):
    """The module scripts/release.py."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("release")


def read_yaml(path):
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_for_others_fit_their_schemas(schema, capsys):
    with pytest.raises(SystemExit) as ended:
        check_schema(["--builtin-schema", schema, *map(str, SCHEMAS[schema])])
    assert ended.value.code == 0, capsys.readouterr()


def test_no_address_but_the_repositorys_stands_anywhere(release):
    assert release.find_faults() == []
    assert list(release.find_addresses()) == [PROJECT["urls"]["Repository"]]


@pytest.mark.parametrize(
    "place",
    ["https://example.org/me/{}", "git@github.com:me/{}.git", "git+https://example.org/a/{}"],
)
def test_another_address_is_found(release, place, monkeypatch, tmp_path):
    address = place.format("klazy")
    stray = tmp_path / "stray.md"
    stray.write_text(f"git clone {address}\n")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "list_files", lambda: [stray])
    assert release.find_addresses() == {address: ["stray.md"]}


def test_a_filled_repository_has_one_address_and_its_own_tag(release, monkeypatch, tmp_path):
    files = [
        file.relative_to(ROOT)
        for file in release.list_files()
        if "klazy" in file.read_text("utf-8")
    ]
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes((ROOT / file).read_bytes())
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "list_files", lambda: [tmp_path / file for file in files])
    asked = {"tag": f"v{kl.__version__}", "repository": OTHER}
    assert len(release.find_faults(**asked)) == 1
    assert "pyproject.toml" in release.fill(OTHER)
    assert release.find_faults(**asked) == []
    assert list(release.find_addresses()) == [f"https://github.com/{OTHER}"]
    assert read_yaml(tmp_path / "recipe/recipe.yaml")["extra"]["recipe-maintainers"] == [
        "some-one"
    ]
    assert len(release.find_faults(tag="v0.0.1", repository=OTHER)) == 1


def test_the_workflows_try_every_python_that_is_promised():
    for file in WORKFLOWS:
        pythons = set(re.findall(r'"(3\.\d+)"', file.read_text(encoding="utf-8")))
        named = {
            line.rpartition(" ")[2]
            for line in PROJECT["classifiers"]
            if re.search(r"3\.\d+$", line)
        }
        assert named <= pythons
        assert f"3.{PROJECT['requires-python'].rpartition('.')[2]}" in pythons
    assert ".ci/run" in WORKFLOWS[0].read_text(encoding="utf-8")


def test_the_recipe_needs_what_the_wheel_with_its_command_needs():
    recipe = read_yaml(ROOT / "recipe" / "recipe.yaml")
    needed = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["cli"]]
    told = [
        line.replace(" ", "").replace("matplotlib-base", "matplotlib")
        for line in recipe["requirements"]["run"]
    ]
    assert told[0] == "python>=${{python_min}}"
    assert sorted(told[1:]) == sorted(needed)
    assert f">={recipe['context']['python_min']}" == PROJECT["requires-python"]
    assert recipe["about"]["license"] == PROJECT["license"]
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"][
        "requires"
    ]
    assert {re.split("[<>=]", name)[0] for name in build} < set(recipe["requirements"]["host"])


def test_the_licence_names_those_of_the_data_that_are_shipped():
    shipped = {file.stem for file in (ROOT / "src/klazy/datasets").glob("*.parquet")}
    words = {SOURCES[name].licence.split(" (")[0].removesuffix(" 4.0") for name in shipped}
    assert words == {"CC0", "CC BY"}
    assert PROJECT["license"] == "MIT AND CC-BY-4.0 AND CC0-1.0"


def test_the_release_script_runs():
    command = [sys.executable, str(ROOT / "scripts" / "release.py"), "check", "--tag", "v9"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert (
        done.stderr
        == f"The tag is v9, and the package's version {kl.__version__}; tag v{kl.__version__}.\n"
    )


class Installed(PathDistribution):
    """A distribution with nothing but what its installer noted."""

    def __init__(self, origin):
        self.origin = origin

    def read_text(self, filename):
        return self.origin and json.dumps(self.origin)


ORIGINS = [
    (None, "pip install 'klazy[cli]'"),
    (
        {"url": "file:///home/me/my%20klazy", "dir_info": {"editable": True}},
        "pip install --editable '/home/me/my klazy[cli]'",
    ),
    ({"url": "file:///home/me/klazy", "dir_info": {}}, "pip install '/home/me/klazy[cli]'"),
    (
        {"url": "https://example.org/it", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
        "pip install 'klazy[cli] @ git+https://example.org/it@abc'",
    ),
    (
        {"url": "file:///tmp/klazy-0.2.0-py3-none-any.whl", "archive_info": {}},
        "pip install 'klazy[cli] @ file:///tmp/klazy-0.2.0-py3-none-any.whl'",
    ),
]


@pytest.mark.parametrize(("origin", "command"), ORIGINS)
def test_the_advice_names_where_this_klazy_came_from(origin, command, monkeypatch):
    found = install.read_origin(Installed(origin))
    monkeypatch.setattr(install, "find_origin", lambda: found)
    assert install.advise_install("cli") == command
    assert shlex.split(command)[-1].partition("[")[2].startswith("cli]")


def test_every_message_that_advises_an_install_asks_the_one_function():
    """What is not klazy's own extra, such as ray, is named as it is."""
    found = []
    for file in (ROOT / "src").rglob("*.py"):
        if file.name != "install.py" and re.search(
            r"pip install[^\n]*klazy", file.read_text(encoding="utf-8")
        ):
            found.append(file.name)
    assert found == []


class RangeLocks:
    """Windows' locks of ranges of bytes, for one process: whoever has the byte has it until the file is closed."""

    LK_NBLCK = 2

    def __init__(self):
        self.held = {}

    def locking(self, descriptor, how, size):
        key = (os.fstat(descriptor).st_ino, os.lseek(descriptor, 0, os.SEEK_CUR), size, how)
        owner = self.held.setdefault(key, descriptor)
        if owner != descriptor:
            raise PermissionError(errno.EACCES, "Permission denied")


def test_locks_of_windows_keep_others_out_and_the_content_readable(tmp_path, monkeypatch):
    locks = RangeLocks()
    monkeypatch.setitem(sys.modules, "msvcrt", locks)
    monkeypatch.setattr(files, "_lock_by_file", files._lock_by_range)
    path = tmp_path / "journal"
    path.write_bytes(b"content")
    with files.lock_file(path, wait=False) as first:
        with pytest.raises(BlockingIOError):
            files.lock_file(path, wait=False)
        assert first.read() == b"content"
        ((_, place, *_),) = locks.held
        assert place > path.stat().st_size  # for nobody else could read what is locked
        freed = Timer(0.15, locks.held.clear)
        freed.start()
        files.lock_file(path, wait=True).close()
        assert freed.finished.is_set()
    assert path.read_bytes() == b"content"


def test_constraints_pin_what_is_needed_and_name_no_place():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned: dict[str, list[str]] = {}
    for line in lines:
        pin = Requirement(line)
        assert re.fullmatch(r"==[^,*]+", str(pin.specifier)), line
        assert pin.url is None
        pinned.setdefault(canonicalize_name(pin.name), []).append(str(pin.specifier)[2:])
    needed = [
        *PROJECT["dependencies"],
        *chain.from_iterable(PROJECT["optional-dependencies"].values()),
    ]
    for wanted in map(Requirement, needed):
        versions = pinned.get(canonicalize_name(wanted.name), [])
        assert versions, f"{wanted.name} is not in constraints.txt; run make constraints"
        assert all(wanted.specifier.contains(version) for version in versions), wanted
