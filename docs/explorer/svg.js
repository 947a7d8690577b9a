"use strict";
// SVG as text: pictures are rebuilt whole, a few dozen elements at a time, which is simpler than keeping them in step.

const tag = (name, attributes, inner = "") =>
  `<${name} ${Object.entries(attributes).map(([key, value]) => `${key}="${value}"`).join(" ")}>${inner}</${name}>`;
const short = (value) => String(Math.round(value * 100) / 100);
const pathOf = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${short(x)},${short(y)}`).join("");
const line = (kind, ...points) => tag("path", { class: kind, d: pathOf(points) });

// Learners differ by colour, dash and marker, so that none of these is needed to tell them apart.
const DASHES = ["none", "7 4", "2 3", "10 3 2 3"];
const MARKERS = [
  (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0z`,
  (r) => `M${-r},${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
  (r) => `M0,${-1.3 * r}L${1.2 * r},${r}H${-1.2 * r}z`,
  (r) => `M0,${-1.4 * r}L${1.4 * r},0L0,${1.4 * r}L${-1.4 * r},0z`,
];

const marker = (i, [x, y], r, kind = "") =>
  tag("path", { class: `mark of-${i} ${kind}`, d: MARKERS[i](r), transform: `translate(${short(x)},${short(y)})` });

const swatch = (i) =>
  tag("svg", { class: "swatch", viewBox: "0 0 30 14", "aria-hidden": "true" },
    tag("path", { class: `curve of-${i}`, d: "M0,7H30", "stroke-dasharray": DASHES[i] }) + marker(i, [15, 7], 4));

const HEAD = 9; // length of an arrow's head in pixels

// An arrow with its head; too short a one would be all head and is a line, or nothing.
function arrow(kind, tail, tip) {
  const way = minus(tip, tail);
  const far = norm(way);
  if (far < 2) return "";
  if (far < HEAD) return line(kind, tail, tip);
  const [along, across] = [times(HEAD / far, way), times((0.4 * HEAD) / far, [-way[1], way[0]])];
  const neck = minus(tip, along);
  const head = pathOf([tip, plus(neck, across), minus(neck, across)]);
  return line(kind, tail, neck) + tag("path", { class: `${kind} head`, d: `${head}z` });
}

// The size of an element in pixels becomes its own coordinates, so that letters have one size on every screen.
function fit(svg) {
  const { width, height } = svg.getBoundingClientRect();
  const size = [Math.max(width, 120), Math.max(height, 60)];
  svg.setAttribute("viewBox", `0 0 ${size[0]} ${size[1]}`);
  return size;
}
