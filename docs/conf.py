"""How the site is made: ``make docs``, where a warning is an error. The pages' own code is in reference.py and scraper.py."""

import gc
import os
import re
import sys
from pathlib import Path
from typing import Any

# Looking for garbage takes a third of a build, and its end removes all of it.
gc.disable()

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from explorer.assemble import assembled  # noqa: E402
from reference import CHECKS, EXEMPT, list_types  # noqa: E402
from scraper import FigureScraper  # noqa: E402

import klazy  # noqa: E402

project, author = "klazy", "the klazy developers"
release = version = klazy.__version__
project_copyright = f"2026, {author}"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
    "numpydoc",
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
    "reference",
]
exclude_patterns = ["node_modules", "explorer", "gallery/*.ipynb", "gallery/*.py"]

html_theme = "furo"
html_title = "klazy"
html_logo = "figures/logo.svg"
html_static_path = ["site.css", "node_modules/mathjax/es5/tex-svg-full.js"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_favicon = "figures/logo.svg"
highlight_options = {
    name: {"stripnl": True} for name in ("default", "python", "pycon")
}  # doctests end in an empty line
mathjax_path = "tex-svg-full.js"  # from an npm package, and SVG, which needs no fonts: the site works without a network

# Prompts and what a command printed are not copied.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
copybutton_selector = "div:not(.output, .sphx-glr-script-out) > div.highlight pre"

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120

autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # a step is explained once, where it is required
autodoc_typehints = "none"
autodoc_use_type_comments = False  # klazy has none, and looking for them parses every function
numpydoc_show_class_members = False
numpydoc_validation_checks = CHECKS
numpydoc_validation_exclude = {rf"^{re.escape(name)}$" for name in EXEMPT}
numpydoc_xref_param_type = True  # types lead to their classes
numpydoc_xref_aliases = list_types()
numpydoc_xref_ignore = "all"  # what is no class of klazy stays text
nitpicky = True  # every reference leads somewhere

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "image_scrapers": (FigureScraper(),),
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "show_signature": False,
}


def write_explorer(app: Any, failed: Exception | None) -> None:
    """The explorer beside the pages: it is one file, and none of Sphinx's."""
    if failed is None and app.builder.format == "html":
        (Path(app.outdir) / "explore.html").write_text(assembled(), encoding="utf-8")


def make_accessible(
    app: Any, page: str, template: str, context: dict[str, Any], tree: Any
) -> None:
    """Let the keyboard reach what scrolls; give captions of the sidebar a level, without which they are no headings."""
    body = context.get("body", "")
    context["body"] = re.sub(
        '<pre(?=>)|<div class="table-wrapper[^"]*"', r'\g<0> tabindex="0"', body
    )
    sidebar = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = sidebar.replace(
        'role="heading"', 'role="heading" aria-level="2"'
    )


def setup(app: Any) -> None:
    # Pages show results alone. It is set here, because pytest imports this file, whose tests look for progress.
    os.environ["KLAZY_PROGRESS"] = "off"
    app.connect(
        "html-page-context", make_accessible, priority=900
    )  # after furo, which makes the sidebar
    app.connect("build-finished", write_explorer)
