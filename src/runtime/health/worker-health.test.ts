import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../test/support/manual-clock.ts";
import { PermanentError } from "../../core/base/errors.ts";
import type { Store } from "../../ports/store/store.ts";
import type { LeaseRequest, WorkResult } from "../../ports/store/worker-store.ts";
import { WorkerHealth } from "./worker-health.ts";
import { definePipeline } from "../pipeline/pipeline.ts";
import { SharedHealth } from "./shared-health.ts";
import type { Step } from "../pipeline/step.ts";

const GRACE_MS = 1_000;

function makeStep(options: { readonly expectedMs?: number; readonly timeLimitMs?: number }): Step {
  return definePipeline({ name: "p", process: () => undefined, ...options }).steps[0];
}

function start(): {
  readonly health: WorkerHealth;
  readonly clock: ManualClock;
  readonly page: SharedHealth;
} {
  const clock = new ManualClock();
  const health = new WorkerHealth(clock);
  health.start({ worker: 7, leaseMs: 15_000, renewMs: 5_000 });
  // Reads it like another thread.
  return { health, clock, page: new SharedHealth(health.pulse.buffer) };
}

describe("a worker's health", () => {
  test("beats while its worker runs", async () => {
    const { health, clock, page } = start();
    expect(page.read()).toMatchObject({ status: 1, beatAt: clock.monotonicMs(), pending: 0 });
    expect(page.readTerms()).toEqual({ worker: 7, leaseMs: 15_000, renewMs: 5_000 });
    await clock.run(10_000);
    expect(clock.monotonicMs() - page.read().beatAt).toBeLessThan(1_000);
    health.noteStopping();
    expect(page.read()).toMatchObject({ status: 1, isStopping: true });
    health.noteStopped();
    expect(page.read().status).toBe(0);
    expect(clock.waiting).toBe(0);
  });

  test("stays failed after a fatal error, and shares its code without the message", () => {
    const { health, page } = start();
    health.noteFatal(new PermanentError("with a password", { code: "INDEX_GONE" }));
    health.noteStopped();
    expect(page.read()).toMatchObject({ status: -1, fatalCode: "INDEX_GONE" });
    health.noteFatal(new PermanentError("long", { code: "X".repeat(1_000) }));
    expect(page.read().fatalCode).toBe("X".repeat(64));
  });

  test("knows since when a handler runs, and its expected duration", async () => {
    const { health, clock, page } = start();
    const declared = health.watchHandler("p", makeStep({ expectedMs: 60_000 }), GRACE_MS);
    declared.begin(clock.monotonicMs());
    const startedAt = clock.monotonicMs();
    await clock.run(3_000);
    expect(page.read()).toMatchObject({
      taskStartedAt: startedAt,
      expectedMs: 60_000,
      // A user who declared a duration wants to know when it is exceeded.
      callLimitMs: null,
      pending: 1,
      progressAt: startedAt,
    });
    declared.end(startedAt, clock.monotonicMs());
    expect(page.read()).toMatchObject({ taskStartedAt: null, expectedMs: null, pending: 0 });
  });

  test("learns how long a handler takes; before that it uses the time limit", () => {
    const { health, clock, page } = start();
    const step = makeStep({ timeLimitMs: 300_000 });
    const pulse = health.watchHandler("p", step, GRACE_MS);
    expect(health.watchHandler("p", step, GRACE_MS)).toBe(pulse);
    const now = clock.monotonicMs();
    pulse.begin(now);
    expect(page.read()).toMatchObject({ expectedMs: null, callLimitMs: 301_000 });
    for (let call = 0; call < 25; call++) {
      pulse.begin(now);
      pulse.end(now - 200_000, now);
    }
    const { expectedMs } = page.read();
    expect(expectedMs).toBeGreaterThanOrEqual(200_000);
    expect(expectedMs).toBeLessThan(240_000);
  });

  test("expects the longest of several handlers that run side by side", () => {
    const { health, clock, page } = start();
    const now = clock.monotonicMs();
    const quick = health.watchHandler("p", makeStep({ expectedMs: 1_000 }), GRACE_MS);
    const slow = health.watchHandler("q", makeStep({ expectedMs: 90_000 }), GRACE_MS);
    slow.begin(now);
    quick.begin(now);
    expect(page.read()).toMatchObject({ expectedMs: 90_000, pending: 2 });
    slow.end(now, now);
    expect(page.read()).toMatchObject({ expectedMs: 1_000, pending: 1 });
  });

  test("counts what is under way until it is over, however it ends", async () => {
    const { health, page } = start();
    const { promise, reject } = Promise.withResolvers<void>();
    const under = health.during(() => promise);
    expect(page.read().pending).toBe(1);
    reject(new Error("no"));
    await expect(under).rejects.toThrow("no");
    expect(page.read().pending).toBe(0);
  });

  test("does not count a store call that found no work as progress", async () => {
    const { health, clock, page } = start();
    const request = {} as LeaseRequest;
    let found: Partial<WorkResult> = { leased: [] };
    const store = health.watchStore({ work: async () => found } as unknown as Store);
    void health.during(() => Promise.withResolvers<void>().promise);
    const beganAt = clock.monotonicMs();
    for (let look = 0; look < 10; look++) {
      await clock.run(1_000);
      await store.work([], request);
    }
    expect(page.read()).toMatchObject({ pending: 1, progressAt: beganAt });
    expect(page.read().answeredAt).toBe(clock.monotonicMs());
    found = { leased: [{}] } as unknown as Partial<WorkResult>;
    await store.work([], request);
    expect(page.read().progressAt).toBe(clock.monotonicMs());
  });

  test("counts a wait from its beginning when nothing else was under way", async () => {
    const { health, clock, page } = start();
    await clock.run(500_000);
    void health.during(() => Promise.withResolvers<void>().promise);
    expect(page.read()).toMatchObject({ pending: 1, progressAt: clock.monotonicMs() });
  });
});
