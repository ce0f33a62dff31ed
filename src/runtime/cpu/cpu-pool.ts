/**
 * Runs tasks in a few members (processes or threads), one task at a time in each. Members start
 * when there is work, and are replaced after many tasks or when they use much memory. When a member
 * dies, another one runs its task, until the deaths show that the task is the cause: see
 * core/items/poison.ts.
 */
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { FatalError, PermanentError, TransientError } from "../../core/base/errors.ts";
import { DEATHS_MAX, isPoisonAlone } from "../../core/items/poison.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log } from "../system/log.ts";
import { StopSignal } from "../system/stop-signals.ts";
import type { CpuSettings } from "./cpu-settings.ts";
import { CpuPoolBroken, type CpuTask } from "./cpu-task.ts";
import { type CpuAnswer, type Member, MemberDeath, type StartMember } from "./member.ts";
import { MemoryWatch } from "./memory-watch.ts";
import { readThrown } from "./thrown.ts";

/** Tasks that may wait for a member: the number of handlers is bounded, but not their tasks. */
const WAITING_MAX = 10_000;
/** A member without work ends after this time. */
const IDLE_MS = 60_000;
/** Failed starts in a row before waiting tasks are refused. */
const START_FAILURES_MAX = 5;
const START_RETRY_MS = 200;

export interface CpuPoolParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly start: StartMember;
}

type Waiter = PromiseWithResolvers<Member>;

export class CpuPool {
  readonly #settings: CpuSettings;
  readonly #parts: CpuPoolParts;
  readonly #memory: MemoryWatch;
  /** All running members, with the number of tasks that each has run. */
  readonly #members = new Map<Member, number>();
  /** Members without work, with a function that cancels their idle timer. */
  readonly #idle = new Map<Member, () => void>();
  readonly #waiting: Waiter[] = [];
  #starting = 0;
  #startFailures = 0;
  #closed = false;

  constructor(settings: CpuSettings, parts: CpuPoolParts) {
    this.#settings = settings;
    this.#parts = parts;
    this.#memory = new MemoryWatch(parts.clock, settings.memoryBytesMax);
  }

  async run(task: CpuTask): Promise<unknown> {
    for (let deaths = 1; ; deaths++) {
      const member = await this.#take(task.signal);
      try {
        return readAnswer(await this.#serve(member, task));
      } catch (error) {
        if (!(error instanceof MemberDeath)) throw error;
        // The pool killed it because the handler has stopped: that is no death of the task's
        // making.
        task.signal.throwIfAborted();
        this.#logDeath(task, error, deaths);
        if (isPoisonAlone(deaths)) throw this.#convict(task, error);
        if (this.#hasMoved(task)) throw this.#makeRetryError(task, error);
      }
    }
  }

  /** Kills running tasks; resolves when all members are gone. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#refuseWaiting(makeStopSignal());
    const members = [...this.#members.keys()];
    for (const member of members) {
      if (this.#idle.has(member)) this.#retire(member);
      else member.kill("was stopped with its worker");
    }
    await Promise.all(members.map(({ gone }) => gone));
  }

  /** Takes a member for one task; it must be put back. */
  async #take(signal: AbortSignal): Promise<Member> {
    signal.throwIfAborted();
    if (this.#closed) throw makeStopSignal();
    const [free] = this.#idle;
    if (free !== undefined) {
      const [member, cancelIdle] = free;
      cancelIdle();
      this.#idle.delete(member);
      return member;
    }
    if (this.#waiting.length >= WAITING_MAX) {
      throw new TransientError(`more than ${WAITING_MAX} CPU tasks wait for their turn`, {
        code: "CPU_QUEUE_FULL",
      });
    }
    const waiter: Waiter = Promise.withResolvers<Member>();
    this.#waiting.push(waiter);
    this.#grow();
    const leave = (): void => {
      const at = this.#waiting.indexOf(waiter);
      if (at !== -1) this.#waiting.splice(at, 1);
      waiter.reject(signal.reason as Error);
    };
    signal.addEventListener("abort", leave);
    try {
      return await waiter.promise;
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  async #serve(member: Member, task: CpuTask): Promise<CpuAnswer> {
    const { module, exportName, data, transfer, timeLimitMs, signal } = task;
    const stop = (): void => member.kill("was stopped");
    // The signal may have fired while the member was being handed over.
    if (signal.aborted) {
      this.#putBack(member);
      throw signal.reason as Error;
    }
    const cancelLimit = this.#parts.clock.after(timeLimitMs, () =>
      member.kill(`ran into its time limit of ${timeLimitMs} ms`),
    );
    signal.addEventListener("abort", stop);
    try {
      return await member.run({ module, exportName, data }, transfer);
    } finally {
      cancelLimit();
      signal.removeEventListener("abort", stop);
      void this.#review(member);
    }
  }

  /** After each task: puts the member back, or replaces it by a fresh one. */
  async #review(member: Member): Promise<void> {
    const tasks = (this.#members.get(member) ?? 0) + 1;
    if (!this.#members.has(member)) return;
    this.#members.set(member, tasks);
    if (tasks >= this.#settings.tasksMax || (await this.#memory.isHigh(member))) {
      return this.#retire(member);
    }
    this.#putBack(member);
  }

  #putBack(member: Member): void {
    if (!this.#members.has(member)) return;
    if (this.#closed) return this.#retire(member);
    const waiter = this.#waiting.shift();
    if (waiter !== undefined) return waiter.resolve(member);
    const cancelIdle = this.#parts.clock.after(IDLE_MS, () => this.#retire(member));
    this.#idle.set(member, cancelIdle);
  }

  /** Ends the member; another one starts in its place if there is work. */
  #retire(member: Member): void {
    this.#forget(member);
    void member.end();
  }

  #forget(member: Member): void {
    this.#idle.get(member)?.();
    this.#idle.delete(member);
    this.#members.delete(member);
    this.#grow();
  }

  /** Starts as many members as there are waiting tasks, up to the pool's size. */
  #grow(): void {
    while (
      !this.#closed &&
      this.#starting < this.#waiting.length &&
      this.#members.size + this.#starting < this.#settings.size
    ) {
      this.#starting++;
      void this.#startOne();
    }
  }

  async #startOne(): Promise<void> {
    let member: Member | null = null;
    try {
      member = await this.#parts.start();
      this.#startFailures = 0;
    } catch (error) {
      await this.#noteStartFailure(error);
    }
    this.#starting--;
    if (member === null) return this.#grow();
    const started = member;
    this.#members.set(started, 0);
    this.#memory.add(started);
    void started.gone.then(() => this.#forget(started));
    this.#putBack(started);
  }

  /** Waits before the next try; after too many failures, waiting tasks are refused. */
  async #noteStartFailure(error: unknown): Promise<void> {
    const { clock, log } = this.#parts;
    if (error instanceof FatalError) return this.#refuseWaiting(error);
    const how = error instanceof Error ? error.message : String(error);
    const message = `a member of the CPU pool ${how}`;
    log({ level: "error", event: "cpu.start_failed", message, error });
    this.#startFailures++;
    if (this.#startFailures >= START_FAILURES_MAX) {
      return this.#refuseWaiting(new CpuPoolBroken(message, { cause: error }));
    }
    const delayMs = START_RETRY_MS * 2 ** this.#startFailures;
    await new Promise<void>((resolve) => {
      clock.after(delayMs, resolve);
    });
  }

  #refuseWaiting(reason: Error): void {
    for (const waiter of this.#waiting.splice(0)) waiter.reject(reason);
  }

  #logDeath({ module }: CpuTask, death: MemberDeath, deaths: number): void {
    const message = `the ${this.#nameMember()} that ran ${nameModule(module)} ${death.message} (${deaths} of ${DEATHS_MAX})`;
    this.#parts.log({ level: "warn", event: "cpu.member_died", message });
  }

  #convict({ module }: CpuTask, death: MemberDeath): PermanentError {
    return new PermanentError(
      `the ${this.#nameMember()} that ran ${nameModule(module)} for it died ${DEATHS_MAX} times while it ran nothing else; the last time it ${death.message}`,
      { code: "POISON" },
    );
  }

  /** Data that was moved to a thread is lost with it, so the pool cannot repeat the task. */
  #hasMoved({ transfer }: CpuTask): boolean {
    return this.#settings.kind === "threads" && transfer.length > 0;
  }

  #makeRetryError({ module }: CpuTask, death: MemberDeath): TransientError {
    return new TransientError(
      `the thread that ran ${nameModule(module)} for it ${death.message}, and the data that was moved to it is lost`,
      { code: "CPU_DEATH" },
    );
  }

  #nameMember(): string {
    return this.#settings.kind === "threads" ? "thread" : "process";
  }
}

function readAnswer(answer: CpuAnswer): unknown {
  if (answer.kind === "returned") return answer.value;
  // May be any value: the handler gets what the task threw.
  throw readThrown(answer.thrown) as Error;
}

function makeStopSignal(): StopSignal {
  return new StopSignal("the worker is stopping");
}

function nameModule(module: string): string {
  return basename(fileURLToPath(module));
}
