"""The service's pages, looked at in a real browser, at a desk's and a phone's width, light and dark."""

import json
import re

import httpx
import numpy as np
import pytest

import klazy as kl
from klazy.base.amounts import format_amount
from klazy.base.uplot import thin
from klazy.live.inspection import Tally
from klazy.live.rows import RowSpec
from klazy.live.store import open_store
from klazy.serve import pages
from klazy.serve.timeline import Timeline, find_promise
from looks import look_at, watch
from served import run_service

NAMES = ["amsterdam", "dublin", "paris", "frankfurt", "<b>milan</b>"]
pytestmark = pytest.mark.xdist_group("serve")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    rng = np.random.default_rng(0)
    with run_service(tmp_path_factory.mktemp("pages")) as service:
        client = service.client()
        named = {"costs": kl.Linear(), "columns": NAMES, "movement": "tv", "engine": "step"}
        agent = client.agent(
            "eu-west", kl.GD(kl.Simplex(5), 5.0), guards=kl.Guards(per_round=0.1), **named
        )
        for i, row in enumerate(rng.uniform(size=(30, 5))):
            agent.observe(dict(zip(NAMES, row.tolist(), strict=True)), id=f"round {i}")
        client.agent(
            'a&b "<img src=x onerror=alert(1)>', kl.GD(kl.Simplex(5), 5.0), engine="step"
        )
        other = client.agent("x" * 150, kl.GD(kl.Simplex(30), 5.0), engine="step")
        for g in rng.normal(size=(4, 30)):
            other.update(g)
        other.delete("it was a trial")
        yield service


@pytest.fixture
def page(served, browser):
    """A browser that has logged in; whatever goes wrong there, or is asked of others, is in ``page.wrong``."""
    context = browser.new_context()
    page = context.new_page()
    watch(page, served.url)
    page.goto(served.url)
    page.fill("input[name=token]", served.tokens["admin"])
    page.click("button")
    yield page
    context.close()
    assert page.wrong == []


@pytest.mark.parametrize(
    "path",
    ["/", "/page/eu-west", "/page/eu-west?optimum&why", f"/page/{'x' * 150}", "/docs", "/login"],
)
def test_a_page_fits_its_window_in_both_themes_and_is_accessible(served, page, path):
    look_at(page, served.url + path)
    assert page.locator("h1").count() == 1


def test_the_list_shows_every_agent_and_what_it_does(served, page):
    text = page.inner_text("main")
    assert "3 agents" in text
    assert "deleted" in text
    assert "<img src=x" in text  # as text
    assert page.locator(".sparkline").count() == 2
    page.fill("input[name=search]", "EU-")
    page.click("button:text('Show')")
    assert "1 agent with" in page.inner_text("h1")
    page.click("text=eu-west")
    page.wait_for_url("**/page/eu-west")


def test_the_list_has_pages_and_orders(served, page, monkeypatch):
    monkeypatch.setattr(pages, "PAGE_AGENTS", 2)
    page.goto(f"{served.url}/?order=rounds")
    assert page.locator("#agents .who a").first.inner_text() == "eu-west"
    assert "Page 1 of 2" in page.inner_text("main")
    page.click("text=Next page")
    assert page.locator("#agents tbody tr").count() == 1


def test_an_agent_is_shown_with_its_decisions_by_name_and_its_costs(served, page):
    page.goto(f"{served.url}/page/eu-west")
    text = page.inner_text("main")
    for name in NAMES:
        assert name in text
    agent = served.client().agent("eu-west")
    assert format_amount(agent.hitting + agent.switching) in text
    history = agent.history()
    rows = np.array([list(json.loads(row).values()) for row in history["row"]])
    x = agent.guards and np.full(5, 0.2)
    still = sum(float(row @ x) for row in rows)
    assert format_amount(still - agent.hitting - agent.switching) in text
    chart = page.locator("#chart-decisions")
    assert chart.locator(".key").count() == 5
    page.mouse.move(*_middle(chart.locator(".u-over")))
    shown = [float(each) for each in chart.locator(".key b").all_inner_texts()]
    assert any(np.allclose(shown, x, atol=1e-3) for x in history["decision"].to_list())
    page.click("text=Compute the offline optimum")
    page.wait_for_url("**optimum")
    best = kl.offline_optimum(rows, kl.Simplex(5), kl.TVMovement(), gap=1e-3)
    assert f"The best possible total was {format_amount(best.cost)}" in page.inner_text("main")


def _middle(locator):
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_a_page_follows_its_agent_without_being_loaded_again(served, page, monkeypatch):
    monkeypatch.setattr(pages, "REFRESH_SECONDS", 0.2)
    agent = served.client().agent(
        "fleet", kl.GD(kl.Box(0, 9), 5.0), costs=kl.Pinball(), engine="step"
    )
    for i in range(5):
        agent.observe([4.0 + i % 2])
    page.goto(f"{served.url}/page/fleet")
    page.evaluate("window.same = true")
    assert "demand" in page.inner_text("#chart-decisions .legend")
    agent.observe([8.25])
    page.locator("#chart-decisions .legend", has_text="8.25").wait_for()
    assert page.evaluate("window.same")
    agent.delete("done")


def test_an_agent_is_frozen_and_resumed_with_a_reason(served, page):
    agent = served.client().agent("eu-west")
    page.goto(f"{served.url}/page/eu-west")
    page.fill("input[name=reason]", "the link is <down>")
    page.click("button:text('Freeze')")
    page.wait_for_selector(".verdict:text('frozen')")
    assert "the link is <down>" in page.inner_text("main")
    assert agent.about["frozen"]
    page.fill("input[name=reason]", "up again")
    page.click("button:text('Resume')")
    page.wait_for_selector("button:text('Freeze')")
    assert not agent.about["frozen"]


def test_a_reader_sees_no_button_and_may_press_none(served, browser):
    context = browser.new_context()
    page = context.new_page()
    page.goto(served.url)
    page.fill("input[name=token]", served.tokens["reader"])
    page.click("button")
    page.goto(f"{served.url}/page/eu-west")
    assert page.locator("button:text('Freeze')").count() == 0
    context.close()
    cookie = {
        "Cookie": f"klazy={served.tokens['reader']}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    answer = served.http.post("/page/eu-west/freeze", content="reason=x", headers=cookie)
    assert answer.status_code == 403
    assert not served.client().agent("eu-west").about["frozen"]


def test_a_page_asks_for_a_token_and_forgets_it(served, browser):
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{served.url}/page/eu-west")
    assert page.url.endswith("/login")
    page.fill("input[name=token]", "klazy_wrong")
    page.click("button")
    assert "not known" in page.inner_text("main")
    page.fill("input[name=token]", served.tokens["admin"])
    page.click("button")
    page.wait_for_url(f"{served.url}/")
    (cookie,) = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["expires"]) == (True, "Strict", -1)
    page.click("text=Log out")
    page.goto(served.url)
    assert page.url.endswith("/login")
    context.close()


def test_another_site_can_press_no_button(served):
    cookie = {
        "Cookie": f"klazy={served.tokens['admin']}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    for origin in (
        "https://evil.example",
        "null",
        served.url.replace("http:", "https:") + ".evil.example",
    ):
        answer = served.http.post(
            "/page/eu-west/freeze", content="reason=x", headers=cookie | {"Origin": origin}
        )
        assert answer.status_code == 403
    json_body = {
        "Cookie": cookie["Cookie"],
        "Content-Type": "text/plain",
        "Origin": "https://evil.example",
    }
    assert served.http.post(
        "/agents/eu-west/freeze", content="{}", headers=json_body
    ).status_code in (
        403,
        415,
    )
    assert not served.client().agent("eu-west").about["frozen"]
    headers = httpx.get(served.url + "/login").headers
    assert re.search(
        "default-src 'none'.*frame-ancestors 'none'", headers["content-security-policy"]
    )


def test_a_page_says_when_an_agent_saves_less_than_was_promised(served, page, tmp_path):
    for name, saved, alerts in (("less", 1000.0, 1), ("more", 1.0, 0), ("odd", "much", 0)):
        origin = {"promised": {"rounds": 10, "saved": saved, "half": 20.0}, "unit": "EUR"}
        emitted = kl.Agent(
            kl.GD(kl.Box(0, 9), 5.0), costs=kl.Pinball(), engine="step", origin=origin
        )
        emitted.save(tmp_path / "agent.json")
        agent = served.client().agent(name, tmp_path / "agent.json")
        for _ in range(5):
            agent.observe([4.0])
        page.goto(f"{served.url}/page/{name}")
        assert page.locator("#alerts .alert").count() == alerts
        assert page.locator("#chart-saved .area").count() == (name != "odd")
        agent.delete("done")


def test_a_page_compares_with_the_baseline_of_the_replay_and_marks_changes(
    served, page, tmp_path
):
    origin = {"fixed": 10.0, "baseline": 8.0}
    agent = kl.Agent(
        kl.GD(kl.Box(0, 9), 5.0), costs=kl.Pinball(), guards=kl.Guards(), origin=origin
    )
    agent.save(tmp_path / "agent.json")
    agent = served.client().agent("compared", tmp_path / "agent.json")
    for _ in range(5):
        agent.observe([4.0])
    agent.freeze("a release")
    agent.observe([4.0])
    kl.Agent.open(served.file, name="compared", guards=kl.Guards(per_round=2.0)).close()
    page.goto(f"{served.url}/page/compared")
    # Never moving from zero would have cost 24, and the baseline 8 / 10 of that.
    saved = format_amount(24.0 * 0.8 - agent.hitting - agent.switching)
    facts = dict(
        zip(
            page.locator("dt").all_inner_texts(),
            page.locator("dd").all_inner_texts(),
            strict=True,
        )
    )
    assert facts["saved against the baseline, estimated"] == saved
    events = page.inner_text("#events")
    assert "a release" in events
    assert "Guards(per_round=2.0" in events
    chart = json.loads(page.locator("#chart-decisions script").text_content())
    assert [mark["name"] for mark in chart["marks"]] == ["freeze"]
    agent.delete("done")


def test_what_is_nothing_next_to_the_largest_is_written_as_zero(served, page):
    agent = served.client().agent(
        "tiny", kl.GD(kl.Box([0.0, 0.0], [9.0, 9.0]), 5.0), columns=["a", "b"], engine="step"
    )
    agent.update([-20.0, -1e-200])
    page.goto(f"{served.url}/page/tiny")
    assert page.locator("#now .huge").all_inner_texts() == ["4", "0"]
    assert "e-2" not in page.inner_text("main")
    agent.delete("done")


def test_scripts_come_from_the_service_alone_and_none_is_within_a_page(served):
    headers = httpx.get(served.url + "/klazy.js").headers
    assert headers["content-type"].startswith("text/javascript")
    policy = headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    answer = served.http.get(
        "/page/eu-west", headers={"Cookie": f"klazy={served.tokens['admin']}"}
    )
    assert (
        re.findall(
            r"<script(?! type=.application/json.| src=./(?:uPlot.iife.min|klazy).js.)",
            answer.text,
        )
        == []
    )
    assert not re.search(r"\son\w+=|\sstyle=", answer.text.split("<main>")[1])


def test_a_timeline_reads_what_is_new_and_then_what_is_old(place, monkeypatch):
    monkeypatch.setattr("klazy.serve.timeline.LOOK_RECORDS", 25)
    monkeypatch.setattr("klazy.serve.timeline.LOOK_SECONDS", 0.0)
    agent = kl.Agent.open(
        place,
        kl.Agent(kl.GD(kl.Box(0, 9), 5.0), costs=kl.Pinball(2.0), columns=["a"], per=2.0),
        name="one",
    )
    for i in range(60):
        agent.observe({"a": i % 7}, id=f"2026-03-01T{i // 60:02}:{i % 60:02}")
    store = open_store(place, read_only=True)
    timeline = Timeline(store, store.find_agent("one"))
    counts = [len(timeline.look(store).time) for _ in range(3)]
    assert counts == [25, 50, 60]
    assert timeline.is_whole
    agent.observe({"a": 3}, id="2026-03-01T01:00")
    rounds = timeline.look(store)
    assert np.diff(rounds.time).tolist() == [60.0] * 60
    # Two of a row are one of a decision.
    assert rounds.row[:, 0].tolist() == [i % 7 / 2 for i in range(60)] + [1.5]
    assert (rounds.hitting + rounds.switching).sum() == pytest.approx(
        agent.hitting + agent.switching
    )
    # Never moving from zero costs twice each demand.
    assert rounds.fixed.tolist() == (2.0 * rounds.row[:, 0]).tolist()
    tally = Tally(store, store.find_agent("one"))
    tally.look(store)
    assert tally.fixed == pytest.approx(rounds.fixed.sum())
    store.close()
    agent.close()


def test_what_a_replay_promises_covers_what_comes():
    """Of later sums of the same noise, 95 % are within the band that the replay's own interval gives."""
    rng = np.random.default_rng(0)
    rounds, later, games = 400, 100, 400
    inside = 0
    for _ in range(games):
        gaps = rng.normal(0.3, 1.0, rounds).reshape(20, -1).sum(axis=1)
        promised = {
            "rounds": rounds,
            "saved": gaps.sum(),
            "half": 2.093 * gaps.std(ddof=1) * np.sqrt(20),
        }
        spec = RowSpec(origin={"promised": promised})
        middle, half = find_promise(spec, np.array(float(later)))
        inside += abs(rng.normal(0.3, 1.0, later).sum() - middle) <= half
    assert 0.92 <= inside / games <= 0.98


def test_thinning_keeps_extremes_and_ends():
    values = np.random.default_rng(0).normal(size=(3, 1_000_000))
    at = thin(list(values), 2000)
    assert len(at) <= 2002
    assert (at[0], at[-1]) == (0, 999_999)
    assert (values[:, at].max(axis=1) == values.max(axis=1)).all()
    assert (values[:, at].min(axis=1) == values.min(axis=1)).all()
    assert thin([np.zeros(1)]).tolist() == [0]
