/**
 * Several processes of the built command work on one batch in one store. Tests kill, stop and
 * restart them and collect what an outside observer sees.
 */
import { DatabaseSync } from "node:sqlite";
import { setTimeout as delay } from "node:timers/promises";
import { expect, vi } from "vitest";
import { isAddress } from "../../src/adapters/postgres/connection/address.ts";
import { COMMAND, type Running, Workspace } from "../support/command-line.ts";
import type { Evidence } from "./black-box/evidence.ts";
import { markCaught, type Nap } from "./black-box/naps.ts";
import { readMonotonicMs } from "./black-box/run-log.ts";
import type { ChaosOptions } from "./chaos-pipeline.ts";
import { Onlooker, WAIT_MS } from "./onlooker.ts";

export type Role = "run" | "work" | "submit";

export interface CrewOptions extends Partial<ChaosOptions> {
  readonly items: number;
  /** Settings of every engine: leases that survive a busy machine, and frequent sweeps. */
  readonly settings?: Readonly<Record<string, number>>;
  /** The store: a path from the working folder, or the address of a server. */
  readonly store?: string;
  /** A file of delivered events, from the working folder. Default none. */
  readonly events?: string;
}

export interface MemberOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** A program that runs the command, with its arguments. */
  readonly before?: readonly string[];
  /** Further arguments of the command. */
  readonly args?: readonly string[];
}

export interface Member {
  /** A new name for each start: handlers write it. */
  readonly name: string;
  readonly role: Role;
  readonly options: MemberOptions;
  readonly running: Running;
}

export interface Kill {
  readonly process: string;
  /** On the monotonic clock, just before the signal. */
  readonly at: number;
}

export const LEASE_MS = 4_500;
/** Of a file; a server is swept every third of a lease. */
export const SWEEP_MS = 1_000;
const SETTINGS = { leaseMs: LEASE_MS };
const PIPELINE = new URL("./chaos-pipeline.ts", import.meta.url);
const ARGUMENTS: Readonly<Record<Role, readonly string[]>> = {
  run: ["run", "pipeline.ts", "--input", "items.jsonl", "--key", "chaos", "--json"],
  submit: ["submit", "pipeline.ts", "--input", "items.jsonl", "--key", "chaos", "--json"],
  work: ["work", "pipeline.ts"],
};
/** The same as in docs/reference/pipeline-options.md and chaos-pipeline.ts. */
const ATTEMPTS_MAX = 4;
export class Crew {
  readonly work = new Workspace();
  readonly kills: Kill[] = [];
  /** Observes the batch from outside. */
  readonly onlooker: Onlooker;
  /** Names of the processes that were killed, stopped or kept from writing. */
  readonly disturbed = new Set<string>();
  readonly #options: CrewOptions & ChaosOptions;
  readonly #isNotified: boolean;
  readonly #leaseMs: number;
  readonly #store: string;
  readonly #naps: Nap[] = [];
  readonly #members = new Set<Member>();
  readonly #cleanUps: (() => void)[] = [];
  #starts = 0;

  constructor(given: CrewOptions) {
    const { settings = {}, store = "store.db", events = null, ...options } = given;
    this.#options = {
      chunkSize: 100,
      concurrency: 8,
      workMs: 10,
      mixed: false,
      ballastChars: 0,
      retryAfterMs: 0,
      rate: null,
      pace: null,
      ...options,
    };
    const { work } = this;
    this.#store = isAddress(store) ? store : work.at(store);
    this.#leaseMs = settings["leaseMs"] ?? LEASE_MS;
    this.#isNotified = events !== null;
    this.onlooker = new Onlooker({ work, store: this.#store, events });
    work.write("chaos.json", JSON.stringify(this.#options));
    work.write("pipeline.ts", `export { chaosPipeline as default } from "${PIPELINE.href}";\n`);
    const config = JSON.stringify({ store, ...SETTINGS, ...settings });
    work.write(
      "sluice.config.ts",
      `import { fileSink } from "sluice";
const path = ${JSON.stringify(events)};
export default { ...${config}, ...(path && { notify: { log: fileSink({ path }) } }) };
`,
    );
    work.writeItems(given.items);
  }

  get members(): readonly Member[] {
    return [...this.#members].filter(({ running }) => !running.isOver);
  }

  start(role: Role, options: MemberOptions = {}): Member {
    const name = `${role}-${String(++this.#starts).padStart(4, "0")}`;
    const { before = [], args = [], env = {} } = options;
    const line = [...before, process.execPath, COMMAND, ...ARGUMENTS[role], ...args];
    const [program = "", ...rest] = line;
    const running = this.work.startProgram(program, rest, { ...env, CHAOS_NAME: name }, GROUPED);
    const member = { name, role, options, running };
    this.#members.add(member);
    return member;
  }

  /** Kills it as a power cut does. Resolves when it is gone. */
  async kill(member: Member): Promise<void> {
    this.disturbed.add(member.name);
    const at = readMonotonicMs();
    member.running.signal("SIGKILL");
    const { signal } = await member.running.ended;
    this.#members.delete(member);
    // It may have ended just before the kill.
    if (signal === "SIGKILL") this.kills.push({ process: member.name, at });
    else this.disturbed.delete(member.name);
  }

  /**
   * Stops a process. A process that is stopped inside a transaction keeps the lock of the file, and
   * all others are blocked. That is how SQLite works and not the subject here.
   */
  sleep(member: Member): Promise<number> {
    return vi.waitFor(
      () => {
        const from = this.freeze(member);
        const database = new DatabaseSync(this.#store, { timeout: 0 });
        try {
          database.exec("BEGIN IMMEDIATE; ROLLBACK");
          return from;
        } catch (error) {
          this.wake(member);
          throw error;
        } finally {
          database.close();
        }
      },
      { timeout: WAIT_MS, interval: 3 },
    );
  }

  /** Stops a process wherever it is. Returns the time of the stop. */
  freeze({ name, running }: Member): number {
    this.disturbed.add(name);
    running.signal("SIGSTOP");
    const nap = { process: name, from: readMonotonicMs(), to: null };
    this.#naps.push(nap);
    return nap.from;
  }

  wake({ name, running }: Member): void {
    const nap = this.#naps.findLast(({ process }) => process === name);
    if (nap !== undefined) nap.to = readMonotonicMs();
    running.signal("SIGCONT");
  }

  restart({ role, options }: Member): Member {
    return this.start(role, options);
  }

  /**
   * Does what a supervisor does: restarts a process after a temporary refusal. No process may end
   * for any other reason, except a `run` that has seen the end of its batch.
   */
  supervise(mayEnd: RegExp = NEVER): void {
    for (const member of this.#members) {
      const { name, role, running } = member;
      if (!running.isOver) continue;
      this.#members.delete(member);
      if (mayEnd.test(running.stderr)) this.restart(member);
      else if (role === "work" || /^error /m.test(running.stderr)) {
        throw new Error(`${name} ended:\n${running.stderr}`);
      }
    }
  }

  /** Asks processes to end, as a supervisor does. Each must end in order. */
  async stop(members: readonly Member[] = this.members): Promise<void> {
    for (const { running } of members) running.signal("SIGTERM");
    for (const member of members) {
      const { name, running } = member;
      const { code, signal, stderr } = await running.ended;
      this.#members.delete(member);
      // A process that has not installed its handlers yet dies of the signal.
      const isOrderly = ORDERLY_EXITS.includes(code) || signal === "SIGTERM";
      expect(isOrderly, `${name} exited with ${code ?? signal}:\n${stderr}`).toBe(true);
    }
  }

  /** Everything that can be observed after the end of the batch. Then the processes are stopped. */
  async gather(): Promise<Evidence> {
    const { items, chunkSize } = this.#options;
    // The remaining processes deliver the events.
    if (this.#isNotified && this.members.length === 0) this.start("work");
    const seen = await this.onlooker.seeAll();
    await this.stop();
    markCaught(seen.runs, this.#naps);
    return {
      ...seen,
      items,
      chunkSize,
      leasesAreLong: this.#leaseMs >= LEASE_MS,
      attemptsMax: ATTEMPTS_MAX,
      disturbed: this.disturbed,
    };
  }

  /** Called when all processes are gone, before the folder is deleted. */
  onDispose(cleanUp: () => void): void {
    this.#cleanUps.push(cleanUp);
  }

  async dispose(): Promise<void> {
    for (const { running } of this.members) {
      running.signal("SIGCONT");
      running.signal("SIGKILL");
      await running.ended;
    }
    for (const cleanUp of this.#cleanUps) cleanUp();
    this.work.remove();
  }
}

const GROUPED = { grouped: true };
const NEVER = /(?!)/;
/**
 * Exit codes of a worker, of a stopped `run`, and of a `run` that had just seen the end of its
 * batch.
 */
const ORDERLY_EXITS: readonly (number | null)[] = [0, 143, 3, 4];

/**
 * The interval between disturbances. False when the time is over, true when the batch ended before.
 */
export async function isOverWithin(ended: Promise<unknown>, ms: number): Promise<boolean> {
  const beat = new AbortController();
  const time = delay(ms, false, { signal: beat.signal }).catch(() => false);
  const isOver = await Promise.race([ended.then(() => true), time]);
  beat.abort();
  return isOver;
}
