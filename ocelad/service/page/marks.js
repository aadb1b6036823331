// What is drawn over the points: the two that are asked about, the one that is pointed at, and neighbours.

import { css } from "./dom.js";

/** placeOf(position): where an item is on the canvas; radius: of the points. */
export function drawMarks(pen, { pair, pointed, opened, neighbors }, placeOf, radius, palette) {
  const ring = (position, size, colour, width) => drawRing(pen, placeOf(position), size, css(colour), width, palette);
  if (opened !== null) {
    for (const { position, similar } of neighbors) {
      const colour = similar ? palette.same : palette.different;
      drawLine(pen, placeOf(opened), placeOf(position), css(colour, 0.75), similar);
      ring(position, radius + 2, colour, 1.5);
    }
    ring(opened, radius + 4, palette.ink, 2.5);
  }
  if (pointed !== null) ring(pointed, radius + 3, palette.ink, 2);
  pair.forEach((position, i) => drawPin(pen, placeOf(position), "AB"[i], palette));
}

/** A ring with a rim in the colour of the ground, so that it stands out from a crowd. */
function drawRing(pen, [x, y], radius, colour, width, { ground }) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.lineWidth = width + 2;
  pen.strokeStyle = css(ground);
  pen.stroke();
  pen.lineWidth = width;
  pen.strokeStyle = colour;
  pen.stroke();
}

function drawLine(pen, from, to, colour, whole) {
  pen.beginPath();
  pen.moveTo(...from);
  pen.lineTo(...to);
  pen.lineWidth = 1.25;
  pen.strokeStyle = colour;
  pen.setLineDash(whole ? [] : [4, 4]);
  pen.stroke();
  pen.setLineDash([]);
}

/** A letter in a pin, whose foot is on the point. */
function drawPin(pen, [x, y], letter, { ink, ground }) {
  const [radius, up] = [10, 20];
  pen.beginPath();
  pen.arc(x, y - up, radius, 0.8 * Math.PI, 0.2 * Math.PI);
  pen.lineTo(x, y - 2);
  pen.closePath();
  pen.fillStyle = css(ink);
  pen.strokeStyle = css(ground);
  pen.lineWidth = 2;
  pen.stroke();
  pen.fill();
  pen.fillStyle = css(ground);
  pen.font = "600 12px system-ui, sans-serif";
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillText(letter, x, y - up + 0.5);
}

/** Where the keyboard points: the middle. */
export function drawCross(pen, x, y, { ink }) {
  pen.beginPath();
  for (const [dx, dy] of [
    [1, 0],
    [-1, 0],
    [0, 1],
    [0, -1],
  ]) {
    pen.moveTo(x + 8 * dx, y + 8 * dy);
    pen.lineTo(x + 18 * dx, y + 18 * dy);
  }
  pen.lineWidth = 1.5;
  pen.strokeStyle = css(ink, 0.5);
  pen.stroke();
}
