"""The compile cache under damage: it heals itself, or klazy goes on without it and says so once."""

import os
import pickle
import resource
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from audit import amount, record
from numba import float64, void

from klazy.base.files import lock_file
from klazy.kernels import binding

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled here"
    ),
    pytest.mark.xdist_group("compile cache"),
]
KEPT = []  # kernels live as long as this process, because a copy of one shares its symbols


def double(values):
    values[0] = 2.0 * values[0]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KLAZY_CACHE_DIR", str(tmp_path / "cache"))
    binding._warn_unkept.cache_clear()
    return tmp_path / "cache"


def compile_double(key=0):
    """Compile the small kernel or load it, check that it works, and say whether it was loaded."""
    kernel = binding.compile_kernel(double, binding.FLOAT, void(float64[::1]), (key,))
    KEPT.append(kernel)
    values = np.array([3.0])
    kernel(values)
    assert values[0] == 6.0
    return bool(kernel.stats.cache_hits)


def test_a_process_that_finds_its_kernels_loads_no_more_of_numba_than_they_need(folder):
    """Neither of SciPy, nor what Numba knows of arrays; and a kernel that is compiled after that finds all of it."""
    script = (
        "import sys, numpy as np, klazy as kl\n"
        "g = np.ones((10, 20))\n"
        "print(kl.run(kl.GD(kl.L2Ball(20), 1.0), g).totals.cost)\n"
        "print([name for name in ('scipy.linalg', 'numba.np.arraymath') if name in sys.modules])\n"
        "print(kl.run(kl.CentredOMD(kl.L2Ball(20), 1.0), g).totals.cost)\n"
    )
    first, second = (
        subprocess.run(
            [sys.executable, "-c", script], check=True, capture_output=True, text=True
        ).stdout
        for _ in range(2)
    )
    assert "numba.np.arraymath" in first
    assert "scipy.linalg" not in first
    assert second.splitlines()[1] == "[]"
    for file in sorted(folder.iterdir())[1:]:
        file.unlink()
    third = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    ).stdout
    assert first.split()[0] == second.split()[0] == third.split()[0]
    assert first.split()[-1] == second.split()[-1] == third.split()[-1]


def test_a_damaged_file_is_compiled_again_and_replaced(folder):
    assert not compile_double()
    (file,) = folder.iterdir()
    good = file.read_bytes()
    damages = {
        "empty": b"",
        "cut in its digest": good[:7],
        "cut after its digest": good[:32],
        "half": good[: len(good) // 2],
        "one byte short": good[:-1],
        "one byte long": good + b"\0",
        "text": b"not a kernel at all" * 100,
        "zeros": bytes(len(good)),
    }
    for bad in damages.values():
        file.write_bytes(bad)
        assert not compile_double()
        assert compile_double()
        assert [path.name for path in folder.iterdir()] == [file.name]


def test_no_flipped_bit_and_no_cut_passes_for_a_kernel(folder):
    compile_double()
    (file,) = folder.iterdir()
    good = file.read_bytes()
    assert binding._verify_checksum(good) is not None
    rng = np.random.default_rng(0)
    tried = amount(500, 200_000)
    for bit in rng.integers(0, 8 * len(good), tried).tolist():
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        assert binding._verify_checksum(bytes(bad)) is None
    for size in rng.integers(0, len(good), tried).tolist():
        assert binding._verify_checksum(good[:size]) is None
    record(
        "cache-damage",
        "Bits flipped in and bytes cut from a compiled kernel on disk",
        2 * tried,
        "each was noticed; the kernel is compiled again and the file replaced",
    )


def spoil(how, folder, monkeypatch):
    """Make the cache fail in one way."""
    if how == "a file in its place":
        folder.write_bytes(b"")
    elif how == "a folder in the file's place":
        compile_double()
        (file,) = folder.iterdir()
        file.unlink()
        (file / "full").mkdir(parents=True)
    elif how == "a folder that cannot be made":
        monkeypatch.setenv("KLAZY_CACHE_DIR", "/proc/klazy")
    elif how == "no home":
        monkeypatch.delenv("KLAZY_CACHE_DIR")
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setattr(Path, "home", raise_no_home)
    else:
        monkeypatch.setattr(binding.os, "replace", raise_full)


def raise_no_home():
    raise RuntimeError("Could not determine home directory.")


def raise_full(source, target):
    raise OSError(28, "No space left on device", str(target))


@pytest.mark.parametrize(
    "how",
    [
        "a file in its place",
        "a folder in the file's place",
        pytest.param(
            "a folder that cannot be made",
            marks=pytest.mark.skipif(
                not Path("/proc/self").exists(), reason="no such folder here"
            ),
        ),
        "no home",
        "a full disk",
    ],
)
def test_klazy_runs_without_a_cache_and_says_so_once(how, folder, monkeypatch):
    spoil(how, folder, monkeypatch)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert not compile_double()
        assert not compile_double(1)
    assert [warning.category for warning in said] == [RuntimeWarning]
    text = str(said[0].message)
    assert text.startswith("klazy cannot keep compiled kernels (")
    assert text.endswith(
        "set KLAZY_CACHE_DIR to a folder that only you can write to and that has room."
    )


def test_a_write_that_stops_half_way_leaves_nothing(folder):
    """The limit on the size of files fails the write as a full disk does, in the system and not by a stand-in."""
    folder.mkdir()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.warns(RuntimeWarning, match="klazy cannot keep compiled kernels"):
            assert not compile_double()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(folder.iterdir()) == []
    assert not compile_double()
    assert compile_double()


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser writes everywhere")
def test_a_read_only_cache_is_used_as_it_is(folder):
    compile_double()
    folder.chmod(0o500)
    assert compile_double()
    with pytest.warns(RuntimeWarning, match="Permission denied"):
        assert not compile_double(1)
    folder.chmod(0o700)


class Planted:
    """What runs when it is unpickled."""

    ran: ClassVar[list[str]] = []

    def __reduce__(self):
        return Planted.ran.append, ("planted",)


def spoil_trust(how, path):
    if how == "another user's":
        os.chown(path, 65534, -1)
    else:
        path.chmod(path.stat().st_mode | int(how, 8))


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser gives files away")
UNTRUSTED = ["0o002", "0o020", pytest.param("another user's", marks=as_root)]


@pytest.mark.parametrize("how", UNTRUSTED)
@pytest.mark.parametrize("what", ["folder", "file"])
def test_code_that_others_may_have_planted_is_not_run(what, how, folder):
    """What another user owns or may write to is ignored, with one warning; a file of a folder that is one's own is replaced."""
    assert not compile_double()
    (file,) = folder.iterdir()
    good = file.read_bytes()
    file.write_bytes(binding._add_checksum(pickle.dumps(Planted())))
    spoil_trust(how, folder if what == "folder" else file)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert not compile_double()
        assert compile_double() == (what == "file")
    assert Planted.ran == []
    (told,) = [str(warning.message) for warning in said]
    reason = (
        "it belongs to another user" if how == "another user's" else "other users can write to it"
    )
    assert f"{folder if what == 'folder' else file}: {reason}" in told
    if what == "file":
        assert len(file.read_bytes()) == pytest.approx(len(good), rel=0.01)
        assert "ignores a compiled kernel" in told
    else:
        assert told.startswith("klazy cannot keep compiled kernels (")
        assert "planted" in file.read_bytes().decode("latin-1")  # it is left as it was
        assert reason in (binding.find_cache_obstacle() or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a file of the superuser and another user")
def test_the_superusers_kernels_serve_everybody(monkeypatch):
    """As in an image: made by root in a folder that all may read, used by others."""
    with tempfile.TemporaryDirectory() as place:  # not pytest's, where only its own user may go
        Path(place).chmod(0o755)
        monkeypatch.setenv("KLAZY_CACHE_DIR", place)
        assert not compile_double()
        os.seteuid(65534)
        try:
            assert compile_double()
        finally:
            os.seteuid(0)


def test_what_klazy_makes_it_trusts_whatever_the_umask(folder):
    before = os.umask(0)
    try:
        assert not compile_double()
    finally:
        os.umask(before)
    (file,) = folder.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert file.stat().st_mode & 0o777 == 0o644
    assert compile_double()


def test_numbas_own_folder_is_not_used(folder, tmp_path, monkeypatch):
    monkeypatch.delenv("KLAZY_CACHE_DIR")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert binding.cache_folder() == tmp_path / "cache" / "klazy"


def test_processes_that_compile_one_kernel_together(folder):
    script = (
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_torture_cache import compile_double\n"
        "sys.stdin.read()\n"
        "print(compile_double())\n"
    )
    many = amount(2, 32)
    command = [sys.executable, "-W", "error", "-c", script]
    pipe = subprocess.PIPE
    together = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        for _ in range(many)
    ]
    for process in together:
        assert process.stdin is not None
        process.stdin.close()  # all have begun: now they compile
        process.stdin = None
    answers = [process.communicate() for process in together]
    assert [process.returncode for process in together] == [0] * many, answers
    assert sorted(found for found, _ in answers) == ["False\n"] + ["True\n"] * (many - 1)
    assert len(list(folder.iterdir())) == 1
    assert compile_double()
    record(
        "cache-together",
        "Processes that needed one kernel at the same time",
        many,
        "one compiled it, all worked, and it is one whole file",
    )


def test_nobody_waits_forever_for_a_process_that_does_not_go_on(folder, monkeypatch):
    monkeypatch.setattr(binding, "LONGEST_TURN", 0.2)
    taken = []

    def lock_for_good(path, wait):
        if not taken:
            taken.append(lock_file(path, wait=wait))
        raise BlockingIOError

    monkeypatch.setattr(binding, "lock_file", lock_for_good)
    assert not compile_double()
    assert len(taken) == 1
    assert compile_double()
    taken[0].close()
