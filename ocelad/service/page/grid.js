// Features that are the pixels of a picture.

/** {rows, columns, places: [{name, row, column}]}, or null where the features are no pixels. */
export function gridOf(names) {
  // The last pixel is the one in the lower right corner, and says how many there are.
  const corner = names.at(-1).match(/(\d+)\D+(\d+)$/);
  const first = names[0].match(/(\d+)\D+(\d+)$/);
  if (!corner || !first) return null;
  const [rows, columns] = [1, 2].map((part) => Number(corner[part]) - Number(first[part]) + 1);
  if (rows < 2 || columns < 2 || rows * columns !== names.length) return null;
  return {
    rows,
    columns,
    places: names.map((name, i) => ({ name, row: Math.floor(i / columns), column: i % columns })),
  };
}
