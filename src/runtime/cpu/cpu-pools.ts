/** The CPU pools of one engine: steps with equal settings share one. */
import type { Clock } from "../../ports/clock.ts";
import type { Log } from "../system/log.ts";
import { CpuPool } from "./cpu-pool.ts";
import type { CpuSettings } from "./cpu-settings.ts";
import type { CpuTask } from "./cpu-task.ts";
import { ProcessMember } from "./process-member.ts";
import { ThreadMember } from "./thread-member.ts";

export class CpuPools {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #pools = new Map<string, CpuPool>();

  constructor(clock: Clock, log: Log) {
    this.#clock = clock;
    this.#log = log;
  }

  run(task: CpuTask, settings: CpuSettings): Promise<unknown> {
    return this.#find(settings).run(task);
  }

  /** Kills running tasks; resolves when no process or thread is left. */
  async close(): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pool) => pool.close()));
  }

  #find(settings: CpuSettings): CpuPool {
    const { kind, size, memoryBytesMax, tasksMax } = settings;
    const name = JSON.stringify([kind, size, memoryBytesMax, tasksMax]);
    const known = this.#pools.get(name);
    if (known !== undefined) return known;
    const clock = this.#clock;
    const start =
      kind === "threads"
        ? () => ThreadMember.start(settings, clock)
        : () => ProcessMember.start(settings, clock);
    const pool = new CpuPool(settings, { clock, log: this.#log, start });
    this.#pools.set(name, pool);
    return pool;
  }
}
