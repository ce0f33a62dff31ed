/** For the end of a `switch` that has a case for everything: the compiler checks it. */
export function unreachable(value: never): never {
  throw new Error(`unexpected: ${JSON.stringify(value)}`);
}
