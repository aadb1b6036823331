// Who answers: a friendly name of this browser, until its owner chooses another.

const ADJECTIVES = (
  "amber brave calm clever coral eager gentle golden happy keen kind lively lucky mellow merry misty " +
  "nimble polite quick quiet rosy silver sunny swift tidy violet warm wise"
).split(" ");
const ANIMALS = (
  "badger beaver crane deer dolphin falcon finch fox gecko hare heron ibis lark lynx marten newt ocelot " +
  "otter owl panda puffin raven robin seal stork swan tern wren"
).split(" ");
const NAME = "ocelad.person";

const anyOf = (words) => words[crypto.getRandomValues(new Uint32Array(1))[0] % words.length];

export function personName() {
  let name = localStorage.getItem(NAME);
  if (!name) keepPersonName((name = `${anyOf(ADJECTIVES)} ${anyOf(ANIMALS)}`));
  return name;
}

export const keepPersonName = (name) => localStorage.setItem(NAME, name);
