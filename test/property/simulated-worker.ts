/**
 * A worker as a store sees it: it leases, runs what is pending and due, reports, forgets, dies, and
 * comes back with stale leases. Small numbers that a test draws decide about each item, so that a
 * failing run can be replayed and shrunk.
 */
import type {
  LeasedChunk,
  LeaseRef,
  Report,
  WorkResult,
} from "../../src/ports/store/worker-store.ts";
import { toMap, toWords, type Word } from "../support/outcome-words.ts";
import type { Witness } from "./witness.ts";

/** How a report treats earlier outcomes. */
export const MEMORIES = ["good", "amnesia", "contrary"] as const;

export interface Deeds {
  /** One number per item, modulo their number: see `DEEDS`. */
  readonly deeds: readonly number[];
  readonly intent: Report["intent"];
  /** `amnesia` builds on the map of the lease alone; `contrary` also contradicts finished items. */
  readonly memory: (typeof MEMORIES)[number];
  /** Positions whose handlers ignore a stop. */
  readonly abandoned?: readonly number[];
}

/** What a number does to an item; the rest is left for later. */
const DEEDS = ["succeed", "result", "skip", "give_up", "despair", "retry", "retry"] as const;
export const DEED_MAX = DEEDS.length + 1;
const RETRIES_MS = [0, 5, 10, 30] as const;
const ERRORS = ["transient", "unexpected"] as const;
/** Starts of a guarded run that are written together. */
const GROUP_MAX = 3;

export interface Held {
  readonly lease: LeasedChunk;
  readonly leasedAt: number;
  /** What the worker knows to be stored. */
  words: Word[];
  readonly attempts: Map<number, number>;
  readonly dueAt: Map<number, number>;
  /** Guarded runs: what may run now. */
  started: readonly number[];
}

/** Of a request without any cap. */
export const UNCAPPED = { slots: 1, keeps: [] } as const;

export class SimulatedWorker {
  readonly number: number;
  held: Held[] = [];
  /** Reports whose reply was lost: they are sent again, unchanged, before anything else. */
  unanswered: readonly Report[] = [];
  /** Leases that it lost, gave back or forgot. */
  readonly graveyard: Held[] = [];

  constructor(number: number) {
    this.number = number;
  }

  /** Forgets everything, as a killed process does. */
  die(): void {
    this.graveyard.push(...this.held);
    this.held = [];
    this.unanswered = [];
  }

  take(answer: WorkResult, reports: readonly Report[], now: number): void {
    for (const [index, report] of reports.entries()) this.#learn(report, answer.reports[index]!);
    for (const lease of answer.leased) this.accept(lease, now);
  }

  accept(lease: LeasedChunk, now: number): void {
    this.held.push(makeHeld(lease, now));
  }

  #learn(report: Report, result: WorkResult["reports"][number]): void {
    const held = this.held.find(({ lease }) => isSame(lease, report));
    if (held === undefined) return;
    if (result !== "kept") {
      this.held = this.held.filter((one) => one !== held);
      this.graveyard.push(held);
      return;
    }
    const said = toWords(report.outcomes, held.words.length);
    held.words = held.words.map((word, index) => (word === "pending" ? said[index]! : word));
    for (const { index, attempts, retryInMs } of report.failures) {
      held.attempts.set(index, attempts);
      if (retryInMs !== null) held.dueAt.set(index, Number.POSITIVE_INFINITY);
    }
    held.started = report.starting;
  }
}

function makeHeld(lease: LeasedChunk, now: number): Held {
  return {
    lease,
    leasedAt: now,
    words: toWords(lease.outcomes, lease.end - lease.start),
    attempts: new Map(lease.histories.map(({ index, attempts }) => [index, attempts])),
    dueAt: new Map(lease.histories.map(({ index, dueInMs }) => [index, now + dueInMs])),
    started: [],
  };
}

function isSame(a: LeaseRef, b: LeaseRef): boolean {
  const place = (ref: LeaseRef): string => `${ref.batch}/${ref.step}/${ref.chunk}/${ref.fence}`;
  return place(a) === place(b);
}

/** Runs what may run and reports on it. Without a witness the runs belong to a stale worker. */
export function makeReport(held: Held, deeds: Deeds, now: number, witness: Witness | null): Report {
  const { lease } = held;
  const pending = [...held.words.keys()].filter((index) => held.words[index] === "pending");
  const runnable = pending.filter((index) => (held.dueAt.get(index) ?? 0) <= now);
  const mayRun = lease.guarded ? runnable.filter((one) => held.started.includes(one)) : runnable;
  const said =
    deeds.memory === "good" ? [...held.words] : toWords(lease.outcomes, held.words.length);
  const failures: Report["failures"][number][] = [];
  const results: Report["results"][number][] = [];
  const left: number[] = [];
  for (const [turn, index] of mayRun.entries()) {
    const drawn = deeds.deeds[turn % deeds.deeds.length] ?? 0;
    const deed = DEEDS[drawn];
    if (deed === undefined) {
      left.push(index);
      continue;
    }
    witness?.seeRun(lease, index);
    const item = lease.start + index;
    if (deed === "give_up" || deed === "despair" || deed === "retry") {
      const retryInMs = deed === "retry" ? (RETRIES_MS[(drawn + index) % 4] ?? 0) : null;
      const attempts = (held.attempts.get(index) ?? 0) + 1;
      // A permanent error is given up at once, others after some attempts.
      const errorClass = deed === "give_up" ? "permanent" : ERRORS[index % 2]!;
      failures.push({
        index,
        key: `key ${item}`,
        attempts,
        errorClass,
        code: "E",
        message: `${attempts} times`,
        retryInMs,
      });
      if (retryInMs === null) said[index] = "failed";
    } else {
      said[index] = deed === "skip" ? "skipped" : "succeeded";
      if (deed === "result") results.push({ index, key: null, value: `"${item}/${lease.fence}"` });
    }
  }
  if (deeds.memory === "contrary") contradict(held, said, results);
  const { batch, step, chunk, fence } = lease;
  const outcomes = toMap(said);
  const starting =
    lease.guarded && deeds.intent === "keep" ? chooseStarts(held, said, left, now) : [];
  const named = {
    deferrals: [],
    checkpoints: [],
    contents: [],
    messages: [],
    commits: [],
    abandoned: deeds.abandoned ?? [],
    limitWait: null,
  };
  const { intent } = deeds;
  const told = { outcomes, failures, results, ...named, starting, intent, busyMs: 0 };
  return { batch, step, chunk, fence, ...told };
}

/** Contradicts the outcome of every finished item, and adds results for it. */
function contradict(held: Held, said: Word[], results: Report["results"][number][]): void {
  for (const [index, word] of held.words.entries()) {
    if (word === "pending") continue;
    said[index] = word === "succeeded" ? "failed" : "succeeded";
    results.push({ index, key: "contrary", value: '"contrary"' });
  }
}

/** A suspect runs alone; items that still run are named again. */
function chooseStarts(
  held: Held,
  said: readonly Word[],
  running: readonly number[],
  now: number,
): number[] {
  if (running.length > 0) return [...running];
  const deaths = new Map(held.lease.histories.map(({ index, deaths: n }) => [index, n]));
  const next = [...said.keys()].filter(
    (index) =>
      said[index] === "pending" &&
      held.words[index] === "pending" &&
      (held.dueAt.get(index) ?? 0) <= now,
  );
  const suspect = next.find((index) => (deaths.get(index) ?? 0) >= 2);
  return suspect === undefined ? next.slice(0, GROUP_MAX) : [suspect];
}
