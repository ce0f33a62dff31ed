/**
 * Runs a chunk whose lease was lost before, to find an item that kills its worker: starts are
 * committed before items run, a few at a time; suspects run alone. See core/items/poison.ts.
 */
import { mustRunAlone } from "../../core/items/poison.ts";
import type { ReportResult } from "../../core/batch/chunk.ts";
import type { ChunkRun } from "../chunk/chunk-run.ts";
import type { ExclusiveRun } from "./exclusive-run.ts";
import type { ItemLoop } from "./item-loop.ts";
import type { Admission } from "../limits/step-limits.ts";

export interface GuardedParts {
  readonly runner: ItemLoop;
  readonly exclusiveRun: ExclusiveRun;
  /** Reserves room for up to this many items; 0 after a while without room. */
  readonly reserve: (wanted: number) => Promise<number>;
  /** Releases the unused reservation. */
  readonly release: () => void;
  /** Which of these items may start now, by their limits; the others go back. */
  readonly admit: (indexes: readonly number[]) => Promise<Admission>;
  /** Whether it is too late to start what was admitted until then. */
  readonly isLate: (until: number) => boolean;
  /** Commits the outcomes so far, and that the items of `run.starting` start now. */
  readonly announce: () => Promise<ReportResult>;
  readonly stopping: () => boolean;
}

/** Resolves when the run has started all that it could; the caller reports the rest. */
export async function runGuarded(run: ChunkRun, parts: GuardedParts): Promise<void> {
  const others: number[] = [];
  const suspects: number[] = [];
  for (let index = run.takeNext(); index !== -1; index = run.takeNext()) {
    (mustRunAlone(run.countDeaths(index)) ? suspects : others).push(index);
  }
  /** Returns the items that may be tried again. */
  const runWave = async (wanted: readonly number[], alone: boolean): Promise<readonly number[]> => {
    try {
      return await startWave(wanted, alone);
    } finally {
      parts.release();
    }
  };
  const startWave = async (
    wanted: readonly number[],
    alone: boolean,
  ): Promise<readonly number[]> => {
    const { indexes, later, until } = await parts.admit(wanted);
    if (indexes.length === 0) return [];
    await parts.runner.runWave(run, {
      indexes,
      alone,
      until,
      announce: async () => (await announce(run, indexes, parts)) && !parts.isLate(until),
      report: () => report(run, parts),
    });
    return later;
  };
  // A cleared item loop never starts a wave. Where a cap stays full nothing starts either. In both
  // cases the rest goes back with its chunk.
  let left: readonly number[] = others;
  while (left.length > 0) {
    const room = await parts.reserve(left.length);
    if (room === 0 || parts.stopping()) break;
    const later = await runWave(left.slice(0, room), false);
    left = [...later, ...left.slice(room)];
  }
  parts.release();
  for (const suspect of suspects) {
    if ((await parts.reserve(1)) === 0) break;
    await parts.exclusiveRun.runAlone(async () => void (await runWave([suspect], true)));
  }
}

/**
 * Reported at once, and not with the next wave: if another item kills the process meanwhile,
 * finished items must not be found started.
 */
async function report(run: ChunkRun, parts: GuardedParts): Promise<void> {
  run.starting = [];
  if (run.lost) return;
  if ((await parts.announce()) !== "kept") run.lose();
}

async function announce(
  run: ChunkRun,
  starting: readonly number[],
  parts: GuardedParts,
): Promise<boolean> {
  if (run.lost || parts.stopping()) return false;
  run.starting = starting;
  const result = await parts.announce();
  if (result !== "kept") run.lose();
  return !run.lost && !parts.stopping();
}
