// The name of the person: random at first, and stored in the browser.

const ADJECTIVES = (
  "amber brave calm clever coral eager gentle golden happy keen kind lively lucky mellow merry misty " +
  "nimble polite quick quiet rosy silver sunny swift tidy violet warm wise"
).split(" ");
const ANIMALS = (
  "badger beaver crane deer dolphin falcon finch fox gecko hare heron ibis lark lynx marten newt ocelot " +
  "otter owl panda puffin raven robin seal stork swan tern wren"
).split(" ");
const STORAGE_KEY = "ocelad.person";

const randomWord = (words) => words[crypto.getRandomValues(new Uint32Array(1))[0] % words.length];

export function personName() {
  let name = localStorage.getItem(STORAGE_KEY);
  if (!name) savePersonName((name = `${randomWord(ADJECTIVES)} ${randomWord(ANIMALS)}`));
  return name;
}

export const savePersonName = (name) => localStorage.setItem(STORAGE_KEY, name);
