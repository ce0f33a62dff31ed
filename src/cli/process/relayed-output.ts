/** Prints the output of several processes on one screen, one line at a time. */
import type { Readable } from "node:stream";
import type { Screen } from "../output/screen.ts";

/** A longer line is cut here: every buffer has a bound. */
const LINE_CHARS_MAX = 65_536;

export class RelayedOutput {
  readonly #screen: Screen;
  #last: Promise<void> = Promise.resolve();

  constructor(screen: Screen) {
    this.#screen = screen;
  }

  /** Prints everything from one process; a slow reader makes the writer wait. */
  async relay(stream: Readable, prefix: string): Promise<void> {
    stream.setEncoding("utf8");
    let rest = "";
    for await (const text of stream as AsyncIterable<string>) {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      if (rest.length > LINE_CHARS_MAX) lines.push(rest);
      if (rest.length > LINE_CHARS_MAX) rest = "";
      if (lines.length > 0) await this.#write(lines, prefix);
    }
    if (rest !== "") await this.#write([rest], prefix);
  }

  /** JSON lines stay unchanged. */
  #write(lines: readonly string[], prefix: string): Promise<void> {
    const text = lines.map((line) => `${line.startsWith("{") ? "" : prefix}${line}\n`).join("");
    // One after the other, because a screen supports only one waiter.
    this.#last = this.#last.then(() => this.#screen.write(text));
    return this.#last;
  }
}
