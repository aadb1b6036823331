// Features that are the pixels of a square picture.

/** {side, places: [{name, row, column}]}, or null where the features are no square. */
export function gridOf(names) {
  const side = Math.round(Math.sqrt(names.length));
  if (side < 2 || side * side !== names.length) return null;
  return { side, places: names.map((name, i) => ({ name, row: Math.floor(i / side), column: i % side })) };
}
