/** Workers of a workspace that report their health, and what happened to their leases. */
import { randomBytes } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { type Running, Workspace } from "../../support/command-line.ts";

interface Health {
  readonly ok: boolean;
  readonly status: number;
  readonly reasons: readonly { readonly code: string; readonly message: string }[];
  readonly renewals: number;
  readonly leases: number;
  readonly task: { readonly expectedMs: number | null } | null;
}

export interface Answer {
  readonly status: number;
  readonly tookMs: number;
  readonly body: Health;
}

export type Settings = Readonly<Record<string, string>>;

const ASK_MS_MAX = 20_000;
const ASK_EVERY_MS = 50;
const SUBMIT = ["submit", "pipeline.ts", "--input", "items.jsonl"];
/** A pipeline without batches: its worker only sweeps. */
const OTHER = "other.ts";

/** Blocks the event loop for a while. */
export const BLOCK = `const block = (ms: number): void => {
  const end = performance.now() + ms;
  while (performance.now() < end);
};`;

export class HealthRig {
  readonly work = new Workspace();

  /** A pipeline whose file begins with its own code. */
  writePipeline(code: string, options: string): void {
    this.work.writePipeline(options);
    this.work.write("pipeline.ts", `${this.work.read("pipeline.ts")}\n${code}\n`);
  }

  async submit(items: number, env: Settings = {}): Promise<void> {
    this.work.writeItems(items);
    expect(await this.work.start(SUBMIT, { env }).ended).toMatchObject({ code: 0 });
  }

  async startWorker(
    env: Settings = {},
    ...args: readonly string[]
  ): Promise<{ readonly worker: Running; readonly url: string }> {
    const words = ["work", "pipeline.ts", "--health-port", "0", ...args];
    const worker = this.work.start(words, { env });
    await worker.waitFor(/health at http:\S+/);
    return { worker, url: /health at (http:\S+)/.exec(worker.stderr)?.[1] ?? "" };
  }

  /** Does nothing but sweep expired leases. */
  async startSweeper(env: Settings): Promise<Running> {
    this.work.writePipeline(`process: () => {}`, OTHER);
    this.work.write(OTHER, this.work.read(OTHER).replace('"letters"', '"other"'));
    const sweeper = this.work.start(["work", OTHER], { env });
    await sweeper.waitFor(/working on other/);
    return sweeper;
  }

  /** How often the chunks of the batch were leased, at most. */
  readHighestFence(): number {
    const db = new DatabaseSync(this.work.at(".sluice/sluice.db"), { readOnly: true });
    try {
      return Number(db.prepare("SELECT max(fence) AS fence FROM chunk").get()?.["fence"]);
    } finally {
      db.close();
    }
  }

  /** The items whose handlers wrote their ids. */
  listRan(): string[] {
    return this.work.read("ran.txt").trim().split("\n").toSorted();
  }
}

export async function ask(url: string): Promise<Answer> {
  const askedAt = performance.now();
  const response = await fetch(url, { signal: AbortSignal.timeout(ASK_MS_MAX) });
  const body = (await response.json()) as Health;
  return { status: response.status, tookMs: performance.now() - askedAt, body };
}

/** Asks until the answer is the expected one. */
export async function askUntil(url: string, isIt: (answer: Answer) => boolean): Promise<Answer> {
  for (;;) {
    const answer = await ask(url);
    if (isIt(answer)) return answer;
    await sleep(ASK_EVERY_MS);
  }
}

/** Asks until the worker has ended; the last question may find no worker. */
export async function askUntilOver(worker: Running, url: string): Promise<Answer[]> {
  const answers: Answer[] = [];
  while (!worker.isOver) {
    const answer = await ask(url).catch(() => null);
    if (answer !== null) answers.push(answer);
    await sleep(ASK_EVERY_MS);
  }
  return answers;
}

/** The answers that called a working process unhealthy. */
export function listRed(answers: readonly Answer[]): Answer[] {
  return answers.filter(({ status, body }) => status !== 200 && body.status === 1);
}

/** An address of the server with a schema of its own. */
export function makeOwnSchema(server: string): string {
  const url = new URL(server);
  url.searchParams.set("schema", `health_${randomBytes(6).toString("hex")}`);
  return url.href;
}
