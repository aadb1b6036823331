// All items in the plane: moves smoothly to where they are now, can be zoomed and panned, and tells what is pointed at.

import { Camera } from "./camera.js";
import { lessMotion } from "./dom.js";
import { watchHands } from "./hands.js";
import { drawCross, drawMarks } from "./marks.js";
import { boxOf, evened } from "./plane.js";
import { Raster, packed } from "./raster.js";

const TRAVEL = 600;
const REACH = 22;
const eased = (t) => (t < 0.5 ? 4 * t ** 3 : 1 - (2 - 2 * t) ** 3 / 2);

export class ItemMap {
  #raster;
  #marks;
  #camera = new Camera();
  #from = new Float32Array(0);
  #to = new Float32Array(0);
  #shown = new Float32Array(0);
  #places = new Float32Array(0);
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
  #dense = 0;
  #due = false;
  // Whether points are drawn, too, with the next frame; what is pointed at is on a canvas of its own.
  #stale = true;

  /** take: {pointed(position or null, x, y), opened(position or null)}. */
  constructor(pointsCanvas, marksCanvas, take) {
    this.#raster = new Raster(pointsCanvas);
    this.#marks = marksCanvas.getContext("2d");
    this.take = take;
    watchHands(marksCanvas, this);
    new ResizeObserver(() => this.#resize()).observe(marksCanvas);
    this.#resize();
  }

  /** New places of all items, as x0, y0, x1, y1, ...; whether anything moved. */
  move(xy) {
    const to = evened(xy);
    const same = to.length === this.#to.length && to.every((value, i) => value === this.#to[i]);
    if (same) return false;
    // What is new appears where it belongs; what was there sets out from where it is drawn now.
    const from = to.slice();
    from.set(this.#shown.subarray(0, Math.min(this.#shown.length, to.length)));
    const first = this.#shown.length === 0;
    this.#boxes = [first ? boxOf(to) : this.#boxNow(), boxOf(to)];
    [this.#from, this.#to, this.#shown, this.#places] = [from, to, from.slice(), new Float32Array(to.length)];
    this.#began = first || lessMotion() ? -Infinity : performance.now();
    this.#redraw();
    return true;
  }

  /** Packed colours of all items, the order in which they are drawn (the last lies on top), and the theme's colours. */
  paint({ colours, order, palette }) {
    [this.#colours, this.#order, this.#palette] = [colours, order, palette];
    this.#redraw();
  }

  /** The positions of the two that are asked about. */
  set pair(positions) {
    this.#pair = positions;
    this.#draw();
  }

  set pointed(position) {
    this.#pointed = position;
    this.#draw();
  }

  /** An item and its neighbours: [{position, similar}]; null and none: nothing is open. */
  open(position, neighbors) {
    [this.#opened, this.#neighbors] = [position, neighbors];
    this.#draw();
  }

  // What hands do (hands.js).

  pan(dx, dy) {
    this.#camera.pan(dx, dy);
    this.#redraw();
  }

  zoomAt(factor, x = this.#camera.width / 2, y = this.#camera.height / 2) {
    this.#camera.zoomAt(factor, x, y);
    this.#redraw();
  }

  all() {
    this.#camera.all();
    this.#redraw();
  }

  pointAt(x, y) {
    this.#byKeyboard = false;
    this.#tell(this.#nearest(x, y, REACH));
  }

  pointAway() {
    this.#byKeyboard = false;
    this.#tell(null);
  }

  openAt(x, y) {
    this.take.opened(this.#nearest(x, y, REACH));
  }

  /** By keyboard the item in the middle is the one that is pointed at. */
  pointAtMiddle() {
    this.#byKeyboard = true;
    this.#tell(this.#nearest(this.#camera.width / 2, this.#camera.height / 2, Infinity));
  }

  openMiddle() {
    this.pointAtMiddle();
    this.take.opened(this.#pointed);
  }

  close() {
    this.take.opened(null);
  }

  #tell(position) {
    this.#pointed = position;
    const [x, y] = position === null ? [0, 0] : this.#placeOf(position);
    this.take.pointed(position, x, y);
    this.#draw();
  }

  #nearest(x, y, within) {
    const { scale, left, top } = this.#camera;
    const shown = this.#shown;
    let [best, found] = [within * within, null];
    for (let i = 0; 2 * i < shown.length; i++) {
      const dx = shown[2 * i] * scale + left - x;
      const dy = top - shown[2 * i + 1] * scale - y;
      const far = dx * dx + dy * dy;
      if (far < best) [best, found] = [far, i];
    }
    return found;
  }

  #placeOf(position) {
    const { scale, left, top } = this.#camera;
    return [this.#shown[2 * position] * scale + left, top - this.#shown[2 * position + 1] * scale];
  }

  #resize() {
    const { clientWidth, clientHeight } = this.#marks.canvas;
    if (!clientWidth || !clientHeight) return;
    const dense = Math.min(devicePixelRatio, 2);
    [this.#camera.width, this.#camera.height] = [clientWidth, clientHeight];
    this.#raster.resize(Math.round(clientWidth * dense), Math.round(clientHeight * dense));
    this.#marks.canvas.width = Math.round(clientWidth * dense);
    this.#marks.canvas.height = Math.round(clientHeight * dense);
    this.#dense = dense;
    this.#stale = true;
    this.#frame();
  }

  #redraw() {
    this.#stale = true;
    this.#draw();
  }

  /** Draws with the next frame. */
  #draw() {
    if (this.#due) return;
    this.#due = true;
    requestAnimationFrame(() => {
      this.#due = false;
      this.#frame();
    });
  }

  #progress() {
    return Math.min((performance.now() - this.#began) / TRAVEL, 1);
  }

  #boxNow() {
    const share = eased(this.#progress());
    const [from, to] = this.#boxes;
    return Object.fromEntries(Object.keys(to).map((key) => [key, from[key] + (to[key] - from[key]) * share]));
  }

  #frame() {
    if (!this.#to.length || !this.#dense || this.#order.length * 2 !== this.#to.length) return;
    const progress = this.#progress();
    if (this.#stale) this.#drawPoints(eased(progress));
    this.#stale = progress < 1;
    this.#drawMarks();
    if (!this.#stale) return;
    this.#draw();
    if (this.#byKeyboard) this.pointAtMiddle();
  }

  #drawPoints(share) {
    const [from, to, shown, places] = [this.#from, this.#to, this.#shown, this.#places];
    for (let i = 0; i < to.length; i++) shown[i] = from[i] + (to[i] - from[i]) * share;
    this.#camera.box = this.#boxNow();
    const scale = this.#camera.scale * this.#dense;
    const left = this.#camera.left * this.#dense;
    const top = this.#camera.top * this.#dense;
    for (let i = 0; i < to.length; i += 2) {
      places[i] = shown[i] * scale + left;
      places[i + 1] = top - shown[i + 1] * scale;
    }
    this.#raster.draw(places, this.#colours, this.#order, this.#radius() * this.#dense, packed(this.#palette.ground));
  }

  /** Smaller where there are more of them, so that they do not become one stain; larger when looked at closely. */
  #radius() {
    const crowd = Math.sqrt((this.#camera.width * this.#camera.height) / (this.#to.length / 2 || 1));
    const closer = Math.min(Math.sqrt(this.#camera.closeness), 2.2);
    return Math.round(4 * Math.min(Math.max(crowd / 5, 1.5), 4.5) * closer) / 4;
  }

  #drawMarks() {
    const marks = { pair: this.#pair, pointed: this.#pointed, opened: this.#opened, neighbors: this.#neighbors };
    this.#marks.setTransform(this.#dense, 0, 0, this.#dense, 0, 0);
    this.#marks.clearRect(0, 0, this.#camera.width, this.#camera.height);
    drawMarks(this.#marks, marks, (position) => this.#placeOf(position), this.#radius(), this.#palette);
    if (this.#byKeyboard) drawCross(this.#marks, this.#camera.width / 2, this.#camera.height / 2, this.#palette);
  }
}
