import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../test/support/manual-clock.ts";
import { SluiceError } from "../../core/base/errors.ts";
import type { Store } from "../../ports/store/store.ts";
import { SeededRandom } from "../../testing/world/seeded-random.ts";
import type { LogEntry } from "../system/log.ts";
import { resolveSettings } from "../system/settings.ts";
import { Sweeper } from "./sweeper.ts";

const away = new SluiceError("STORE_UNREACHABLE", "no connection", { retryable: true });
const SETTINGS = resolveSettings({});
const { leaseMs, sweepMs } = SETTINGS;

/** A sweeper, and the grace time of each of its sweeps. */
class Rig {
  readonly clock = new ManualClock();
  readonly logs: LogEntry[] = [];
  readonly fatal: unknown[] = [];
  readonly spared: number[] = [];
  readonly sweptAt: number[] = [];
  readonly sweeper: Sweeper;
  failure: Error | null = null;

  constructor(spansHosts = false) {
    const sweep: Store["sweep"] = ({ graceMs = 0 }) => {
      this.sweptAt.push(this.clock.monotonicMs());
      if (this.failure !== null) return Promise.reject(this.failure);
      this.spared.push(graceMs);
      return Promise.resolve({ lostLeases: 0, tended: 0, ended: [] });
    };
    this.sweeper = new Sweeper({
      store: { sweep, spansHosts } as unknown as Store,
      clock: this.clock,
      random: new SeededRandom(1),
      log: (entry) => void this.logs.push(entry),
      settings: SETTINGS,
      onFatal: (error) => void this.fatal.push(error),
    });
    this.sweeper.start();
  }
}

describe("a sweeper", () => {
  test("leaves alone leases that expired during a store outage, for the duration of a lease", async () => {
    const rig = new Rig();
    await rig.clock.run(60_000);
    expect(Math.max(...rig.spared)).toBe(0);
    rig.failure = away;
    await rig.clock.run(40_000);
    rig.failure = null;
    rig.spared.length = 0;
    await rig.clock.run(leaseMs);
    expect(rig.spared.length).toBeGreaterThan(10);
    expect(Math.min(...rig.spared)).toBeGreaterThanOrEqual(40_000);
    await rig.clock.run(10 * sweepMs);
    expect(rig.spared.slice(-5)).toEqual([0, 0, 0, 0, 0]);
    await rig.sweeper.stop();
  });

  test("takes leases back as usual after a short store outage", async () => {
    const rig = new Rig();
    await rig.clock.run(10_000);
    rig.failure = away;
    await rig.clock.run(3 * sweepMs);
    rig.failure = null;
    await rig.clock.run(10_000);
    expect(Math.max(...rig.spared)).toBe(0);
    expect(new Set(rig.logs.map(({ event }) => event))).toEqual(new Set(["sweeper.retry"]));
    await rig.sweeper.stop();
  });

  test("that has just started on a server takes back only leases of dead processes", async () => {
    const rig = new Rig(true);
    await rig.clock.run(leaseMs - 1);
    expect(new Set(rig.spared)).toEqual(new Set([Number.POSITIVE_INFINITY]));
    await rig.clock.run(2 * sweepMs);
    expect(rig.spared.at(-1)).toBe(0);
    await rig.sweeper.stop();
  });

  test("continues after an unexpected error with growing delays, and logs its stack", async () => {
    const rig = new Rig();
    await rig.clock.run(0);
    rig.sweptAt.length = 0;
    rig.failure = new TypeError("cannot read properties of undefined");
    await rig.clock.run(3_600_000);
    expect(rig.fatal).toEqual([]);
    expect(rig.sweptAt.length).toBeGreaterThan(60);
    expect(rig.sweptAt.length).toBeLessThan(140);
    expect(rig.logs).toHaveLength(rig.sweptAt.length);
    expect(rig.logs[0]).toMatchObject({ event: "loop.unexpected_error", error: rig.failure });
    // The store answered, so no lease is spared.
    rig.failure = null;
    await rig.clock.run(120_000);
    expect(rig.spared.at(-1)).toBe(0);
    await rig.sweeper.stop();
  });

  test("ends with a fatal error", async () => {
    const rig = new Rig();
    rig.failure = new SluiceError("STORE_MISSING", "the schema is not there");
    await rig.clock.run(10_000);
    expect(rig.fatal).toEqual([rig.failure]);
    expect(rig.sweptAt).toHaveLength(2);
  });
});
