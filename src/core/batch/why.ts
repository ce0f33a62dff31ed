/** "Why is this waiting?": one answer for a batch, and one for each of its chunks. */
import type { Unnamed } from "../base/unnamed.ts";
import { type BatchState, isEnded } from "./batch.ts";
import type { WaitReason } from "../limits/bucket.ts";
import type { ChunkState } from "./chunk.ts";
import { unreachable } from "../base/invariant.ts";

export interface Why {
  /** A stable word, for programs. */
  readonly code: WhyCode;
  /** For people; names the remedy where there is one. */
  readonly message: string;
}

export const WHY_CODES = [
  "ended",
  "settled",
  "cancelling",
  "parked",
  "paused",
  "lane",
  "no_worker",
  "slicing",
  "unsliced",
  "unsealed",
  "canary",
  "working",
  "back_off",
  "rate",
  "closed",
  "pace",
  "quiet",
  "cap",
  "due",
] as const;
export type WhyCode = (typeof WHY_CODES)[number];

export type PauseFacts = Unnamed<{
  readonly scope: "batch" | "lane" | "pipeline";
  readonly name: string;
  readonly by: string;
  readonly why: string | null;
}>;

/** A cap that is reached. */
export interface CapFacts {
  /** For example `lane/north`. */
  readonly scope: string;
  readonly cap: number;
  /** Handler calls that workers may run in it now. */
  readonly used: number;
}

export interface BatchFacts {
  readonly state: BatchState;
  readonly pipeline: string;
  readonly version: string;
  readonly lane: string;
  readonly active: boolean;
  /** The batch that holds the lane, when it is another one. */
  readonly laneHolder: string | null;
  /** How many batches of the lane come first, including the holder. */
  readonly ahead: number;
  readonly parked: string | null;
  readonly pause: PauseFacts | null;
  readonly cancelMode: "drain" | "now" | null;
  readonly hasWorker: boolean;
  readonly sealed: boolean;
  readonly pending: number;
  /** Chunks that workers hold. */
  readonly leased: number;
  /** The canary slice has not passed yet. */
  readonly inCanary: boolean;
  /** When the next chunk is due; null when none waits. */
  readonly nextDueInMs: number | null;
  /** The limit that the next chunk waits for; null for none. */
  readonly nextRest: RestFacts | null;
  /** The narrowest of its caps that is reached. */
  readonly cap: CapFacts | null;
}

/** Which limit a chunk waits for. */
export interface RestFacts {
  readonly waitReason: WaitReason;
  readonly key: string | null;
}

export function explainBatch(facts: BatchFacts): Why {
  const { state, pipeline, version, leased, nextDueInMs } = facts;
  if (isEnded(state)) return { code: "ended", message: `it has ended: ${state}` };
  const halted = explainHalt(facts);
  if (halted !== null) return halted;
  if (!facts.hasWorker) {
    return {
      code: "no_worker",
      message: `no worker has the pipeline ${pipeline} in version ${version}; start one with sluice work`,
    };
  }
  if (state === "submitted") return { code: "unsliced", message: "it is about to be sliced" };
  if (state === "slicing") return { code: "slicing", message: "its items are being planned" };
  if (leased > 0) {
    return {
      code: "working",
      message: `workers are running it: ${leased} ${leased === 1 ? "chunk" : "chunks"} leased`,
    };
  }
  if (facts.pending === 0 && !facts.sealed) {
    return { code: "unsealed", message: "its producer has not sealed it, and may add more items" };
  }
  if (nextDueInMs !== null && nextDueInMs > 0) {
    return explainWait("the rest", facts.nextRest, nextDueInMs);
  }
  if (facts.cap !== null) return explainCap(facts.cap);
  return { code: "due", message: "it is due; the next free worker takes it" };
}

/** What keeps the whole batch from running, whatever the state of its items. */
function explainHalt(facts: BatchFacts): Why | null {
  const { active, ahead, lane, laneHolder, leased, cancelMode, parked, pause } = facts;
  if (cancelMode !== null) {
    const held = leased === 1 ? "1 chunk is" : `${leased} chunks are`;
    return {
      code: "cancelling",
      message: `it is being cancelled (${cancelMode}): ${held} still leased`,
    };
  }
  if (parked !== null) {
    return { code: "parked", message: `it is parked: ${parked}; sluice resume continues it` };
  }
  if (pause !== null) return { code: "paused", message: explainPause(pause) };
  if (active) return null;
  const holder = laneHolder === null ? "" : `; batch ${laneHolder} has its turn`;
  return {
    code: "lane",
    message: `it waits for its turn in lane ${lane}: ${ahead} ${ahead === 1 ? "batch comes" : "batches come"} first${holder}`,
  };
}

function explainCap({ scope, cap, used }: CapFacts): Why {
  const [kind, ...name] = scope.split("/");
  const what = kind === "batch" ? "it" : `its ${kind} ${name.join("/")}`;
  return {
    code: "cap",
    message: `${what} has a cap of ${cap} handler ${cap === 1 ? "call" : "calls"} at once, and ${used} ${used === 1 ? "is" : "are"} taken; sluice limits shows and changes it`,
  };
}

function explainPause({ scope, name, by, why }: PauseFacts): string {
  const what = scope === "batch" ? "it" : `its ${scope} ${name}`;
  return `${what} was paused by ${by}${why === null ? "" : ` (${why})`}; sluice resume continues it`;
}

export interface ChunkFacts {
  readonly chunk: number;
  readonly state: ChunkState;
  /** The worker that holds it. */
  readonly worker: string | null;
  /** How long until it may be leased; 0 when it is due. */
  readonly dueInMs: number;
  /** The limit that it waits for; null for none. */
  readonly rest: RestFacts | null;
  /** It waits until the canary, to which it does not belong, has passed. */
  readonly behindCanary: boolean;
}

export function explainChunk(facts: ChunkFacts, batch: BatchFacts): Why {
  const { chunk, state, worker, dueInMs, rest, behindCanary } = facts;
  if (state === "settled") return { code: "settled", message: `chunk ${chunk} is settled` };
  if (state === "cancelled" || isEnded(batch.state)) return explainBatch(batch);
  if (state === "leased") {
    return { code: "working", message: `worker ${worker ?? "unknown"} is running chunk ${chunk}` };
  }
  const halted = explainHalt(batch);
  if (halted !== null) return halted;
  if (behindCanary) {
    return { code: "canary", message: "the canary must pass before it may run" };
  }
  if (dueInMs > 0) return explainWait("it", rest, dueInMs);
  if (!batch.hasWorker) return explainBatch(batch);
  if (batch.cap !== null) return explainCap(batch.cap);
  return { code: "due", message: `chunk ${chunk} is due; the next free worker takes it` };
}

function explainWait(who: string, rest: RestFacts | null, ms: number): Why {
  const wait = formatWait(ms);
  if (rest === null) {
    return { code: "back_off", message: `${who} waits for its next attempt in ${wait}` };
  }
  const { waitReason, key } = rest;
  const label = key === null || key === "" ? "" : ` ${key}`;
  const name = label === "" ? "" : ` of key${label}`;
  switch (waitReason) {
    case "rate":
      return { code: "rate", message: `${who} waits for the rate${name}, for about ${wait}` };
    case "closed":
      return {
        code: "closed",
        message: `${who} waits for the closed key${label}, for ${wait} at least`,
      };
    case "pace":
      return { code: "pace", message: `${who} waits for the batch's pace, for about ${wait}` };
    case "quiet":
      return { code: "quiet", message: `${who} waits for the end of quiet hours, in ${wait}` };
    default:
      return unreachable(waitReason);
  }
}

function formatWait(ms: number): string {
  if (ms < 1_000) return `${ms} ms`;
  return ms < 120_000 ? `${Math.ceil(ms / 1_000)} s` : `${Math.ceil(ms / 60_000)} min`;
}
