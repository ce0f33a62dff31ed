/**
 * A thread of a pool, run by Piscina, which can end it even in an endless loop. Its JavaScript heap
 * is bounded, but buffers and WebAssembly are not, and a native crash ends the worker too: for
 * trusted code only.
 */
import type { Piscina } from "piscina";
import { deserialize } from "node:v8";
import type { Transferable } from "node:worker_threads";
import { describeError, FatalError } from "../../core/base/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { CpuSettings } from "./cpu-settings.ts";
import {
  type CpuAnswer,
  type CpuRequest,
  type Member,
  MemberDeath,
  START_MS_MAX,
} from "./member.ts";
import { nextTo } from "./next-to.ts";
import { refuseData } from "./run-module.ts";

const MIB = 1_048_576;

export class ThreadMember implements Member {
  readonly pid = null;
  readonly gone: Promise<void>;
  readonly #leave: () => void;
  readonly #thread: Piscina;
  #kill: AbortController | null = null;
  #killedAs: string | null = null;

  private constructor(thread: Piscina) {
    this.#thread = thread;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.gone = promise;
    this.#leave = resolve;
    // An error outside of a task: the pool gives the next task to a fresh member.
    thread.on("error", () => void this.end());
  }

  static async start({ memoryBytesMax }: CpuSettings, clock: Clock): Promise<ThreadMember> {
    const Pool = await loadPiscina();
    const thread = new Pool({
      filename: nextTo(import.meta.url, "thread-main").href,
      name: "serve",
      minThreads: 1,
      maxThreads: 1,
      // Streams and timers that a task left must continue between tasks.
      atomics: "disabled",
      resourceLimits: { maxOldGenerationSizeMb: Math.floor(memoryBytesMax / MIB) },
    });
    const member = new ThreadMember(thread);
    const late = new AbortController();
    const cancel = clock.after(START_MS_MAX, () => late.abort());
    try {
      // Wait until the thread runs code: its start must not count as the first task's time.
      await thread.run(null, { name: "wake", signal: late.signal });
    } catch (error) {
      await member.end();
      throw new MemberDeath(`could not be started: ${describeError(error).message}`);
    } finally {
      cancel();
    }
    return member;
  }

  async run(request: CpuRequest, transfer: readonly Transferable[]): Promise<CpuAnswer> {
    this.#kill = new AbortController();
    const { signal } = this.#kill;
    try {
      const transferList = [...transfer] as never;
      const written = (await this.#thread.run(request, { signal, transferList })) as Uint8Array;
      return deserialize(written) as CpuAnswer;
    } catch (error) {
      // The task itself never rejects: see run-module.ts.
      if (this.#killedAs === null && !canBeCopied(request.data)) throw refuseData("data", error);
      await this.end();
      throw new MemberDeath(this.#killedAs ?? `ended: ${(error as Error).message}`);
    }
  }

  kill(how: string): void {
    this.#killedAs ??= how;
    this.#kill?.abort();
  }

  async end(): Promise<void> {
    await this.#thread.destroy();
    this.#leave();
  }
}

/** Copying may run the data's own code, which may throw any value. */
function canBeCopied(data: unknown): boolean {
  try {
    structuredClone(data);
    return true;
  } catch {
    return false;
  }
}

/** Loaded only when a step asks for threads, so that others need not install it. */
async function loadPiscina(): Promise<typeof Piscina> {
  try {
    const { Piscina: Pool } = await import("piscina");
    return Pool;
  } catch (cause) {
    if ((cause as { code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw cause;
    throw new FatalError('CPU work in threads needs the package "piscina": npm install piscina', {
      code: "DRIVER_MISSING",
      cause,
    });
  }
}
