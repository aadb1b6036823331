// Coordinates on the map.

/** Centres coordinates and scales them to a mean square distance of 1, so that a change of size is not a movement. */
export function normalize(xy) {
  const n = xy.length / 2;
  let [x, y, squares] = [0, 0, 0];
  for (let i = 0; i < xy.length; i += 2) {
    x += xy[i] / n;
    y += xy[i + 1] / n;
  }
  for (let i = 0; i < xy.length; i += 2) squares += ((xy[i] - x) ** 2 + (xy[i + 1] - y) ** 2) / n;
  const size = Math.sqrt(squares) || 1;
  return xy.map((value, i) => (value - (i % 2 ? y : x)) / size);
}

/** Returns the bounding box as its centre and half sizes. */
export function boundingBox(xy) {
  let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let i = 0; i < xy.length; i += 2) {
    x0 = Math.min(x0, xy[i]);
    x1 = Math.max(x1, xy[i]);
    y0 = Math.min(y0, xy[i + 1]);
    y1 = Math.max(y1, xy[i + 1]);
  }
  const half = (low, high) => Math.max((high - low) / 2, 0.1);
  return { x: (x0 + x1) / 2, y: (y0 + y1) / 2, halfWidth: half(x0, x1), halfHeight: half(y0, y1) };
}
