"use strict";
// What the page shows, as one object, and as a link that says the same. The link is meant to be read:
// #set=l1&seq=rotating&T=101&l=gd,s10;klazy,k5,s10&show=2&t=23

const SPEEDS = [1, 2, 5, 10, 30, 100]; // rounds per second
const USUAL_SPEED = matchMedia("(prefers-reduced-motion: reduce)").matches ? 1 : 5;
const LONGEST_LINK = 20000; // characters: more than any state needs

const OPENING = "set=l1&seq=rotating&T=101&l=gd,s6;klazy,k5,s6;lazy,s6&show=3&t=18";

const copyOf = (state) => JSON.parse(JSON.stringify(state));

const learnerWord = ({ rule, number, schedule, sigma }) =>
  [rule, RULES[rule].letter ? `${RULES[rule].letter}${number}` : "", `${schedule}${sigma}`].filter(Boolean).join(",");

function linkOf(state) {
  const { length, seeded } = SEQUENCES[state.seq];
  const said = { set: state.set, seq: state.seq };
  if (state.seq !== "draw") said.T = state.T;
  if (length) said.length = state.length;
  if (seeded) said.seed = state.seed;
  if (state.drawn.length) said.draw = state.drawn.map(([first, second, count]) => `${first},${second}*${count}`).join(";");
  if (state.lambda !== 1) said.lambda = state.lambda;
  said.l = state.learners.map(learnerWord).join(";");
  if (state.close) said.close = 1;
  said.show = state.show + 1;
  said.t = state.t;
  if (state.speed !== USUAL_SPEED) said.speed = state.speed;
  return Object.entries(said).map(([key, value]) => `${key}=${value}`).join("&");
}

function learnerFrom(word) {
  const [rule, ...parts] = word.split(",");
  oneOf(rule, RULES, "rule");
  const letter = RULES[rule].letter;
  const given = letter ? parts.shift() ?? "" : "";
  if (letter && !given.startsWith(letter)) {
    throw refusal(letter, "be given", given.slice(0, 20), `Write ${rule},${letter}5,s10.`);
  }
  const [, schedule, sigma] = /^(sqrt|s)(.*)$/.exec(parts.join(",")) ?? [];
  if (!schedule) throw refusal("sigma", "be given", parts.join(",").slice(0, 20), "Write s10 or sqrt60 at the end.");
  const number = ruleNumber(rule, letter ? given.slice(letter.length) : "");
  return { rule, number, schedule, sigma: sigmaNumber(schedule, sigma) };
}

function learnersFrom(text) {
  const learners = text.split(";").map(learnerFrom);
  if (learners.length > MOST.learners) {
    throw refusal("learners", `be 1 to ${MOST.learners}`, learners.length);
  }
  return learners;
}

function strokesFrom(text) {
  return text.split(";").filter(Boolean).map((word) => {
    const [, first, second, count] = /^([^,*]+),([^,*]+)\*(.+)$/.exec(word) ?? [null, word, "", ""];
    return stroke(first, second, count);
  });
}

function roundFrom(text, state) {
  const t = finite(text, "t");
  if (t < 0 || t > roundsOf(state) || !Number.isInteger(t)) {
    throw refusal("t", `be from 0 to T=${roundsOf(state)}`, t);
  }
  return t;
}

function shownFrom(text, state) {
  const shown = finite(text, "show");
  if (state.learners[shown - 1]) return shown - 1;
  throw refusal("show", `be from 1 to ${state.learners.length}`, shown, "The first is shown.");
}

// In an order in which each needs only those before it.
const READ = {
  set: (text, state) => (state.set = oneOf(text, SETS, "set")),
  seq: (text, state) => Object.assign(state, { seq: oneOf(text, SEQUENCES, "seq") }, defaultsOf(text)),
  T: (text, state) => (state.T = horizon(text)),
  length: (text, state) => (state.length = phaseLength(text)),
  seed: (text, state) => (state.seed = seedNumber(text)),
  draw: (text, state) => (state.drawn = strokesFrom(text)),
  lambda: (text, state) => (state.lambda = movementWeight(text)),
  l: (text, state) => (state.learners = learnersFrom(text)),
  close: (text, state) => (state.close = oneOf(text, { 0: 0, 1: 1 }, "close") === "1"),
  show: (text, state) => (state.show = shownFrom(text, state)),
  t: (text, state) => (state.t = roundFrom(text, state)),
  speed: (text, state) => (state.speed = Number(oneOf(text, Object.fromEntries(SPEEDS.map((v) => [v, v])), "speed"))),
};

// What a sequence brings along when it is chosen.
function defaultsOf(seq) {
  const { T, length } = SEQUENCES[seq];
  return { ...(T && { T }), ...(length && { length }) };
}

const nothingYet = () => ({
  set: "l1", seq: "rotating", T: 101, length: 220, seed: 1, drawn: [], lambda: 1, learners: [],
  close: false, show: 0, t: 0, speed: USUAL_SPEED,
});

function saidIn(link) {
  const said = Object.create(null); // where a key named __proto__ is a key like any other
  for (const part of link.slice(0, LONGEST_LINK).replace(/^#/, "").split("&").filter(Boolean)) {
    const [key, value = ""] = part.split(/=(.*)/s);
    try {
      said[key] = decodeURIComponent(value);
    } catch {
      said[key] = value; // a stray percent sign is refused below like any other word
    }
  }
  return said;
}

// The state that a link describes, and what of it could not be used: the rest is taken from the opening.
function stateFrom(link) {
  const said = saidIn(link);
  const state = nothingYet();
  state.learners = learnersFrom(saidIn(OPENING).l);
  const problems = [];
  const attempt = (what) => {
    try {
      what();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      problems.push(error.message);
    }
  };
  for (const key of Object.keys(READ)) if (Object.hasOwn(said, key)) attempt(() => READ[key](said[key], state));
  for (const key of Object.keys(said)) {
    if (!Object.hasOwn(READ, key)) attempt(() => oneOf(key, READ, "key"));
  }
  const alone = problems.length;
  attempt(() => checkTogether(state));
  // Parts that are right alone and wrong together: nobody can tell which was meant, so the opening is shown.
  return problems.length > alone ? { state: stateFrom(OPENING).state, problems } : { state, problems };
}
