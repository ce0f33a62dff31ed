/** `context.cpu` of one handler call. Its tasks end with the call, finished or not. */
import type { Transferable } from "node:worker_threads";
import { isAbsolute, dirname, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { PermanentError, SluiceError } from "../../core/base/errors.ts";
import { DEFAULT_CPU, TIME_LIMIT_MS_MAX, type CpuSettings } from "./cpu-settings.ts";
import type { CpuPools } from "./cpu-pools.ts";

export interface CpuCallOptions {
  /** The export to call; default the module's default export. */
  readonly export?: string;
  /** Time limit; default that of the step's `cpu`. */
  readonly timeLimitMs?: number;
  /** Values to move to a thread instead of copying them; a process always gets a copy. */
  readonly transfer?: readonly Transferable[];
}

/** Runs an exported function of a module off the event loop. */
export type RunCpu = <Result = unknown>(
  module: string | URL,
  data?: unknown,
  options?: CpuCallOptions,
) => Promise<Result>;

/** What a call needs to know of its step. */
export interface CpuPlace {
  readonly cpu: CpuSettings | null;
  /** The file of the pipeline; null when unknown. */
  readonly definedIn: string | null;
}

export class CpuCall {
  readonly #pools: CpuPools;
  readonly #place: CpuPlace;
  readonly #signal: AbortSignal;
  readonly #ended = new AbortController();

  constructor(pools: CpuPools, place: CpuPlace, signal: AbortSignal) {
    this.#pools = pools;
    this.#place = place;
    this.#signal = AbortSignal.any([signal, this.#ended.signal]);
  }

  /** Bound, as handlers destructure their context. */
  readonly run: RunCpu = <Result>(
    module: string | URL,
    data?: unknown,
    options: CpuCallOptions = {},
  ) => {
    const running = this.#run(module, data, options);
    // The handler may not await it: an unhandled rejection would end the worker.
    running.catch(() => undefined);
    return running as Promise<Result>;
  };

  async #run(module: string | URL, data: unknown, options: CpuCallOptions): Promise<unknown> {
    const settings = this.#place.cpu ?? DEFAULT_CPU;
    const { export: exportName = "default", transfer = [] } = options;
    const { timeLimitMs = settings.timeLimitMs } = options;
    checkTimeLimit(timeLimitMs);
    const task = {
      module: findModule(module, this.#place.definedIn),
      exportName,
      data,
      transfer,
      timeLimitMs,
      signal: this.#signal,
    };
    return this.#pools.run(task, settings);
  }

  /** The handler has ended: cancels the tasks that it did not await. */
  end(): void {
    if (this.#ended.signal.aborted) return;
    this.#ended.abort(
      new SluiceError("LATE_CALL", "a CPU task was still running when its handler returned", {
        kind: "cpu",
        hint: "Await every call of cpu before the handler returns.",
      }),
    );
  }
}

/** A timer treats an invalid time as 0, and the task would seem to have timed out. */
function checkTimeLimit(timeLimitMs: unknown): void {
  const isGood =
    typeof timeLimitMs === "number" && timeLimitMs >= 1 && timeLimitMs <= TIME_LIMIT_MS_MAX;
  if (isGood) return;
  throw new PermanentError(
    `timeLimitMs of a CPU task must be a number from 1 to ${TIME_LIMIT_MS_MAX}, not ${String(timeLimitMs)}`,
    { code: "BAD_CPU_TASK" },
  );
}

/** The module's URL. A relative path starts at the pipeline's own file. */
function findModule(module: string | URL, definedIn: string | null): string {
  if (module instanceof URL || module.startsWith("file:")) {
    const { href, protocol } = new URL(module);
    if (protocol === "file:") return href;
    throw new PermanentError(`a CPU task must be a file, not ${href}`, { code: "BAD_CPU_TASK" });
  }
  if (isAbsolute(module)) return pathToFileURL(module).href;
  if (definedIn === null) {
    throw new PermanentError(
      `the CPU task ${module} cannot be found, because the file of its pipeline is unknown: pass new URL("${module}", import.meta.url)`,
      { code: "BAD_CPU_TASK" },
    );
  }
  return pathToFileURL(resolve(dirname(fileURLToPath(definedIn)), module)).href;
}
