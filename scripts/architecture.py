"""Draw the pictures of docs/architecture.md: ``python scripts/architecture.py`` writes docs/figures/architecture-*.svg.

A picture is a list of boxes, each with the file to open and what happens there. tests/test_docs.py checks that the
committed pictures are the ones that this script draws, and that every file they name exists.
"""

from html import escape
from pathlib import Path
from typing import NamedTuple

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
WIDTH = 760
MARGIN = 16
HEIGHT = 58
GAP = 38
STYLE = """
  .paper { fill: #ffffff }
  .box { fill: #f4f6fa; stroke: #8a97b0; stroke-width: 1.2 }
  .strong { fill: #e4ecfb; stroke: #3867c8 }
  .place { font: 600 14px ui-monospace, SFMono-Regular, Menlo, monospace; fill: #1d2b4a }
  .text { font: 13px system-ui, sans-serif; fill: #3b4660 }
  .arrow { stroke: #6b7894; stroke-width: 1.4; fill: none; marker-end: url(#tip) }
  .tip { fill: #6b7894 }
"""


class Box(NamedTuple):
    """A step: the file to open, what happens there, and whether the picture is about this step above all."""

    place: str
    text: str
    strong: bool = False


class Flow(NamedTuple):
    """Steps from top to bottom, which may part into two columns and meet again."""

    title: str
    top: list[Box]
    left: list[Box]
    right: list[Box]
    bottom: list[Box]


LAYERS = [
    Box("cli/", "the klazy command: the only modules that print"),
    Box("serve/", "the service"),
    Box(
        "sources/ sinks/ adapters/", "where rows come from, where decisions go, other frameworks"
    ),
    Box("studies/", "replay, sweep, arena, portfolio, paper: questions that take many runs"),
    Box("contrib/", "research learners, and baselines that look ahead"),
    Box(
        "game/ hindsight/ theory/ live/",
        "play; the best possible; bounds; agents and their store",
    ),
    Box("learners/ sequences/ datasets/", "init and step of every algorithm; recipes and data"),
    Box(
        "sets/ families costs movement schedules show/",
        "what a problem is made of; figures from arrays",
    ),
    Box("kernels/", "Numba: each part once, over a lane"),
    Box("base/", "checks of input, configurations, files, processes, HTML"),
]

FLOWS = {
    "run": Flow(
        "A run: kl.run(learner, costs)",
        top=[
            Box("game/game.py", "Game.check: costs, movement and start, checked once"),
            Box("game/run.py", "run: choose the engine", strong=True),
        ],
        left=[
            Box("kernels/layout.py", "compiled: the learner as numbers"),
            Box("kernels/sequence.py", "the loop over rounds"),
            Box("kernels/round.py", "propose, project, accept, remember"),
            Box("kernels/slots.py", "the parts that a kernel links"),
        ],
        right=[Box("learners/", "without a kernel: init and step")],
        bottom=[Box("game/trace.py", "Trace: points, costs, state")],
    ),
    "round": Flow(
        "A live round: observe a row, get the next decision",
        top=[],
        left=[
            Box("serve/access.py", "HTTP: token, rate, size"),
            Box("serve/worker.py", "RoundWorker: waiting rounds, at once"),
        ],
        right=[Box("live/agent.py", "Python: Agent.observe")],
        bottom=[
            Box("live/rows.py", "RowSpec: names become numbers, missing cells are filled"),
            Box(
                "live/state.py",
                "AgentState.compute: the next state and the cost, a pure function",
                strong=True,
            ),
            Box("live/stored.py", "append: one record, in SQLite or PostgreSQL", strong=True),
            Box(
                "live/state.py", "AgentState.apply: now the new decision is visible", strong=True
            ),
        ],
    ),
    "replay": Flow(
        "A replay: klazy replay costs.csv",
        top=[
            Box(
                "studies/replay/source.py",
                "polars reads the file; our checks find the first wrong cell",
            ),
            Box("studies/replay/setup.py", "set, costs and movement; is the question plausible?"),
            Box("studies/contenders.py", "the one list of contenders, with their grids"),
            Box("studies/tuning.py", "parameters are chosen on the first part", strong=True),
            Box(
                "studies/replay/scoring.py",
                "the second part is scored, with the certified optimum",
                strong=True,
            ),
            Box("studies/replay/wording.py", "the answer in sentences and tables"),
            Box(
                "studies/replay/report.py", "Report prints, plots, writes HTML and emits an agent"
            ),
        ],
        left=[],
        right=[],
        bottom=[],
    ),
}


def draw_box(box: Box, x: float, y: float, width: float) -> str:
    """Draw a box with its place and its text in the middle."""
    kind = "box strong" if box.strong else "box"
    middle = x + width / 2
    return (
        f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{HEIGHT}" rx="8"/>\n'
        f'<text class="place" x="{middle:g}" y="{y + 24:g}" text-anchor="middle">{escape(box.place)}</text>\n'
        f'<text class="text" x="{middle:g}" y="{y + 44:g}" text-anchor="middle">{escape(box.text)}</text>\n'
    )


def draw_arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    """Draw an arrow from the bottom of one box to the top of another."""
    half = (to_y + y) / 2
    return f'<path class="arrow" d="M{x:g} {y:g} C{x:g} {half:g} {to_x:g} {half:g} {to_x:g} {to_y - 2:g}"/>\n'


def wrap(title: str, body: str, height: float) -> str:
    """Wrap what was drawn as a file that describes itself to screen readers."""
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n"
        f'<defs>{tip}<path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>\n'
        f'<rect class="paper" width="{WIDTH}" height="{height:g}" rx="10"/>\n{body}</svg>\n'
    )


def draw_layers() -> str:
    """Draw the layers as a stack, the highest first."""
    body = ""
    step = HEIGHT + 6
    for level, box in enumerate(LAYERS):
        body += draw_box(box, MARGIN, MARGIN + level * step, WIDTH - 2 * MARGIN)
    return wrap(
        "Layers: a module imports only from layers below it",
        body,
        2 * MARGIN + len(LAYERS) * step - 6,
    )


def draw_column(boxes: list[Box], x: float, y: float, width: float) -> str:
    """Draw boxes below each other, with arrows between them."""
    body = ""
    middle = x + width / 2
    for level, box in enumerate(boxes):
        top = y + level * (HEIGHT + GAP)
        if level:
            body += draw_arrow(middle, top - GAP, middle, top)
        body += draw_box(box, x, top, width)
    return body


def measure(boxes: list[Box]) -> float:
    """Return the height of a column with the gap below it."""
    return len(boxes) * (HEIGHT + GAP)


def draw_flow(flow: Flow) -> str:
    """Draw the steps of a flow."""
    wide = 520
    narrow = (WIDTH - 3 * MARGIN) / 2
    centre = WIDTH / 2
    left = MARGIN + narrow / 2
    right = WIDTH - MARGIN - narrow / 2
    body = draw_column(flow.top, centre - wide / 2, MARGIN, wide)
    parted = MARGIN + measure(flow.top)
    met = parted + measure(flow.left)
    if flow.left:
        right_top = parted + (measure(flow.left) - measure(flow.right)) / 2
        right_end = right_top + measure(flow.right) - GAP
        if flow.top:
            body += draw_arrow(centre, parted - GAP, left, parted)
            body += draw_arrow(centre, parted - GAP, right, right_top)
        body += draw_column(flow.left, MARGIN, parted, narrow)
        body += draw_column(flow.right, right - narrow / 2, right_top, narrow)
        body += draw_arrow(left, met - GAP, centre, met)
        body += draw_arrow(right, right_end, centre, met)
    body += draw_column(flow.bottom, centre - wide / 2, met, wide)
    return wrap(flow.title, body, met + measure(flow.bottom) - GAP + MARGIN)


def draw_all() -> dict[str, str]:
    """Return every picture by the name of its file."""
    pictures = {"architecture-layers.svg": draw_layers()}
    for name, flow in FLOWS.items():
        pictures[f"architecture-{name}.svg"] = draw_flow(flow)
    return pictures


if __name__ == "__main__":
    for name, picture in draw_all().items():
        (FIGURES / name).write_text(picture)
        print(FIGURES / name)
