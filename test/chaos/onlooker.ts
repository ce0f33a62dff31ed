/**
 * Observes a batch from outside: with the built command, the file of delivered events, and the
 * lines that handlers wrote.
 */
import { existsSync, readFileSync } from "node:fs";
import { expect, vi } from "vitest";
import { type BatchLine, readLines, type Workspace } from "../support/command-line.ts";
import type {
  DeliveredEvent,
  Evidence,
  LetterLine,
  Look,
  ResultLine,
  StatusLine,
} from "./black-box/evidence.ts";
import { countLines, readMonotonicMs, readRuns, RUNS_FOLDER } from "./black-box/run-log.ts";
import { checkStoredChains } from "./stored-chains.ts";

export interface OnlookerParts {
  readonly work: Workspace;
  /** The path of the store, or its address. */
  readonly store: string;
  /** The file of delivered events, from the working folder; null without a sink. */
  readonly events: string | null;
}

type Seen = Pick<Evidence, "runs" | "looks" | "status" | "results" | "letters" | "delivered">;

/** A general time limit: generous, because the machine may be busy. */
export const WAIT_MS = 60_000;

/** If anything moves at all, this many come within any wait. */
const LINES_AT_ONCE = 10_000;

export class Onlooker {
  readonly looks: Look[] = [];
  readonly #parts: OnlookerParts;
  #batch: string | null = null;
  /** What `watch` printed about the end. */
  #ending: BatchLine | null = null;
  #exports = 0;

  constructor(parts: OnlookerParts) {
    this.#parts = parts;
  }

  /** The batch's id, as soon as it is submitted. */
  async findBatch(): Promise<string> {
    this.#batch ??= await vi.waitFor(
      async () => {
        const { stdout, stderr } = await this.#parts.work.run("list", "--json");
        // Before the store exists the line says so and names no batch.
        const [line] = readLines<Partial<BatchLine>>(stdout);
        if (line?.batch === undefined) throw new Error(`no batch yet: ${stderr}`);
        return line.batch;
      },
      { timeout: WAIT_MS, interval: 50 },
    );
    return this.#batch;
  }

  /** Resolves after this number of starts and ends of items, while the number grows. */
  async waitForLines(lines: number): Promise<void> {
    const limits = { timeout: 2 * WAIT_MS, interval: 5 };
    for (let seen = 0; seen < lines; seen = this.countLines()) {
      const enough = Math.min(lines, seen + LINES_AT_ONCE);
      await vi.waitUntil(() => this.countLines() >= enough, limits);
    }
  }

  countLines(): number {
    return countLines(this.#parts.work.at(RUNS_FOLDER));
  }

  /**
   * Resolves when the batch has ended, in any state. Tries again while the store cannot be reached.
   */
  async waitForEnd(): Promise<void> {
    const batch = await this.findBatch();
    for (;;) {
      const { stdout, stderr } = await this.#parts.work.run("status", batch, "--watch", "--json");
      const [line] = readLines<BatchLine & { readonly error?: { readonly code: string } }>(stdout);
      if (line?.error?.code === "STORE_UNREACHABLE") continue;
      if (line === undefined || line.error !== undefined) {
        throw new Error(`watch did not report the end: ${stdout}${stderr}`);
      }
      this.#ending = line;
      return;
    }
  }

  /** Saves the state of the batch now, with its results if requested. */
  async look({ withResults = false } = {}): Promise<Look> {
    const [status, results] = await Promise.all([
      this.readStatus(),
      withResults ? this.#exportResults() : null,
    ]);
    const look = { at: readMonotonicMs(), status, results };
    this.looks.push(look);
    return look;
  }

  async readStatus(): Promise<StatusLine> {
    const batch = await this.findBatch();
    const { view, code, stderr } = await this.#parts.work.runJson<StatusLine>("status", batch);
    expect(code, stderr).toBe(0);
    return view;
  }

  /** Everything that can be observed after the end. A process must be running to deliver events. */
  async seeAll(): Promise<Seen> {
    const { work, events } = this.#parts;
    const batch = await this.findBatch();
    const [status, results, { stdout }] = await Promise.all([
      this.readStatus(),
      this.#exportResults(),
      work.run("dead", batch, "--json"),
    ]);
    if (this.#ending !== null) {
      const { elapsedMs: _elapsedMs, ...ending } = this.#ending;
      expect(status, "watch and status differ").toMatchObject(ending);
    }
    await checkStoredChains(this.#parts.store);
    return {
      runs: readRuns(work.at(RUNS_FOLDER), batch),
      looks: this.looks,
      status,
      results,
      letters: readLines<LetterLine>(stdout),
      delivered: events === null ? null : await this.#waitForDelivery(events, status),
    };
  }

  async #waitForDelivery(file: string, { batch, events }: StatusLine): Promise<DeliveredEvent[]> {
    const last = `${batch}/${events.at(-1)?.seq}`;
    let delivered: DeliveredEvent[] = [];
    const isDelivered = (): boolean => {
      delivered = this.#readDelivered(file);
      return delivered.some(({ id }) => id === last);
    };
    await vi.waitUntil(isDelivered, { timeout: WAIT_MS, interval: 100 });
    return delivered;
  }

  /** A killed sink may have left a partial line, which the next one completes. */
  #readDelivered(file: string): DeliveredEvent[] {
    const { work } = this.#parts;
    const text = existsSync(work.at(file)) ? work.read(file) : "";
    return readLines<DeliveredEvent>(text.slice(0, text.lastIndexOf("\n") + 1));
  }

  async #exportResults(): Promise<ResultLine[]> {
    const { work } = this.#parts;
    const file = `export-${++this.#exports}.jsonl`;
    const { code, stderr } = await work.run("results", await this.findBatch(), "-o", file);
    expect(code, stderr).toBe(0);
    const lines = readFileSync(work.at(file), "utf8").split("\n");
    const results = lines.filter((line) => line !== "");
    return shareValues(results.map((line) => JSON.parse(line) as ResultLine));
  }
}

/** In a million lines most repeat the same values: each value is kept once. */
function shareValues(lines: readonly ResultLine[]): ResultLine[] {
  const known = new Map<string, ResultLine["value"]>();
  return lines.map(({ item, key, value }) => {
    const name = `${value.by}/${value.fence}/${value.attempt}`;
    const shared = known.get(name) ?? value;
    known.set(name, shared);
    return { item, key, value: shared };
  });
}
