"use strict";
// The right pictures: hitting, switching and total cost so far, of every learner. They are drawn once per run; a round only
// moves the line at which the thick part, which is past, ends.

const CURVES = { hitting: "hitting", switching: "switching, \u03bb included", total: "total" };
const PAD = { left: 52, right: 18, top: 20, bottom: 18 };
const MARKS = 6; // markers on a line

// A round step for ticks: 1, 2 or 5 times a power of ten.
function tickStep(span, count) {
  const power = 10 ** Math.floor(Math.log10(span / count));
  return power * [1, 2, 5, 10].find((step) => step * power * count >= span);
}

function ticks(low, high, count) {
  const step = tickStep(high - low, count);
  const first = Math.ceil(low / step - 1e-9);
  return rounds(Math.floor(high / step + 1e-9) - first + 1).map((i) => Number(((first + i) * step).toPrecision(12)));
}

// A number that would hang over the left edge is written as 2e6.
const tickText = (value) => (String(value).length <= 6 ? String(value) : value.toExponential().replace("e+", "e"));

// Where there are more rounds than pixels, the lowest and the highest of each pixel, so that no swing is lost.
function thinned(values, most) {
  const stride = Math.ceil(values.length / most);
  if (stride <= 2) return values.map((value, t) => [t, value]);
  return rounds(Math.ceil(values.length / stride)).flatMap((bin) => {
    const part = values.slice(bin * stride, (bin + 1) * stride);
    const [low, high] = [Math.min(...part), Math.max(...part)].map((value) => bin * stride + part.indexOf(value));
    return [...new Set([low, high].sort((a, b) => a - b))].map((t) => [t, values[t]]);
  }).concat([[values.length - 1, values[values.length - 1]]]);
}

function frameOf(size, runs, name) {
  const values = runs.flatMap(({ costs }) => costs[name]);
  const low = values.reduce((a, b) => Math.min(a, b), 0);
  const high = values.reduce((a, b) => Math.max(a, b), 0);
  const last = Math.max(runs[0].costs[name].length - 1, 1);
  const span = high - low || 1;
  const [wide, tall] = [size[0] - PAD.left - PAD.right, size[1] - PAD.top - PAD.bottom];
  return {
    low,
    high: low + span,
    last,
    across: (t) => PAD.left + (wide * t) / last,
    up: (value) => PAD.top + tall * (1 - (value - low) / span),
  };
}

function drawAxes({ low, high, last, across, up }, size, title) {
  const levels = ticks(low, high, 4).map((value) => line("grid", [PAD.left, up(value)], [size[0] - PAD.right, up(value)]) +
    tag("text", { x: PAD.left - 6, y: short(up(value) + 4), "text-anchor": "end" }, tickText(value)));
  const dates = ticks(0, last, 5).filter(Number.isInteger).map((t) =>
    tag("text", { x: short(across(t)), y: size[1] - 3, "text-anchor": "middle" }, t));
  return levels.join("") + dates.join("") + line("zero", [PAD.left, up(0)], [size[0] - PAD.right, up(0)]) +
    tag("text", { class: "title", x: PAD.left, y: 12 }, title);
}

function drawLines(runs, name, { across, up, last }, wide) {
  const path = ({ costs }) => pathOf(thinned(costs[name], wide).map(([t, value]) => [across(t), up(value)]));
  const curve = (run, i) => tag("path", { class: `curve of-${i}`, d: path(run), "stroke-dasharray": DASHES[i] });
  const marks = (run, i) => rounds(MARKS).map((m) => {
    const t = Math.round(((m + (i + 0.5) / runs.length) / MARKS) * last);
    return t < run.costs[name].length ? marker(i, [across(t), up(run.costs[name][t])], 3.2) : "";
  }).join("");
  return { lines: runs.map(curve).join(""), marks: runs.map(marks).join("") };
}

function drawCurve(svg, runs, name) {
  const size = fit(svg);
  const frame = frameOf(size, runs, name);
  const { lines, marks } = drawLines(runs, name, frame, size[0]);
  const past = tag("clipPath", { id: `past-${name}` }, tag("rect", { x: 0, y: 0, width: 0, height: size[1] }));
  svg.innerHTML = past + drawAxes(frame, size, CURVES[name]) + tag("g", { class: "ahead" }, lines) +
    tag("g", { "clip-path": `url(#past-${name})` }, lines + marks) +
    tag("path", { class: "now", d: "" }) + tag("g", { class: "dots" });
  return (t) => {
    const x = frame.across(t);
    svg.querySelector("clipPath rect").setAttribute("width", x);
    svg.querySelector(".now").setAttribute("d", pathOf([[x, PAD.top - 2], [x, size[1] - PAD.bottom]]));
    const dots = runs.map(({ costs }, i) => marker(i, [x, frame.up(costs[name][t])], 4.5, "next"));
    svg.querySelector(".dots").innerHTML = dots.join("");
  };
}

// All three; the answer moves them to a round.
function drawCurves(place, runs) {
  if (!place.children.length) {
    place.innerHTML = Object.keys(CURVES).map((name) => {
      const said = `${name} cost so far, one line per learner; the table below has the numbers`;
      return tag("svg", { id: `curve-${name}`, class: "chart", role: "img", "aria-label": said });
    }).join("");
  }
  const moves = Object.keys(CURVES).map((name) => drawCurve(document.getElementById(`curve-${name}`), runs, name));
  return (t) => moves.forEach((move) => move(t));
}

// The numbers of a round, which are also the pictures in words.
function fillTable(body, caption, runs, t) {
  const totals = runs.map(({ costs }) => costs.total[t]);
  const least = Math.min(...totals);
  const sole = totals.filter((total) => total <= least + 1e-9).length === 1;
  body.innerHTML = runs.map(({ learner, costs }, i) => {
    const best = sole && totals[i] === least;
    const cells = Object.keys(CURVES).map((name) => `<td>${decimals(costs[name][t])}</td>`).join("");
    const title = `${swatch(i)}${titleOf(learner)}${best ? " <em>least</em>" : ""}`;
    return `<tr${best ? ' class="best"' : ""}><th scope="row">${title}</th>${cells}</tr>`;
  }).join("");
  caption.textContent = `After round ${t} of ${runs[0].states.length - 1}`;
}
