import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../test/support/manual-clock.ts";
import { SluiceError } from "../../core/base/errors.ts";
import type { LeaseRef, RenewResult, Served, Stop } from "../../ports/store/worker-store.ts";
import { WorkerHealth } from "./worker-health.ts";
import { LeaseRenewalThread } from "./lease-renewal-thread.ts";
import type { LeaseHold } from "./shared-leases.ts";
import type { LogEntry } from "../system/log.ts";

const TERMS = { worker: 7, leaseMs: 15_000, renewMs: 5_000 };
const LIMITS = { heartbeatMs: 120_000, taskBuffer: 1.5 };
const SERVED: readonly Served[] = [{ pipeline: "p", version: "1" }];
const lease = (chunk: number, batch = "b-1"): LeaseRef => ({ batch, step: 0, chunk, fence: 3 });

/** A worker whose event loop works only when told to, and a store that remembers its calls. */
class Rig {
  readonly clock = new ManualClock();
  readonly health = new WorkerHealth(this.clock);
  readonly renewed: { readonly chunks: readonly number[]; readonly at: number }[] = [];
  readonly beats: number[] = [];
  readonly logs: LogEntry[] = [];
  opened = 0;
  closed = 0;
  lost: (leases: readonly LeaseRef[]) => readonly LeaseRef[] = () => [];
  stops: readonly Stop[] = [];
  failure: Error | null = null;
  openFailure: Error | null = null;
  readonly #startedAt = this.clock.monotonicMs();
  readonly keeper = new LeaseRenewalThread({
    pulse: this.health.pulse,
    leases: this.health.leases,
    clock: this.clock,
    limits: LIMITS,
    log: (entry) => void this.logs.push(entry),
    openStore: async () => {
      this.opened++;
      if (this.openFailure !== null) throw this.openFailure;
      return {
        renew: async (worker, leases, leaseMs): Promise<RenewResult> => {
          if (this.failure !== null) throw this.failure;
          expect([worker, leaseMs]).toEqual([TERMS.worker, TERMS.leaseMs]);
          this.renewed.push({ chunks: leases.map(({ chunk }) => chunk), at: this.passedMs });
          return { lost: this.lost(leases), permits: { seq: 1, held: [] } };
        },
        readStops: async () => this.stops,
        beat: async (worker, serves, forMs) => {
          expect([worker, serves, forMs]).toEqual([TERMS.worker, SERVED, 15_000]);
          this.beats.push(this.passedMs);
        },
        close: async () => void this.closed++,
      };
    },
  });

  get passedMs(): number {
    return this.clock.monotonicMs() - this.#startedAt;
  }

  /** The loop has beaten once and is blocked from then on. */
  block(): void {
    this.health.start(TERMS);
    // Anything the loop would do comes too late.
    this.health.pulse.set("beatAt", this.clock.monotonicMs());
    this.health.noteStopped();
    this.health.pulse.count("status", 1);
  }

  hold(chunk: number, batch?: string): LeaseHold {
    const hold = this.health.leases.enter(lease(chunk, batch));
    if (hold === null) throw new Error("there is room");
    return hold;
  }
}

describe("a lease renewal thread", () => {
  test("renews when the loop is late, and again every few seconds", async () => {
    const rig = new Rig();
    rig.block();
    const hold = rig.hold(1);
    await rig.clock.run(7_000);
    expect(rig.renewed).toEqual([]);
    // There may be no time to open it when it is needed.
    expect(rig.opened).toBe(1);
    await rig.clock.run(24_000);
    const [first] = rig.renewed;
    expect(first?.at).toBeGreaterThanOrEqual(7_500);
    expect(first?.at).toBeLessThanOrEqual(9_000);
    expect(rig.renewed.length).toBeGreaterThanOrEqual(3);
    expect(rig.opened).toBe(1);
    const last = rig.renewed.at(-1)?.at ?? 0;
    expect(hold.readRenewedUntil()).toBe(1_000_000 + last + TERMS.leaseMs);
    expect(rig.health.pulse.readCount("renewals")).toBe(rig.renewed.length);
    await rig.keeper.stop();
    expect(rig.closed).toBe(1);
    expect(rig.clock.waiting).toBe(0);
  });

  test("does nothing while the loop renews by itself", async () => {
    const rig = new Rig();
    rig.block();
    rig.hold(1);
    for (let round = 0; round < 10; round++) {
      await rig.clock.run(5_000);
      rig.health.noteRenewal(rig.clock.monotonicMs());
    }
    expect(rig.renewed).toEqual([]);
  });

  test("stops when the loop has hung for longer than its limit", async () => {
    const rig = new Rig();
    rig.block();
    const hold = rig.hold(1);
    await rig.clock.run(300_000);
    const last = rig.renewed.at(-1)?.at ?? 0;
    expect(last).toBeGreaterThan(110_000);
    expect(last).toBeLessThanOrEqual(LIMITS.heartbeatMs);
    // So the lease expires, and other workers take over.
    expect(hold.readRenewedUntil() - 1_000_000).toBeLessThanOrEqual(
      LIMITS.heartbeatMs + TERMS.leaseMs,
    );
  });

  test.each([-1, 0])("does nothing for a worker of status %i", async (status) => {
    const rig = new Rig();
    rig.block();
    rig.health.pulse.count("status", status);
    rig.hold(1);
    await rig.clock.run(60_000);
    expect(rig.opened).toBe(0);
  });

  test("renews the leases held at that moment, and never those given back before", async () => {
    const rig = new Rig();
    rig.block();
    const [kept, given] = [rig.hold(1), rig.hold(2)];
    given.release();
    rig.hold(3);
    await rig.clock.run(9_000);
    expect(rig.renewed[0]?.chunks).toEqual([1, 3]);
    expect(kept.readRenewedUntil()).toBeGreaterThan(0);
    expect(given.readRenewedUntil()).toBe(0);
  });

  test("reports no renewal to the loop that the store refused, by fence or by cancel", async () => {
    const rig = new Rig();
    rig.block();
    const [kept, lost, ending] = [rig.hold(1), rig.hold(2), rig.hold(3, "b-2")];
    rig.lost = (leases) => leases.filter(({ chunk }) => chunk === 2);
    rig.stops = [{ batch: "b-2", kind: "cancel", mode: "now" }];
    await rig.clock.run(9_000);
    expect(rig.renewed[0]?.chunks).toEqual([1, 2, 3]);
    expect(kept.readRenewedUntil()).toBeGreaterThan(0);
    expect(lost.readRenewedUntil()).toBe(0);
    expect(ending.readRenewedUntil()).toBe(0);
  });

  test("a lease that reuses a place ignores the renewal of the previous lease", async () => {
    const rig = new Rig();
    rig.block();
    const first = rig.hold(1);
    let second: LeaseHold | null = null;
    rig.lost = () => {
      // Now the loop turns: it settles the chunk and leases the next.
      first.release();
      second = rig.hold(2);
      return [];
    };
    await rig.clock.run(8_750);
    expect(rig.renewed).toHaveLength(1);
    expect((second as LeaseHold | null)?.readRenewedUntil()).toBe(0);
  });

  test("sends heartbeats for the worker's pipelines, also without leases; not when it stops", async () => {
    const rig = new Rig();
    rig.block();
    rig.keeper.noteServed(SERVED);
    await rig.clock.run(30_000);
    expect(rig.beats.length).toBeGreaterThanOrEqual(2);
    expect(rig.renewed).toEqual([]);
    const before = rig.beats.length;
    rig.health.noteStopping();
    await rig.clock.run(30_000);
    expect(rig.beats).toHaveLength(before);
  });

  test("retries after a failure, also of opening the store, and logs it", async () => {
    const rig = new Rig();
    rig.block();
    rig.hold(1);
    rig.openFailure = new SluiceError("STORE_BUSY", "the store is busy");
    await rig.clock.run(9_000);
    rig.openFailure = null;
    rig.failure = new SluiceError("STORE_BUSY", "the store is still busy");
    await rig.clock.run(3_000);
    rig.failure = null;
    await rig.clock.run(2_000);
    expect(rig.logs.map(({ event }) => event)).toContain("lease.renewal_failed");
    expect(rig.logs.at(-1)?.message).toContain("the store is still busy");
    expect(rig.renewed.length).toBeGreaterThan(0);
    expect(rig.opened).toBeGreaterThan(1);
    await rig.keeper.stop();
  });
});
