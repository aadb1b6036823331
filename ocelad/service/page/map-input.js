// Pointer, wheel and keyboard input of the map.

// The largest movement of a click, the step of the arrow keys (both in pixels), and the zoom factor of a key.
const MAX_CLICK_MOVEMENT = 5;
const STEP = 60;
const ZOOM_FACTOR = 1.4;

/** Calls pan, zoomAt, showAll, pointAt, pointAway, openAt, pointAtCentre, openCentre and close of `map`. */
export function handleMapInput(canvas, map) {
  const pointers = new Map();
  let movement = 0;
  const pixelOf = (event) => {
    const frame = canvas.getBoundingClientRect();
    return [event.clientX - frame.left, event.clientY - frame.top];
  };

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    if (!pointers.size) movement = 0;
    pointers.set(event.pointerId, pixelOf(event));
    canvas.setPointerCapture(event.pointerId);
  });

  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = pixelOf(event);
    const before = pointers.get(event.pointerId);
    if (!before) {
      if (event.pointerType !== "touch") map.pointAt(x, y);
      return;
    }
    pointers.set(event.pointerId, [x, y]);
    const [dx, dy] = [x - before[0], y - before[1]];
    movement += Math.hypot(dx, dy);
    if (pointers.size === 1) {
      if (movement > MAX_CLICK_MOVEMENT) map.pan(dx, dy);
      return;
    }
    const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    const factor =
      Math.hypot(x - other[0], y - other[1]) / Math.max(Math.hypot(before[0] - other[0], before[1] - other[1]), 1);
    map.zoomAt(factor, (x + other[0]) / 2, (y + other[1]) / 2);
    map.pan(dx / 2, dy / 2);
  });

  canvas.addEventListener("pointerup", (event) => {
    const isClick = pointers.delete(event.pointerId) && !pointers.size && movement <= MAX_CLICK_MOVEMENT;
    if (isClick) map.openAt(...pixelOf(event));
  });
  canvas.addEventListener("pointercancel", (event) => pointers.delete(event.pointerId));
  canvas.addEventListener("pointerleave", () => map.pointAway());

  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
      map.zoomAt(Math.exp((-event.deltaY * lines) / (event.ctrlKey ? 100 : 400)), ...pixelOf(event));
    },
    { passive: false },
  );

  const keys = {
    "+": () => map.zoomAt(ZOOM_FACTOR),
    "=": () => map.zoomAt(ZOOM_FACTOR),
    "-": () => map.zoomAt(1 / ZOOM_FACTOR),
    0: () => map.showAll(),
    ArrowLeft: () => map.pan(STEP, 0),
    ArrowRight: () => map.pan(-STEP, 0),
    ArrowUp: () => map.pan(0, STEP),
    ArrowDown: () => map.pan(0, -STEP),
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter") map.openCentre();
    else if (event.key === "Escape") map.close();
    else if (keys[event.key]) {
      keys[event.key]();
      map.pointAtCentre();
    } else return;
    event.preventDefault();
  });
  canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && map.pointAtCentre());
  canvas.addEventListener("blur", () => map.pointAway());
}
