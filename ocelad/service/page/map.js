// The map of all items: animates to new coordinates, zooms, pans, and reports the item under the pointer.

import { Camera } from "./camera.js";
import { prefersReducedMotion } from "./dom.js";
import { handleMapInput } from "./map-input.js";
import { drawCross, drawMarks } from "./map-overlay.js";
import { boundingBox, normalize } from "./coordinates.js";
import { Raster, packColour } from "./raster.js";

// The duration of the animation in milliseconds, and the reach of the pointer in pixels.
const DURATION = 600;
const REACH = 22;
const ease = (t) => (t < 0.5 ? 4 * t ** 3 : 1 - (2 - 2 * t) ** 3 / 2);

export class ItemMap {
  #raster;
  #marks;
  #camera = new Camera();
  #from = new Float32Array(0);
  #to = new Float32Array(0);
  #shown = new Float32Array(0);
  #pixels = new Float32Array(0);
  #boxes = [null, null];
  #began = 0;
  #colours = new Uint32Array(0);
  #order = new Uint32Array(0);
  #palette = null;
  #pair = [];
  #pointed = null;
  #opened = null;
  #neighbors = [];
  #byKeyboard = false;
  #pixelRatio = 0;
  #due = false;
  // Whether the next frame also redraws the points; the overlay has its own canvas.
  #stale = true;

  /** handlers: {pointed(position or null, x, y), opened(position or null)}. */
  constructor(pointsCanvas, overlayCanvas, handlers) {
    this.#raster = new Raster(pointsCanvas);
    this.#marks = overlayCanvas.getContext("2d");
    this.handlers = handlers;
    handleMapInput(overlayCanvas, this);
    new ResizeObserver(() => this.#resize()).observe(overlayCanvas);
    this.#resize();
  }

  /** Sets the coordinates of all items, as x0, y0, x1, y1, ...; returns whether any has changed. */
  move(xy) {
    const to = normalize(xy);
    const same = to.length === this.#to.length && to.every((value, i) => value === this.#to[i]);
    if (same) return false;
    // New items appear at their coordinates; the others start from where they are drawn now.
    const from = to.slice();
    from.set(this.#shown.subarray(0, Math.min(this.#shown.length, to.length)));
    const first = this.#shown.length === 0;
    this.#boxes = [first ? boundingBox(to) : this.#boxNow(), boundingBox(to)];
    [this.#from, this.#to, this.#shown, this.#pixels] = [from, to, from.slice(), new Float32Array(to.length)];
    this.#began = first || prefersReducedMotion() ? -Infinity : performance.now();
    this.#requestRedraw();
    return true;
  }

  /** Sets the packed colours of all items, their drawing order (the last is on top), and the theme's colours. */
  paint({ colours, order, palette }) {
    [this.#colours, this.#order, this.#palette] = [colours, order, palette];
    this.#requestRedraw();
  }

  /** The positions of the current pair. */
  set pair(positions) {
    this.#pair = positions;
    this.#requestFrame();
  }

  set pointed(position) {
    this.#pointed = position;
    this.#requestFrame();
  }

  /** Sets the selected item (or null) and its neighbours: [{position, similar}]. */
  open(position, neighbors) {
    [this.#opened, this.#neighbors] = [position, neighbors];
    this.#requestFrame();
  }

  // Called by map-input.js.

  pan(dx, dy) {
    this.#camera.pan(dx, dy);
    this.#requestRedraw();
  }

  zoomAt(factor, x = this.#camera.width / 2, y = this.#camera.height / 2) {
    this.#camera.zoomAt(factor, x, y);
    this.#requestRedraw();
  }

  showAll() {
    this.#camera.showAll();
    this.#requestRedraw();
  }

  pointAt(x, y) {
    this.#byKeyboard = false;
    this.#setPointed(this.#nearest(x, y, REACH));
  }

  pointAway() {
    this.#byKeyboard = false;
    this.#setPointed(null);
  }

  openAt(x, y) {
    this.handlers.opened(this.#nearest(x, y, REACH));
  }

  /** With the keyboard, the item in the centre counts as the item under the pointer. */
  pointAtCentre() {
    this.#byKeyboard = true;
    this.#setPointed(this.#nearest(this.#camera.width / 2, this.#camera.height / 2, Infinity));
  }

  openCentre() {
    this.pointAtCentre();
    this.handlers.opened(this.#pointed);
  }

  close() {
    this.handlers.opened(null);
  }

  #setPointed(position) {
    this.#pointed = position;
    const [x, y] = position === null ? [0, 0] : this.#pixelOf(position);
    this.handlers.pointed(position, x, y);
    this.#requestFrame();
  }

  #nearest(x, y, within) {
    const { scale, left, top } = this.#camera;
    const shown = this.#shown;
    let [best, found] = [within * within, null];
    for (let i = 0; 2 * i < shown.length; i++) {
      const dx = shown[2 * i] * scale + left - x;
      const dy = top - shown[2 * i + 1] * scale - y;
      const square = dx * dx + dy * dy;
      if (square < best) [best, found] = [square, i];
    }
    return found;
  }

  #pixelOf(position) {
    const { scale, left, top } = this.#camera;
    return [this.#shown[2 * position] * scale + left, top - this.#shown[2 * position + 1] * scale];
  }

  #resize() {
    const { clientWidth, clientHeight } = this.#marks.canvas;
    if (!clientWidth || !clientHeight) return;
    const pixelRatio = Math.min(devicePixelRatio, 2);
    [this.#camera.width, this.#camera.height] = [clientWidth, clientHeight];
    this.#raster.resize(Math.round(clientWidth * pixelRatio), Math.round(clientHeight * pixelRatio));
    this.#marks.canvas.width = Math.round(clientWidth * pixelRatio);
    this.#marks.canvas.height = Math.round(clientHeight * pixelRatio);
    this.#pixelRatio = pixelRatio;
    this.#stale = true;
    this.#frame();
  }

  #requestRedraw() {
    this.#stale = true;
    this.#requestFrame();
  }

  /** Requests a frame. */
  #requestFrame() {
    if (this.#due) return;
    this.#due = true;
    requestAnimationFrame(() => {
      this.#due = false;
      this.#frame();
    });
  }

  #progress() {
    return Math.min((performance.now() - this.#began) / DURATION, 1);
  }

  #boxNow() {
    const share = ease(this.#progress());
    const [from, to] = this.#boxes;
    return Object.fromEntries(Object.keys(to).map((key) => [key, from[key] + (to[key] - from[key]) * share]));
  }

  #frame() {
    if (!this.#to.length || !this.#pixelRatio || this.#order.length * 2 !== this.#to.length) return;
    const progress = this.#progress();
    if (this.#stale) this.#drawPoints(ease(progress));
    this.#stale = progress < 1;
    this.#drawMarks();
    if (!this.#stale) return;
    this.#requestFrame();
    if (this.#byKeyboard) this.pointAtCentre();
  }

  #drawPoints(share) {
    const [from, to, shown, pixels] = [this.#from, this.#to, this.#shown, this.#pixels];
    for (let i = 0; i < to.length; i++) shown[i] = from[i] + (to[i] - from[i]) * share;
    this.#camera.box = this.#boxNow();
    const scale = this.#camera.scale * this.#pixelRatio;
    const left = this.#camera.left * this.#pixelRatio;
    const top = this.#camera.top * this.#pixelRatio;
    for (let i = 0; i < to.length; i += 2) {
      pixels[i] = shown[i] * scale + left;
      pixels[i + 1] = top - shown[i + 1] * scale;
    }
    const radius = this.#radius() * this.#pixelRatio;
    this.#raster.draw(pixels, this.#colours, this.#order, radius, packColour(this.#palette.ground));
  }

  /** Returns the radius of the points: smaller if there are many, larger if zoomed in. */
  #radius() {
    const spacing = Math.sqrt((this.#camera.width * this.#camera.height) / (this.#to.length / 2 || 1));
    const magnification = Math.min(Math.sqrt(this.#camera.zoom), 2.2);
    return Math.round(4 * Math.min(Math.max(spacing / 5, 1.5), 4.5) * magnification) / 4;
  }

  #drawMarks() {
    const marks = { pair: this.#pair, pointed: this.#pointed, opened: this.#opened, neighbors: this.#neighbors };
    this.#marks.setTransform(this.#pixelRatio, 0, 0, this.#pixelRatio, 0, 0);
    this.#marks.clearRect(0, 0, this.#camera.width, this.#camera.height);
    drawMarks(this.#marks, marks, (position) => this.#pixelOf(position), this.#radius(), this.#palette);
    if (this.#byKeyboard) drawCross(this.#marks, this.#camera.width / 2, this.#camera.height / 2, this.#palette);
  }
}
