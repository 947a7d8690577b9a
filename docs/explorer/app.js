"use strict";
// What holds the page together: one state, the runs that follow from it, and everything drawn from these.

const page = { state: null, set: null, gradients: [], runs: [], view: null, stroke: null, moveCurves: null };
const UNHURRIED = 400; // milliseconds before the link is rewritten or the round is said: browsers and listeners dislike haste

function adopt(state) {
  checkTogether(state);
  const set = SETS[state.set];
  const gradients = gradientsOf(state);
  const lifted = gradients.map(set.lift);
  state.t = Math.min(state.t, gradients.length);
  const runs = state.learners.map((learner) => run(set, learner, lifted, state.lambda));
  Object.assign(page, { state, set, gradients, runs });
  showAll();
}

function change(edit) {
  const next = copyOf(page.state);
  edit(next);
  pause();
  adopt(next);
  remember();
}

function choose(i) {
  if (i >= page.state.learners.length) return;
  page.state.show = i;
  byId(`show-${i}`).checked = true;
  showRound();
  showLegend();
  remember();
}

function look(close) {
  page.state.close = byId("close").checked = close;
  showRound();
  remember();
}

function showLegend() {
  byId("legend").innerHTML = legendOf(page.set, page.state.learners, page.state.show);
}

function showAll() {
  const { state } = page;
  showFields(state);
  showDrawing(state);
  showChips(state);
  showLegend();
  byId("look").textContent = lookOf(page);
  byId("close").checked = state.close;
  byId("round").max = page.gradients.length;
  byId("speed").value = state.speed;
  page.moveCurves = drawCurves(byId("curves"), page.runs);
  showRound();
}

function showRound() {
  const { state, set, runs, gradients } = page;
  page.view = drawPlane(byId("plane"), set, runs, state, page.stroke);
  page.moveCurves(state.t);
  fillTable(byId("numbers"), byId("after"), runs, state.t);
  byId("caption").textContent = captionOf(page);
  byId("round").value = state.t;
  byId("counter").textContent = `${state.t} / ${gradients.length}`;
}

// The link, and for those who listen the round: once things have settled, never while playing.
let settling = 0;
function remember() {
  clearTimeout(settling);
  settling = setTimeout(() => {
    writeLink();
    if (!player.playing) byId("said").textContent = byId("caption").textContent;
  }, UNHURRIED);
}

function writeLink() {
  clearTimeout(settling);
  history.replaceState(null, "", `#${linkOf(page.state)}`);
}

function notice(message) {
  byId("notice").textContent = message;
  byId("notice").hidden = !message;
}

function restore() {
  pause();
  const { state, problems } = stateFrom(location.hash.length > 1 ? location.hash : OPENING);
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : "";
  forgetTyping();
  page.stroke = null;
  notice(problems.length ? `Not all of this link could be used: ${problems[0]}${more}` : "");
  adopt(state);
}

async function copyLink() {
  writeLink();
  try {
    await navigator.clipboard.writeText(location.href);
    byId("copy").textContent = "Copied";
    setTimeout(() => (byId("copy").textContent = "Copy link"), 1500);
  } catch {
    notice(`The browser lets no page copy here. This is the link: ${location.href}`); // inside a page, no address line has it
  }
}

function setUp() {
  byId("presets").innerHTML = PRESETS.map(({ title, link }) => `<li><a href="#${link}">${title}</a></li>`).join("");
  // The way back leads to what is shown now, and a preset that is left by playing is a place to go to again.
  byId("presets").addEventListener("click", () => {
    pause();
    writeLink();
  });
  setUpGame();
  setUpLearners();
  setUpDrawing();
  setUpPlayer();
  byId("shown").addEventListener("change", (event) => choose(Number(event.target.value)));
  byId("close").addEventListener("change", (event) => look(event.target.checked));
  byId("copy").addEventListener("click", copyLink);
  byId("help").addEventListener("click", () => byId("keys").showModal());
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the hash is the state
    byId(event.target.dataset.skip).focus();
  });
  restore();
  window.addEventListener("hashchange", restore);
  new ResizeObserver(() => showAll()).observe(byId("plane"));
}

setUp();

// For tests and for the curious: everything that the page knows, without the page.
window.klazy = {
  page,
  stateFrom,
  linkOf,
  word: learnerWord,
  gradients: (link) => gradientsOf(stateFrom(link).state),
  lift: (set, g) => SETS[set].lift(g),
  inPlane: (set, x) => SETS[set].inPlane(x),
  cone: (set, x) => normalCone(SETS[set], x),
  run: (set, word, gradients, lambda = 1) => run(SETS[set], learnerFrom(word), gradients, lambda),
};
