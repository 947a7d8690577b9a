"use strict";
// The learners, transcribed from the `step` of klazy.learners: the same operations in the same order. A step answers with the
// next state and leaves in it what the picture shows: `from`, where the arrows begin, `via`, where the last one begins, `y`.

function greedyStep({ t, x }, g, sigma) {
  return { t: t + 1, y: minus(x, over(g, sigma)), from: x, via: x };
}

function anchoredStep({ t, x, anchor, gSum }, g, sigma, startsPhase) {
  const before = startsPhase ? g.map(() => 0) : gSum;
  if (startsPhase) [anchor, gSum] = [x, g];
  else gSum = plus(gSum, g);
  return { t: t + 1, anchor, gSum, y: minus(anchor, over(gSum, sigma)), from: anchor, via: minus(anchor, over(before, sigma)) };
}

function memoryStep({ t, x, n }, g, sigma) {
  return { t: t + 1, y: plus(x, over(minus(n, g), sigma)), from: x, via: plus(x, over(n, sigma)) };
}

// What a rule is called, the letter of its number if it has one, and the share theta of the normal that it keeps.
const FAMILY = { greedy: "greedy", anchored: "anchored", memory: "memory" };
const RULES = {
  gd: { title: "GD", family: FAMILY.greedy },
  klazy: { title: "k-lazyGD", letter: "k", family: FAMILY.anchored, starts: (t, k) => (t - 1) % k === 0 },
  lazy: { title: "LazyGD", family: FAMILY.anchored, starts: () => false },
  forget: { title: "Forget", family: FAMILY.memory, theta: () => 0 },
  full: { title: "Full", family: FAMILY.memory, theta: () => 1 },
  clock: { title: "Clock", letter: "k", family: FAMILY.memory, theta: (t, raw, k) => (t % k === 0 ? 0 : 1) },
  decay: { title: "Decay", letter: "m", family: FAMILY.memory, theta: (t, raw, m) => 1 - 1 / m },
  clip: {
    title: "Clip",
    letter: "kappa",
    family: FAMILY.memory,
    theta: (t, raw, kappa) => (norm(raw) > kappa ? kappa / norm(raw) : 1),
  },
  event: {
    title: "Event",
    letter: "kappa",
    family: FAMILY.memory,
    theta: (t, raw, kappa) => (norm(raw) > kappa ? 0 : 1),
  },
};

const SCHEDULES = {
  s: { title: "\u03c3 =", at: (value) => value },
  sqrt: { title: "\u03c3 = \u221a(t/c)", at: (value, t) => Math.sqrt(t / value) },
};

function firstState(set) {
  const x = startOf(set);
  const nothing = x.map(() => 0);
  return { t: 1, x, anchor: x, gSum: nothing, n: nothing };
}

function step(set, learner, state, g) {
  const rule = RULES[learner.rule];
  const sigma = SCHEDULES[learner.schedule].at(learner.sigma, state.t);
  let next;
  if (rule.family === FAMILY.greedy) next = greedyStep(state, g, sigma);
  else if (rule.family === FAMILY.anchored) next = anchoredStep(state, g, sigma, rule.starts(state.t, learner.number));
  else next = memoryStep(state, g, sigma);
  next.x = set.project(next.y);
  next.sigma = sigma;
  if (rule.family === FAMILY.memory) {
    const raw = times(sigma, minus(next.y, next.x));
    next.n = times(rule.theta(state.t, raw, learner.number), raw);
  }
  return next;
}

// A whole run: states[t] is what round t left behind, states[0] the start; sums of costs up to and including round t.
// Round t pays f_t(x_t) = <g_t, x_t> and lambda ||x_t - x_{t-1}||, as klazy.run counts it.
function run(set, learner, gradients, lambda) {
  const states = [firstState(set)];
  const costs = { hitting: [0], switching: [0], total: [0] };
  let pending = 0;
  let hit = 0;
  let moved = 0;
  for (const g of gradients) {
    const state = states[states.length - 1];
    hit += dot(g, state.x);
    moved += lambda * pending;
    costs.hitting.push(hit);
    costs.switching.push(moved);
    costs.total.push(hit + moved);
    const next = step(set, learner, state, g);
    pending = norm(minus(next.x, state.x));
    states.push(next);
  }
  return { learner, states, costs };
}

function titleOf({ rule, number }) {
  const { title, letter, family } = RULES[rule];
  if (family === FAMILY.memory) return letter ? `${title}(${number})` : title;
  return letter ? `${title}, ${letter}=${number}` : title;
}
