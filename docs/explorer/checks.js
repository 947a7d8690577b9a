"use strict";
// What a form or a link may say. A refusal has klazy's form and, where klazy would refuse the same, klazy's words.

class Refused extends Error {
  constructor(message, about) {
    super(message);
    this.about = about; // the name of what was refused
  }
}

const refusal = (owner, condition, name, value, remedy) =>
  new Refused(`${owner} needs ${condition}, got ${name}=${value === "" ? "nothing" : value}; ${remedy}.`, name);

const MOST = { T: 2000, learners: 4, strokes: 200, number: 1e6, lambda: 1000, gradient: 10 };
const LEAST_SIGMA = 1e-3; // below it every unconstrained point lies far outside any picture
const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i; // Number() would take "", " " and "0x10" as well

function finite(text, name, owner) {
  const word = String(text).trim();
  if (!NUMBER.test(word) || !Number.isFinite(Number(word))) {
    throw refusal(owner, `a finite number ${name}`, name, word.slice(0, 20), "give a number");
  }
  return Number(word);
}

function within(value, low, high, name, owner) {
  if (value < low || value > high) {
    throw refusal(owner, `${name} from ${low} to ${high}`, name, value, "choose one that a picture can show");
  }
  return value;
}

function whole(text, name, owner, condition, remedy, most = MOST.number) {
  const value = finite(text, name, owner);
  if (value < 1 || !Number.isInteger(value)) throw refusal(owner, condition, name, value, remedy);
  return within(value, 1, most, name, owner);
}

function oneOf(word, allowed, name, owner) {
  if (!Object.hasOwn(allowed, word)) {
    const words = Object.keys(allowed).join(", ");
    throw refusal(owner, `${name} to be one of ${words}`, name, word.slice(0, 20), "choose one of these");
  }
  return word;
}

// The number of a rule, which is k, m or kappa; 0 for a rule without one.
function ruleNumber(rule, text) {
  const { owner, letter } = RULES[rule];
  if (!letter) return 0;
  if (letter === "k") return whole(text, "k", owner, "a slack k >= 1", "use k=1 for greedy GD");
  const value = finite(text, letter, owner);
  if (letter === "m" && value < 1) throw refusal(owner, "a memory m >= 1", "m", value, "use m=1 for greedy GD");
  if (letter === "kappa" && value <= 0) throw refusal(owner, "kappa > 0", "kappa", value, "use Forget() to keep nothing");
  return within(value, 0, MOST.number, letter, owner);
}

function sigmaNumber(schedule, text) {
  const [owner, name, remedy] =
    schedule === "s"
      ? ["Constant", "sigma", "give a regularisation above zero, 1 / learning rate"]
      : ["Sqrt", "c", "give a number above zero"];
  const value = finite(text, name, owner);
  if (value <= 0) throw refusal(owner, `${name} > 0`, name, value, remedy);
  return within(value, LEAST_SIGMA, MOST.number, name, owner);
}

function movementWeight(text) {
  const value = finite(text, "lambda", "L2Movement");
  if (value < 0) throw refusal("L2Movement", "a weight lambda >= 0", "lambda", value, "use 0 where moving is free");
  return within(value, 0, MOST.lambda, "lambda", "L2Movement");
}

const horizon = (text) => whole(text, "T", "a sequence", "a horizon T >= 1", "give the number of rounds", MOST.T);
const phaseLength = (text) =>
  whole(text, "length", "a sequence in phases", "length >= 1", "give the rounds of a phase", MOST.T);

function seedNumber(text) {
  const value = finite(text, "seed", "stochastic");
  if (!Number.isInteger(value)) throw refusal("stochastic", "a whole number as seed", "seed", value, "give another");
  return within(value, 0, 2 ** 32 - 1, "seed", "stochastic");
}

// A drawn gradient and the rounds that it lasts. Two decimals, so that the link holds exactly what is played.
function stroke(first, second, count) {
  const owner = "a drawn gradient";
  const coordinate = (text, name) => {
    const value = within(finite(text, name, owner), -MOST.gradient, MOST.gradient, name, owner);
    return Math.round(value * 100) / 100 + 0; // + 0 turns -0 into 0, as a link would
  };
  const lasts = whole(count, "rounds", owner, "a whole number of rounds", "give 1 or more", MOST.T);
  return [coordinate(first, "g1"), coordinate(second, "g2"), lasts];
}

// What no single field can tell.
function checkTogether(state) {
  if (state.drawn.length > MOST.strokes) {
    throw refusal("a drawn sequence", `at most ${MOST.strokes} gradients`, "draw", state.drawn.length, "draw fewer");
  }
  if (state.seq === "adversary" && slackOf(state.learners) > state.T) {
    throw refusal("square_wave", `T >= k=${slackOf(state.learners)}, one block at least`, "T", state.T, "play longer");
  }
  if (roundsOf(state) > MOST.T) {
    throw refusal("a drawn sequence", `at most ${MOST.T} rounds`, "T", roundsOf(state), "undo one or let it last shorter");
  }
}

const roundsOf = (state) => (state.seq === "draw" ? state.drawn.reduce((sum, [, , count]) => sum + count, 0) : state.T);
