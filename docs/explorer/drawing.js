"use strict";
// Gradients drawn by hand: with a pointer in the picture, or typed. Each lasts as many rounds as the form says.

function addStroke(first, second) {
  change((state) => {
    state.drawn.push(stroke(first, second, byId("lasts").value));
    state.t = roundsOf(state);
  });
}

function tryStroke(first, second) {
  try {
    addStroke(first, second);
    refused(byId("lasts"), byId("drawing-problem"), "");
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    refused(byId(["g1", "g2"].includes(error.about) ? error.about : "lasts"), byId("drawing-problem"), error.message);
  }
}

function setUpDrawing() {
  const svg = byId("plane");
  const at = (event) => {
    const { left, top } = svg.getBoundingClientRect();
    return page.view.toPlane([event.clientX - left, event.clientY - top]);
  };
  const follow = (stroke) => {
    page.stroke = stroke;
    showRound();
  };
  svg.addEventListener("pointerdown", (event) => {
    if (page.state.seq !== "draw" || event.button !== 0) return;
    svg.setPointerCapture(event.pointerId);
    pause();
    follow(at(event));
  });
  svg.addEventListener("pointermove", (event) => page.stroke && follow(at(event)));
  svg.addEventListener("pointercancel", () => follow(null));
  svg.addEventListener("pointerup", (event) => {
    if (!page.stroke) return;
    follow(null);
    tryStroke(...at(event));
  });
  byId("drawing").addEventListener("submit", (event) => {
    event.preventDefault();
    tryStroke(byId("g1").value, byId("g2").value);
  });
  const less = (edit) => {
    change(edit);
    refused(null, byId("drawing-problem"), ""); // it may have been too much
  };
  byId("undo").addEventListener("click", () => less((state) => state.drawn.pop()));
  byId("clear").addEventListener("click", () => less((state) => (state.drawn = [])));
}

function showDrawing({ seq, drawn }) {
  byId("drawing").hidden = seq !== "draw";
  byId("plane").classList.toggle("drawable", seq === "draw");
  byId("strokes").textContent = drawn.length === 1 ? "1 gradient" : `${drawn.length} gradients`;
  byId("undo").disabled = byId("clear").disabled = drawn.length === 0;
}
