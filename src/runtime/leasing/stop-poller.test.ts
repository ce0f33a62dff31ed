import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../test/support/manual-clock.ts";
import { SluiceError } from "../../core/base/errors.ts";
import type { Store } from "../../ports/store/store.ts";
import type { Stop } from "../../ports/store/worker-store.ts";
import type { LogEntry } from "../system/log.ts";
import { StopPoller } from "./stop-poller.ts";

const STOP: Stop = { batch: "b-1", kind: "cancel", mode: "now" };

class Rig {
  readonly clock = new ManualClock();
  readonly asked: (readonly string[])[] = [];
  readonly askedAt: number[] = [];
  readonly heard: (readonly Stop[])[] = [];
  readonly logs: LogEntry[] = [];
  readonly fatal: unknown[] = [];
  held: string[] = ["b-1"];
  answer: () => Promise<readonly Stop[]> = async () => [STOP];
  readonly look: StopPoller;
  readonly #startedAt = this.clock.monotonicMs();

  constructor(pollMs = 1_000) {
    const store = {
      readStops: (batches: readonly string[]) => {
        this.asked.push(batches);
        this.askedAt.push(this.clock.monotonicMs() - this.#startedAt);
        return this.answer();
      },
    } as unknown as Store;
    this.look = new StopPoller(
      {
        store,
        clock: this.clock,
        random: { next: () => 0.5, id: () => "aaaaaaaaaaaa" },
        log: (entry) => void this.logs.push(entry),
        settings: { pollMs },
        onFatal: (error) => void this.fatal.push(error),
      },
      { listBatches: () => this.held, onStops: (stops) => void this.heard.push(stops) },
    );
  }
}

describe("polling for stops", () => {
  test.each([1_000, 5_000, 300_000])(
    "without notifications, and with polling every %i ms, a stop is found within a second",
    async (pollMs) => {
      const rig = new Rig(pollMs);
      await rig.clock.run(1_000);
      expect(rig.asked).toEqual([["b-1"], ["b-1"]]);
      expect(rig.heard[0]).toEqual([STOP]);
    },
  );

  test("checks soon after the store has changed", async () => {
    const rig = new Rig();
    rig.look.notify();
    await rig.clock.run(50);
    expect(rig.heard).toEqual([[STOP]]);
  });

  test("checks at most every 50 ms, however often the store changes", async () => {
    const rig = new Rig();
    for (let ms = 0; ms < 1_000; ms++) {
      rig.look.notify();
      await rig.clock.run(1);
    }
    expect(rig.asked.length).toBeGreaterThan(15);
    expect(rig.asked.length).toBeLessThanOrEqual(21);
    const gaps = rig.askedAt.slice(1).map((at, n) => at - (rig.askedAt[n] as number));
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(50);
  });

  test("a change shortly after a check is not lost", async () => {
    const rig = new Rig();
    rig.look.notify();
    await rig.clock.run(1);
    rig.look.notify();
    await rig.clock.run(50);
    expect(rig.asked).toHaveLength(2);
  });

  test("the slow poll continues after a notified check", async () => {
    const rig = new Rig();
    rig.look.notify();
    await rig.clock.run(2_000);
    expect(rig.asked.length).toBeGreaterThanOrEqual(4);
  });

  test("a worker without chunks does not ask", async () => {
    const rig = new Rig();
    rig.held = [];
    rig.look.notify();
    await rig.clock.run(5_000);
    expect(rig.asked).toEqual([]);
  });

  test("two checks at once become one, followed by another", async () => {
    const rig = new Rig();
    const { promise, resolve } = Promise.withResolvers<readonly Stop[]>();
    rig.answer = () => promise;
    await rig.clock.run(2_000);
    expect(rig.asked).toHaveLength(1);
    resolve([]);
    rig.answer = async () => [STOP];
    await rig.clock.run(500);
    expect(rig.heard).toEqual([[], [STOP]]);
  });

  test("a store outage is retried, and nothing fails", async () => {
    const rig = new Rig();
    const busy = new SluiceError("STORE_BUSY", "locked", { retryable: true });
    rig.answer = () => Promise.reject(busy);
    await rig.clock.run(500);
    expect(rig.logs.map(({ event }) => event)).toEqual(["worker.stop_look_failed"]);
    rig.answer = async () => [STOP];
    await rig.clock.run(500);
    expect(rig.heard).toEqual([[STOP]]);
    expect(rig.fatal).toEqual([]);
  });

  test("an unexpected error is logged with its stack, and retried with growing delays", async () => {
    const rig = new Rig();
    const odd = new TypeError("cannot read properties of undefined");
    rig.answer = () => Promise.reject(odd);
    for (let second = 0; second < 600; second++) {
      rig.look.notify();
      await rig.clock.run(1_000);
    }
    expect(rig.asked.length).toBeGreaterThan(10);
    expect(rig.asked.length).toBeLessThan(30);
    expect(rig.logs[0]).toMatchObject({ event: "loop.unexpected_error", error: odd });
    expect(rig.fatal).toEqual([]);
  });

  test("a fatal store error stops the worker", async () => {
    const rig = new Rig();
    const broken = new SluiceError("STORE_CORRUPT", "damaged");
    rig.answer = () => Promise.reject(broken);
    await rig.clock.run(500);
    expect(rig.fatal).toEqual([broken]);
  });

  test("once stopped it checks no more, and leaves no timer", async () => {
    const rig = new Rig();
    rig.look.notify();
    rig.look.stop();
    rig.look.notify();
    await rig.clock.run(5_000);
    expect(rig.asked).toEqual([]);
    expect(rig.clock.waiting).toBe(0);
  });
});
