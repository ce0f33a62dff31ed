/** Durable readers and undelivered events on the reference model. */
import { readGroupName } from "../../core/events/reader-name.ts";
import type { Clock } from "../../ports/clock.ts";
import type {
  UndeliveredPage,
  NewUndelivered,
  ReaderStart,
  UndeliveredEvent,
} from "../../ports/store/delivery-store.ts";
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
    const position = this.#findStart(reader, start);
    this.#state.positions.set(reader, position);
    return position;
  }

  #findStart(reader: string, start: ReaderStart): number {
    if (start === "beginning") return 0;
    if (start !== "now") return start;
    const group = readGroupName(reader);
    if (group === null) return this.#state.records.at(-1)?.position ?? 0;
    return this.#state.messages.findLast(({ topic }) => topic === group.topic)?.position ?? 0;
  }

  savePosition(reader: string, position: number, from = 0): boolean {
    const { positions } = this.#state;
    const before = positions.get(reader);
    if (before !== undefined && before < from) return false;
    positions.set(reader, Math.max(position, before ?? 0));
    return true;
  }

  rewindReader(reader: string, position: number): boolean {
    const { positions } = this.#state;
    const before = positions.get(reader);
    if (before !== undefined) positions.set(reader, Math.min(position, before));
    return before !== undefined;
  }

  keepUndelivered(given: NewUndelivered, from?: number): void {
    const { undelivered } = this.#state;
    const at = undelivered.findIndex(
      ({ reader, position }) => reader === given.reader && position === given.position,
    );
    const id = undelivered[at]?.id ?? ++this.#state.undeliveredKept;
    const kept = { ...given, id, givenUpAt: this.#clock.wallMs() };
    if (at === -1) undelivered.push(kept);
    else undelivered[at] = kept;
    this.savePosition(given.reader, given.position, from);
  }

  listUndelivered({ reader, afterId, limit }: UndeliveredPage): UndeliveredEvent[] {
    return this.#state.undelivered
      .filter((one) => one.id > afterId)
      .filter((one) => reader === undefined || one.reader === reader)
      .slice(0, limit);
  }

  dropUndelivered(id: number): void {
    const { undelivered } = this.#state;
    const at = undelivered.findIndex((one) => one.id === id);
    if (at !== -1) undelivered.splice(at, 1);
  }

  forgetReader(reader: string): boolean {
    const { undelivered, positions } = this.#state;
    const others = undelivered.filter((one) => one.reader !== reader);
    undelivered.splice(0, undelivered.length, ...others);
    return positions.delete(reader);
  }
}
