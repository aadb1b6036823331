// A picture in full size, in a dialog that can zoom.

import { prepareDialog } from "./dialogs.js";
import { element } from "./dom.js";
import { showError } from "./messages.js";
import { say } from "./words.js";

const FACTOR = 1.5;
const MAX_ZOOM = 16;
// Smaller pictures are enlarged without smoothing.
const FEW_PIXELS = 128;

/** Opens the picture of an item: in full size, if the service has it. */
export function openPicture(item, api) {
  const name = item.title ?? item.id;
  const picture = element("img", { alt: say("picture.of", { item: name }), draggable: "false" });
  const frame = element("div", { class: "zoom-frame", tabindex: "0", role: "group", "aria-label": name }, picture);
  const zoom = new Zoom(frame, picture);
  const buttons = [
    ["+", "zoom.in", () => zoom.by(FACTOR)],
    ["−", "zoom.out", () => zoom.by(1 / FACTOR)],
    ["0", "zoom.fit", () => zoom.fit()],
  ].map(([sign, label, action]) => {
    const attributes = { type: "button", class: "quiet icon", "aria-label": say(label), title: say(label) };
    const button = element("button", attributes, sign === "0" ? "⤢" : sign);
    button.addEventListener("click", action);
    return button;
  });
  const close = element("button", { type: "button", class: "quiet", "data-close": true, autofocus: true }, say("close"));
  const dialog = prepareDialog(
    element(
      "dialog",
      { class: "wide picture-dialog", "aria-labelledby": "picture-title" },
      element(
        "div",
        { class: "panel-head" },
        element("h2", { id: "picture-title", dir: "auto" }, name),
        element("div", { class: "controls" }, buttons, close),
      ),
      frame,
    ),
  );
  dialog.addEventListener("keydown", ({ key }) => {
    if (key === "+" || key === "=") zoom.by(FACTOR);
    if (key === "-") zoom.by(1 / FACTOR);
    if (key === "0") zoom.fit();
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  show(picture, item, api, zoom).catch((error) => {
    dialog.close();
    showError(error);
  });
}

async function show(picture, item, api, zoom) {
  picture.src = await api.picture(item.picture_full ?? item.picture);
  await picture.decode().catch(() => {});
  picture.classList.toggle("pixels", picture.naturalWidth <= FEW_PIXELS);
  zoom.fit();
}

class Zoom {
  #frame;
  #picture;
  #zoom = 1;

  constructor(frame, picture) {
    [this.#frame, this.#picture] = [frame, picture];
    frame.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return; // without the key, the wheel scrolls
      event.preventDefault();
      this.by(Math.exp(-event.deltaY / 100));
    });
    let from = null;
    frame.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse") return; // fingers scroll
      from = [event.clientX + frame.scrollLeft, event.clientY + frame.scrollTop];
      frame.setPointerCapture(event.pointerId);
    });
    frame.addEventListener("pointermove", (event) => {
      if (from) frame.scrollTo(from[0] - event.clientX, from[1] - event.clientY);
    });
    frame.addEventListener("pointerup", () => (from = null));
  }

  /** Shows all of the picture, as large as there is room. */
  fit() {
    this.#zoom = 1;
    this.#draw();
  }

  /** Zooms; the centre stays in place. */
  by(factor) {
    const frame = this.#frame;
    const centre = [
      (frame.scrollLeft + frame.clientWidth / 2) / frame.scrollWidth,
      (frame.scrollTop + frame.clientHeight / 2) / frame.scrollHeight,
    ];
    this.#zoom = Math.min(Math.max(this.#zoom * factor, 1), MAX_ZOOM);
    this.#draw();
    frame.scrollTo(
      centre[0] * frame.scrollWidth - frame.clientWidth / 2,
      centre[1] * frame.scrollHeight - frame.clientHeight / 2,
    );
  }

  #draw() {
    const { naturalWidth: width, naturalHeight: height } = this.#picture;
    const fit = Math.min(this.#frame.clientWidth / width, this.#frame.clientHeight / height);
    this.#picture.style.width = `${Math.floor(width * fit * this.#zoom)}px`;
    this.#picture.style.height = `${Math.floor(height * fit * this.#zoom)}px`;
    this.#frame.dataset.zoom = this.#zoom.toFixed(2);
  }
}
