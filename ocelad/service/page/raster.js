// A software renderer for points.
//
// Time per frame for 10,000 moving discs on 900 x 560 pixels without a GPU (headless Chromium on two cores): 17 ms with
// this renderer, 24 ms with one small image per point, 27 ms with paths, and 17 ms with WebGL. At twice the resolution
// WebGL takes 40 ms and this renderer 17 ms. It needs no GPU, has no context to lose, and compiles no shaders.

// The number of precomputed subpixel offsets of a disc in each direction.
const N_OFFSETS = 4;

/** For each subpixel offset: the pixels that a disc covers, relative to its centre, and their coverage (0 to 256). */
function discs(radius) {
  const reach = Math.ceil(radius + 1);
  const masks = [];
  for (let offset = 0; offset < N_OFFSETS * N_OFFSETS; offset++) {
    const [fx, fy] = [(offset % N_OFFSETS) / N_OFFSETS, Math.floor(offset / N_OFFSETS) / N_OFFSETS];
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
    masks.push({ dx: Int32Array.from(dx), dy: Int32Array.from(dy), cover: Int32Array.from(cover) });
  }
  return { reach, masks };
}

/** Returns a colour as one number in the byte order of a canvas. */
export const packColour = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;

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

  /** Draws all points: pixel coordinates, packed colours, and the drawing order (the last is on top). */
  draw(coordinates, colours, order, radius, background) {
    const { width, height } = this.#image;
    const pixels = this.#pixels;
    if (radius !== this.#radius) [this.#radius, this.#discs] = [radius, discs(radius)];
    const { reach, masks } = this.#discs;
    pixels.fill(background);
    for (let n = 0; n < order.length; n++) {
      const i = order[n];
      const x = coordinates[2 * i];
      const y = coordinates[2 * i + 1];
      const column = Math.floor(x);
      const row = Math.floor(y);
      if (!(column >= -reach && row >= -reach && column < width + reach && row < height + reach)) continue;
      const down = Math.floor((y - row) * N_OFFSETS);
      const right = Math.floor((x - column) * N_OFFSETS);
      const { dx, dy, cover } = masks[down * N_OFFSETS + right];
      const colour = colours[i];
      const inside = column >= reach && row >= reach && column < width - reach && row < height - reach;
      for (let p = 0; p < cover.length; p++) {
        const px = column + dx[p];
        const py = row + dy[p];
        if (!inside && (px < 0 || py < 0 || px >= width || py >= height)) continue;
        const at = py * width + px;
        pixels[at] = cover[p] === 256 ? colour : blend(pixels[at], colour, cover[p]);
      }
    }
    this.#context.putImageData(this.#image, 0, 0);
  }
}

function blend(below, above, cover) {
  const rest = 256 - cover;
  const redBlue = (((below & 0xff00ff) * rest + (above & 0xff00ff) * cover) >>> 8) & 0xff00ff;
  const green = (((below & 0x00ff00) >>> 8) * rest + ((above & 0x00ff00) >>> 8) * cover) & 0xff00;
  return (0xff000000 | redBlue | green) >>> 0;
}
