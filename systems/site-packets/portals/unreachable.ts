/** For the end of a `switch` that has a case for everything: the compiler sees to it. */
export function unreachable(value: never): never {
  throw new Error(`unexpected: ${JSON.stringify(value)}`);
}
