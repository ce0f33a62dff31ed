import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../test/support/manual-clock.ts";
import { SluiceError } from "../../core/base/errors.ts";
import type { Store } from "../../ports/store/store.ts";
import { SeededRandom } from "../../testing/world/seeded-random.ts";
import type { LogEntry } from "../system/log.ts";
import { resolveSettings } from "../system/settings.ts";
import { Sweeper } from "./sweeper.ts";

const away = new SluiceError("STORE_UNREACHABLE", "nobody is there", { retryable: true });
const SETTINGS = resolveSettings({});
const { leaseMs, sweepMs } = SETTINGS;

/** A sweeper, and what it spared with each sweep. */
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
  test("leaves leases alone that ran out while the store was away, for the time of a lease", async () => {
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

  test("takes leases as ever after a store that was away for a moment", async () => {
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

  test("that has just come to a server takes only what the dead held", async () => {
    const rig = new Rig(true);
    await rig.clock.run(leaseMs - 1);
    expect(new Set(rig.spared)).toEqual(new Set([Number.POSITIVE_INFINITY]));
    await rig.clock.run(2 * sweepMs);
    expect(rig.spared.at(-1)).toBe(0);
    await rig.sweeper.stop();
  });

  test("goes on after what nobody has thought of, later with each time, and tells its stack", async () => {
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
    // It is there: nobody is spared for that.
    rig.failure = null;
    await rig.clock.run(120_000);
    expect(rig.spared.at(-1)).toBe(0);
    await rig.sweeper.stop();
  });

  test("ends with what is fatal", async () => {
    const rig = new Rig();
    rig.failure = new SluiceError("STORE_MISSING", "the schema is not there");
    await rig.clock.run(10_000);
    expect(rig.fatal).toEqual([rig.failure]);
    expect(rig.sweptAt).toHaveLength(2);
  });
});
