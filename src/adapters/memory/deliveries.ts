/** Durable readers and undelivered letters on the reference model. */
import type { Clock } from "../../ports/clock.ts";
import type {
  UndeliveredPage,
  NewLetter,
  ReaderStart,
  UndeliveredLetter,
} from "../../ports/delivering.ts";
import type { State } from "./state.ts";

export class Deliveries {
  readonly #state: State;
  readonly #clock: Clock;

  constructor(state: State, clock: Clock) {
    this.#state = state;
    this.#clock = clock;
  }

  startReader(reader: string, start: ReaderStart): number {
    const known = this.#state.positions.get(reader);
    if (known !== undefined) return known;
    const position = start === "now" ? (this.#state.records.at(-1)?.position ?? 0) : 0;
    this.#state.positions.set(reader, position);
    return position;
  }

  savePosition(reader: string, position: number): void {
    const { positions } = this.#state;
    positions.set(reader, Math.max(position, positions.get(reader) ?? 0));
  }

  keepUndelivered(letter: NewLetter): void {
    const { letters } = this.#state;
    const at = letters.findIndex(
      ({ reader, position }) => reader === letter.reader && position === letter.position,
    );
    const id = letters[at]?.id ?? ++this.#state.lettersKept;
    const kept = { ...letter, id, givenUpAt: this.#clock.wallMs() };
    if (at === -1) letters.push(kept);
    else letters[at] = kept;
    this.savePosition(letter.reader, letter.position);
  }

  listUndelivered({ reader, afterId, limit }: UndeliveredPage): UndeliveredLetter[] {
    return this.#state.letters
      .filter((letter) => letter.id > afterId)
      .filter((letter) => reader === undefined || letter.reader === reader)
      .slice(0, limit);
  }

  dropUndelivered(id: number): void {
    const { letters } = this.#state;
    const at = letters.findIndex((letter) => letter.id === id);
    if (at !== -1) letters.splice(at, 1);
  }

  forgetReader(reader: string): boolean {
    const { letters, positions } = this.#state;
    const others = letters.filter((letter) => letter.reader !== reader);
    letters.splice(0, letters.length, ...others);
    return positions.delete(reader);
  }
}
