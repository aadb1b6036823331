// The first rows of a table that a person has chosen, read in the browser; the service reads the file itself.

/** The formats of items by the suffix of a file. */
export const FORMATS = {
  csv: "csv",
  tsv: "csv",
  txt: "csv",
  jsonl: "jsonl",
  ndjson: "jsonl",
  parquet: "parquet",
  pq: "parquet",
  arrow: "arrow",
  feather: "arrow",
  npy: "npy",
  npz: "npz",
};
const HEAD_BYTES = 1 << 18;
const N_ROWS = 20;
const DELIMITERS = [",", ";", "\t", "|"];

/** Returns the format of a file by its name; undefined: unknown. */
export const formatOf = (name) => FORMATS[name.toLowerCase().replace(/\.gz$/, "").split(".").pop()];

/** Returns a promise of {columns, rows}: the names and the first rows of texts; null if the browser cannot read it. */
export async function previewTable(file) {
  const format = formatOf(file.name);
  if (!["csv", "jsonl"].includes(format) || /\.gz$/i.test(file.name)) return null;
  const text = decode(new Uint8Array(await file.slice(0, HEAD_BYTES).arrayBuffer()));
  const table = format === "csv" ? previewCsv(text) : previewJsonLines(text);
  return table && table.columns.length ? table : null;
}

function decode(bytes) {
  const [first, second] = bytes;
  if (first === 0xff && second === 0xfe) return new TextDecoder("utf-16le").decode(bytes);
  if (first === 0xfe && second === 0xff) return new TextDecoder("utf-16be").decode(bytes);
  try {
    // As a stream: the last character may be cut.
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

function previewCsv(text) {
  const delimiter = likelyDelimiter(text);
  const [columns = [], ...rows] = parseCsv(text, delimiter, N_ROWS + 1);
  return { columns: columns.map((name) => name.trim()).filter(Boolean), rows };
}

/** The delimiter that occurs most often in the first line, outside of quotes. */
function likelyDelimiter(text) {
  const [line] = text.replace(/"(?:[^"]|"")*"/g, "").split(/\r?\n/, 1);
  const counts = DELIMITERS.map((delimiter) => line.split(delimiter).length);
  return DELIMITERS[counts.indexOf(Math.max(...counts))];
}

/** Returns at most n records; quotes may enclose delimiters, line ends and doubled quotes. */
export function parseCsv(text, delimiter, n) {
  const records = [];
  let [record, cell, quoted] = [[], "", false];
  const endCell = () => {
    record.push(cell);
    cell = "";
  };
  const endRecord = () => {
    endCell();
    if (record.length > 1 || record[0] !== "") records.push(record);
    record = [];
  };
  for (let i = 0; i < text.length && records.length < n; i++) {
    const character = text[i];
    if (quoted && character === '"' && text[i + 1] === '"') cell += text[i++];
    else if (character === '"' && (quoted || cell === "")) quoted = !quoted;
    else if (quoted) cell += character;
    else if (character === delimiter) endCell();
    else if (character === "\n") endRecord();
    else if (character !== "\r") cell += character;
  }
  // The last record of the head may be cut, unless it is the only one.
  if (records.length < n && (cell || record.length)) endRecord();
  return records;
}

function previewJsonLines(text) {
  const objects = [];
  for (const line of text.split("\n").slice(0, N_ROWS)) {
    try {
      objects.push(JSON.parse(line));
    } catch {
      break; // a cut or an invalid line: the service says what is wrong with it
    }
  }
  const columns = [...new Set(objects.flatMap((object) => Object.keys(Object(object))))];
  const asText = (value) => (typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value));
  return { columns, rows: objects.map((object) => columns.map((name) => asText(Object(object)[name]))) };
}

/** Whether all cells of a column that are not empty are numbers; with a decimal point or comma. */
export function isNumeric({ rows }, index) {
  const cells = rows.map((row) => (row[index] ?? "").trim()).filter(Boolean);
  return cells.length > 0 && cells.every((cell) => Number.isFinite(Number(cell.replace(",", "."))));
}
