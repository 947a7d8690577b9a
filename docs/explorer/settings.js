"use strict";
// The forms: what is chosen goes to `change`; what is refused is said beside the field, and the last good state stays.

const byId = (id) => document.getElementById(id);
const option = ([value, { title }]) => `<option value="${value}">${title}</option>`;
const optionsOf = (table) => Object.entries(table).map(option).join("");

const LETTERS = ["A", "B", "C", "D"];
const USUAL = { k: 5, m: 20, kappa: 2 }; // what a rule begins with
const OFFERED = ["gd", "klazy", "lazy", "decay"]; // to be added, the first that is not there yet

function refused(field, place, message) {
  place.textContent = message;
  place.hidden = !message;
  for (const marked of place.parentElement.querySelectorAll("[aria-invalid]")) marked.removeAttribute("aria-invalid");
  if (message) {
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-describedby", place.id);
  }
}

// The field that is being typed in, and the round that was looked at when the rounds began to be typed.
const typing = { field: null, t: null };

// While a number is being typed it may be wrong for a moment: only when it is done is a refusal said.
function edited(event, place, edit) {
  const field = event.target;
  if (event.type === "input") typing.field = field;
  try {
    change(edit);
    refused(field, place, "");
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (event.type === "change") refused(field, place, error.message);
  }
  showFields(page.state); // also those whose refusal is gone
}

function showFields(state) {
  showGame(state);
  showLearners(state.learners);
}

const GAME = {
  set: (text, state) => (state.set = text),
  seq: (text, state) => {
    Object.assign(state, { seq: text, t: 0 }, defaultsOf(text));
    if (text === "adversary") state.T = Math.min(Math.max(state.T, slackOf(state.learners)), MOST.T); // one block at least
  },
  T: (text, state) => {
    typing.t ??= state.t; // which the 2 of a 200 must not lose
    Object.assign(state, { T: horizon(text), t: typing.t });
  },
  length: (text, state) => (state.length = phaseLength(text)),
  seed: (text, state) => (state.seed = seedNumber(text)),
  lambda: (text, state) => (state.lambda = movementWeight(text)),
};

function setUpGame() {
  byId("set").innerHTML = optionsOf(SETS);
  byId("seq").innerHTML = optionsOf(SEQUENCES);
  for (const kind of ["input", "change"]) {
    byId("game").addEventListener(kind, (event) => {
      edited(event, byId("game-problem"), (state) => GAME[event.target.id](event.target.value, state));
    });
  }
  byId("T").addEventListener("focus", () => (typing.t = null));
  byId("game").addEventListener("submit", (event) => event.preventDefault());
}

// A field keeps what is being typed, and what was refused stays beside its refusal; all others show the state.
function put(id, value) {
  const field = byId(id);
  const typed = document.activeElement === field && typing.field === field && field.tagName !== "SELECT";
  if (!typed && !field.hasAttribute("aria-invalid")) field.value = value;
}

function forgetTyping() {
  Object.assign(typing, { field: null, t: null });
  for (const place of document.querySelectorAll(".problem")) refused(null, place, "");
}

function showGame(state) {
  for (const id of Object.keys(GAME)) put(id, state[id]);
  const { length, seeded } = SEQUENCES[state.seq];
  const used = { T: state.seq !== "draw", length: Boolean(length), seed: Boolean(seeded) };
  for (const [id, yes] of Object.entries(used)) document.querySelector(`[data-for=${id}]`).hidden = !yes;
}

function ruleOptions() {
  const remembers = ([, { family }]) => family === FAMILY.memory;
  const memory = Object.entries(RULES).filter(remembers);
  const others = Object.entries(RULES).filter((rule) => !remembers(rule));
  return `${others.map(option).join("")}<optgroup label="MemoryGD">${memory.map(option).join("")}</optgroup>`;
}

function card({ rule }, i, only) {
  const { letter } = RULES[rule];
  const field = (part) => `<input id="${part}-${i}" type="number" step="any" data-part="${part}">`;
  const choice = (part, options) => `<select id="${part}-${i}" data-part="${part}">${options}</select>`;
  const unseen = (words) => `<span class="hidden">${words} of learner ${LETTERS[i]}</span>`;
  const number = letter ? `<label>${letter === "kappa" ? "\u03ba" : letter} ${field("number")}</label>` : "";
  return `<fieldset class="panel card" data-learner="${i}" tabindex="-1">
    <legend class="hidden">Learner ${LETTERS[i]}</legend>${swatch(i)}
    <label class="rule">${unseen("rule")}${choice("rule", ruleOptions())}</label>
    ${number}
    <label class="sigma">${unseen("schedule")}${choice("schedule", optionsOf(SCHEDULES))}</label>
    <label>${unseen("sigma or c")}${field("sigma")}</label>
    <button type="button" class="remove" data-part="remove"${only ? " disabled" : ""}>
      <span class="hidden">Remove learner ${LETTERS[i]}</span>&times;</button>
    <p class="problem" id="problem-${i}" role="alert" hidden></p></fieldset>`;
}

const EDITS = {
  rule: (text, learner) => Object.assign(learner, { rule: text, number: USUAL[RULES[text].letter] ?? 0 }),
  number: (text, learner) => (learner.number = ruleNumber(learner.rule, text)),
  schedule: (text, learner) => (learner.schedule = text),
  sigma: (text, learner) => (learner.sigma = sigmaNumber(learner.schedule, text)),
};

function setUpLearners() {
  for (const kind of ["input", "change"]) {
    byId("learners").addEventListener(kind, ({ type, target }) => {
      const i = Number(target.closest("[data-learner]").dataset.learner);
      edited({ type, target }, byId(`problem-${i}`), (state) => EDITS[target.dataset.part](target.value, state.learners[i]));
    });
  }
  byId("learners").addEventListener("click", ({ target }) => {
    if (!target.closest(".remove")) return;
    const i = Number(target.closest("[data-learner]").dataset.learner);
    change((state) => {
      state.learners.splice(i, 1);
      state.show = Math.min(state.show > i ? state.show - 1 : state.show, state.learners.length - 1);
    });
    byId("add-learner").focus(); // the button that had the focus is gone
  });
  byId("add-learner").addEventListener("click", () => {
    change(({ learners }) => {
      const rule = OFFERED.find((each) => !learners.some((learner) => learner.rule === each));
      learners.push({ ...learners[learners.length - 1], rule, number: USUAL[RULES[rule].letter] ?? 0 });
    });
    if (byId("add-learner").hidden) byId("learners").lastElementChild.focus(); // the button that had it is gone
  });
}

// Cards are rebuilt only when their fields change, so that typing is not disturbed.
function showLearners(learners) {
  const place = byId("learners");
  const layout = learners.map(({ rule }) => rule).join();
  if (place.dataset.layout !== layout) {
    const focused = document.activeElement.id;
    place.innerHTML = learners.map((learner, i) => card(learner, i, learners.length === 1)).join("");
    place.dataset.layout = layout;
    if (focused && byId(focused) !== document.activeElement) byId(focused)?.focus();
  }
  learners.forEach((learner, i) => {
    for (const part of ["rule", "schedule", "sigma", "number"]) if (byId(`${part}-${i}`)) put(`${part}-${i}`, learner[part]);
  });
  byId("add-learner").hidden = learners.length === MOST.learners;
}

function showChips({ learners, show }) {
  const focused = document.activeElement.id;
  const chip = (learner, i) =>
    `<label><input type="radio" name="show" id="show-${i}" value="${i}"${i === show ? " checked" : ""}>` +
    `${swatch(i)}<span>${titleOf(learner)}</span></label>`;
  byId("shown").innerHTML = `<legend class="hidden">Learner in the picture</legend>${learners.map(chip).join("")}`;
  if (focused.startsWith("show-")) byId(focused)?.focus();
}
