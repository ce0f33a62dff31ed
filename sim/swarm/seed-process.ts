/** Plays the seeds that its parent sends, one after the other, and returns each result. */
import { playSeed } from "../play-seed.ts";
import type { SeedReport } from "./play-seeds.ts";

// Stacks of the errors that a play throws on purpose are never read, and they cost a tenth of the
// time.
Error.stackTraceLimit = 0;

process.on("message", ({ seed }: { seed: number }) => {
  const startedAt = performance.now();
  playSeed(seed).then(
    ({ problems, calls, faults, coverage, world }) => {
      const report: SeedReport = {
        seed,
        problems,
        calls,
        faults,
        digest: world.trace.digest,
        virtualMs: world.time.elapsedMs,
        cells: [...coverage.cells],
        tookMs: performance.now() - startedAt,
      };
      process.send?.(report);
    },
    (error: unknown) => {
      throw error;
    },
  );
});
process.on("disconnect", () => process.exit());
