/**
 * Several processes of the built command at work on one batch in one store, to be killed,
 * stopped and started again; and what anybody can see of it all.
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
  /** Settings of every engine; leases that a busy machine does not lose, and quick sweeps. */
  readonly settings?: Readonly<Record<string, number>>;
  /** Where the store is: a path from the working folder, or the address of a server. */
  readonly store?: string;
  /** A file that events are delivered to, from the working folder. Default none. */
  readonly events?: string;
}

export interface MemberOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** A program that is put before the command, with its arguments. */
  readonly before?: readonly string[];
  /** Further arguments of the command. */
  readonly args?: readonly string[];
}

export interface Member {
  /** Another one for each start: it is what its handlers call themselves. */
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

export const LEASE_MS = 5_000;
export const SWEEP_MS = 500;
const SETTINGS = { leaseMs: LEASE_MS, renewMs: 1_500, sweepMs: SWEEP_MS };
const PIPELINE = new URL("./chaos-pipeline.ts", import.meta.url);
const ARGUMENTS: Readonly<Record<Role, readonly string[]>> = {
  run: ["run", "pipeline.ts", "--input", "items.jsonl", "--key", "chaos", "--json"],
  submit: ["submit", "pipeline.ts", "--input", "items.jsonl", "--key", "chaos", "--json"],
  work: ["work", "pipeline.ts"],
};
/** As docs/reference/pipeline-options.md has it, and chaos-pipeline.ts says again. */
const ATTEMPTS_MAX = 4;
export class Crew {
  readonly work = new Workspace();
  readonly kills: Kill[] = [];
  /** Sees what anybody can see of it. */
  readonly onlooker: Onlooker;
  /** Names of those that were killed, stopped or kept from writing. */
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

  /** Ends it as a power cut would; resolves when it is gone. */
  async kill(member: Member): Promise<void> {
    this.disturbed.add(member.name);
    const at = readMonotonicMs();
    member.running.signal("SIGKILL");
    const { signal } = await member.running.ended;
    this.#members.delete(member);
    // It may have been quicker than its executioner.
    if (signal === "SIGKILL") this.kills.push({ process: member.name, at });
    else this.disturbed.delete(member.name);
  }

  /**
   * Puts a process to sleep. One that is stopped inside a transaction keeps the file's lock, and
   * nobody can go on: that is SQLite's way, and not what is asked where this is called.
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

  /** Puts a process to sleep wherever it is; answers since when. */
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
   * As a supervisor would: whoever was refused for the moment comes again. Nobody may end for any other
   * reason, but for a `run` that has seen the end of its batch.
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

  /** Asks processes to end, as a supervisor would: each must do so in good order. */
  async stop(members: readonly Member[] = this.members): Promise<void> {
    for (const { running } of members) running.signal("SIGTERM");
    for (const member of members) {
      const { name, running } = member;
      const { code, signal, stderr } = await running.ended;
      this.#members.delete(member);
      // One that has not installed its handlers yet dies of the signal.
      const isOrderly = ORDERLY_EXITS.includes(code) || signal === "SIGTERM";
      expect(isOrderly, `${name} exited with ${code ?? signal}:\n${stderr}`).toBe(true);
    }
  }

  /** All that can be seen of the batch after its end; then the processes are told to stop. */
  async gather(): Promise<Evidence> {
    const { items, chunkSize } = this.#options;
    // Whoever is left delivers the events.
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

  /** Is called when all processes are gone, before the folder is. */
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
/** Of a worker, of a `run` that was stopped, and of one that had just seen the end of its batch. */
const ORDERLY_EXITS: readonly (number | null)[] = [0, 143, 3, 4];

/** The beat of the disturbances: false when the time has come, true when the batch ended before. */
export async function isOverWithin(ended: Promise<unknown>, ms: number): Promise<boolean> {
  const beat = new AbortController();
  const time = delay(ms, false, { signal: beat.signal }).catch(() => false);
  const isOver = await Promise.race([ended.then(() => true), time]);
  beat.abort();
  return isOver;
}
