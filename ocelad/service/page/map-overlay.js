// Marks over the points: the current pair, the item under the pointer, and neighbours.

import { css } from "./dom.js";

/** pixelOf(position): pixel coordinates of an item; radius: radius of the points. */
export function drawMarks(context, { pair, pointed, opened, neighbors }, pixelOf, radius, palette) {
  const ring = (position, size, colour, width) =>
    drawRing(context, pixelOf(position), size, css(colour), width, palette);
  if (opened !== null) {
    for (const { position, similar } of neighbors) {
      const colour = similar ? palette.same : palette.different;
      drawLine(context, pixelOf(opened), pixelOf(position), css(colour, 0.75), similar);
      ring(position, radius + 2, colour, 1.5);
    }
    ring(opened, radius + 4, palette.ink, 2.5);
  }
  if (pointed !== null) ring(pointed, radius + 3, palette.ink, 2);
  pair.forEach((position, i) => drawPin(context, pixelOf(position), "AB"[i], palette));
}

/** Draws a ring with an outline in the background colour for contrast. */
function drawRing(context, [x, y], radius, colour, width, { ground }) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.lineWidth = width + 2;
  context.strokeStyle = css(ground);
  context.stroke();
  context.lineWidth = width;
  context.strokeStyle = colour;
  context.stroke();
}

function drawLine(context, from, to, colour, solid) {
  context.beginPath();
  context.moveTo(...from);
  context.lineTo(...to);
  context.lineWidth = 1.25;
  context.strokeStyle = colour;
  context.setLineDash(solid ? [] : [4, 4]);
  context.stroke();
  context.setLineDash([]);
}

/** Draws a pin with a letter, whose tip is on the point. */
function drawPin(context, [x, y], letter, { ink, ground }) {
  const [radius, up] = [10, 20];
  context.beginPath();
  context.arc(x, y - up, radius, 0.8 * Math.PI, 0.2 * Math.PI);
  context.lineTo(x, y - 2);
  context.closePath();
  context.fillStyle = css(ink);
  context.strokeStyle = css(ground);
  context.lineWidth = 2;
  context.stroke();
  context.fill();
  context.fillStyle = css(ground);
  context.font = "600 12px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(letter, x, y - up + 0.5);
}

/** Draws a cross in the centre, where the keyboard points. */
export function drawCross(context, x, y, { ink }) {
  context.beginPath();
  for (const [dx, dy] of [
    [1, 0],
    [-1, 0],
    [0, 1],
    [0, -1],
  ]) {
    context.moveTo(x + 8 * dx, y + 8 * dy);
    context.lineTo(x + 18 * dx, y + 18 * dy);
  }
  context.lineWidth = 1.5;
  context.strokeStyle = css(ink, 0.5);
  context.stroke();
}
