// The words of the page in the person's language: words/LANGUAGE.js has all of them.
//
// A value is a text with places such as {name}, or texts by plural form ({ one, other }) of the value n.

/** The languages by code, each named in itself. */
export const LANGUAGES = { en: "English", de: "Deutsch" };

const STORAGE_KEY = "ocelad.language";
const DEFAULT = "en";

function chosenLanguage() {
  const wanted = [localStorage.getItem(STORAGE_KEY), ...navigator.languages.map((tag) => tag.split("-")[0])];
  return wanted.find((code) => Object.hasOwn(LANGUAGES, code ?? "")) ?? DEFAULT;
}

export const language = chosenLanguage();
const { words } = await import(`./words/${language}.js`).catch(() => {
  dispatchEvent(new Event("ocelad-failed"));
  return new Promise(() => {}); // without words, the page does not start
});
const plural = new Intl.PluralRules(language);
const integers = new Intl.NumberFormat(language);
document.documentElement.lang = language;

/** Stores the language and shows the page in it. */
export function chooseLanguage(code) {
  localStorage.setItem(STORAGE_KEY, code);
  location.reload();
}

export const knows = (key) => Object.hasOwn(words, key);

/** Returns the words of a key; whole numbers among the values are written as in the language. */
export function say(key, values = {}) {
  if (!knows(key)) {
    console.error(`no words for ${key}`);
    return key;
  }
  const found = words[key];
  const text = typeof found === "string" ? found : found[plural.select(values.n)] ?? found.other;
  return text.replace(/\{(\w+)\}/g, (place, name) => {
    const value = values[name] ?? place;
    return Number.isInteger(value) ? integers.format(value) : String(value);
  });
}

// How elements name their words: data-words for the text, data-words-title for the attribute title, and so on.
const ATTRIBUTES = { words: null, wordsLabel: "aria-label", wordsTitle: "title", wordsPlaceholder: "placeholder" };

/** Writes the words into the elements that name them. */
export function translate(root = document) {
  for (const [data, attribute] of Object.entries(ATTRIBUTES)) {
    const selector = `data-${data.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    for (const found of root.querySelectorAll(`[${selector}]`)) {
      const text = say(found.dataset[data]);
      if (attribute) found.setAttribute(attribute, text);
      else found.textContent = text;
    }
  }
}
