"use strict";
// The sequences of gradients, in the picture's plane. All but the noise are those of klazy.sequences, number by number.

const ROTATES_AFTER = 12; // rounds of example (i) before its costs rotate
const ALTERNATES_AFTER = 11; // of example (ii)
const CYCLE = [[1, 0], [0, 1], [-1, 0], [0, -1]];
const OF_THE_PHASE = 100; // rounds in a row with the sign of the phase,
const OF_THE_OTHER = 10; // and then with the other
const NOISE = Math.sqrt(10); // per coordinate, as in the paper
const WITHOUT_SLACK = 8; // the adversary's k where no learner has one

const rounds = (T) => Array.from({ length: T }, (_, i) => i);
const signOfPhase = (i, length) => (Math.floor(i / length) % 2 === 0 ? 1 : -1);

// mulberry32: 32 bits of state, good enough for a picture, the same in every browser.
function mulberry32(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

// Two independent normal numbers by Box and Muller; 1 - u lies in (0, 1], where the logarithm is finite.
function normalPair(random) {
  const radius = Math.sqrt(-2 * Math.log(1 - random()));
  const turn = 2 * Math.PI * random();
  return [radius * Math.cos(turn), radius * Math.sin(turn)];
}

const rotating = ({ T }) => rounds(T).map((i) => (i < ROTATES_AFTER ? [-1, 0] : CYCLE[(i - ROTATES_AFTER) % 4]));

const alternating = ({ T }) => rounds(T).map((i) => [-1, i < ALTERNATES_AFTER ? 0 : i % 2 === 0 ? -1 : 1]);

function stochastic({ T, length, seed }) {
  const random = mulberry32(seed);
  return rounds(T).map((i) => unit(normalPair(random).map((noise) => signOfPhase(i, length) + NOISE * noise)));
}

function corrupted({ T, length }) {
  return rounds(T).map((i) => {
    const honest = (i % length) % (OF_THE_PHASE + OF_THE_OTHER) < OF_THE_PHASE;
    const part = (honest ? 1 : -1) * signOfPhase(i, length) / Math.sqrt(2);
    return [part, part];
  });
}

// The wave of Theorem 2 along the first axis: k/2 rounds one way, k/2 the other; an odd k has one round without cost. What
// is left after the last whole block costs nothing.
function adversary({ T, learners }) {
  const k = slackOf(learners);
  const even = k - (k % 2);
  const wave = (i) => (i < even / 2 ? 1 : i < even ? -1 : 0);
  return rounds(T).map((i) => [i < Math.floor(T / k) * k ? wave(i % k) : 0, 0]);
}

// The first slack of two or more: greedy descent has no such wave.
function slackOf(learners) {
  const lazy = learners.find(({ rule, number }) => RULES[rule].letter === "k" && number >= 2);
  return lazy ? lazy.number : WITHOUT_SLACK;
}

const drawn = ({ drawn: strokes }) => strokes.flatMap(([first, second, count]) => rounds(count).map(() => [first, second]));

const SEQUENCES = {
  rotating: { title: "example (i), rotating", make: rotating, T: 101 },
  alternating: { title: "example (ii), alternating", make: alternating, T: 101 },
  stochastic: { title: "stochastic, in phases", make: stochastic, T: 1000, length: 250, seeded: true },
  corrupted: { title: "corrupted, in phases", make: corrupted, T: 880, length: 220 },
  adversary: { title: "the adversary", make: adversary, T: 200 },
  draw: { title: "draw gradients", make: drawn },
};

const gradientsOf = (state) => SEQUENCES[state.seq].make(state);
