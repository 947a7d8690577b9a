"""The command ``klazy live``: rows in, decisions out."""

import csv
import io
import json
import os
import signal
import subprocess
import sys

import pytest

import klazy as kl
from command import call_klazy

HEADER = "time,eu,us\n"
MORNING = "2024-03-01 08:00,57,20\n"
NOON = "2024-03-01 12:00,60,22\n"


@pytest.fixture
def agent(tmp_path):
    file = tmp_path / "agent.json"
    learner = kl.LastValue(kl.Box([0.0, 0.0], [99.0, 99.0]), family=kl.Pinball(4.0))
    kl.Agent(learner, costs=kl.Pinball(4.0), columns=["eu", "us"], movement="l1").save(file)
    return file


def feed(text, agent, *arguments):
    """Call ``klazy live`` with this text, or this reader, as standard input."""
    source = io.StringIO(text) if isinstance(text, str) else text
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdin", source)
        return call_klazy("live", agent, *arguments, folder=agent.parent)


class Interrupted(io.StringIO):
    """Input during which a signal comes, once the text has been read. Unless ``goes_on`` is False it never ends."""

    def __init__(self, text, number, goes_on=True):
        super().__init__(text)
        self.number = number
        self.more = NOON if goes_on else ""

    def readline(self, size=-1, /):
        line = super().readline(size)
        if not line:
            os.kill(os.getpid(), self.number)
        return line or self.more


def test_a_forecast_may_come_before_the_rest_of_its_row(tmp_path):
    """A row is decided once the forecast of the one that its decision meets is known: early, or with that row."""
    box = kl.Box(0.0, 99.0)
    follower = kl.contrib.FollowForecast(box, "l1", 8, 4, family=kl.Pinball(4.0))
    given = {
        "columns": ["load"],
        "forecast": "told",
        "lead": 1,
        "origin": {"forecast_for": "this", "time": "at"},
    }
    kl.Agent(follower, **given).save(tmp_path / "agent.json")
    load, told = [50, 52, 61, 58, 40, 44], [49, 55, 60, 59, 42, 45]
    whole = [f"{at},{load[at]},{told[at]}" for at in range(6)]
    early = ["0,,49", "1,,55", "0,50,49"]
    for at in range(1, 6):
        early += [f"{at + 1},,{told[at + 1]}"] if at < 5 else []
        early += [f"{at},{load[at]},{told[at]}"]
    agent = kl.Agent.load(tmp_path / "agent.json")
    for row, later in zip(load, [*told[2:], None, None], strict=True):
        agent.observe({"load": row, "told": later})
    answers = [
        feed("\n".join(["at,load,told", *lines]), tmp_path / "agent.json")
        for lines in (whole, early)
    ]
    assert answers[0].stdout == answers[1].stdout
    assert answers[0].status == answers[1].status == 0
    assert answers[0].stdout.splitlines()[-1] == f"5,{agent.decision['load']}"
    moved = [
        ",".join([*row.split(",")[:2], *after])
        for row, after in zip(whole, [*[[str(x)] for x in told[2:]], [""], [""]], strict=True)
    ]
    nexts = feed(
        "\n".join(["at,load,told", *moved]), tmp_path / "agent.json", "--forecast-for", "next"
    )
    assert nexts.stdout == answers[0].stdout
    refused = feed("at,load\n0,3\n", tmp_path / "agent.json")
    assert (
        "The rows must have the columns ['load', 'told'], but ['told'] are missing."
        in refused.stderr
    )
    wrong = feed("", tmp_path / "agent.json", "--forecast-for", "that")
    assert "--forecast-for must be one of 'this', 'next', got 'that'." in wrong.stderr


def test_decisions_come_as_the_rows_do(agent):
    rows = HEADER + MORNING + NOON
    ended = feed(rows, agent)
    assert ended.stdout == "time,eu,us\n2024-03-01 08:00,57.0,20.0\n2024-03-01 12:00,60.0,22.0\n"
    assert (
        ended.stderr
        == "Rows taken: 2, refused: 0; round 3 comes next; paid so far: operating cost 328, switching cost 82.\n"
    )
    assert ended.status == 0
    as_json = [json.dumps(dict(zip(("time", "eu", "us"), (row[0], float(row[1]), float(row[2])), strict=True)))
               for row in list(csv.reader(io.StringIO(rows)))[1:]]  # fmt: skip
    assert feed("\n".join(as_json), agent).stdout.splitlines() == as_json
    assert feed(rows, agent, "--json").stdout.splitlines() == as_json
    points = feed("﻿\n" + rows.replace(",", ";").replace("57", "57,5"), agent).stdout
    assert points.splitlines()[1] == "2024-03-01 08:00,57.5,20.0"


def test_the_present_decision_comes_first_if_asked_for(agent):
    assert feed(HEADER, agent, "--first").stdout == "time,eu,us\n,0.0,0.0\n"
    assert feed("", agent, "--first", "--json").stdout == '{"eu": 0.0, "us": 0.0}\n'


def test_explanations_are_a_field(agent):
    ended = feed('{"us": 2, "eu": 3}', agent, "--explain")
    why = "Round 2 plays eu 3, us 2. The aim is best for the average of all 1 rounds so far."
    assert json.loads(ended.stdout) == {"eu": 3.0, "us": 2.0, "why": why}


def test_a_store_goes_on_and_takes_a_row_once(agent):
    state = ("--state", "decisions.db", "--name", "eu", "--id", "time")
    first = feed(HEADER + MORNING, agent, *state)
    again = feed(HEADER + MORNING + NOON, agent, *state)
    assert again.stdout == first.stdout + "2024-03-01 12:00,60.0,22.0\n"
    with kl.Agent.open(agent.parent / "decisions.db", name="eu") as kept:
        assert kept.t == 3
        assert kept.history()["id"].to_list() == ["2024-03-01 08:00", "2024-03-01 12:00"]
    history = call_klazy("history", "decisions.db", "eu", "--csv", folder=agent.parent).stdout
    assert history.splitlines()[0].endswith("gradient_eu,gradient_us,decision_eu,decision_us")
    shown = call_klazy("history", "decisions.db", "eu", folder=agent.parent).stdout
    assert "eu 57, us 20" in shown


BAD_LINES = {
    '2024,x,1\n': "line 2: eu must be a finite number, got 'x'.",
    '2024,,1\n': "line 2: eu must be a finite number, got ''.",
    '2024,1\n': "line 2: The row must have 3 cells, as the header has, got 2.",
    '2024,1,inf\n': "line 2: us must be a finite number, got inf.",
    ',1,1\n': "line 2: Column time must have an id, got ''.",
}  # fmt: skip


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_bad_row_is_left_out_with_its_line(agent, line):
    ended = feed(HEADER + line + NOON, agent, "--id", "time")
    assert ended.stderr.splitlines()[0] == BAD_LINES[line]
    assert ended.stdout == "time,eu,us\n2024-03-01 12:00,60.0,22.0\n"
    assert "Rows taken: 1, refused: 1; round 2 comes next" in ended.stderr
    assert ended.status == 1
    strict = feed(HEADER + line + NOON, agent, "--id", "time", "--strict")
    assert (strict.stdout, strict.stderr, strict.status) == ("", BAD_LINES[line] + "\n", 2)


@pytest.mark.parametrize(
    "line",
    ["{", "[1, 2]", "7", '{"eu": 1}', '{"eu": 1, "us": true}', '{"eu": 1, "us": 1, "asia": 1}'],
)
def test_a_bad_line_of_json_is_left_out(agent, line):
    ended = feed('{"eu": 1, "us": 1}\n\n' + line + '\n{"eu": 2, "us": 2}\n', agent)
    assert ended.stdout.splitlines() == ['{"eu": 1.0, "us": 1.0}', '{"eu": 2.0, "us": 2.0}']
    assert ended.stderr.startswith("line 3: ")
    assert ended.status == 1


@pytest.mark.parametrize(
    "cell", [b"\xff\xfe", b"\x00", b"1" * 200_000, b'"1', b"nan", b"1e999", b"x" * 9000]
)
def test_a_hostile_cell_is_left_out(agent, cell):
    text = HEADER.encode() + b"2024," + cell + b",1\n"
    quoted = b'"' in cell  # which runs to the end of the input
    ended = feed(io.TextIOWrapper(io.BytesIO(text + NOON.encode()), "ascii"), agent)
    assert ended.stdout == ("" if quoted else "time,eu,us\n2024-03-01 12:00,60.0,22.0\n")
    assert ended.stderr.startswith("line 3: " if quoted else "line 2: ")
    assert len(ended.stderr) < 400
    assert ended.status == 1


REFUSED = {
    "The rows must have the columns ['eu', 'us'], but ['us'] are missing.": ("time,eu\n", ()),
    "The agent has no columns ['asia'], only ['eu', 'us']. Leave one out with --ignore \"asia\".":
        ("eu,us,asia\n", ()),
    "Each column must have a name of its own, got ['eu', 'us', 'eu'].": ("eu,us,eu\n", ()),
    "--id must be one of the columns ['eu', 'us'], got key.": ("eu,us\n", ("--id", "key")),
    "--id eu is a column of the agent. Choose another column for ids.": ("eu,us\n", ("--id", "eu")),
    "--name eu needs a store. Add --state decisions.db.": ("eu,us\n", ("--name", "eu")),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_what_can_never_work_is_refused_at_once(agent, message):
    text, arguments = REFUSED[message]
    ended = feed(text, agent, *arguments)
    assert (ended.stdout, ended.stderr, ended.status) == ("", message + "\n", 2)


def test_columns_may_be_ignored(agent):
    assert feed("eu,note,us\n1,hm,2\n", agent, "--ignore", "note").stdout == "eu,us\n1.0,2.0\n"


def test_an_agent_must_take_rows_by_name(tmp_path):
    kl.Agent(kl.GD(kl.Simplex(2), 1.0), costs=kl.Linear(), engine="step").save(
        tmp_path / "plain.json"
    )
    assert "takes no rows by name" in feed("a,b\n", tmp_path / "plain.json").stderr
    assert "Cannot read the agent " in feed("a,b\n", tmp_path / "none.json").stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_cleanly(agent, number):
    before = signal.getsignal(number)
    ended = feed(Interrupted(HEADER + MORNING, number), agent, "--state", "decisions.db")
    assert ended.status == 0
    assert ended.stderr.startswith("Rows taken: 1, refused: 0")
    assert signal.getsignal(number) is before


def test_an_ignored_signal_is_respected(agent):
    """Commands that a script starts with & have Ctrl-C ignored; they go on."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ended = feed(Interrupted(HEADER + MORNING, signal.SIGINT, goes_on=False), agent)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.status == 0
    assert ended.stderr.startswith("Rows taken: 1, refused: 0")


def test_a_process_answers_row_by_row_and_ends_at_sigterm(agent):
    command = [
        sys.executable,
        "-m",
        "klazy",
        "live",
        str(agent),
        "--state",
        str(agent.parent / "decisions.db"),
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(HEADER + MORNING)
        process.stdin.flush()
        assert process.stdout.readline() == HEADER
        assert process.stdout.readline() == "2024-03-01 08:00,57.0,20.0\n"
        process.terminate()
        assert process.wait(timeout=30) == 0
    with kl.Agent.open(agent.parent / "decisions.db") as kept:
        assert kept.decision == {"eu": 57.0, "us": 20.0}
