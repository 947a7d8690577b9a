"use strict";
// Names beside the points of the picture: points that coincide share one label, and each label goes where least is in its way.

const LETTER = 7.5; // width of a letter in pixels, about
const AWAY = 17; // of a label's middle from its point, along a short side
const NEAR = 7; // points nearer than this share a label,
const SAME = 1e-6; // and nearer than this are the same point

const DIRECTIONS = rounds(12).map((i) => [Math.cos((i * Math.PI) / 6), Math.sin((i * Math.PI) / 6)]);

// "x_t+1" is an x with the index t+1.
function lettered(name) {
  const [letter, index, after = ""] = name.split(/_([^ ]*)/);
  const low = index ? tag("tspan", { class: "index", dy: 4 }, index) + tag("tspan", { dy: -4 }, "\u200b") : "";
  return tag("tspan", { class: "letter" }, letter) + low + after;
}

function grouped(points) {
  const groups = [];
  for (const { name, at } of points) {
    const known = groups.find((group) => norm(minus(group.at, at)) < NEAR);
    if (known) known.names.push({ name, joint: norm(minus(known.at, at)) < SAME ? " = " : ", " });
    else groups.push({ at, names: [{ name, joint: "" }] });
  }
  return groups;
}

// Obstacles are points in pixels; a label is a box about its middle.
const crowding = ([x, y], [wide, high], obstacles) =>
  obstacles.filter(([a, b]) => Math.abs(a - x) < wide / 2 + 2 && Math.abs(b - y) < high / 2 + 2).length;

const kept = (middle, box, size) =>
  middle.map((value, i) => Math.min(Math.max(value, box[i] / 2 + 4), size[i] - box[i] / 2 - 4));

function labels(points, lines, size) {
  const groups = grouped(points);
  const obstacles = lines.flatMap(([a, b]) => rounds(41).map((i) => plus(a, times(i / 40, minus(b, a)))));
  for (const { at } of groups) for (let i = 0; i < 12; i += 1) obstacles.push(plus(at, times(4, DIRECTIONS[i])));
  return groups.map(({ at, names }) => {
    const box = [LETTER * names.reduce((sum, { name }) => sum + name.replace("_", "").length * 0.85 + 2, -1), 16];
    const middles = DIRECTIONS.map(([a, b]) => kept([at[0] + a * (AWAY + box[0] / 2 - 6), at[1] + b * AWAY], box, size));
    const crowds = middles.map((middle) => crowding(middle, box, obstacles));
    const [x, y] = middles[crowds.indexOf(Math.min(...crowds))];
    for (const dx of [-0.4, 0, 0.4]) obstacles.push([x + dx * box[0], y]);
    const text = names.map(({ name, joint }) => joint + lettered(name)).join("");
    return tag("text", { x: short(x), y: short(y + 4), "text-anchor": "middle" }, text);
  }).join("");
}
