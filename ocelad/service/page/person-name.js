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

let given = null;

/** Sets the name of a person who has logged in. */
export const usePersonName = (name) => (given = name);

export function personName() {
  if (given !== null) return given;
  let name = localStorage.getItem(STORAGE_KEY);
  if (!name) savePersonName((name = `${randomWord(ADJECTIVES)} ${randomWord(ANIMALS)}`));
  return name;
}

export const savePersonName = (name) => localStorage.setItem(STORAGE_KEY, name);

const MAX_LENGTH = 64;
const ACCEPTED = /^[\p{L}\p{M}\p{N} ._'’·-]+$/u;
// Characters without a shape, although they are letters or marks; the service refuses them, too.
const INVISIBLE = /\p{Default_Ignorable_Code_Point}/u;

/** Whether the service accepts a name: letters and digits of any script, space and . _ - ' ’ · */
export const isPersonName = (name) =>
  ACCEPTED.test(name) && !INVISIBLE.test(name) && [...name].length <= MAX_LENGTH && name.trim() !== "";
