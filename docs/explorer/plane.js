"use strict";
// The left picture: the set, and of the learner shown the anchor, the gradient sum, the unconstrained point, its projection
// and the normal cone there.

const REACH = 2.2; // times the set's own size: how far the window follows the unconstrained point; the set stays visible
const LEAVING = 1.5; // times it: room for the beginning of an arrow that leaves
const MARGIN = 34; // pixels around what must be seen
const ROOMY = 130; // pixels for a unit of length, from which on the names of the shares have room in the triangle
const TRAIL = 24; // rounds
const CLOSE = 8; // rounds that a close view keeps in sight
const SMALLEST = 0.2; // side of the closest view
const REACHED = new WeakMap(); // the corners of a run's window: thousands of points, the same in every round
const DISC = [[-1, -1], [1, 1]]; // corners about the l2 ball

// A point beyond reach is not followed: its arrow leaves the picture, and a label says how far it goes.
function withinReach(set, p) {
  const own = Math.max(...(set.corners.length ? set.corners : DISC).flat());
  const most = own * (Math.max(...p.map(Math.abs)) > REACH * own ? LEAVING : REACH);
  return p.map((value) => Math.min(Math.max(value, -most), most));
}

function cornersOf(points) {
  const low = [0, 1].map((i) => points.reduce((least, p) => Math.min(least, p[i]), Infinity));
  const high = [0, 1].map((i) => points.reduce((most, p) => Math.max(most, p[i]), -Infinity));
  return [low, high];
}

// One window for a whole run, so that nothing jumps while it plays: the set and every unconstrained point within reach.
function wholeWindow(set, run, size) {
  if (!REACHED.has(run)) {
    const ways = run.states.slice(1).flatMap(({ y, via }) => [y, via]).map((p) => withinReach(set, set.inPlane(p)));
    REACHED.set(run, cornersOf(ways.concat(set.corners.length ? set.corners : DISC)));
  }
  const [low, high] = REACHED.get(run);
  const scale = Math.min(...[0, 1].map((i) => (size[i] - 2 * MARGIN) / (high[i] - low[i])));
  return viewAt(times(0.5, plus(low, high)), scale, size);
}

// A window about the last few rounds. Its size and place go in steps, so that it rests while the learner is near.
function closeWindow(set, { states }, t, size) {
  const last = states.slice(Math.max(0, t - CLOSE), t + 1).map(({ x }) => x);
  const { from, via, y } = states[t];
  const seen = t > 0 ? last.concat([from, via, y]) : last;
  const [low, high] = cornersOf(seen.map((p) => withinReach(set, set.inPlane(p))));
  const side = SMALLEST * 2 ** Math.ceil(Math.log2(Math.max(...minus(high, low), SMALLEST) / SMALLEST));
  const middle = times(0.5, plus(low, high)).map((value) => (side / 4) * Math.round(value / (side / 4)));
  return viewAt(middle, (Math.min(...size) - 2 * MARGIN) / (1.25 * side), size);
}

function viewAt(middle, scale, size) {
  return {
    size,
    scale,
    toPixel: (p) => [size[0] / 2 + scale * (p[0] - middle[0]), size[1] / 2 - scale * (p[1] - middle[1])],
    toPlane: (q) => [middle[0] + (q[0] - size[0] / 2) / scale, middle[1] - (q[1] - size[1] / 2) / scale],
  };
}

const isInside = ([x, y], [width, height], edge = 0) => x >= edge && y >= edge && x <= width - edge && y <= height - edge;

// The last point of the way from a to b that is still in the picture.
function lastInside(a, b, size) {
  const edge = 14;
  let most = 1;
  for (const i of [0, 1]) {
    if (b[i] > size[i] - edge) most = Math.min(most, (size[i] - edge - a[i]) / (b[i] - a[i]));
    if (b[i] < edge) most = Math.min(most, (edge - a[i]) / (b[i] - a[i]));
  }
  return plus(a, times(Math.max(most, 0), minus(b, a)));
}

function drawSet(set, { toPixel, scale, size }) {
  const [x, y] = toPixel([0, 0]);
  const axes = line("axis", [0, y], [size[0], y]) + line("axis", [x, 0], [x, size[1]]);
  const body = set.corners.length
    ? tag("path", { class: "set", d: `${pathOf(set.corners.map(toPixel))}z` })
    : tag("circle", { class: "set", cx: short(x), cy: short(y), r: short(scale) });
  if (set.dim === 2) return axes + body;
  if (scale < ROOMY) return body;
  return body + set.corners.map((corner, i) => {
    const [a, b] = toPixel(times(0.72, corner));
    return tag("text", { class: "quiet", x: short(a), y: short(b + 4), "text-anchor": "middle" }, `share ${i + 1}`);
  }).join("");
}

function drawCone(set, x, { toPixel, size }) {
  const cone = normalCone(set, x);
  if (!cone.length) return "";
  const apex = toPixel(x);
  const [first, last] = cone.map((way) => plus(apex, times(2 * (size[0] + size[1]), [way[0], -way[1]])));
  const beyond = plus(apex, times(4, minus(times(0.5, plus(first, last)), apex))); // so that a wide cone is not cut short
  return tag("path", { class: "cone", d: `${pathOf([apex, first, beyond, last])}z` }) +
    tag("path", { class: "cone-edge", d: pathOf([first, apex, last]) });
}

function drawTrail(points, i) {
  const past = points.slice(0, -1).map((p) => marker(i, p, 2, "past"));
  return tag("path", { class: `trail of-${i}`, d: pathOf(points) }) + past.join("");
}

// The arrows of a round and the lines that labels should keep clear of. Lazy learners have one arrow for the whole sum and a
// thin one for its last term; learners with a memory go along what they remember, then along the gradient.
function drawArrows(family, from, via, y, size) {
  const tip = lastInside(from, y, size);
  if (family === FAMILY.memory) {
    const bend = lastInside(from, via, size);
    const rest = isInside(via, size, 14) ? arrow("last", via, lastInside(via, y, size)) : "";
    return { drawn: arrow("sum", from, bend) + rest, lines: [[from, bend], [bend, tip]], tip };
  }
  const last = family === FAMILY.anchored && isInside(via, size) && isInside(y, size) ? arrow("last", via, y) : "";
  return { drawn: arrow("sum", from, tip) + last, lines: [[from, tip], [via, tip]], tip };
}

// What round t did: cone, trail, arrows, projection, points and their names.
function drawRound(set, view, { states, learner }, show, t, others) {
  const pixel = (p) => view.toPixel(set.inPlane(p));
  const { size } = view;
  const { family } = RULES[learner.rule];
  const { from, via, y, x } = states[t];
  const [start, bend, free, before, now] = [from, via, y, states[t - 1].x, x].map(pixel);
  const { drawn, lines, tip } = drawArrows(family, start, bend, free, size);
  const trail = states.slice(Math.max(0, t - TRAIL), t).map((state) => pixel(state.x));
  const beyond = isInside(free, size) ? "y" : `y, ${norm(minus(y, x)).toFixed(1)} away`;
  const names = [{ name: "x_t", at: before }, { name: "x_t+1", at: now }, { name: beyond, at: tip }];
  if (family === FAMILY.anchored) names.unshift({ name: "x_\u03c4", at: start });
  if (family === FAMILY.memory && isInside(bend, size)) names.push({ name: "x_t + n/\u03c3", at: bend });
  const corners = set.corners.map(view.toPixel);
  const edges = corners.map((corner, i) => [corner, corners[(i + 1) % corners.length]]);
  const square = { class: "anchor", x: short(start[0] - 6), y: short(start[1] - 6), width: 12, height: 12 };
  return [
    drawCone(set, set.inPlane(x), view), drawTrail(trail, show), others, drawn, line("projection", free, now),
    family === FAMILY.anchored ? tag("rect", square) : "",
    tag("circle", { class: "free", cx: short(free[0]), cy: short(free[1]), r: 5 }),
    marker(show, before, 4), marker(show, now, 6.5, "next"), labels(names, lines.concat(edges, [[tip, now]]), size),
  ].join("");
}

// The picture after round t; round 0 is the start. `stroke` is a gradient that is being drawn.
function drawPlane(svg, set, runs, { show, t, close }, stroke) {
  const whole = wholeWindow(set, runs[show], fit(svg));
  const near = closeWindow(set, runs[show], t, whole.size);
  const view = close && near.scale > whole.scale ? near : whole;
  const at = runs.map(({ states }) => view.toPixel(set.inPlane(states[t].x)));
  const others = at.map((point, i) => (i === show ? "" : marker(i, point, 4.5, "hollow"))).join("");
  const start = () => others + marker(show, at[show], 6.5, "next") + labels([{ name: "x_1", at: at[show] }], [], view.size);
  const drawing = stroke ? arrow("stroke", view.toPixel([0, 0]), view.toPixel(stroke)) : "";
  svg.innerHTML = drawSet(set, view) + (t > 0 ? drawRound(set, view, runs[show], show, t, others) : start()) + drawing;
  const [left, top] = view.toPlane([0, 0]);
  Object.assign(svg.dataset, { scale: view.scale, left, top });
  return view;
}
