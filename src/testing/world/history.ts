/** What happened in a world, line by line; two worlds of one seed have the same. */

/** A world that goes on for ever must not fill the memory of the test that waits for it. */
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
