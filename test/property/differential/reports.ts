/** A worker's report on a chunk, drawn item by item: everything that a report can hold. */
import fc from "fast-check";
import { WAIT_REASONS } from "../../../src/core/limits/bucket.ts";
import type { LedgerBlock } from "../../../src/core/ledger/item-ledger.ts";
import type { Report } from "../../../src/ports/store/worker-store.ts";
import { toMap, toWords, type Word } from "../../support/outcome-words.ts";
import type { Held } from "../simulated-worker.ts";

const DEEDS = [
  "succeed",
  "succeed",
  "bear fruit",
  "take content",
  "emit",
  "emit and skip",
  "emit and despair",
  "skip",
  "give up",
  "despair",
  "wonder",
  "retry",
  "retry late",
  "come later",
  "save",
  "save and retry",
  "save and despair",
  "leave",
] as const;
type Deed = (typeof DEEDS)[number];

export const CONTENTS = ["c1", "c2", "c3"] as const;

export interface Deeds {
  /** One per item, modulo their number. */
  readonly deeds: readonly Deed[];
  readonly intent: Report["intent"];
  /** `amnesia` builds on the map of the lease alone; `contrary` also contradicts finished items. */
  readonly memory: "good" | "amnesia" | "contrary";
  /** Handlers of the first item ignore a stop. */
  readonly abandons: boolean;
  /** How many items of a guarded run start next. */
  readonly starts: number;
  readonly keyed: boolean;
  /** The rest waits for a limit. */
  readonly limitWait: Report["limitWait"];
  /** Handler time that it reports, under the lease until now. */
  readonly busyMs: number;
  /** The numbers of the blocks in it, if its batch keeps a ledger of items. */
  readonly blocks: readonly number[];
}

export const deeds: fc.Arbitrary<Deeds> = fc.record({
  deeds: fc.array(fc.constantFrom(...DEEDS), { minLength: 1, maxLength: 5 }),
  intent: fc.constantFrom("yield", "keep"),
  memory: fc.constantFrom("good", "good", "good", "good", "amnesia", "contrary"),
  abandons: fc.nat(3).map((n) => n === 3),
  starts: fc.constantFrom(1, 1, 2, 9),
  keyed: fc.boolean(),
  limitWait: fc.option(
    fc.record({
      inMs: fc.constantFrom(1, 40, 5_000),
      waitReason: fc.constantFrom(...WAIT_REASONS),
      key: fc.constantFrom(null, "site"),
    }),
    { freq: 5 },
  ),
  busyMs: fc.constantFrom(0, 1, 7, 100, 12.5),
  blocks: fc.constantFrom<readonly number[]>([], [1], [1, 2], [2], [2, 3], [3, 5]),
});

interface Said {
  readonly words: Word[];
  readonly failures: Report["failures"][number][];
  readonly results: Report["results"][number][];
  readonly deferrals: Report["deferrals"][number][];
  readonly checkpoints: Report["checkpoints"][number][];
  readonly contents: Report["contents"][number][];
  readonly messages: Report["messages"][number][];
}

/** Contents that were claimed for items of a lease, by position. */
export type Claimed = ReadonlyMap<number, string>;

export function composeReport(
  held: Held,
  drawn: Deeds,
  now: number,
  claimed: Claimed = new Map(),
): Report {
  const { lease } = held;
  const said: Said = {
    words: drawn.memory === "good" ? [...held.words] : toWords(lease.outcomes, held.words.length),
    failures: [],
    results: [],
    deferrals: [],
    checkpoints: [],
    contents: [],
    messages: [],
  };
  const open = listOpen(held, now);
  const runs = lease.guarded ? open.filter((index) => held.started.includes(index)) : open;
  for (const [turn, index] of runs.entries()) {
    makeDescribe(held, index, drawn.deeds[turn % drawn.deeds.length]!, drawn.keyed, said);
  }
  for (const [index, content] of claimed) {
    // A report that omits an item's outcome may still name its content.
    const names = said.words[index] === "succeeded" || drawn.memory === "amnesia";
    if (names) said.contents.push({ index, content });
  }
  if (drawn.memory === "contrary") contradict(held, said);
  const { words, ...facts } = said;
  const rest = open.filter((index) => words[index] === "pending");
  const { batch, step, chunk, fence } = lease;
  return {
    batch,
    step,
    chunk,
    fence,
    outcomes: toMap(words),
    ...facts,
    commits: [],
    abandoned: drawn.abandons ? [0] : [],
    limitWait: drawn.limitWait,
    starting: lease.guarded && drawn.intent === "keep" ? rest.slice(0, drawn.starts) : [],
    intent: drawn.intent,
    busyMs: drawn.busyMs,
    ...(lease.ledger === true && { ledger: { blocks: drawn.blocks.map(makeBlock) } }),
  };
}

function makeBlock(number: number): LedgerBlock {
  const lines = `{"key":"☃","n":${number}}\n`;
  const details = number % 2 === 0 ? `{"i":0,"details":"\\"}\n` : null;
  return { number, count: 1, root: `root ${number}`, lines, details };
}

/** Pending items that are due. */
function listOpen({ words, dueAt }: Held, now: number): number[] {
  return [...words.keys()].filter(
    (index) => words[index] === "pending" && (dueAt.get(index) ?? 0) <= now,
  );
}

function makeDescribe(held: Held, index: number, deed: Deed, keyed: boolean, said: Said): void {
  const { lease } = held;
  const item = lease.start + index;
  const key = keyed ? `key ${item} 😀` : null;
  const attempts = (held.attempts.get(index) ?? 0) + 1;
  const fails = (
    errorClass: Report["failures"][number]["errorClass"],
    retryInMs: number | null,
  ): void => {
    const message = `attempt ${attempts} of ${item}: "no"\n☃`;
    said.failures.push({ index, key, attempts, errorClass, code: "E", message, retryInMs });
    if (retryInMs === null) said.words[index] = "failed";
  };
  const saves = (): void =>
    void said.checkpoints.push({ index, key, name: `stage ${attempts}`, data: `{"at":${item}}` });
  const emits = (): void => {
    for (const [nth, topic] of ["t1", "t2", "t1"].slice(item % 3).entries()) {
      said.messages.push({ index, topic, nth, body: `"☃ ${item} ${lease.fence}"` });
    }
  };
  switch (deed) {
    case "succeed":
      said.words[index] = "succeeded";
      break;
    case "bear fruit":
      said.words[index] = "succeeded";
      said.results.push({ index, key, value: `{"fence":${lease.fence}}` });
      break;
    case "take content":
      said.words[index] = "succeeded";
      said.contents.push({ index, content: CONTENTS[item % CONTENTS.length]! });
      break;
    case "emit":
      emits();
      said.words[index] = "succeeded";
      break;
    case "emit and skip":
      emits();
      said.words[index] = "skipped";
      break;
    case "emit and despair":
      emits();
      return fails("transient", null);
    case "skip":
      said.words[index] = "skipped";
      break;
    case "give up":
      return fails("permanent", null);
    case "despair":
      return fails("transient", null);
    case "wonder":
      return fails("unexpected", null);
    case "retry":
      return fails("transient", 0);
    case "retry late":
      return fails("unexpected", 30);
    case "come later":
      said.deferrals.push({ index, key, inMs: 25 });
      break;
    case "save":
      return saves();
    case "save and retry":
      saves();
      return fails("transient", 5);
    case "save and despair":
      saves();
      return fails("transient", null);
    case "leave":
      break;
  }
}

/** Contradicts the outcome of every finished item, and adds results for it. */
function contradict({ words }: Held, said: Said): void {
  for (const [index, word] of words.entries()) {
    if (word === "pending") continue;
    said.words[index] = word === "succeeded" ? "failed" : "succeeded";
    said.results.push({ index, key: "contrary", value: '"contrary"' });
    said.checkpoints.push({ index, key: "contrary", name: "contrary", data: "0" });
    said.messages.push({ index, topic: "t1", nth: "route", body: '"contrary"' });
  }
}
