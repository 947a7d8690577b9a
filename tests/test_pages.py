"""The service's pages, looked at in a real browser, at a desk's and a phone's width, light and dark."""

import json
import re

import httpx
import numpy as np
import pytest

import klazy as kl
from klazy.base.svg import draw_chart
from served import run_service

NAMES = ["amsterdam", "dublin", "paris", "frankfurt", "<b>milan</b>"]
pytestmark = pytest.mark.xdist_group("serve")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    rng = np.random.default_rng(0)
    with run_service(tmp_path_factory.mktemp("pages")) as service:
        client = service.client()
        named = {"costs": kl.Linear(), "columns": NAMES, "movement": "tv", "engine": "step"}
        agent = client.agent("eu-west", kl.GD(kl.Simplex(5), 5.0), guards=kl.Guards(per_round=0.1), **named)
        for i, row in enumerate(rng.uniform(size=(30, 5))):
            agent.observe(dict(zip(NAMES, row.tolist(), strict=True)), id=f"round {i}")
        client.agent('a&b "<img src=x onerror=alert(1)>', kl.GD(kl.Simplex(5), 5.0), engine="step")
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
    page.wrong = []
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith((served.url, "data:")) else page.wrong.append(request.url)
        ),
    )
    page.on("pageerror", lambda error: page.wrong.append(str(error)))
    page.on("console", lambda message: page.wrong.append(message.text) if message.type == "error" else None)
    page.goto(served.url)
    page.fill("input[name=token]", served.tokens["admin"])
    page.click("button")
    yield page
    context.close()
    assert page.wrong == []


def test_pages_fit_their_window_and_are_whole_in_both_themes(served, page):
    paths = ["/", "/page/eu-west", "/page/eu-west?optimum", f"/page/{'x' * 150}", "/login"]
    grounds = set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for path in paths:
            page.goto(served.url + path)
            assert page.locator("h1").count() == 1
            grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            for width in (1280, 390):
                page.set_viewport_size({"width": width, "height": 900})
                wide = page.evaluate(
                    "document.documentElement.scrollWidth > document.documentElement.clientWidth"
                )
                assert not wide, (path, width)
    assert len(grounds) == 2


def test_the_list_shows_every_agent_and_what_it_does(served, page):
    text = page.inner_text("main")
    assert "3 agents" in text
    assert "deleted" in text
    assert "<img src=x" in text  # as text
    assert page.locator(".sparkline").count() == 2
    page.click("text=eu-west")
    page.wait_for_url("**/page/eu-west")


def test_an_agent_is_shown_with_its_decisions_by_name_and_its_costs(served, page):
    page.goto(f"{served.url}/page/eu-west")
    text = page.inner_text("main")
    for name in NAMES:
        assert name in text
    agent = served.client().agent("eu-west")
    assert f"{agent.hitting + agent.switching:.5g}" in text
    assert page.locator(".chart.broad polyline").count() == 5 + 2
    assert "dublin" in page.locator(".chart.broad title").first.text_content()
    assert "best possible" not in text.replace("Work out the best possible total", "")
    page.click("text=Work out the best possible total")
    page.wait_for_url("**?optimum")
    costs = np.array([list(json.loads(row).values()) for row in agent.history()["row"]])
    best = kl.offline_optimum(costs, kl.Simplex(5), kl.TVMovement(), gap=1e-3)
    assert f"The best possible total was {best.cost:.5g}" in page.inner_text("main")


def test_an_agent_is_frozen_and_resumed_with_a_reason(served, page):
    agent = served.client().agent("eu-west")
    page.goto(f"{served.url}/page/eu-west")
    page.fill("input[name=reason]", "the link is <down>")
    page.click("button:text('Freeze')")
    page.wait_for_selector(".badge:text('frozen')")
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
    for origin in ("https://evil.example", "null", served.url.replace("http:", "https:") + ".evil.example"):
        answer = served.http.post(
            "/page/eu-west/freeze", content="reason=x", headers=cookie | {"Origin": origin}
        )
        assert answer.status_code == 403
    json_body = {"Cookie": cookie["Cookie"], "Content-Type": "text/plain", "Origin": "https://evil.example"}
    assert served.http.post("/agents/eu-west/freeze", content="{}", headers=json_body).status_code in (
        403,
        415,
    )
    assert not served.client().agent("eu-west").about["frozen"]
    headers = httpx.get(served.url + "/login").headers
    assert re.search("default-src 'none'.*frame-ancestors 'none'", headers["content-security-policy"])


def test_a_chart_of_equal_or_single_values_is_drawn():
    for values in (np.zeros(3), np.full(3, 7.0), np.array([1e-9, -1e9, 1e9])):
        assert "nan" not in draw_chart(np.arange(1.0, 4.0), {"a": values}, "costs")
    assert "<polyline" in draw_chart(np.array([5.0]), {"a": np.array([2.0])}, "costs")
