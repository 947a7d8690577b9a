"""Commands under hostile files, paths, settings and signals: one error and a status, and nobody left behind."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from audit import SHARE, amount, record

from command import Ended, call_klazy

pytestmark = pytest.mark.xdist_group(
    "torture commands"
)  # one worker imports what all of them need

ROWS = "".join(f"{i % 7},{i % 5}\n" for i in range(8))
CSV: dict[str, bytes] = {
    "empty": b"",
    "only a byte order mark": b"\xef\xbb\xbf",
    "only names": b"a,b\n",
    "names without an end": b"a,b",
    "NUL in a name": b"a,b\x00\n1,2\n",
    "NUL in a cell": b"a,b\n1,\x002\n",
    "only NULs": b"\x00" * 4096,
    "UTF-16": "a,b\n1,2\n".encode("utf-16"),
    "UTF-16 without a mark": "a,b\n1,2\n".encode("utf-16-le"),
    "latin letters": "ä,b\n1,2\n".encode("latin-1"),
    "latin letters in a cell": "a,b\n1,ä\n".encode("latin-1"),
    "a short row": b"a,b\n1,2\n3\n",
    "a long row": b"a,b\n1,2\n3,4,5\n",
    "a giant field": b"a,b\n1," + b"9" * 300_000 + b"\n",
    "a giant name": b"a" * 300_000 + b",b\n1,2\n",
    "an open quote": b'a,b\n1,"2\n3,4\n',
    "a quote in a cell": b'a,b\n1,2"3\n',
    "quoted line breaks": b'a,b\n1,"2\n3"\n',
    "an open quote in the names": b'a,"b\n1,2\n',
    "a name twice": b"a,a\n1,2\n",
    "no name": b"a,\n1,2\n",
    "numbers for names": b"1,2\n3,4\n",
    "mixed types": b"a,b\n1,2\n3,true\n5,2020-01-01\n",
    "1e308": b"a,b\n1,1e308\n",
    "1e999": b"a,b\n1,1e999\n",
    "infinite": b"a,b\n1,-inf\n",
    "hexadecimal": b"a,b\n1,0x10\n",
    "an escape sequence in a name": b"a\x1b[31m,b\n1,x\n",
    "an escape sequence in a cell": b"a,b\n1,\x1b]0;title\x07\n",
    "markup in a name": b"[red]a[/x],b\n1,x\n",
    "old line breaks": b"a,b\r1,2\r",
    "semicolons": b"a;b\n1;2\n",
    "a thousand names": ",".join(f"c{i}" for i in range(1000)).encode() + b"\n1,2\n",
    "a dead time stamp": b"time,a\n99999999999999999999999999,1\n1e400,2\n",
    "too few rows": b"a,b\n" + ROWS.encode(),
}
GRID = '[[scenarios]]\nrecipe = "rotating"\n[[learners]]\nrule = "GD"\nsigma = {}\n'
TOML: dict[str, str] = {
    "empty": "",
    "deep lists": "name = " + "[" * 20_000 + "]" * 20_000,
    "deep tables": ".".join("a" for _ in range(2000)) + " = 1",
    "deep grids": GRID.format("[" * 500 + "1" + "]" * 500),
    "a huge number": GRID.format("9" * 5000),
    "a huge number in hexadecimal": GRID.format("0x" + "f" * 9000),
    "a huge seed in hexadecimal": "seed = 0x" + "f" * 9000 + "\n" + GRID.format("1.0"),
    "a huge float": GRID.format("1e999"),
    "not a number": GRID.format("nan"),
    "a word": GRID.format('"one"'),
    "a date": GRID.format("2020-01-01"),
    "a switch": GRID.format("true"),
    "a table": GRID.format("{ a = 1 }"),
    "a huge space": GRID.format("{ linspace = [0, 1, 999999999999] }"),
    "a huge power": GRID.format("{ powers = [1e308, 1, 9] }"),
    "a power of a huge number": GRID.format("{ powers = [0x" + "f" * 900 + ", 1, 1000] }"),
    "no list": 'scenarios = 3\nlearners = "GD"\n',
    "lists of numbers": "scenarios = [1]\nlearners = [2]\n",
    "a rule that is a number": GRID.format("1.0").replace('"GD"', "3"),
    "a rule that is a list": GRID.format("1.0").replace('"GD"', "[]"),
    "a rule with an escape sequence": GRID.format("1.0").replace("GD", "\\u001b[31mGD"),
    "a rule of somebody": GRID.format("1.0").replace("GD", "os:system"),
    "a recipe of somebody": GRID.format("1.0").replace("rotating", "os:system"),
    "a rule of nobody": GRID.format("1.0").replace("GD", ":"),
    "an unknown key": "colour = 1\n" + GRID.format("1.0"),
    "an escape sequence as a key": '"\\u001b[31m" = 1\n' + GRID.format("1.0"),
    "markup as a key": '"[red]{x}[/y]" = 1\n' + GRID.format("1.0"),
    "a key twice": "seed = 1\nseed = 2\n" + GRID.format("1.0"),
    "a NUL": "seed = \x00",
    "no UTF-8": "name = '\udcff'",
    "negative seeds": "seeds = -1\n" + GRID.format("1.0"),
    "too many runs": "seeds = 9999999999\n" + GRID.format("1.0"),
}
SETTINGS = ("move-cost", "total", "train", "cap", "lower", "upper", "radius", "short", "excess")
NUMBERS = ("1e308", "-1e308", "1e-308", "5e-324", "inf", "nan", "1e16", "-1", "x", "")


def assert_refused(ended: Ended, what: str) -> None:
    """One error of klazy or of its options, no traceback, no sequence that a terminal obeys."""
    assert ended.status == 2, (what, ended)
    assert re.search(r"\w+ \w+ .+", ended.stderr), (what, ended.stderr)
    assert "Traceback" not in ended.stderr, (what, ended.stderr)
    shown = ended.stdout + ended.stderr
    assert not {letter for letter in shown if ord(letter) < 32 and letter not in "\n\t"}, (
        what,
        shown,
    )


def refuse_damaged_parquet(folder: Path | str, first: int, last: int) -> None:
    """Replay the damaged files from ``first`` to ``last``; the file "done" says how far it came."""
    file = Path(folder) / "trace.parquet"
    pl.DataFrame({"a": np.arange(12.0), "b": np.arange(12.0) % 5}).write_parquet(file)
    good = file.read_bytes()
    for i in range(first, last):
        rng = random.Random(i)
        data = bytearray(good)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        if i % 4 == 0:
            del data[rng.randrange(len(data)) :]
        file.write_bytes(data)
        (Path(folder) / "done").write_text(str(i))
        assert_refused(call_klazy("replay", file.name, folder=Path(folder)), f"{i}")


class TestHostileFiles:
    def test_every_csv_is_refused(self, tmp_path):
        for what, data in CSV.items():
            (tmp_path / "trace.csv").write_bytes(data)
            assert_refused(call_klazy("replay", "trace.csv", folder=tmp_path), what)
        record("csv", "hostile CSV files replayed", len(CSV), "each is refused in words")

    def test_every_damaged_csv_is_read_or_refused(self, tmp_path):
        """Bytes of a good file are changed, cut and doubled; it has too few rows to be played, so it is refused in any case."""
        good = b"time,a,b\n" + b"".join(b"%d,%d.5,-%de3\n" % (i, i % 7, i % 5) for i in range(12))
        tried = amount(40, 20_000)
        rng = random.Random(0)
        for i in range(tried):
            data = bytearray(good)
            for _ in range(rng.randint(1, 4)):
                at = rng.randrange(len(data))
                data[at : at + rng.randint(0, 2)] = rng.choice(
                    [b"", b"\x00", b'"', b",", b"\n", b"\xff", rng.randbytes(2)]
                )
            (tmp_path / "trace.csv").write_bytes(data)
            assert_refused(
                call_klazy("replay", "trace.csv", folder=tmp_path), f"{i}: {bytes(data)!r}"
            )
        record(
            "csv-damage",
            "CSV files with bytes changed, replayed",
            tried,
            "each is refused in words",
        )

    def test_every_damaged_parquet_is_refused(self, tmp_path):
        """But for those on which polars ends the process, which nobody can refuse: so the many are read in another process."""
        tried = amount(20, 10_000)
        ended = 0
        if SHARE == 0.0:
            refuse_damaged_parquet(tmp_path, 0, tried)
        else:
            done = 0
            while done < tried:
                call = f"refuse_damaged_parquet({str(tmp_path)!r}, {done}, {tried})"
                script = f"import test_torture_commands as tests; tests.{call}"
                ran = subprocess.run(
                    [sys.executable, "-c", script],
                    cwd=Path(__file__).parent,
                    env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
                    capture_output=True,
                    text=True,
                )
                assert ran.returncode in (0, -signal.SIGABRT), ran.stderr
                done = int((tmp_path / "done").read_text()) + 1
                ended += ran.returncode != 0
            assert ended < 0.02 * tried
        outcome = "each is refused in words"
        if ended:
            outcome = f"{tried - ended} are refused in words, on {ended} polars ended the process"
        record("parquet-damage", "Parquet files with a bit changed, or cut", tried, outcome)

    def test_every_study_is_refused(self, tmp_path):
        for what, text in TOML.items():
            (tmp_path / "study.toml").write_bytes(text.encode(errors="surrogateescape"))
            assert_refused(call_klazy("sweep", "study.toml", "--jobs", 1, folder=tmp_path), what)
        assert sorted(file.name for file in tmp_path.iterdir()) == ["study.toml"]
        record(
            "toml", "hostile studies", len(TOML), "each is refused in words, nothing is played"
        )

    def test_every_stored_study_is_refused(self, tmp_path):
        stored = {
            "deep": "[" * 100_000,
            "a list": "[1]",
            "a number": "9" * 5000,
            "somebody's rule": json.dumps({"scenarios": [], "learners": [{"rule": "os:system"}]}),
            "half a letter": '{"name": "\\ud800"}',
            "nothing": "",
        }
        for what, text in stored.items():
            (tmp_path / "study.json").write_text(text)
            assert_refused(call_klazy("sweep", "plot", tmp_path), what)

    def test_settings_are_refused_or_played(self, tmp_path):
        (tmp_path / "trace.csv").write_text("a,b\n" + ROWS)
        for name in SETTINGS:
            for value in NUMBERS:
                domain = {
                    "cap": "capped-simplex",
                    "lower": "box",
                    "upper": "box",
                    "radius": "ball",
                }.get(name, "simplex")
                costs = "pinball" if name in ("short", "excess") else "linear"
                options = ("--domain", domain, "--costs", costs, f"--{name}={value}")
                assert_refused(
                    call_klazy("replay", "trace.csv", *options, folder=tmp_path),
                    f"{name}={value}",
                )


# Names that some shell, pattern, terminal or database would take for something else.
NAMES = (
    "[1]",
    "a b",
    "ü",
    "-dash",
    "--json",
    "line\nbreak",
    "*",
    "?",
    "{1,2}",
    "~",
    "$HOME",
    "%s",
    "a'b",
    "\x1b[31m",
)


class TestHostilePaths:
    def test_a_name_that_is_no_text_is_refused(self, tmp_path):
        (tmp_path / "\udcff.csv").write_text("a,b\n" + ROWS)
        (tmp_path / "study.toml").write_text(GRID.format("1.0"))
        assert_refused(call_klazy("replay", "\udcff.csv", folder=tmp_path), "trace")
        assert_refused(
            call_klazy("sweep", "study.toml", "--out", "\udcff", folder=tmp_path), "folder"
        )
        assert sorted(file.name for file in tmp_path.iterdir()) == ["study.toml", "\udcff.csv"]

    @pytest.mark.parametrize("name", NAMES, ids=ascii)
    def test_a_file_is_what_its_name_says(self, tmp_path, name):
        """It is read, and nothing beside it: its two columns say which it was."""
        (tmp_path / f"{name}.csv").write_text("mine,own\n1,x\n")
        for other in ("1", "a", "2", "ab"):
            (tmp_path / f"{other}.csv").write_text("a,b\n" + ROWS)
        ended = call_klazy("replay", "--", f"{name}.csv", folder=tmp_path)
        assert_refused(ended, name)
        assert "Row 1, column own must be a number" in ended.stderr
        (tmp_path / name).mkdir()
        assert_refused(call_klazy("replay", "--", name, folder=tmp_path), name)
        assert_refused(call_klazy("sweep", "plot", "--", name, folder=tmp_path), name)

    @pytest.mark.parametrize(
        "path",
        [
            "",
            ".",
            "/",
            "none.csv",
            "folder.csv",
            "loop.csv",
            "/dev/null",
            "null.csv",
            "a" * 300 + ".csv",
            "x/../none.csv",
        ],
    )
    def test_what_is_no_file_is_refused(self, tmp_path, path):
        (tmp_path / "folder.csv").mkdir()
        (tmp_path / "loop.csv").symlink_to("loop.csv")
        (tmp_path / "null.csv").symlink_to("/dev/null")
        assert_refused(call_klazy("replay", path, folder=tmp_path), path)
        assert_refused(call_klazy("sweep", path, folder=tmp_path), path)
        if path not in (".", "/"):
            assert_refused(call_klazy("sweep", "plot", path, folder=tmp_path), path)

    @pytest.mark.parametrize(
        "path", ["", "/", "folder", "loop", "link", "/dev/null", "none/page.html", "a" * 300]
    )
    def test_a_page_is_written_to_a_plain_file_alone(self, tmp_path, path):
        (tmp_path / "trace.csv").write_text("a,b\n" + ROWS)
        (tmp_path / "folder").mkdir()
        (tmp_path / "loop").symlink_to("loop")
        (tmp_path / "kept").write_text("kept")
        (tmp_path / "link").symlink_to("kept")
        for option in ("--html", "--emit"):
            ended = call_klazy("replay", "trace.csv", option, path, folder=tmp_path)
            assert_refused(ended, path)
            assert re.search("(read or )?write ", ended.stderr), (
                ended.stderr
            )  # and not the trace, which is too short
        assert (tmp_path / "kept").read_text() == "kept"

    @pytest.mark.parametrize(
        "path", ["file", "loop", "/dev/null", "/dev/null/x", "/proc/x", "a" * 300]
    )
    def test_what_can_be_no_folder_is_refused(self, tmp_path, path):
        (tmp_path / "file").touch()
        (tmp_path / "loop").symlink_to("loop")
        (tmp_path / "study.toml").write_text(GRID.format("1.0"))
        assert_refused(
            call_klazy("sweep", "study.toml", "--jobs", 1, "--out", path, folder=tmp_path), path
        )
        assert_refused(
            call_klazy("reproduce", "geometry", "--quick", "--out", path, folder=tmp_path), path
        )


# A command that has workers, and one that plays for itself.
STUDY = """seeds = 4000
[[scenarios]]
recipe = "stochastic"
phases = 2
length = 400
[[learners]]
rule = "GD"
sigma = [1.0, 2.0]
"""  # which takes minutes: no command ends by itself before it is stopped
STOPPED = {
    "sweep alone": ("sweep", "study.toml", "--jobs", "1"),
    "sweep": ("sweep", "study.toml", "--jobs", "2"),
    "reproduction": ("reproduce", "--quick", "--jobs", "2"),
}
# Seconds in which all has ended; a worker that is still importing looks only then whether its driver was killed.
SOON = {signal.SIGINT: 2.0, signal.SIGTERM: 2.0, signal.SIGKILL: 10.0}


def list_processes(group: int) -> list[str]:
    """The processes of a group that have not ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            _, _, about = (folder / "stat").read_text().rpartition(")")
            state, _, its_group, *_ = about.split()
            if int(its_group) == group and state != "Z":
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue  # it has ended meanwhile
    return found


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="processes are looked up as Linux shows them"
)
class TestStops:
    @pytest.mark.parametrize(
        "number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name
    )
    def test_at_any_moment_end_all_processes_at_once(self, tmp_path, number):
        (tmp_path / "study.toml").write_text(STUDY)
        tried = amount(1, 400)
        rng = random.Random(int(number))
        environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}  # it is the processes that matter
        for i in range(1, tried + 1):
            what = list(STOPPED)[i % len(STOPPED)]
            command = [sys.executable, "-m", "klazy", *STOPPED[what], "--out", f"out{i}"]
            with subprocess.Popen(
                command,
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            ) as running:
                wait = rng.uniform(0.0, 1.5)
                started = time.monotonic()
                while (
                    i % 2
                    and len(list_processes(running.pid)) < 2
                    and time.monotonic() < started + 20.0
                ):
                    time.sleep(0.02)  # every other time stop it when it has workers
                time.sleep(wait)
                running.send_signal(number)
                ended = time.monotonic() + SOON[number]
                while (left := list_processes(running.pid)) and time.monotonic() < ended:
                    running.poll()
                    time.sleep(0.02)
                if left:
                    os.killpg(running.pid, signal.SIGKILL)
                assert not left, (what, wait, left)
                assert running.wait() in (-number, 128 + number), (what, wait)
        record(
            f"stop-{number.name}",
            f"commands stopped by {number.name}",
            tried,
            f"no process is left after {SOON[number]:g} seconds",
        )
