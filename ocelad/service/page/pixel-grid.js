// The arrangement of features that are the pixels of a picture.

/** Returns {rows, columns, cells: [{name, row, column}]}; null if the features are not pixels. */
export function pixelGrid(names) {
  // The last pixel is the lower right one, so that its name gives the size.
  const corner = names.at(-1).match(/(\d+)\D+(\d+)$/);
  const first = names[0].match(/(\d+)\D+(\d+)$/);
  if (!corner || !first) return null;
  const [rows, columns] = [1, 2].map((part) => Number(corner[part]) - Number(first[part]) + 1);
  if (rows < 2 || columns < 2 || rows * columns !== names.length) return null;
  return {
    rows,
    columns,
    cells: names.map((name, i) => ({ name, row: Math.floor(i / columns), column: i % columns })),
  };
}
