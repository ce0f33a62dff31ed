/**
 * Handlers use every core and block their event loops for longer than a lease: no lease is lost,
 * each item runs once, and the workers answer health probes meanwhile.
 */
import { expect } from "vitest";
import { askUntilOver, BLOCK, HealthRig, listRed, type Settings } from "./health-rig.ts";

export interface Saturation {
  readonly workers: number;
  /** How long a handler blocks its loop. */
  readonly blockMs: number;
  readonly itemsPerWorker: number;
  readonly env: Settings;
}

/** The promise is a p99 of 50 ms; a test may share its machine. */
const MEDIAN_MS_MAX = 500;

export async function checkSaturation(rig: HealthRig, asked: Saturation): Promise<void> {
  const { workers, blockMs, itemsPerWorker } = asked;
  // A worker leases only what it runs, so that the other workers have as much to do.
  const env = { ...asked.env, SLUICE_LEASE_ITEMS_MAX: "1" };
  rig.writePipeline(
    BLOCK,
    `chunkSize: 1, process: (item) => {
      appendFileSync("ran.txt", item.id + "\\n");
      block(${blockMs});
    }`,
  );
  const items = workers * itemsPerWorker;
  await rig.submit(items, env);
  const sweeper = await rig.startSweeper(env);
  const started = await Promise.all(
    Array.from({ length: workers }, () => rig.startWorker(env, "--until-idle")),
  );
  const answers = (
    await Promise.all(started.map(({ worker, url }) => askUntilOver(worker, url)))
  ).flat();
  const endings = await Promise.all(started.map(({ worker }) => worker.ended));
  sweeper.signal("SIGTERM");
  const said = [...endings, await sweeper.ended].map(({ stderr }) => stderr).join("\n");
  expect(endings.map(({ code }) => code)).toEqual(endings.map(() => 0));
  expect(said).not.toMatch(/leases? w(as|ere) lost/);
  expect(rig.listRan()).toEqual(Array.from({ length: items }, (_, n) => `i${n}`).toSorted());
  expect(listRed(answers)).toEqual([]);
  // The renewal thread renewed the lease, not a timer of the loop that happened to run.
  expect(Math.max(...answers.map(({ body }) => body.renewals))).toBeGreaterThan(1);
  const times = answers.map(({ tookMs }) => tookMs).toSorted((a, b) => a - b);
  expect(times.length).toBeGreaterThan(20);
  expect(times[Math.floor(times.length / 2)]).toBeLessThan(MEDIAN_MS_MAX);
}
