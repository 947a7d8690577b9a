"use strict";
// What the page says: where to begin, what to look at, what a round did, and what the signs of the picture mean.

// What is claimed of a preset is tested; it is said only while the game is the preset's.
const PRESETS = [
  {
    title: "a vertex holds",
    link: OPENING,
    words: "LazyGD never leaves the vertex again. Press 1 to 3 to compare.",
  },
  {
    title: "a curved edge",
    link: "set=l2&seq=alternating&T=101&l=gd,s10;klazy,k5,s10;lazy,s10&show=3&t=30",
    words: "Here the normal cone is only a ray, so every learner moves a little.",
  },
  {
    title: "noise",
    link:
      "set=l2&seq=stochastic&T=1000&length=250&seed=1&l=gd,sqrt60;klazy,k65,sqrt60;decay,m65,sqrt60;lazy,sqrt60" +
      "&show=2&t=240&speed=30",
    words: "All share one sigma here. Give GD its own, a constant 13, and most of the difference is gone.",
  },
  {
    title: "bursts",
    link:
      "set=l1&seq=corrupted&T=880&length=220&lambda=10&l=gd,s4;klazy,k110,s4;decay,m20,s4;lazy,s4&show=2&t=106&speed=10",
    words: "At a move cost of 1 greedy GD is best. k = 110 is lucky: with phases of 200 it falls behind GD, and Decay leads.",
  },
  {
    title: "laziness loses",
    link: "set=box&seq=adversary&T=200&l=klazy,k20,s1;gd,s1;decay,m20,s1;lazy,s1&show=1&t=15",
    words: "Greedy GD turns at once and earns in both halves; the lazy learners end where they began.",
  },
  {
    title: "inside, all are one",
    link: "set=box&seq=rotating&T=101&l=gd,s13;klazy,k5,s13;lazy,s13&close=1&show=2&t=39",
    words: "",
  },
  {
    title: "draw your own",
    link: "set=simplex&seq=draw&draw=-1,0*8;0.5,0.6*4;0,-0.8*4&l=gd,s8;klazy,k6,s8;event,kappa2,s8;lazy,s8&show=2&t=16",
    words: "",
  },
];

const LOOKS = {
  rotating: () =>
    "Twelve gradients push to the right, then they turn in circles. GD forgets how far beyond the boundary it was pushed " +
    "and follows every turn. LazyGD remembers: while its y stays in the shaded normal cone, x stays. k-lazyGD " +
    "forgets every k rounds.",
  alternating: () =>
    "Eleven gradients push to the right, then their second part flips up and down. The further y lies beyond a curved " +
    "boundary, the less its projection turns: a lazy learner hardly moves, a greedy one moves back and forth.",
  stochastic: () =>
    "Heavy noise, whose mean flips with every phase. A greedy learner moves with the noise and pays for it. A lazy one " +
    "averages, but after a flip it has to unlearn. LazyGD takes longest.",
  corrupted: () =>
    "A hundred rounds one way, ten the other; the pattern flips with every phase. Where moving is expensive it pays to " +
    "wait out the ten rounds.",
  adversary: (state) =>
    `This wave is made against k = ${slackOf(state.learners)}: one way for half a phase, back for the other half. The ` +
    "lazy learner spends the second half unlearning the first.",
  draw: () =>
    "Press in the picture and drag: the arrow from the centre is the next gradient, and the learners go against it. Push " +
    "y far beyond a corner, then push back a little: the lazy learners stand still as long as y stays in the cone.",
};

// A game is a state without what is looked at.
const gameOf = (state) => linkOf({ ...state, show: 0, t: 0, close: false, speed: USUAL_SPEED });

function lookOf({ state, runs, gradients }) {
  const preset = PRESETS.find(({ link }) => gameOf(stateFrom(link).state) === gameOf(state));
  const points = runs.map(({ states }) => states.map(({ x }) => x));
  const asFirst = (each) => each.every((x, t) => norm(minus(x, points[0][t])) < ON_FACE);
  const equal = gradients.length && runs.length > 1 && points.every(asFirst);
  const idle = "In this run all play the same points: laziness acts only where the projection binds.";
  return [LOOKS[state.seq](state), preset?.words, equal ? idle : ""].filter(Boolean).join(" ");
}

const places = (size) => (size < 10 ? 3 : size < 1e4 ? 2 : 0);
const decimals = (value) => (Math.abs(value) < 5e-5 ? "0" : value.toFixed(places(Math.abs(value))));
const plainly = (value) => String(Math.round(value * 1000) / 1000);

function captionOf({ state, runs, gradients }) {
  const { states, learner } = runs[state.show];
  if (state.t === 0) {
    const more = gradients.length ? "" : " No gradient is drawn yet.";
    return `Before round 1 every learner stands at x\u2081, the point nearest to the origin.${more}`;
  }
  const { x, y, from, sigma } = states[state.t];
  const moved = norm(minus(x, states[state.t - 1].x));
  const beyond = norm(minus(y, x));
  const anchored = RULES[learner.rule].family === FAMILY.anchored;
  const tau = anchored ? ` Phase since round ${states.findIndex((each) => each.x === from) + 1}.` : "";
  const g = gradients[state.t - 1].map(plainly).join(", ");
  const where = beyond < ON_FACE ? "in the set" : `${decimals(beyond)} beyond it`;
  const stood = moved < ON_FACE ? "x stood still" : `x moved by ${decimals(moved)}`;
  return `Round ${state.t}: g = (${g}), \u03c3 = ${plainly(sigma)}.${tau} ${titleOf(learner)}: y lies ${where}; ${stood}.`;
}

const sign = (inner) => tag("svg", { class: "sign", viewBox: "0 0 30 14", "aria-hidden": "true" }, inner);
const index = (letter, low) => `<i>${letter}</i><sub>${low}</sub>`;

const WAYS = {
  greedy: [["sum", "&minus;<i>g</i>/\u03c3"]],
  anchored: [["sum", "&minus;gradient sum/\u03c3"], ["last", "its last gradient"]],
  memory: [["sum", "memory <i>n</i>/\u03c3, a normal vector"], ["last", "&minus;<i>g</i>/\u03c3"]],
};

function legendOf(set, learners, show) {
  const { family } = RULES[learners[show].rule];
  const anchor = [tag("rect", { class: "anchor", x: 9, y: 1, width: 12, height: 12 }), `anchor ${index("x", "\u03c4")}`];
  const cone = tag("rect", { class: "cone", width: 30, height: 14 }) + line("cone-edge", [0, 13.5], [30, 13.5]);
  const other = [marker((show + 1) % learners.length, [15, 7], 4.5, "hollow"), "other learners"];
  return [
    ...(family === FAMILY.anchored ? [anchor] : []),
    ...WAYS[family].map(([kind, words]) => [arrow(kind, [1, 7], [29, 7]), words]),
    [tag("circle", { class: "free", cx: 15, cy: 7, r: 5 }), "unconstrained <i>y</i>"],
    [line("projection", [0, 7], [12, 7]) + marker(show, [20, 7], 5.5, "next"), `its projection ${index("x", "t+1")}`],
    [marker(show, [15, 7], 3.5), `${index("x", "t")} and before`],
    [cone, `normal cone at ${index("x", "t+1")}`],
    ...(learners.length > 1 ? [other] : []),
    ...(set.dim === 3 ? [["", "plane of the triangle in R\u00b3"]] : []),
  ].map(([inner, words]) => `<li>${sign(inner)}<span>${words}</span></li>`).join("");
}
