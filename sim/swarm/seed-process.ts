/** Plays the seeds that its parent sends, one after the other, and answers what came of each. */
import { playSeed } from "../play-seed.ts";
import type { SeedReport } from "./play-seeds.ts";

// Nobody reads the stacks of errors that are part of the play, and they cost a tenth of the time.
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
