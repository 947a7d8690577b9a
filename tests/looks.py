"""What every page must be: looked at in Chromium at a desk's and a phone's width, light and dark."""

from pathlib import Path

AXE = Path(__file__).parents[1] / "docs/node_modules/axe-core/axe.min.js"
WIDTHS = (1280, 390)
# Layout may shift by this share of the window: an eye does not see it.
SHIFT = 0.01
SERIOUS = ("serious", "critical")
WATCH = """
window.shift = 0;
new PerformanceObserver(list => list.getEntries().forEach(each => window.shift += each.hadRecentInput ? 0 : each.value))
  .observe({type: "layout-shift", buffered: true});
"""
# axe is run by the debugger, to which the page's own policy does not apply. It describes violations alone, not what passed.
JUDGE = (
    "async (rules) => (await axe.run({resultTypes: ['violations'], ...rules})).violations"
    f".filter(each => {list(SERIOUS)}.includes(each.impact))"
    ".map(each => each.id + ': ' + each.nodes.map(node => node.html).slice(0, 3).join(' '))"
)
# Colours that fade to those of a theme arrive at once.
ARRIVE = (
    "document.getAnimations().forEach(each => each instanceof CSSTransition && each.finish())"
)
# What a theme changes: colours.
THEMES = {"light": {}, "dark": {"runOnly": ["color-contrast"]}}


def watch(page, home):
    """Note in ``page.wrong`` what goes wrong in a page, and what it asks of others than ``home``."""
    page.wrong = []
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith((home, "data:")) else page.wrong.append(request.url)
        ),
    )
    page.on("pageerror", lambda error: page.wrong.append(str(error)))
    page.on(
        "console",
        lambda message: page.wrong.append(message.text) if message.type == "error" else None,
    )
    page.add_init_script(WATCH)


def look_at(page, url):
    """Open a page at both widths: it must fit and hold still, and axe must find nothing serious in either theme."""
    axe = AXE.read_text()
    for width in WIDTHS:
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(url)
        page.wait_for_timeout(100)
        fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        assert page.evaluate(fits), ("too wide", url, width)
        shift = page.evaluate("window.shift")
        assert shift < SHIFT, ("shifts", shift, url, width)
        page.evaluate(axe)
        for scheme, rules in THEMES.items():
            page.emulate_media(color_scheme=scheme)
            page.evaluate(ARRIVE)
            serious = page.evaluate(JUDGE, rules)
            assert not serious, (serious, url, width, scheme)
