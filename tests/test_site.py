"""The site: built without a warning, and looked at in a real browser, without a network, at a desk's and a phone's width."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sphinx.util.inventory import InventoryFile

import klazy as kl
from looks import look_at, watch

ROOT = Path(__file__).parents[1]
WIDTHS = (1280, 390)
pytestmark = pytest.mark.xdist_group("site")


# Its cells take longer than all others together; `make docs` and a long test run them.
LONG_TUTORIAL = "tutorials/portfolio.md"

# tests/test_docstrings.py has numpydoc check the docstrings.
UNCHECKED = "\nnumpydoc_validation_checks = set()\n"


@pytest.mark.long
def test_the_cells_of_the_long_tutorial_run_and_say_what_the_text_says():
    text = (ROOT / "docs" / LONG_TUTORIAL).read_text(encoding="utf-8")
    cells = re.findall(r"```\{code-cell\} python\n(?::tags:[^\n]*\n)?(.*?)```", text, re.DOTALL)
    assert len(cells) > 10
    subprocess.run(
        [sys.executable, "-c", "\n".join(cells)],
        env=os.environ | {"MPLBACKEND": "agg"},
        check=True,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built from a copy of the sources, as ``make docs`` does; but tests/test_gallery.py runs the gallery."""
    folder = tmp_path_factory.mktemp("site")
    made = shutil.ignore_patterns("api", "gallery", "jupyter_execute", "node_modules")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=made)
    tutorial = folder / "docs" / LONG_TUTORIAL
    text = tutorial.read_text(encoding="utf-8")
    head, page = text.removeprefix("---\n").split("---\n", 1)
    assert "jupytext" in head  # which makes a page a notebook
    tutorial.write_text(
        re.sub(r"\{code-cell\} (python\n)(?::tags:[^\n]*\n)?", r"\1", page), encoding="utf-8"
    )
    with open(folder / "docs" / "conf.py", "a", encoding="utf-8") as settings:
        settings.write(UNCHECKED)
    shutil.copytree(ROOT / "examples", folder / "examples")
    for name in (
        "src",
        "tests",
        "Dockerfile",
        "CHANGELOG.md",
        "CITATION.cff",
        "CONTRIBUTING.md",
        "docs/node_modules",
    ):
        (folder / name).symlink_to(ROOT / name)
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "--fail-on-warning",
        "--keep-going",
        "--quiet",
        "-D",
        "plot_gallery=0",
    ]
    built = subprocess.run(
        [*command, folder / "docs", folder / "site"], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    return folder / "site"


def was_left(request) -> bool:
    """Whether the request was dropped because the next page was opened; a missing file fails with another reason."""
    return request.failure == "net::ERR_ABORTED"


def test_every_page_fits_its_window_is_whole_and_needs_no_network(site, browser):
    files = sorted(file for file in site.rglob("*.html") if "_static" not in file.parts)
    assert len(files) > 40
    page, wrong = browser.new_page(), []
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith(("file:", "data:")) else wrong.append(request.url)
        ),
    )
    page.on(
        "requestfailed", lambda request: None if was_left(request) else wrong.append(request.url)
    )
    page.on("pageerror", lambda error: wrong.append(str(error)))
    for file in files:
        page.goto(file.as_uri())
        is_first = file == site / "index.html"  # of the others the narrow width shows enough
        for width in WIDTHS if is_first else WIDTHS[-1:]:
            page.set_viewport_size({"width": width, "height": 900})
            if page.evaluate(
                "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            ):
                wrong.append(f"{file.relative_to(site)} is wider than {width}")
    page.close()
    assert wrong == []


@pytest.mark.parametrize(
    "name",
    ["index.html", "cheatsheet.html", "gallery/index.html", "howto/serve.html", "contrib.html"],
)
def test_a_page_holds_still_and_is_accessible(site, browser, name):
    page = browser.new_page()
    watch(page, "file:")
    look_at(page, (site / name).as_uri())
    page.close()


def test_mathematics_is_typeset(site, browser):
    page = browser.new_page()
    page.goto((site / "choose.html").as_uri())
    page.wait_for_selector("mjx-container svg")
    page.evaluate("MathJax.startup.promise")
    assert page.locator("mjx-container").count() == page.locator(".math").count() > 5
    assert page.locator("mjx-merror, [data-mjx-error]").count() == 0


def test_a_public_name_without_a_page_stops_the_build(site, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    reference = importlib.import_module("reference")
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    known = {name for objects in inventory.data.values() for name in objects}
    assert reference.missing(known) == []
    monkeypatch.setattr(
        kl, "Stray", type("Stray", (), {"__module__": "klazy.stray"}), raising=False
    )
    monkeypatch.setattr(kl, "__all__", [*kl.__all__, "Stray"])
    assert reference.missing(known) == ["klazy.Stray"]


def test_copy_buttons_leave_out_prompts_and_output(site, browser):
    page = browser.new_page()
    page.goto((site / "replay.html").as_uri())
    page.evaluate(
        "document.addEventListener('copy', () => { window.copied = document.activeElement.value }, true)"
    )
    page.wait_for_selector("button.copybtn", state="attached")
    page.locator("button.copybtn").nth(1).dispatch_event("click")
    copied = page.evaluate("window.copied")
    assert copied.startswith("import klazy as kl\nfrom klazy.datasets import llm_requests\n")
    assert ">>>" not in copied
    assert "You would have saved" not in copied
    page.goto((site / "start.html").as_uri())
    page.wait_for_selector("button.copybtn", state="attached")
    assert page.locator(".output button.copybtn").count() == 0
    page.close()


def test_the_landing_page_has_a_picture_for_each_width_and_its_doors_open(site, browser):
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.goto((site / "index.html").as_uri())
    narrow = page.locator("img[src$='load.png']")
    wide = page.locator("img[src$='load-wide.png']")
    box = narrow.bounding_box()
    assert box
    assert 300 < box["width"] <= 390
    assert not wide.is_visible()
    page.set_viewport_size({"width": 1280, "height": 900})
    assert not narrow.is_visible()
    article = page.locator("article").bounding_box()
    box = wide.bounding_box()
    assert article
    assert box
    assert box["width"] > 0.95 * article["width"]
    assert page.locator(".sidebar-logo").bounding_box()
    levels = page.locator("[role=heading]").evaluate_all("all => all.map(each => each.ariaLevel)")
    assert set(levels) == {"2"}
    doors = page.locator(".sd-card a").evaluate_all("links => links.map(link => link.href)")
    assert len(doors) == 3
    assert all(Path(door.removeprefix("file://")).exists() for door in doors)
    page.close()
