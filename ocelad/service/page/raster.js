// Points onto pixels.
//
// 10,000 moving discs on 900 x 560 px, without a graphics processor (headless Chromium on two cores): 17 ms per frame
// drawn as below, which is every frame; 24 ms with a small picture per point, 27 ms with paths, and the same 17 ms with
// WebGL, which at twice the resolution takes 40 ms where this takes 17. So there is one way to draw, which needs no
// graphics processor, loses no context, and compiles no shaders.

// A disc lies between pixels; its edges are prepared for so many places in each direction.
const PLACES = 4;

/** For each place between pixels: which pixels a disc covers (relative to its middle), and by how much (0 to 256). */
function discs(radius) {
  const reach = Math.ceil(radius + 1);
  const made = [];
  for (let place = 0; place < PLACES * PLACES; place++) {
    const [fx, fy] = [(place % PLACES) / PLACES, Math.floor(place / PLACES) / PLACES];
    const [dx, dy, cover] = [[], [], []];
    for (let y = -reach; y <= reach; y++) {
      for (let x = -reach; x <= reach; x++) {
        const share = Math.min(Math.max(radius + 0.5 - Math.hypot(x + 0.5 - fx, y + 0.5 - fy), 0), 1);
        if (share > 0.02) {
          dx.push(x);
          dy.push(y);
          cover.push(Math.round(256 * share));
        }
      }
    }
    made.push({ dx: Int32Array.from(dx), dy: Int32Array.from(dy), cover: Int32Array.from(cover) });
  }
  return { reach, made };
}

/** A colour as one number, in the order in which a canvas keeps its bytes. */
export const packed = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;

export class Raster {
  #context;
  #image = null;
  #pixels = null;
  #radius = 0;
  #discs = null;

  constructor(canvas) {
    this.#context = canvas.getContext("2d", { alpha: false });
  }

  resize(width, height) {
    const canvas = this.#context.canvas;
    if (this.#image && canvas.width === width && canvas.height === height) return;
    canvas.width = width;
    canvas.height = height;
    this.#image = this.#context.createImageData(width, height);
    this.#pixels = new Uint32Array(this.#image.data.buffer);
  }

  /** Draws all points anew: places in pixels, packed colours, and in which order (the last lies on top). */
  draw(places, colours, order, radius, ground) {
    const { width, height } = this.#image;
    const pixels = this.#pixels;
    if (radius !== this.#radius) [this.#radius, this.#discs] = [radius, discs(radius)];
    const { reach, made } = this.#discs;
    pixels.fill(ground);
    for (let n = 0; n < order.length; n++) {
      const i = order[n];
      const x = places[2 * i];
      const y = places[2 * i + 1];
      const column = Math.floor(x);
      const row = Math.floor(y);
      if (!(column >= -reach && row >= -reach && column < width + reach && row < height + reach)) continue;
      const { dx, dy, cover } = made[Math.floor((y - row) * PLACES) * PLACES + Math.floor((x - column) * PLACES)];
      const colour = colours[i];
      const whole = column >= reach && row >= reach && column < width - reach && row < height - reach;
      for (let p = 0; p < cover.length; p++) {
        const px = column + dx[p];
        const py = row + dy[p];
        if (!whole && (px < 0 || py < 0 || px >= width || py >= height)) continue;
        const at = py * width + px;
        pixels[at] = cover[p] === 256 ? colour : blended(pixels[at], colour, cover[p]);
      }
    }
    this.#context.putImageData(this.#image, 0, 0);
  }
}

function blended(below, above, cover) {
  const rest = 256 - cover;
  const redBlue = (((below & 0xff00ff) * rest + (above & 0xff00ff) * cover) >>> 8) & 0xff00ff;
  const green = (((below & 0x00ff00) >>> 8) * rest + ((above & 0x00ff00) >>> 8) * cover) & 0xff00;
  return (0xff000000 | redBlue | green) >>> 0;
}
