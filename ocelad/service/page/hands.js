// What fingers, mouse, wheel and keys do to the map.

// So far a pointer may slip and it is still a click.
const SLIP = 5;
const STEP = 60;
const CLOSER = 1.4;

/** Tells `map` to pan, zoomAt, all, pointAt, pointAway, openAt, pointAtMiddle, openMiddle and close. */
export function watchHands(canvas, map) {
  const down = new Map();
  let travelled = 0;
  const place = (event) => {
    const frame = canvas.getBoundingClientRect();
    return [event.clientX - frame.left, event.clientY - frame.top];
  };

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    if (!down.size) travelled = 0;
    down.set(event.pointerId, place(event));
    canvas.setPointerCapture(event.pointerId);
  });

  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    const before = down.get(event.pointerId);
    if (!before) {
      if (event.pointerType !== "touch") map.pointAt(x, y);
      return;
    }
    down.set(event.pointerId, [x, y]);
    const [dx, dy] = [x - before[0], y - before[1]];
    travelled += Math.hypot(dx, dy);
    if (down.size === 1) {
      if (travelled > SLIP) map.pan(dx, dy);
      return;
    }
    const [other] = [...down].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    const apart =
      Math.hypot(x - other[0], y - other[1]) / Math.max(Math.hypot(before[0] - other[0], before[1] - other[1]), 1);
    map.zoomAt(apart, (x + other[0]) / 2, (y + other[1]) / 2);
    map.pan(dx / 2, dy / 2);
  });

  canvas.addEventListener("pointerup", (event) => {
    if (down.delete(event.pointerId) && !down.size && travelled <= SLIP) map.openAt(...place(event));
  });
  canvas.addEventListener("pointercancel", (event) => down.delete(event.pointerId));
  canvas.addEventListener("pointerleave", () => map.pointAway());

  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
      map.zoomAt(Math.exp((-event.deltaY * lines) / (event.ctrlKey ? 100 : 400)), ...place(event));
    },
    { passive: false },
  );

  const keys = {
    "+": () => map.zoomAt(CLOSER),
    "=": () => map.zoomAt(CLOSER),
    "-": () => map.zoomAt(1 / CLOSER),
    0: () => map.all(),
    ArrowLeft: () => map.pan(STEP, 0),
    ArrowRight: () => map.pan(-STEP, 0),
    ArrowUp: () => map.pan(0, STEP),
    ArrowDown: () => map.pan(0, -STEP),
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter") map.openMiddle();
    else if (event.key === "Escape") map.close();
    else if (keys[event.key]) {
      keys[event.key]();
      map.pointAtMiddle();
    } else return;
    event.preventDefault();
  });
  canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && map.pointAtMiddle());
  canvas.addEventListener("blur", () => map.pointAway());
}
