/** What a worker's engine writes to its shared health, as the health thread sees it. */
import { hash } from "node:crypto";
import { expect, test } from "vitest";
import { createMemoryStore } from "../../adapters/memory/store.ts";
import { FatalError, SluiceError } from "../../core/base/errors.ts";
import { DEFAULT_HEALTH_LIMITS, decideHealth, decideReadiness } from "../../core/fleet/health.ts";
import { sleep } from "../../ports/clock.ts";
import type { Store } from "../../ports/store/store.ts";
import { SeededRandom } from "../../testing/world/seeded-random.ts";
import { MortalClock, VirtualTime } from "../../testing/world/virtual-clock.ts";
import { Engine } from "./engine.ts";
import { WorkerHealth } from "../health/worker-health.ts";
import { SharedLeases } from "../health/shared-leases.ts";
import { definePipeline } from "../pipeline/pipeline.ts";
import { SharedHealth } from "../health/shared-health.ts";

/** An engine in virtual time, with the pages that it shares. */
class Rig {
  readonly time = new VirtualTime();
  readonly clock = new MortalClock(this.time);
  readonly health = new WorkerHealth(this.clock);
  readonly pulse = new SharedHealth(this.health.pulse.buffer);
  readonly leases = new SharedLeases(this.health.leases.buffer);
  /** While true, the store refuses every call of the worker. */
  isAway = false;
  readonly #store = createMemoryStore({
    clock: this.clock,
    sha256: (text) => hash("sha256", text),
  });

  async play(act: (engine: Engine) => Promise<void>): Promise<void> {
    const store: Store = {
      ...this.#store,
      work: async (...given) => {
        if (this.isAway) throw new SluiceError("STORE_BUSY", "away", { retryable: true });
        return this.#store.work(...given);
      },
    };
    let isOver = false;
    const play = async (): Promise<void> => {
      const { clock, health } = this;
      const engine = await Engine.start(store, { clock, health, random: new SeededRandom(1) });
      await act(engine);
      await engine.close();
    };
    const played = play().finally(() => (isOver = true));
    expect(await this.time.run(() => isOver, 3_600_000)).toBe(true);
    await played;
  }

  judge(): { readonly health: readonly string[]; readonly ready: readonly string[] } {
    const now = this.clock.monotonicMs();
    const facts = [this.pulse.read(), now, DEFAULT_HEALTH_LIMITS] as const;
    return {
      health: decideHealth(...facts).reasons.map(({ code }) => code),
      ready: decideReadiness(...facts).reasons.map(({ code }) => code),
    };
  }
}

test("a worker shares its calls, its leases, its renewals and its end", async () => {
  const rig = new Rig();
  await rig.play(async (engine) => {
    const pipeline = definePipeline({
      name: "slow",
      chunkSize: 1,
      process: () => sleep(rig.clock, 60_000),
    });
    const batch = await engine.submit(pipeline, [1, 2, 3]);
    await sleep(rig.clock, 30_000);
    expect(rig.pulse.read()).toMatchObject({ status: 1, pending: 3, callLimitMs: 301_000 });
    expect(rig.pulse.read().taskStartedAt).toBeGreaterThan(0);
    expect(rig.leases.count()).toBe(3);
    // The thread has nothing to do while the loop renews leases.
    expect(rig.clock.monotonicMs() - rig.pulse.get("renewedAt")).toBeLessThanOrEqual(5_000);
    expect(rig.judge()).toEqual({ health: [], ready: [] });
    await batch.wait();
    await sleep(rig.clock, 1_000);
    expect(rig.leases.count()).toBe(0);
    expect(rig.pulse.read()).toMatchObject({ taskStartedAt: null, expectedMs: null });
  });
  expect(rig.pulse.read()).toMatchObject({ status: 0, isStopping: true, pending: 0 });
  expect(rig.judge().health).toEqual(["STOPPED"]);
});

test("a worker is healthy but not ready during a store outage", async () => {
  const rig = new Rig();
  await rig.play(async (engine) => {
    const pipeline = definePipeline({ name: "idle", process: () => undefined });
    engine.work(pipeline);
    await sleep(rig.clock, 10_000);
    rig.isAway = true;
    const batch = await engine.submit(pipeline, [1]);
    await sleep(rig.clock, 900_000);
    expect(rig.judge()).toEqual({ health: [], ready: ["STORE_AWAY"] });
    rig.isAway = false;
    await batch.wait();
    expect(rig.judge()).toEqual({ health: [], ready: [] });
  });
});

test("a store call without an answer is noticed, whatever other calls do", async () => {
  const rig = new Rig();
  await rig.play(async (engine) => {
    const never = Promise.withResolvers<never>();
    void rig.health.during(() => never.promise);
    engine.work(definePipeline({ name: "idle", process: () => undefined }));
    await sleep(rig.clock, 119_000);
    expect(rig.judge().health).toEqual([]);
    await sleep(rig.clock, 2_000);
    expect(rig.judge().health).toEqual(["NO_PROGRESS"]);
  });
});

test("a worker that ended by a fatal error reports its code", async () => {
  const rig = new Rig();
  await rig.play(async (engine) => {
    const pipeline = definePipeline({
      name: "doomed",
      process: () => {
        throw new FatalError("the index is gone", { code: "INDEX_GONE" });
      },
    });
    const batch = await engine.submit(pipeline, [1]);
    await expect(batch.wait()).rejects.toThrow("the index is gone");
    expect(rig.pulse.read()).toMatchObject({ status: -1, fatalCode: "INDEX_GONE" });
  });
  expect(rig.judge().health).toEqual(["FATAL"]);
});
