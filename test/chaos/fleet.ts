/** Several real processes on one SQLite file, and what they have done together. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { openSqliteStore } from "../../src/adapters/sqlite/store.ts";
import type { Store } from "../../src/ports/store/store.ts";
import type { BatchEvent } from "../../src/ports/store/batch-event.ts";
import { readEvent } from "../../src/runtime/delivering/batch-event.ts";
import { Engine } from "../../src/runtime/engine/engine.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { systemRandom } from "../../src/runtime/system/system-random.ts";

export interface FleetOptions {
  readonly store: string;
  readonly log: string;
  /** How long a handler takes. */
  readonly workMs: number;
  /** Handlers write down their starts and ends. */
  readonly writes: boolean;
  readonly chunkSize: number;
  readonly concurrency: number;
  readonly leaseItemsMax: number;
  readonly sweepMs: number;
}

export interface Order {
  readonly pipeline: "owned" | "sourced";
  readonly lane: string;
  readonly items: number;
}

export type Request =
  | { readonly kind: "submit"; readonly orders: readonly Order[]; readonly thenDie: boolean }
  | { readonly kind: "close" };

export type Reply =
  | { readonly kind: "ready" }
  | { readonly kind: "submitted"; readonly batches: readonly string[] };

/**
 * A line of a handler: what it did, to which item, when, and the state of its batch in the store.
 */
export interface Line {
  readonly what: "start" | "end";
  readonly batch: string;
  readonly lane: string;
  readonly item: number;
  /** On the monotonic clock, which all processes of a host share. */
  readonly at: number;
  readonly state: string;
}

const PROCESS = fileURLToPath(new URL("./fleet-process.ts", import.meta.url));
const PAGE = 10_000;

export class Fleet {
  readonly folder: string;
  readonly #options: FleetOptions;
  readonly #members: Member[] = [];
  readonly store: Store;
  /** Submits, cancels and waits in this process; runs no items. */
  readonly engine: Engine;
  #logs = 0;

  private constructor(folder: string, options: FleetOptions, store: Store, engine: Engine) {
    this.folder = folder;
    this.#options = options;
    this.store = store;
    this.engine = engine;
  }

  static async start(
    size: number,
    { sweepMs = 100, ...options }: Partial<FleetOptions> = {},
  ): Promise<Fleet> {
    const folder = mkdtempSync(join(tmpdir(), "sluice-fleet-"));
    const path = join(folder, "store.db");
    const parts = { clock: systemClock, random: systemRandom, synchronous: "normal" as const };
    const store = await openSqliteStore(path, parts);
    const engine = await Engine.start(store, { work: false }, { sweepMs });
    const filled = {
      store: path,
      log: "",
      workMs: 0,
      writes: true,
      chunkSize: 1,
      concurrency: 4,
      leaseItemsMax: 2,
      sweepMs,
      ...options,
    };
    const fleet = new Fleet(folder, filled, store, engine);
    await Promise.all(Array.from({ length: size }, () => fleet.add()));
    return fleet;
  }

  /** Starts one more process. */
  async add(): Promise<Member> {
    const log = join(this.folder, `ran-${String(++this.#logs).padStart(4, "0")}.log`);
    const member = new Member({ ...this.#options, log });
    this.#members.push(member);
    await member.ready;
    return member;
  }

  get members(): readonly Member[] {
    return this.#members.filter(({ isAlive }) => isAlive);
  }

  /** What all handlers have written, in the order of time. */
  readLines(): Line[] {
    const logs = readdirSync(this.folder).filter((name) => name.startsWith("ran-"));
    const lines = logs.flatMap((name) =>
      readFileSync(join(this.folder, name), "utf8").split("\n").map(readLine),
    );
    return lines.filter((line) => line !== null).toSorted((a, b) => a.at - b.at);
  }

  /** All records of all batches, in the order of their commits. */
  async readRecords(): Promise<(BatchEvent & { readonly position: number })[]> {
    const found: (BatchEvent & { position: number })[] = [];
    for (let position = 0; ; ) {
      const page = await this.store.readRecords(null, position, PAGE);
      found.push(...page.map((record) => ({ ...readEvent(record), position: record.position })));
      if (page.length < PAGE) return found;
      position = page.at(-1)?.position ?? position;
    }
  }

  /** Lets every process end: each must exit in order. */
  async close(): Promise<void> {
    const codes = await Promise.all(this.members.map((member) => member.close()));
    expect(codes.filter((code) => code !== 0)).toEqual([]);
  }

  async dispose(): Promise<void> {
    for (const member of this.members) await member.kill();
    await this.engine.close();
    await this.store.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/**
 * One process of a fleet, or another program that reports when it is ready and closes on request.
 */
export class Member {
  readonly #child: ChildProcess;
  readonly #exited: Promise<number | null>;
  readonly ready: Promise<unknown>;
  isAlive = true;

  constructor(options: object, program = PROCESS) {
    this.#child = fork(program, [JSON.stringify(options)], { execArgv: [] });
    this.ready = this.#hear();
    // A test that kills it earlier need not wait for it.
    this.ready.catch(() => undefined);
    this.#exited = once(this.#child, "exit").then(([code]) => {
      this.isAlive = false;
      return code as number | null;
    });
  }

  /** Returns the batches when all of them are submitted. */
  async submit(orders: readonly Order[], { thenDie = false } = {}): Promise<readonly string[]> {
    const heard = this.#hear();
    this.#child.send({ kind: "submit", orders, thenDie } satisfies Request);
    const answer = await heard;
    return answer.kind === "submitted" ? answer.batches : [];
  }

  async close(): Promise<number | null> {
    this.#child.send({ kind: "close" } satisfies Request);
    return this.#exited;
  }

  /** Kills it as a power cut does, and returns when it is gone. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#exited;
  }

  /** The process's next message; fails when it ends without one. */
  async #hear(): Promise<Reply> {
    const gone = new AbortController();
    const exit = once(this.#child, "exit", { signal: gone.signal }).then(([code, signal]) => {
      throw new Error(`the process ended before it answered: ${String(code ?? signal)}`);
    });
    try {
      const [reply] = (await Promise.race([once(this.#child, "message"), exit])) as [Reply];
      return reply;
    } finally {
      gone.abort();
      exit.catch(() => undefined);
    }
  }
}

function readLine(text: string): Line | null {
  const [what, batch, lane, item, at, state] = text.split(" ");
  // A killed process may leave a partial line.
  if (state === undefined || batch === undefined || lane === undefined) return null;
  return { what: what as Line["what"], batch, lane, item: Number(item), at: Number(at), state };
}
