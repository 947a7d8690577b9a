"use strict";
// What a form or a link may say. An error is a sentence and, where klazy would reject the same, klazy's words.

class Refused extends Error {
  constructor(message, about) {
    super(message);
    this.about = about; // the name of what was refused
  }
}

const refusal = (name, condition, value, remedy = "") =>
  new Refused(`${name} must ${condition}, got ${value === "" ? "nothing" : value}. ${remedy}`.trim(), name);

const MOST = { T: 2000, learners: 4, strokes: 200, number: 1e6, lambda: 1000, gradient: 10 };
const LEAST_SIGMA = 1e-3; // below it every unconstrained point lies far outside any picture
const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i; // Number() would take "", " " and "0x10" as well

function finite(text, name) {
  const word = String(text).trim();
  if (!NUMBER.test(word) || !Number.isFinite(Number(word))) {
    throw refusal(name, "be a finite number", word.slice(0, 20));
  }
  return Number(word);
}

function within(value, low, high, name) {
  if (value < low || value > high) {
    throw refusal(name, `be from ${low} to ${high}`, value);
  }
  return value;
}

function whole(text, name, most = MOST.number, remedy = "") {
  const value = finite(text, name);
  if (value < 1 || !Number.isInteger(value)) throw refusal(name, "be an integer of at least 1", value, remedy);
  return within(value, 1, most, name);
}

function oneOf(word, allowed, name) {
  if (!Object.hasOwn(allowed, word)) {
    const words = Object.keys(allowed).join(", ");
    throw refusal(name, `be one of ${words}`, word.slice(0, 20));
  }
  return word;
}

// The number of a rule, which is k, m or kappa; 0 for a rule without one.
function ruleNumber(rule, text) {
  const { letter } = RULES[rule];
  if (!letter) return 0;
  if (letter === "k") return whole(text, "k", MOST.number, "Use k=1 for greedy GD.");
  const value = finite(text, letter);
  if (letter === "m" && value < 1) throw refusal("m", "be at least 1", value, "Use m=1 for greedy GD.");
  if (letter === "kappa" && value <= 0) throw refusal("kappa", "be above 0", value, "Use Forget() to keep nothing.");
  return within(value, 0, MOST.number, letter);
}

function sigmaNumber(schedule, text) {
  const [name, remedy] =
    schedule === "s" ? ["sigma", "Give a regularisation above zero, 1 / learning rate."] : ["c", ""];
  const value = finite(text, name);
  if (value <= 0) throw refusal(name, "be above 0", value, remedy);
  return within(value, LEAST_SIGMA, MOST.number, name);
}

function movementWeight(text) {
  const value = finite(text, "lambda");
  if (value < 0) throw refusal("lambda", "not be negative", value, "Use 0 where moving is free.");
  return within(value, 0, MOST.lambda, "lambda");
}

const horizon = (text) => whole(text, "T", MOST.T);
const phaseLength = (text) => whole(text, "length", MOST.T);

function seedNumber(text) {
  const value = finite(text, "seed");
  if (!Number.isInteger(value)) throw refusal("seed", "be an integer", value);
  return within(value, 0, 2 ** 32 - 1, "seed");
}

// A drawn gradient and the rounds that it lasts. Two decimals, so that the link holds exactly what is played.
function stroke(first, second, count) {
  const coordinate = (text, name) => {
    const value = within(finite(text, name), -MOST.gradient, MOST.gradient, name);
    return Math.round(value * 100) / 100 + 0; // + 0 turns -0 into 0, as a link would
  };
  const lasts = whole(count, "rounds", MOST.T);
  return [coordinate(first, "g1"), coordinate(second, "g2"), lasts];
}

// What no single field can tell.
function checkTogether(state) {
  if (state.drawn.length > MOST.strokes) {
    throw refusal("draw", `have at most ${MOST.strokes} gradients`, state.drawn.length);
  }
  if (state.seq === "adversary" && slackOf(state.learners) > state.T) {
    throw refusal("T", `be at least k=${slackOf(state.learners)}`, state.T);
  }
  if (roundsOf(state) > MOST.T) {
    throw refusal("T", `be at most ${MOST.T}`, roundsOf(state), "Undo a gradient or let it last shorter.");
  }
}

const roundsOf = (state) => (state.seq === "draw" ? state.drawn.reduce((sum, [, , count]) => sum + count, 0) : state.T);
