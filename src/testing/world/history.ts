/** The history of a world, line by line; two worlds with the same seed have the same. */

/** A world that runs for ever must not fill the memory of its test. */
const LINES_MAX = 100_000;

export class History {
  readonly #lines: string[] = [];

  get lines(): readonly string[] {
    return this.#lines;
  }

  add(line: string): void {
    if (this.#lines.length < LINES_MAX) this.#lines.push(line);
  }
}
