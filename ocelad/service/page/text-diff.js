// The words in which two texts differ.

// Texts with more pairs of words are compared as sets of words, not as sequences.
const MAX_CELLS = 250_000;

const wordsOf = (text) => text.match(/\s+|[\p{L}\p{N}]+(?:['’_-][\p{L}\p{N}]+)*|[^\s\p{L}\p{N}]/gu) ?? [];
const fold = (word) => word.toLowerCase();
const isWord = (piece) => /[\p{L}\p{N}]/u.test(piece);

/** Returns two lists of {text, differs}; words of the longest common subsequence do not differ. */
export function diffWords(left, right) {
  const [a, b] = [wordsOf(left), wordsOf(right)];
  const [aWords, bWords] = [a, b].map((pieces) => pieces.filter(isWord).map(fold));
  const [aCommon, bCommon] =
    aWords.length * bWords.length > MAX_CELLS ? sharedWords(aWords, bWords) : longestCommonSubsequence(aWords, bWords);
  return [runs(a, aCommon), runs(b, bCommon)];
}

function sharedWords(a, b) {
  const [inA, inB] = [new Set(a), new Set(b)];
  return [a.map((word) => inB.has(word)), b.map((word) => inA.has(word))];
}

/** Returns which words belong to the longest common subsequence. */
function longestCommonSubsequence(a, b) {
  const width = b.length + 1;
  const length = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const here = i * width + j;
      length[here] = a[i] === b[j] ? length[here + width + 1] + 1 : Math.max(length[here + width], length[here + 1]);
    }
  }
  const [aCommon, bCommon] = [new Array(a.length).fill(false), new Array(b.length).fill(false)];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    const here = i * width + j;
    if (a[i] === b[j]) {
      aCommon[i++] = true;
      bCommon[j++] = true;
    } else if (length[here + width] >= length[here + 1]) i++;
    else j++;
  }
  return [aCommon, bCommon];
}

/** Returns the text in runs; adjacent words that differ form one run. */
function runs(pieces, common) {
  const result = [];
  let word = 0;
  let gap = "";
  for (const piece of pieces) {
    if (!isWord(piece)) {
      gap += piece;
      continue;
    }
    const differs = !common[word++];
    const last = result.at(-1);
    if (last && last.differs === differs) last.text += gap + piece;
    else {
      if (gap) result.push({ text: gap, differs: false });
      result.push({ text: piece, differs });
    }
    gap = "";
  }
  if (gap) result.push({ text: gap, differs: false });
  return result;
}
