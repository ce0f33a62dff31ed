/**
 * What a background loop does about an error of its store. A transient error is logged, and the
 * loop's next round retries. An unexpected error is logged with its stack, and retried after a wait
 * that grows each time in a row: one bad row must neither end a worker nor keep it busy with
 * nothing else. After a fatal error or a bug of ours, the caller must end.
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
  /** The event of a transient failure in the log, for example `sweeper.retry`. */
  readonly event: string;
}

const BASE_MS = 1_000;
const CAP_MS = 60_000;
/** Large enough for the cap, and small enough to stay finite. */
const DOUBLINGS_MAX = 50;

export class LoopBackoff {
  readonly #name: LoopName;
  readonly #parts: LoopBackoffParts;
  #inARow = 0;

  constructor(name: LoopName, parts: LoopBackoffParts) {
    this.#name = name;
    this.#parts = parts;
  }

  /** How much longer than usual to wait for the next round; null to end the loop. */
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

  /** A round succeeded. */
  clear(): void {
    this.#inARow = 0;
  }
}
