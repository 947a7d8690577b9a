"use strict";
// Going through the rounds: play, pause, step, and the keys that do the same.

const PLAY = "M4 2.5 13 8l-9 5.5z";
const PAUSE = "M4 3h3v10H4zM9 3h3v10H9z";
const player = { playing: false, since: 0, from: 0 };

function goTo(t) {
  page.state.t = Math.min(Math.max(t, 0), page.gradients.length);
  showRound();
}

function pause() {
  if (!player.playing) return;
  player.playing = false;
  showPlaying();
  remember();
}

// A hand on the controls stops the film.
function jump(t) {
  pause();
  goTo(t);
  remember();
}

function play() {
  if (!page.gradients.length) return;
  if (page.state.t >= page.gradients.length) goTo(0);
  player.playing = true;
  rewind();
  showPlaying();
  requestAnimationFrame(frame);
}

// The round follows from the time since here, so that a slow machine skips rounds and does not lag.
function rewind() {
  player.since = performance.now();
  player.from = page.state.t;
}

function frame(now) {
  if (!player.playing) return;
  const t = player.from + Math.floor((Math.max(now - player.since, 0) / 1000) * page.state.speed);
  if (t !== page.state.t) goTo(t);
  if (page.state.t >= page.gradients.length) pause();
  else requestAnimationFrame(frame);
}

function showPlaying() {
  byId("play").setAttribute("aria-label", player.playing ? "Pause" : "Play");
  byId("play").querySelector("path").setAttribute("d", player.playing ? PAUSE : PLAY);
}

const toggle = () => (player.playing ? pause() : play());

const KEYS = {
  " ": toggle,
  ArrowLeft: (event) => jump(page.state.t - (event.shiftKey ? 10 : 1)),
  ArrowRight: (event) => jump(page.state.t + (event.shiftKey ? 10 : 1)),
  Home: () => jump(0),
  End: () => jump(page.gradients.length),
  c: () => look(!page.state.close),
  "?": () => byId("keys").showModal(),
};
for (let i = 1; i <= MOST.learners; i += 1) KEYS[i] = () => choose(i - 1);

// Keys that the focused field needs for itself.
function ownKeys(field) {
  if (field.matches("input[type=number], select")) return Object.keys(KEYS);
  if (field.matches("input[type=range]")) return ["ArrowLeft", "ArrowRight", "Home", "End"];
  if (field.matches("input[type=radio], input[type=checkbox]")) return [" ", "ArrowLeft", "ArrowRight"];
  return field.matches("button, a") ? [" "] : [];
}

function setUpPlayer() {
  byId("play").addEventListener("click", toggle);
  byId("to-start").addEventListener("click", () => jump(0));
  byId("back").addEventListener("click", () => jump(page.state.t - 1));
  byId("forward").addEventListener("click", () => jump(page.state.t + 1));
  byId("to-end").addEventListener("click", () => jump(page.gradients.length));
  byId("round").addEventListener("input", (event) => jump(Number(event.target.value)));
  byId("speed").innerHTML = SPEEDS.map((speed) => `<option value="${speed}">${speed}/s</option>`).join("");
  byId("speed").addEventListener("change", (event) => {
    page.state.speed = Number(event.target.value);
    rewind();
    remember();
  });
  document.addEventListener("visibilitychange", rewind); // it goes on where it was left, not where it would be by now
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || byId("keys").open || !Object.hasOwn(KEYS, event.key)) return;
    if (ownKeys(event.target).includes(event.key)) return;
    event.preventDefault();
    KEYS[event.key](event);
  });
}
