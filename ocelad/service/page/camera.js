// Where the map is looked at: which point of the plane is in the middle, and how close.

const CLOSEST = 60;
const MARGIN = 0.92;

export class Camera {
  #middle = [0, 0];
  #zoom = 1;
  #box = { x: 0, y: 0, halfWidth: 1, halfHeight: 1 };
  width = 1;
  height = 1;

  /** The box that is in view when nobody has zoomed: around all points. */
  set box(box) {
    this.#box = box;
  }

  /** Pixels per unit of the plane. */
  get scale() {
    const { halfWidth, halfHeight } = this.#box;
    return this.#zoom * MARGIN * Math.min(this.width / (2 * halfWidth), this.height / (2 * halfHeight));
  }

  /** 1 when all is in view, more when closer. */
  get closeness() {
    return this.#zoom;
  }

  /** x of a place in pixels is x * scale + left; y grows upwards in the plane and downwards on the page. */
  get left() {
    return this.width / 2 - (this.#box.x + this.#middle[0]) * this.scale;
  }

  get top() {
    return this.height / 2 + (this.#box.y + this.#middle[1]) * this.scale;
  }

  pan(dx, dy) {
    const { halfWidth, halfHeight } = this.#box;
    const within = (value, most) => Math.min(Math.max(value, -most), most);
    this.#middle = [
      within(this.#middle[0] - dx / this.scale, halfWidth),
      within(this.#middle[1] + dy / this.scale, halfHeight),
    ];
  }

  /** Closer by a factor; the place at (x, y) in pixels stays where it is. */
  zoomAt(factor, x, y) {
    const before = this.scale;
    this.#zoom = Math.min(Math.max(this.#zoom * factor, 1), CLOSEST);
    if (this.#zoom === 1) {
      this.#middle = [0, 0];
      return;
    }
    const grown = this.scale / before - 1;
    this.pan((this.width / 2 - x) * grown, (this.height / 2 - y) * grown);
  }

  all() {
    this.#middle = [0, 0];
    this.#zoom = 1;
  }
}
