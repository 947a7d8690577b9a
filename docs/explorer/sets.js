"use strict";
// The four sets: their projections, operation by operation those of klazy.sets, and how each is laid into the picture's plane.
//
// The l1 ball, the l2 ball and the box are sets of the plane. The simplex is that of three shares, a triangle in R^3: its
// learners run in R^3, and the picture shows the plane of the triangle. Gradients are given in the picture's plane and lifted;
// then every unconstrained point lies in that plane too and nothing is hidden. A gradient's other part, along (1, 1, 1), would
// add the same cost to every point and change no projection.

const plus = (a, b) => a.map((value, i) => value + b[i]);
const minus = (a, b) => a.map((value, i) => value - b[i]);
const times = (s, a) => a.map((value) => s * value);
const over = (a, s) => a.map((value) => value / s);
const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
const norm = (a) => Math.sqrt(dot(a, a));
const unit = (a) => over(a, norm(a));

// Newton's method of klazy.sets.threshold: from the left of the root the positive terms only get fewer.
function simplexPart(v, total) {
  const top = Math.max(...v);
  v = v.map((value) => value - top);
  let theta = -total;
  let count = Infinity;
  for (;;) {
    const excess = v.map((value) => Math.max(value - theta, 0));
    const active = excess.filter((value) => value !== 0).length;
    theta += (excess.reduce((sum, value) => sum + value, 0) - total) / active;
    if (active >= count) return v.map((value) => Math.max(value - theta, 0));
    count = Math.min(active, count);
  }
}

function projectL1(y) {
  const size = y.map(Math.abs);
  if (!(size[0] + size[1] > 1)) return y.slice();
  return simplexPart(size, 1).map((value, i) => (y[i] < 0 ? -value : value));
}

const projectL2 = (y) => times(1 / Math.max(norm(y), 1), y);
const projectBox = (y) => y.map((value) => Math.min(Math.max(value, -1), 1));

// Orthonormal axes of the triangle's plane: the first share lies at the lower left, the second at the right, the third on top.
const ACROSS = [-1 / Math.sqrt(2), 1 / Math.sqrt(2), 0];
const UPWARD = [-1 / Math.sqrt(6), -1 / Math.sqrt(6), 2 / Math.sqrt(6)];
const MIDDLE = [1 / 3, 1 / 3, 1 / 3];

const same = (point) => point;
const liftToShares = (g) => ACROSS.map((across, i) => g[0] * across + g[1] * UPWARD[i]);
const sharesInPlane = (x) => [dot(minus(x, MIDDLE), ACROSS), dot(minus(x, MIDDLE), UPWARD)];

// Corners go around counter-clockwise; the disc has none.
const SETS = {
  l1: { title: "l1 ball", dim: 2, project: projectL1, lift: same, inPlane: same, corners: [[1, 0], [0, 1], [-1, 0], [0, -1]] },
  l2: { title: "l2 ball", dim: 2, project: projectL2, lift: same, inPlane: same, corners: [] },
  box: { title: "box", dim: 2, project: projectBox, lift: same, inPlane: same, corners: [[1, 1], [-1, 1], [-1, -1], [1, -1]] },
  simplex: {
    title: "simplex of three shares",
    dim: 3,
    project: (y) => simplexPart(y, 1),
    lift: liftToShares,
    inPlane: sharesInPlane,
    corners: [[1, 0, 0], [0, 1, 0], [0, 0, 1]].map(sharesInPlane),
  },
};

// x_1 is the point nearest to the origin, as in klazy.
const startOf = (set) => set.project(Array(set.dim).fill(0));

const ON_FACE = 1e-9; // a projection lands on a face up to rounding, 1e-16; a point this near counts as on it

// The two edges of the normal cone at a point of the picture, clockwise edge first: twice the same where the cone is a ray,
// none where the point lies inside.
function normalCone(set, x) {
  if (set.corners.length === 0) return norm(x) >= 1 - ON_FACE ? [unit(x), unit(x)] : [];
  const normals = set.corners.map((corner, i) => {
    const along = minus(set.corners[(i + 1) % set.corners.length], corner);
    return unit([along[1], -along[0]]);
  });
  const touched = set.corners.map((corner, i) => dot(minus(x, corner), normals[i]) >= -ON_FACE);
  const first = touched.findIndex((yes, i) => yes && !touched[(i + touched.length - 1) % touched.length]);
  if (first < 0) return [];
  const next = (first + 1) % touched.length;
  return [normals[first], normals[touched[next] ? next : first]];
}
