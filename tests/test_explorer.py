"""The explorer in a browser: its learners are klazy's, its sequences too; what it draws is right; links and keys work."""

import re
import runpy
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import klazy as kl
from klazy.base.checks import InvalidInput
from klazy.sequences import alternating, corrupted, rotating, square_wave, stochastic
from klazy.theory.geometry import normal_cone

pytestmark = pytest.mark.xdist_group("explorer")  # one browser, one page

FOLDER = Path(__file__).parents[1] / "docs" / "explorer"
AXES = np.array([[-1.0, 1.0, 0.0], [-1.0, -1.0, 2.0]]) / np.sqrt(
    [[2.0], [6.0]]
)  # of the triangle's plane


class Triangle(kl.types.ConvexSet):
    """The simplex of three shares, in the plane that the picture shows."""

    def __init__(self) -> None:
        self._keep(dim=2)

    @property
    def diameter(self) -> float:
        return 2.0**0.5

    def nearest(self, y):
        return (kl.Simplex(3).project(1.0 / 3.0 + y @ AXES) - 1.0 / 3.0) @ AXES.T

    def lowest(self, g):
        raise NotImplementedError

    def violation(self, x):
        raise NotImplementedError

    def farthest(self, center):
        raise NotImplementedError


SETS = {
    "l1": kl.L1Ball(2),
    "l2": kl.L2Ball(2),
    "box": kl.Box([-1, -1], [1, 1]),
    "simplex": kl.Simplex(3),
}
IN_PLANE = SETS | {"simplex": Triangle()}
FOLLOW = """(link) => new Promise((done) => {
  document.activeElement.blur();
  window.addEventListener('hashchange', () => setTimeout(done), { once: true });
  if (location.hash === '#' + link) window.dispatchEvent(new Event('hashchange'));
  location.hash = link;
})"""
SIGMAS = {"s0.3": 0.3, "s4": 4.0, "sqrt1": kl.Sqrt(1), "sqrt60": kl.Sqrt(60)}


def plain(domain, sigma):
    """Learners without a number, by their words in a link."""
    memory = {"forget": kl.memories.Forget(), "full": kl.memories.Full()}
    simple = {"gd": kl.GD(domain, sigma), "lazy": kl.LazyGD(domain, sigma)}
    return simple | {
        word: kl.MemoryGD(domain, sigma, memory=rule) for word, rule in memory.items()
    }


def numbered(domain, sigma, k):
    """Learners with one, k or near it."""
    rules = {
        f"clock,k{k}": kl.memories.Clock(k),
        f"decay,m{k + 0.5}": kl.memories.Decay(k + 0.5),
        f"clip,kappa{k}": kl.memories.Clip(k),
    }
    rules[f"event,kappa{k}"] = kl.memories.Event(k)
    memory = {word: kl.MemoryGD(domain, sigma, memory=rule) for word, rule in rules.items()}
    return {f"klazy,k{k}": kl.KLazyGD(domain, sigma, k=k)} | memory


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("explorer") / "explorer.html"
    path.write_text(runpy.run_path(str(FOLDER / "assemble.py"))["assembled"](), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def heard():
    """What the page said on its console, and whom it asked."""
    return []


@pytest.fixture(scope="module")
def page(browser, file, heard):
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on(
        "request",
        lambda request: (
            heard.append(request.url) if not request.url.startswith(("file:", "data:")) else None
        ),
    )
    page.goto(file)
    return page


@pytest.fixture
def opened(page, file, heard):
    """A function that opens a link, in the page as it is or afresh."""

    def opening(link="", afresh=False):
        if afresh or not link:
            page.goto("about:blank")
            page.goto(f"{file}#{link}" if link else file)
        else:
            page.evaluate(FOLLOW, link)
        return page

    yield opening
    assert heard == []


def steps_of_all_sizes(seed, T, dim):
    """Gradients that push one way for a while, hard or hardly, and then another; a few rounds without cost."""
    rng = np.random.default_rng(seed)
    pushes = np.repeat(rng.normal(size=(T // 20, dim)), 20, axis=0)
    g = (pushes + rng.normal(scale=0.7, size=(T, dim))) * np.repeat(
        10.0 ** rng.uniform(-2, 0.5, T // 20), 20
    )[:, None]
    g[rng.random(T) < 0.05] = 0.0
    return g


RUN_ALL = """([set, words, gradients, lambda]) => words.map((word) => {
  const { states, costs } = klazy.run(set, word, gradients, lambda);
  const length = states.slice(1).map(({ y, x, sigma }) => Math.hypot(...y.map((each, i) => sigma * (each - x[i]))));
  return { x: states.map(({ x }) => x), hitting: costs.hitting, switching: costs.switching, length };
})"""
LIFTED = "([set, link]) => klazy.gradients(link).map((g) => klazy.lift(set, g))"


def differing(page, name, learners, g, weight):
    """The words of the learners that the page plays otherwise than klazy does."""
    played = page.evaluate(RUN_ALL, [name, list(learners), g.tolist(), weight])
    pairs = zip(learners.items(), played, strict=True)
    return [word for (word, learner), found in pairs if not agree(learner, found, g, weight)]


def agree(learner, found, g, weight):
    """Points to 1e-12, sums of costs to 1e-12 of the largest: the order of additions within a dot product may change the last
    bits, and no projection amplifies that.

    Event alone is not continuous. Where its normal has the length kappa but for rounding, the last bit decides whether it is
    forgotten, and no answer after that round is the right one: such a run is compared up to it.
    """
    trace = kl.run(learner, g, movement=kl.L2Movement(weight), engine="step")
    T = trace.T
    if isinstance(learner, kl.MemoryGD) and isinstance(learner.memory, kl.memories.Event):
        gap = np.abs(np.array(found["length"]) - learner.memory.kappa)
        T = int(np.append(np.flatnonzero((gap > 0.0) & (gap < 1e-12)), T)[0]) or 1
    parts = {
        "x": trace.x[:T],
        "hitting": np.cumsum(trace.hitting)[:T],
        "switching": np.cumsum(trace.switching)[:T],
    }
    rows = {"x": slice(0, T), "hitting": slice(1, T + 1), "switching": slice(1, T + 1)}
    near = {
        part: 1e-12 if part == "x" else 1e-12 * max(1.0, float(np.abs(parts[part]).max()))
        for part in parts
    }
    return all(
        np.abs(np.array(found[part])[rows[part]] - parts[part]).max() <= near[part]
        for part in parts
    )


class TestLearners:
    @pytest.mark.parametrize("name", SETS)
    def test_points_and_costs_are_those_of_klazy(self, page, name):
        domain = SETS[name]
        for word, sigma in SIGMAS.items():
            for seed, k in enumerate((1, 2, 5, 19)):
                learners = numbered(domain, sigma, k) | (plain(domain, sigma) if k == 1 else {})
                named = {f"{rule},{word}": learner for rule, learner in learners.items()}
                assert (
                    differing(page, name, named, steps_of_all_sizes(seed, 100, domain.dim), 0.7)
                    == []
                )

    @pytest.mark.parametrize("name", SETS)
    def test_also_on_sequences_whose_points_fall_on_the_edges_of_cones(self, page, name):
        for seq in ("rotating", "alternating", "corrupted", "adversary"):
            g = np.array(
                page.evaluate(LIFTED, [name, f"set={name}&seq={seq}&T=120&l=klazy,k8,s4"])
            )
            learners = plain(SETS[name], 4.0) | numbered(SETS[name], 4.0, 5)
            assert (
                differing(
                    page, name, {f"{rule},s4": each for rule, each in learners.items()}, g, 1.0
                )
                == []
            )


class TestSequences:
    def test_the_examples_are_those_of_klazy(self, page):
        for T in (5, 101, 300):
            assert np.array_equal(
                page.evaluate(GRADIENTS, f"seq=rotating&T={T}"), rotating(T).costs.data
            )
            assert np.array_equal(
                page.evaluate(GRADIENTS, f"seq=alternating&T={T}"), alternating(T).costs.data
            )

    @pytest.mark.parametrize("length", [7, 110, 220, 250])
    def test_the_corrupted_sequence_is_that_of_klazy(self, page, length):
        found = page.evaluate(GRADIENTS, f"seq=corrupted&T={4 * length}&length={length}")
        assert np.array_equal(found, corrupted(phases=4, length=length, dim=2).costs.data)

    @pytest.mark.parametrize("k", [2, 5, 9, 20])
    def test_the_adversary_is_the_square_wave_against_the_first_slack(self, page, k):
        found = np.array(
            page.evaluate(
                GRADIENTS, f"seq=adversary&T=103&l=gd,s1;klazy,k1,s1;clock,k{k},s1;klazy,k30,s1"
            )
        )
        assert np.array_equal(found[:, :1], square_wave(k, 103).costs.data)
        assert not found[:, 1].any()

    def test_noise_is_of_length_one_and_has_the_mean_of_klazys(self, page):
        found = np.array(page.evaluate(GRADIENTS, "seq=stochastic&T=2000&length=500&seed=3"))
        assert np.abs(np.linalg.norm(found, axis=1) - 1.0).max() < 1e-15 * 4
        drawn = stochastic(0, phases=40, length=500, dim=2).costs.data.reshape(20, 1000, 2)
        mean = (drawn[:, :500] - drawn[:, 500:]).mean(axis=(0, 1)) / 2.0
        for phase, sign in zip(found.reshape(4, 500, 2), (1, -1, 1, -1), strict=True):
            assert (
                np.abs(phase.mean(axis=0) - sign * mean).max() < 5.0 * (0.5 / 500) ** 0.5
            )  # five standard errors

    def test_noise_is_drawn_from_its_seed(self, page):
        first, again, other = (
            page.evaluate(GRADIENTS, f"seq=stochastic&T=50&seed={seed}") for seed in (1, 1, 2)
        )
        assert first == again
        assert first != other

    def test_gradients_are_lifted_into_the_plane_of_the_triangle(self, page):
        g = np.array([[1.0, 0.0], [0.0, 1.0], [0.3, -0.8]])
        lifted = np.array(
            [
                page.evaluate("([set, g]) => klazy.lift(set, g)", ["simplex", each])
                for each in g.tolist()
            ]
        )
        assert np.abs(lifted - g @ AXES).max() < 1e-15


GRADIENTS = "(link) => klazy.gradients(link)"


class TestPicture:
    @pytest.mark.parametrize("name", SETS)
    def test_cones_are_those_of_klazy(self, page, name):
        rng = np.random.default_rng(5)
        flat = IN_PLANE[name]
        for y in np.vstack((2.0 * rng.normal(size=(30, 2)), 0.2 * rng.normal(size=(5, 2)))):
            x = flat.project(y)
            cone, fan = (
                page.evaluate("([set, x]) => klazy.cone(set, x)", [name, x.tolist()]),
                normal_cone(flat, x, y - x),
            )
            assert (
                len(cone) == 0
                if len(fan) == 0
                else np.abs(np.array(cone) - fan[[0, -1]]).max() < 2e-6
            )  # a ray's width there

    @pytest.mark.parametrize("name", SETS)
    @pytest.mark.parametrize("close", ["", "&close=1"])
    def test_it_shows_the_step_that_klazy_takes(self, opened, name, close):
        domain, rules = SETS[name], "gd,s6;lazy,s6;klazy,k5,s6;decay,m9,s6"
        memory = kl.MemoryGD(domain, 6.0, memory=kl.memories.Decay(9))
        for show, learner in enumerate(
            [kl.GD(domain, 6.0), kl.LazyGD(domain, 6.0), kl.KLazyGD(domain, 6.0, k=5), memory]
        ):
            for t in (12, 17):
                page = opened(
                    f"set={name}&seq=rotating&T=101&l={rules}&show={show + 1}&t={t}{close}"
                )
                g = np.array(page.evaluate(LIFTED, [name, f"seq=rotating&T={t}"]))
                shows_step(
                    page.evaluate(DRAWN),
                    IN_PLANE[name],
                    *(in_plane(name, each) for each in last_step(learner, g)),
                )

    def test_a_far_point_is_named_with_its_distance(self, opened):
        page = opened("set=l1&seq=rotating&T=101&l=lazy,s1&t=12")
        assert "y, 11.0 away" in page.text_content("#plane")

    def test_points_that_stand_still_share_a_label(self, opened):
        page = opened("set=l1&seq=rotating&T=101&l=lazy,s6&t=18")
        assert "x stood still" in page.inner_text("#caption")
        assert "xt = xt+1" in page.text_content("#plane").replace("\u200b", "")

    def test_every_learner_has_its_own_line_and_marker_in_every_curve(self, opened):
        page = opened("l=gd,s6;klazy,k5,s6;lazy,s6;decay,m9,s6&t=30")
        for chart in ("hitting", "switching", "total"):
            looks = page.evaluate(f"""[...document.querySelectorAll('#curve-{chart} .ahead .curve')].map((line) => [
                getComputedStyle(line).stroke, line.getAttribute('stroke-dasharray')])""")
            marks = page.evaluate(
                f"[...document.querySelectorAll('#curve-{chart} .dots path')].map((m) => m.getAttribute('d'))"
            )
            assert (
                len({colour for colour, _ in looks})
                == len({dash for _, dash in looks})
                == len(set(marks))
                == 4
            )

    def test_the_table_holds_the_sums_of_klazys_costs(self, opened):
        page = opened("set=l1&seq=rotating&T=101&lambda=2&l=gd,s6;klazy,k5,s6&t=60")
        cells = page.evaluate(
            "[...document.querySelectorAll('#numbers tr')].map((r) => [...r.cells].slice(1).map((c) => +c.innerText))"
        )
        for learner, row in zip(
            [kl.GD(kl.L1Ball(2), 6.0), kl.KLazyGD(kl.L1Ball(2), 6.0, k=5)], cells, strict=True
        ):
            paid = kl.run(
                learner, rotating(60).costs, movement=kl.L2Movement(2.0), engine="step"
            ).totals
            assert row == pytest.approx([paid.hitting, paid.switching, paid.cost], abs=6e-3)
        assert page.inner_text("#after") == "After round 60 of 101"


def last_step(learner: Any, g):
    """Where the last arrow's way began, the unconstrained point and the point then played."""
    *_, before, after = accumulate(g, learner.step, initial=learner.init())
    if isinstance(learner, kl.MemoryGD):
        return before.x, before.x + (before.n - g[-1]) / 6.0, after.x
    if isinstance(learner, kl.GD):
        return before.x, before.x - g[-1] / 6.0, after.x
    return after.anchor, after.anchor - after.g_sum / 6.0, after.x


def shows_step(drawn, flat, anchor, y, x):
    """Points within a hundredth of a pixel, which is the rounding of the picture, and the cone that klazy finds at x."""
    pixel = 0.01 / float(drawn["scale"])
    assert np.abs(placed(drawn, drawn["next"]) - x).max() < pixel
    assert np.abs(placed(drawn, drawn["free"]) - y).max() < pixel
    if "anchor" in drawn:
        assert np.abs(placed(drawn, drawn["anchor"]) - anchor).max() < pixel
    fan = normal_cone(flat, x, y - x)
    assert bool(drawn["cone"]) == bool(len(fan))
    if len(fan):
        first, apex, last = (placed(drawn, corner) for corner in drawn["cone"])
        edges = (
            np.array([first - apex, last - apex])
            / np.linalg.norm([first - apex, last - apex], axis=1)[:, None]
        )
        assert (
            np.abs(edges - fan[[0, -1]]).max() < 1e-4
        )  # a hundredth of a pixel over a thousand, and the width of a ray
        assert within(y - x, *edges)


DRAWN = """(() => {
  const svg = document.querySelector('#plane');
  const moved = (mark) => mark.getAttribute('transform').match(/-?[\\d.]+/g).map(Number);
  const corners = (path) => path ? path.getAttribute('d').match(/-?[\\d.]+/g).map(Number) : [];
  const cone = corners(svg.querySelector('.cone-edge'));
  const anchor = svg.querySelector('.anchor');
  const circle = svg.querySelector('.free');
  const centre = ({ x, y, width }) => [x.baseVal.value + width.baseVal.value / 2, y.baseVal.value + width.baseVal.value / 2];
  return {
    ...svg.dataset, next: moved(svg.querySelector('.next')), free: [+circle.getAttribute('cx'), +circle.getAttribute('cy')],
    cone: cone.length ? [cone.slice(0, 2), cone.slice(2, 4), cone.slice(4, 6)] : [], ...(anchor && { anchor: centre(anchor) }),
  };
})()"""


def placed(drawn, pixel):
    """A pixel of the picture as a point of its plane."""
    scale, left, top = (float(drawn[name]) for name in ("scale", "left", "top"))
    return np.array([left + pixel[0] / scale, top - pixel[1] / scale])


def in_plane(name, x):
    return (x - 1.0 / 3.0) @ AXES.T if name == "simplex" else x


def within(way, first, last):
    """Whether a direction lies between two edges, up to the rounding of pixels; the edges go counter-clockwise."""
    cross = [first[0] * way[1] - first[1] * way[0], way[0] * last[1] - way[1] * last[0]]
    return way @ (first + last) > -1e-9 and min(cross) > -1e-3


class TestLinks:
    def test_a_link_says_what_the_state_says(self, page):
        links = [
            "set=l1&seq=rotating&T=101&l=gd,s10;klazy,k5,s10&show=2&t=23",
            "set=box&seq=adversary&T=60&lambda=0&l=clock,k7,s0.5;decay,m20.5,sqrt60;clip,kappa2,s1;event,kappa0.25,s3&show=4&t=60",
            "set=l2&seq=stochastic&T=2000&length=33&seed=7&l=forget,s1;full,sqrt2&close=1&show=1&t=0&speed=100",
            "set=simplex&seq=draw&draw=-1,0*12;0.25,-0.5*3&l=lazy,s8&show=1&t=15",
            "set=simplex&seq=draw&l=lazy,s8&show=1&t=0",
        ]
        links += page.evaluate(
            "[...document.querySelectorAll('#presets a')].map((a) => a.getAttribute('href').slice(1))"
        )
        for link in links:
            assert (
                page.evaluate("(link) => klazy.linkOf(klazy.stateFrom(link).state)", link) == link
            )
            assert page.evaluate("(link) => klazy.stateFrom(link).problems", link) == []

    def test_what_is_done_on_the_page_is_restored_from_its_address(self, opened):
        page = opened("set=l2&seq=draw&l=gd,s4&show=1&t=0")
        box = page.locator("#plane").bounding_box()
        for dx, dy in ((60, 10), (-40, 35)):
            page.mouse.move(box["x"] + box["width"] / 2 - 20, box["y"] + box["height"] / 2)
            page.mouse.down()
            page.mouse.move(
                box["x"] + box["width"] / 2 + dx, box["y"] + box["height"] / 2 + dy, steps=3
            )
            page.mouse.up()
        page.click("#add-learner")
        page.select_option("#rule-1", "event")
        page.fill("#number-1", "1.5")
        page.select_option("#schedule-1", "sqrt")
        page.fill("#sigma-1", "30")
        page.select_option("#set", "box")
        page.fill("#lambda", "2.5")
        page.check("#close")
        page.keyboard.press("2")
        page.click("#back")
        state = page.evaluate("klazy.page.state")
        assert [count for *_, count in state["drawn"]] == [5, 5]
        assert (
            state["drawn"][0][0] > 0 > state["drawn"][0][1]
        )  # to the right and, on a screen, down
        assert state["learners"][1] == {
            "rule": "event",
            "number": 1.5,
            "schedule": "sqrt",
            "sigma": 30,
        }
        assert (state["set"], state["lambda"], state["close"], state["show"], state["t"]) == (
            "box",
            2.5,
            True,
            1,
            9,
        )
        page.wait_for_timeout(600)  # the address follows when things have settled
        link = page.evaluate("location.hash.slice(1)")
        assert opened(link, afresh=True).evaluate("klazy.page.state") == state
        assert page.input_value("#sigma-1") == "30"

    def test_garbage_is_told_in_one_line_and_breaks_nothing(self, opened):
        for i, garbage in enumerate(GARBAGE):
            page = opened(garbage, afresh=i % 16 == 0)
            said = page.inner_text("#notice")
            form = r"Not all of this link could be used: .+ must .+, got .+\.( \(and \d+ more\))?"
            assert re.fullmatch(form, said), (garbage[:50], said)
            assert len(said) < 250
            page.evaluate("document.getElementById('to-end').click()")
            at, last = page.inner_text("#counter").split(" / ")
            assert at == last
            assert page.locator("#plane .next").count() == 1
            assert page.locator("#notice *").count() == 0

    def test_a_good_link_after_a_bad_one_takes_the_complaint_away(self, opened):
        page = opened("set=nowhere")
        page.click("#presets a >> nth=4")
        page.wait_for_selector(
            "#notice", state="hidden"
        )  # A link is followed after the click has returned.
        assert "k = 20" in page.inner_text("#look")

    def test_long_numbers_are_read_to_their_end(self, page):
        link = "set=l1&seq=rotating&T=101&lambda=0.00012345678901234567&l=decay,m1.0000000000000002,s1&show=1&t=0"
        assert page.evaluate("(link) => klazy.linkOf(klazy.stateFrom(link).state)", link) == link
        assert (
            page.evaluate("klazy.stateFrom('lambda=1.000000000000000000e2').state.lambda")
            == 100.0
        )

    def test_the_way_back_restores_also_the_field_that_has_the_focus(self, opened):
        page = opened()
        page.click("text=noise")
        page.fill("#T", "500")
        page.wait_for_timeout(500)  # until the address has followed
        page.go_back()
        page.wait_for_function("() => klazy.page.state.seq === 'rotating'")
        assert page.input_value("#T") == "101"
        page.keyboard.press("Tab")
        assert page.evaluate("klazy.page.state.T") == 101

    def test_a_preset_is_opened_again_while_it_plays_and_the_way_back_leads_to_the_round(
        self, opened
    ):
        page = opened()
        page.click("text=bursts")
        for title, t in (("bursts", 106), ("noise", 240)):
            page.click("#play")
            page.wait_for_function("() => klazy.page.state.t > 108")
            page.click(f"text={title}")
            page.wait_for_function(f"() => klazy.page.state.t === {t}")
            assert page.get_attribute("#play", "aria-label") == "Play"
        page.go_back()
        page.wait_for_function("() => klazy.page.state.seq === 'corrupted'")
        assert page.evaluate("klazy.page.state.t") > 108

    def test_a_link_that_comes_while_drawing_ends_the_stroke(self, opened):
        page = opened("set=l2&seq=draw&l=gd,s4&show=1&t=0")
        box = page.locator("#plane").bounding_box()
        page.mouse.move(box["x"] + 200, box["y"] + 150)
        page.mouse.down()
        opened("set=l1&seq=rotating&T=50&l=gd,s4&show=1&t=3")
        page.mouse.up()
        state = page.evaluate("klazy.page.state")
        assert (state["drawn"], state["t"]) == ([], 3)

    def test_where_nothing_can_be_copied_the_link_is_shown(self, browser, file):
        page = browser.new_page()
        page.add_init_script("navigator.clipboard.writeText = () => Promise.reject()")
        page.goto(file)
        page.click("#copy")
        page.wait_for_selector("#notice:visible")
        assert page.inner_text("#notice").endswith(page.url)
        page.close()

    def test_it_can_be_copied(self, browser, file):
        context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.goto(file)
        page.keyboard.press("ArrowRight")
        page.click("#copy")
        page.wait_for_selector("text=Copied")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == page.url
        assert "t=19" in copied
        context.close()


GARBAGE = [
    "%E0%A4%A", "set=%E0%A4%A", "=&=&&", "set",
    "set=<img src=x onerror=alert(1)>", "l=;;;", "l=" + "gd,s1;" * 50, "T=1e999", "T=NaN",
    "T=101.5", "draw=1,2*99999999&seq=draw", "draw=1;2;3", "t=-5", "t=1e300", "x" * 100_000, "__proto__=1&constructor=2",
    "l=klazy,k0,s1", "l=klazy,s1", "l=gd,s0", "l=gd", "seq=adversary&T=3&l=klazy,k50,s1", "show=99", "speed=7",
    "set=hasOwnProperty", "seq=toString", "l=constructor,s1", "close=yes", "lambda=-1", "length=0&seed=-1", "\u2603=\u2603",
    "seed=0x10", "show=1.5", "l=gd,s1e-9",
]  # fmt: skip


TOTALS = """([link, changes]) => {
  const state = klazy.stateFrom(link + '&' + changes).state;
  const gradients = klazy.gradients(link + '&' + changes).map((g) => klazy.lift(state.set, g));
  return state.learners.map((learner) => klazy.run(state.set, klazy.word(learner), gradients, state.lambda))
    .map(({ costs }) => [costs.switching[gradients.length], costs.total[gradients.length]]);
}"""


class TestPresets:
    """What the page says of its presets."""

    @pytest.fixture
    def totals(self, page):
        """What each learner of a preset paid for moving, and altogether, with some things changed."""

        def paid(title, changes=""):
            link = page.get_attribute(f"#presets a:text-is('{title}')", "href")[1:]
            return np.array(page.evaluate(TOTALS, [link, changes])).T

        return paid

    def test_lazy_descent_goes_to_the_vertex_and_stays(self, totals):
        switching, total = totals("a vertex holds")
        assert switching[2] == pytest.approx(1.0)
        assert total.argmin() == 2

    def test_at_the_curved_edge_lazy_descent_moves_less(self, totals):
        assert (np.diff(totals("a curved edge")[0]) < 0).all()

    def test_in_noise_most_of_the_difference_is_sigmas(self, totals):
        gd, lazy = totals("noise")[1][:2]
        own = totals("noise", "l=gd,s13")[1][0]
        assert own - lazy < 0.1 * (gd - lazy)

    def test_bursts(self, totals):
        assert totals("bursts")[1].argmin() == 1
        assert totals("bursts", "lambda=1")[1].argmin() == 0
        gd, lazy, decay, _ = totals("bursts", "length=200")[1]
        assert decay < gd < lazy

    def test_laziness_loses(self, totals):
        _, total = totals("laziness loses")
        assert total[1] < 0.0 < min(total[[0, 2, 3]])

    def test_inside_all_are_one(self, opened):
        page = opened()
        page.click("text=inside, all are one")
        # A browser follows a link within a page after the click.
        page.wait_for_selector("#look:has-text('all play the same points')")
        page.select_option("#set", "simplex")
        assert "all play the same points" not in page.inner_text("#look")


def link_now(page):
    """The link of what is shown, without waiting until the address is rewritten."""
    return page.evaluate("klazy.linkOf(klazy.page.state)")


class TestForms:
    @pytest.mark.parametrize(
        ("rule", "field", "typed", "refused"),
        [
            ("klazy", "number", "0", lambda: kl.KLazyGD(kl.L1Ball(2), 1.0, k=0)),
            ("klazy", "number", "2.5", lambda: kl.KLazyGD(kl.L1Ball(2), 1.0, k=2.5)),  # pyright: ignore[reportArgumentType]
            ("clock", "number", "-3", lambda: kl.memories.Clock(-3)),
            ("decay", "number", "0.5", lambda: kl.memories.Decay(0.5)),
            ("clip", "number", "0", lambda: kl.memories.Clip(0)),
            ("event", "number", "-1", lambda: kl.memories.Event(-1)),
            ("gd", "sigma", "0", lambda: kl.GD(kl.L1Ball(2), 0)),
            ("gd", "sigma", "-2", lambda: kl.GD(kl.L1Ball(2), -2)),
            ("gd", "c", "0", lambda: kl.Sqrt(0)),
        ],
    )
    def test_what_klazy_refuses_is_refused_in_its_words(
        self, opened, rule, field, typed, refused
    ):
        page = opened("set=l1&seq=rotating&T=50&l=gd,s4;gd,s4&show=1&t=9")
        page.select_option("#rule-1", rule)
        if field == "c":
            page.select_option("#schedule-1", "sqrt")
        before = link_now(page)
        field = "sigma" if field == "c" else field
        page.fill(f"#{field}-1", typed)
        page.keyboard.press("Tab")
        with pytest.raises(InvalidInput) as said:
            refused()
        assert page.inner_text("#problem-1") == str(said.value)
        assert page.get_attribute(f"#{field}-1", "aria-invalid") == "true"
        assert link_now(page) == before
        page.select_option("#set", "l2")
        assert page.input_value(f"#{field}-1") == typed  # it stays next to its error
        page.fill(f"#{field}-1", "3")
        assert not page.is_visible("#problem-1")
        assert page.get_attribute(f"#{field}-1", "aria-invalid") is None

    def test_a_field_whose_refusal_is_gone_shows_the_state(self, opened):
        page = opened("set=l1&seq=rotating&T=50&l=klazy,k5,s4&show=1&t=9")
        for first, second, usual in (("T", "lambda", "50"), ("sigma-0", "number-0", "4")):
            for typed in ("2", "-1"):  # the second is right, or wrong too
                page.fill(f"#{first}", "0")
                page.press(f"#{first}", "Tab")
                assert page.get_attribute(f"#{first}", "aria-invalid") == "true"
                page.fill(f"#{second}", typed)
                page.dispatch_event(f"#{second}", "change")
                assert (
                    page.get_attribute(f"#{first}", "aria-invalid"),
                    page.input_value(f"#{first}"),
                ) == (
                    None,
                    usual,
                )
                assert page.input_value(f"#{second}") == typed

    def test_a_link_takes_refusals_away(self, opened):
        page = opened("l=gd,s4;gd,s4&t=9")
        page.fill("#sigma-0", "0")
        page.keyboard.press("Tab")
        assert page.is_visible("#problem-0")
        opened("l=gd,s5;gd,s4&t=9")
        assert not page.is_visible("#problem-0")
        assert page.input_value("#sigma-0") == "5"

    def test_nothing_typed_and_too_much_are_refused(self, opened):
        page = opened("set=l1&seq=rotating&T=50&l=gd,s4&show=1&t=9")
        for field, typed, message in (
            ("T", "", "T must be a finite number, got nothing."),
            (
                "T",
                "5000",
                "T must be from 1 to 2000, got 5000.",
            ),
            (
                "lambda",
                "-1",
                "lambda must not be negative, got -1. Use 0 where moving is free.",
            ),
        ):
            page.fill(f"#{field}", typed)
            page.keyboard.press("Tab")
            assert page.inner_text("#game-problem") == message
            page.fill(f"#{field}", "7")
            assert not page.is_visible("#game-problem")

    def test_gradients_can_be_typed_undone_and_cleared(self, opened):
        page = opened("set=l2&seq=draw&l=gd,s4&show=1&t=0")
        assert "No gradient is drawn yet" in page.inner_text("#caption")
        for g1, lasts in (("-1", "3"), ("0.333", "2")):
            page.fill("#g1", g1)
            page.fill("#lasts", lasts)
            page.press("#lasts", "Enter")
        assert page.evaluate("klazy.page.state.drawn") == [[-1, 0, 3], [0.33, 0, 2]]
        assert page.inner_text("#counter") == "5 / 5"
        page.click("#undo")
        assert page.inner_text("#counter") == "3 / 3"
        page.fill("#lasts", "0")
        page.press("#lasts", "Enter")
        assert page.inner_text("#drawing-problem").startswith(
            "rounds must be an integer of at least 1, got 0"
        )
        page.click("#clear")
        assert not page.is_visible("#drawing-problem")
        assert page.inner_text("#counter") == "0 / 0"

    def test_the_field_that_is_wrong_is_marked(self, opened):
        page = opened("set=l2&seq=draw&l=gd,s4&show=1&t=0", afresh=True)
        for field, typed, usual in (("g1", "", "1"), ("g2", "99", "0"), ("lasts", "0", "5")):
            page.fill(f"#{field}", typed)
            page.press(f"#{field}", "Enter")
            assert page.evaluate(
                "[...document.querySelectorAll('[aria-invalid]')].map((each) => each.id)"
            ) == [field]
            page.fill(f"#{field}", usual)

    def test_typing_the_rounds_keeps_the_round(self, opened):
        page = opened("set=l1&seq=rotating&T=101&l=gd,s4&show=1&t=60")
        page.focus("#T")
        page.keyboard.press("Control+a")
        page.keyboard.type("200")
        assert page.inner_text("#counter") == "60 / 200"
        page.click("#forward")
        page.fill("#T", "150")
        assert page.inner_text("#counter") == "61 / 150"
        page.fill("#T", "30")
        assert page.inner_text("#counter") == "30 / 30"

    def test_the_adversary_of_a_large_slack_can_be_chosen(self, opened):
        page = opened("set=l1&seq=rotating&T=101&l=klazy,k600,s4&show=1&t=0")
        page.select_option("#seq", "adversary")
        assert not page.is_visible("#game-problem")
        assert page.inner_text("#counter") == "0 / 600"

    def test_the_focus_stays_among_the_learners_when_the_last_is_added(self, opened):
        page = opened("l=gd,s4;gd,s4;gd,s4&t=9")
        page.focus("#add-learner")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.dataset.learner") == "3"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "rule-3"

    def test_one_to_four_learners(self, opened):
        page = opened("l=gd,s4&t=9")
        assert page.is_disabled(".remove")
        for _ in range(3):
            page.click("#add-learner")
        assert not page.is_visible("#add-learner")
        page.keyboard.press("3")
        page.click(".remove >> nth=0")
        assert [each["rule"] for each in page.evaluate("klazy.page.state.learners")] == [
            "klazy",
            "lazy",
            "decay",
        ]
        assert page.evaluate("klazy.page.state.show") == 1  # still the one that was shown


class TestPlaying:
    def test_it_plays_pauses_and_ends(self, opened):
        page = opened("set=l1&seq=rotating&T=2000&l=gd,s4&show=1&t=0&speed=30")
        page.wait_for_timeout(500)  # until what was done before has been said
        said = page.text_content("#said")
        page.click("#play")
        assert page.get_attribute("#play", "aria-label") == "Pause"
        page.wait_for_function("() => klazy.page.state.t > 20")
        assert page.text_content("#said") == said  # nothing is read out while it plays
        page.click("#play")
        at = page.evaluate("klazy.page.state.t")
        page.wait_for_function(
            "() => document.getElementById('said').textContent.startsWith(`Round ${klazy.page.state.t}:`)"
        )
        assert page.evaluate("klazy.page.state.t") == at < 2000
        page.fill("#round", "1990")
        page.click("#play")
        page.wait_for_function("() => klazy.page.state.t === 2000")
        page.wait_for_selector("#play[aria-label=Play]")
        page.click("#play")  # once more, from the start
        assert page.evaluate("klazy.page.state.t") < 2000
        page.click("#back")
        assert (
            page.get_attribute("#play", "aria-label") == "Play"
        )  # a hand on the controls stops it

    def test_it_waits_while_nobody_sees_it(self, opened):
        page = opened("set=l1&seq=rotating&T=2000&l=gd,s4&show=1&t=0&speed=30")
        page.click("#play")
        page.evaluate(
            "player.since -= 60000; document.dispatchEvent(new Event('visibilitychange'))"
        )  # a minute in another tab
        page.wait_for_function("() => klazy.page.state.t > 2")
        page.click("#play")
        assert page.evaluate("klazy.page.state.t") < 1000

    def test_buttons_and_slider_step(self, opened):
        page = opened("set=l1&seq=rotating&T=60&l=gd,s4&show=1&t=10")
        for button, t in (
            ("forward", 11),
            ("back", 10),
            ("to-end", 60),
            ("forward", 60),
            ("to-start", 0),
            ("back", 0),
        ):
            page.click(f"#{button}")
            assert page.inner_text("#counter") == f"{t} / 60"
        page.fill("#round", "33")
        assert page.inner_text("#counter") == "33 / 60"

    def test_keys_do_the_same(self, opened):
        page = opened("set=l1&seq=rotating&T=60&l=gd,s4;lazy,s4&show=1&t=10")
        for key, t in (
            ("ArrowRight", 11),
            ("ArrowLeft", 10),
            ("Shift+ArrowRight", 20),
            ("End", 60),
            ("Home", 0),
        ):
            page.keyboard.press(key)
            assert page.inner_text("#counter") == f"{t} / 60"
        page.keyboard.press("2")
        assert page.is_checked("#show-1")
        page.keyboard.press("4")  # there is none
        assert page.is_checked("#show-1")
        page.keyboard.press(" ")
        assert page.get_attribute("#play", "aria-label") == "Pause"
        page.keyboard.press(" ")
        assert page.get_attribute("#play", "aria-label") == "Play"
        page.keyboard.press("c")
        assert page.is_checked("#close")
        page.keyboard.press("?")
        assert page.is_visible("#keys")
        page.keyboard.press("Escape")
        assert not page.is_visible("#keys")

    def test_keys_in_a_field_belong_to_the_field(self, opened):
        page = opened("set=l1&seq=rotating&T=60&l=gd,s4;lazy,s4&show=1&t=10")
        page.focus("#T")
        page.keyboard.press("End")
        page.keyboard.type("2")
        assert (page.input_value("#T"), page.inner_text("#counter")) == ("602", "10 / 602")
        assert page.is_checked("#show-0")

    def test_everything_is_reached_with_tab_and_shows_its_focus(self, opened):
        page = opened("set=l2&seq=draw&draw=1,0*3&l=klazy,k5,s4;lazy,s4&show=1&t=3", afresh=True)
        wanted = page.evaluate("""[...document.querySelectorAll('a, button, input, select')]
            .filter((each) => each.checkVisibility() && !each.disabled && !each.closest('dialog'))
            .filter((each) => each.type !== 'radio' || each.checked).length""")
        seen = []
        for _ in range(wanted):
            page.keyboard.press("Tab")
            seen.append(
                page.evaluate("""(() => {
                const at = document.activeElement, framed = at.type === 'radio' ? at.parentElement : at;
                const name = at.ariaLabel || at.labels?.[0]?.innerText || at.innerText;
                return [at.id || at.getAttribute('href') || at.className + at.closest('[data-learner]')?.dataset.learner, name,
                    getComputedStyle(framed).outlineStyle];
            })()""")
            )
        assert len({name for name, *_ in seen}) == wanted
        assert all(
            label and label.strip() and outline == "solid" for _, label, outline in seen
        ), seen

    def test_who_dislikes_motion_gets_a_slow_film(self, browser, file):
        page = browser.new_page(reduced_motion="reduce")
        page.goto(file)
        assert page.input_value("#speed") == "1"
        page.close()


STATES = [
    "set=l1&seq=rotating&T=101&l=gd,s6;klazy,k5,s6;lazy,s6&show=3&t=18",
    "set=simplex&seq=draw&draw=-1,0*8;0.5,0.6*4&l=gd,s8;klazy,k600,s8;event,kappa2.123,s8;lazy,s8&show=2&t=12",
    "set=l2&seq=stochastic&T=2000&length=250&seed=3&l=gd,sqrt60;clip,kappa20,sqrt60;event,kappa20,sqrt60&show=2&t=333",
    "set=foo&seq=adversary",
]


class TestReading:
    def test_it_needs_nobody(self, file, heard):
        text = Path(file.removeprefix("file://")).read_text(encoding="utf-8")
        assert (
            re.findall(r'(?:src|href)="(?!#|data:)[^"]*"|@import|url\((?!#)[^)]*\)|https?:', text)
            == []
        )
        assert "default-src 'none'" in text  # so that a browser would not even ask
        assert heard == []

    def test_nothing_hangs_over_the_page(self, opened):
        for link in STATES:
            page = opened(link)
            for width in (360, 390, 800, 1100, 1280):  # the last is the other tests'
                page.set_viewport_size({"width": width, "height": 800})
                assert page.evaluate("document.documentElement.scrollWidth") <= width, link

    def test_the_largest_and_the_smallest_numbers_have_room(self, opened):
        rules = "gd,s0.1;event,kappa999999.123,s0.1;klazy,k999999,s0.1;decay,m123456.789,s0.1"
        for link in (
            f"lambda=1000&T=2000&l={rules}&t=1900",
            "l=gd,s1000000;lazy,s1000000&t=20",
            "lambda=0.0003&l=gd,s20&t=9",
        ):
            page = opened(link)
            for width in (360, 1280):
                page.set_viewport_size({"width": width, "height": 800})
                page.wait_for_timeout(50)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, link
                cut = page.evaluate("""[...document.querySelectorAll('.chart text')].filter((each) => each.getBBox().x < 0)
                    .map((each) => each.textContent)""")
                assert cut == [], link

    def test_the_whole_picture_is_in_a_small_window_or_a_large_zoom(self, opened):
        page = opened(STATES[0])
        page.set_viewport_size({"width": 640, "height": 400})  # 1280 by 800, twice as large
        high = (
            page.locator("#plane").bounding_box()["height"]
            + page.locator(".transport").bounding_box()["height"]
        )
        page.set_viewport_size({"width": 1280, "height": 800})
        assert high < 400

    def test_the_chosen_learner_is_seen_where_the_reader_chooses_the_colours(self, opened):
        page = opened(STATES[0])
        page.emulate_media(forced_colors="active")
        chips = "[...document.querySelectorAll('.chips label')]"
        frames = page.evaluate(f"{chips}.map((chip) => getComputedStyle(chip).borderTopColor)")
        page.emulate_media(forced_colors="none")
        assert frames[0] == frames[1] != frames[2]

    def test_fingers_find_what_they_touch_on_a_phone(self, opened):
        page = opened(STATES[1])
        page.set_viewport_size({"width": 390, "height": 844})
        small = page.evaluate("""[...document.querySelectorAll('button, select, input, .chips label, .closer, header a')]
            .filter((each) => each.checkVisibility() && !each.matches('[type=radio], [type=checkbox]'))
            .filter((each) => each.getBoundingClientRect().height < 40).map((each) => each.id || each.innerText)""")
        page.set_viewport_size({"width": 1280, "height": 800})
        assert small == []

    def test_pictures_stand_side_by_side_and_in_sight_on_a_desk(self, opened):
        for link in STATES[:3]:
            page = opened(link)
            page.wait_for_timeout(50)
            left, right, table = (
                page.locator(each).bounding_box() for each in ("#plane", "#curves", "table")
            )
            assert left["x"] + left["width"] < right["x"]
            assert max(each["y"] + each["height"] for each in (left, right, table)) < 800

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_contrast(self, opened, scheme):
        """Text 4.5 to 1, lines and marks 3 to 1 (WCAG 2.2, 1.4.3 and 1.4.11)."""
        page = opened(STATES[3])
        page.emulate_media(color_scheme=scheme)
        colours = page.evaluate(COLOURS)
        texts = page.evaluate(TEXTS)
        page.emulate_media(color_scheme="light")
        lines = {
            (line, ground)
            for line in (*(f"of-{i}" for i in range(4)), "ink", "cone-edge")
            for ground in ("paper", "set", "panel")
        }
        lines |= {
            ("set-edge", "paper"),
            ("edge", "paper"),
            ("edge", "panel"),
            ("link", "paper"),
            ("main", "paper"),
        }
        words = {
            (word, ground) for word in ("ink", "soft", "link") for ground in ("paper", "panel")
        }
        words |= {("warn-ink", "warn"), ("on-main", "main"), ("ink", "faint"), ("soft", "set")}
        assert {
            pair for pair in lines if contrast(*(colours[name] for name in pair)) < 3.0
        } == set()
        assert {
            pair for pair in words if contrast(*(colours[name] for name in pair)) < 4.5
        } == set()
        assert len(texts) > 50
        assert [text for text, ink, ground in texts if contrast(ink, ground) < 4.5] == []


COLOURS = """(() => {
  const probe = document.body.appendChild(document.createElement('i'));
  const found = {};
  for (const rule of document.styleSheets[0].cssRules) if (rule.selectorText === ':root') for (const name of rule.style)
    if (name.startsWith('--')) { probe.style.color = `var(${name})`; found[name.slice(2)] = getComputedStyle(probe).color; }
  probe.remove();
  return found;
})()"""

# Every piece of text on the page with its colour and that of the nearest painted ground; what is disabled may be faint.
TEXTS = """(() => {
  const clear = (colour) => colour === 'rgba(0, 0, 0, 0)';
  const ground = (at) => !at ? 'rgb(255, 255, 255)' : clear(getComputedStyle(at).backgroundColor) ? ground(at.parentElement) :
    getComputedStyle(at).backgroundColor;
  const found = [];
  for (const at of document.querySelectorAll('body *')) {
    const own = [...at.childNodes].filter((node) => node.nodeType === 3).map((node) => node.textContent.trim()).join('');
    if (!own || !at.checkVisibility() || at.disabled || at.closest('script, dialog')) continue;
    const style = getComputedStyle(at);
    found.push([own.slice(0, 40), at instanceof SVGElement ? style.fill : style.color, ground(at)]);
  }
  return found;
})()"""


def contrast(*colours):
    """The ratio of relative luminances of WCAG 2."""

    def luminance(colour):
        parts = np.array([float(part) for part in re.findall(r"[\d.]+", colour)[:3]]) / 255.0
        return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [
            0.2126,
            0.7152,
            0.0722,
        ]

    low, high = sorted(map(luminance, colours))
    return (high + 0.05) / (low + 0.05)
