// The visible part of the map: its centre and zoom.

const MAX_ZOOM = 60;
const MARGIN = 0.92;

export class Camera {
  #centre = [0, 0];
  #zoom = 1;
  #box = { x: 0, y: 0, halfWidth: 1, halfHeight: 1 };
  width = 1;
  height = 1;

  /** The bounding box of all points, which is visible at zoom 1. */
  set box(box) {
    this.#box = box;
  }

  /** Pixels per unit of the map. */
  get scale() {
    const { halfWidth, halfHeight } = this.#box;
    return this.#zoom * MARGIN * Math.min(this.width / (2 * halfWidth), this.height / (2 * halfHeight));
  }

  /** 1 if all points are visible. */
  get zoom() {
    return this.#zoom;
  }

  /** The x coordinate in pixels is x * scale + left; y points upwards on the map and downwards on the page. */
  get left() {
    return this.width / 2 - (this.#box.x + this.#centre[0]) * this.scale;
  }

  get top() {
    return this.height / 2 + (this.#box.y + this.#centre[1]) * this.scale;
  }

  pan(dx, dy) {
    const { halfWidth, halfHeight } = this.#box;
    const clamp = (value, limit) => Math.min(Math.max(value, -limit), limit);
    this.#centre = [
      clamp(this.#centre[0] - dx / this.scale, halfWidth),
      clamp(this.#centre[1] + dy / this.scale, halfHeight),
    ];
  }

  /** Zooms by a factor; the point at (x, y) in pixels stays in place. */
  zoomAt(factor, x, y) {
    const before = this.scale;
    this.#zoom = Math.min(Math.max(this.#zoom * factor, 1), MAX_ZOOM);
    if (this.#zoom === 1) {
      this.#centre = [0, 0];
      return;
    }
    const grown = this.scale / before - 1;
    this.pan((this.width / 2 - x) * grown, (this.height / 2 - y) * grown);
  }

  showAll() {
    this.#centre = [0, 0];
    this.#zoom = 1;
  }
}
