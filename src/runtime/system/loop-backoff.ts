/**
 * What a loop in the background does about an error of its store. What passes is told, and comes again
 * with the loop's next round. What nobody has thought of is told with its stack, and tried again after
 * a wait that grows with each time in a row: one bad row must neither end a worker nor keep it busy
 * with nothing else. What is fatal, or a mistake of ours, is the caller's to end with.
 */
import { classifyPortError, describeError } from "../../core/base/errors.ts";
import { InvariantError } from "../../core/base/invariant.ts";
import type { Random } from "../../ports/random.ts";
import type { Log } from "./log.ts";

export interface LoopBackoffParts {
  readonly random: Random;
  readonly log: Log;
}

export interface LoopName {
  /** What is logged when it failed for the moment, for example `sweeper.retry`. */
  readonly event: string;
}

const BASE_MS = 1_000;
const CAP_MS = 60_000;
/** Past the cap, and short of infinity. */
const DOUBLINGS_MAX = 50;

export class LoopBackoff {
  readonly #name: LoopName;
  readonly #parts: LoopBackoffParts;
  #inARow = 0;

  constructor(name: LoopName, parts: LoopBackoffParts) {
    this.#name = name;
    this.#parts = parts;
  }

  /** How much longer than usual the next round is waited for; null when there is no point in one. */
  note(error: unknown): number | null {
    const errorClass = classifyPortError(error);
    if (errorClass === "fatal" || error instanceof InvariantError) return null;
    const { log, random } = this.#parts;
    const { message } = describeError(error);
    if (errorClass === "transient") {
      log({ level: "warn", ...this.#name, message, error });
      return 0;
    }
    const [loop = ""] = this.#name.event.split(".");
    log({ level: "error", event: "loop.unexpected_error", message: `${loop}: ${message}`, error });
    const ceilingMs = Math.min(CAP_MS, BASE_MS * 2 ** Math.min(this.#inARow++, DOUBLINGS_MAX));
    return Math.ceil(ceilingMs * (0.5 + random.next() / 2));
  }

  /** A round went well. */
  clear(): void {
    this.#inARow = 0;
  }
}
