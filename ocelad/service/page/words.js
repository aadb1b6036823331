// Which words of two texts differ.

// The table below has a cell for each pair of words; longer texts are compared by which words they have.
const MOST_CELLS = 250_000;

const wordsOf = (text) => text.match(/\s+|[\p{L}\p{N}]+(?:['’_-][\p{L}\p{N}]+)*|[^\s\p{L}\p{N}]/gu) ?? [];
const folded = (word) => word.toLowerCase();
const isWord = (piece) => /[\p{L}\p{N}]/u.test(piece);

/** Two lists of {text, differs}: what both texts share in the same order does not differ. */
export function differingWords(left, right) {
  const [a, b] = [wordsOf(left), wordsOf(right)];
  const [aWords, bWords] = [a, b].map((pieces) => pieces.filter(isWord).map(folded));
  const [aKept, bKept] =
    aWords.length * bWords.length > MOST_CELLS ? sharedWords(aWords, bWords) : commonSequence(aWords, bWords);
  return [runs(a, aKept), runs(b, bKept)];
}

function sharedWords(a, b) {
  const [inA, inB] = [new Set(a), new Set(b)];
  return [a.map((word) => inB.has(word)), b.map((word) => inA.has(word))];
}

/** Which words belong to the longest sequence that both have. */
function commonSequence(a, b) {
  const width = b.length + 1;
  const length = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const here = i * width + j;
      length[here] = a[i] === b[j] ? length[here + width + 1] + 1 : Math.max(length[here + width], length[here + 1]);
    }
  }
  const [aKept, bKept] = [new Array(a.length).fill(false), new Array(b.length).fill(false)];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    const here = i * width + j;
    if (a[i] === b[j]) {
      aKept[i++] = true;
      bKept[j++] = true;
    } else if (length[here + width] >= length[here + 1]) i++;
    else j++;
  }
  return [aKept, bKept];
}

/** Words back in their text; those that differ and stand next to each other are marked as one. */
function runs(pieces, kept) {
  const made = [];
  let word = 0;
  let gap = "";
  for (const piece of pieces) {
    if (!isWord(piece)) {
      gap += piece;
      continue;
    }
    const differs = !kept[word++];
    const last = made.at(-1);
    if (last && last.differs === differs) last.text += gap + piece;
    else {
      if (gap) made.push({ text: gap, differs: false });
      made.push({ text: piece, differs });
    }
    gap = "";
  }
  if (gap) made.push({ text: gap, differs: false });
  return made;
}
