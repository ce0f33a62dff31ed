import { hash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../test/support/manual-clock.ts";
import { createMemoryStore } from "../../adapters/memory/store.ts";
import { SluiceError } from "../../core/base/errors.ts";
import { InvariantError } from "../../core/base/invariant.ts";
import { DEFAULT_WATCH_DELAYS } from "../../core/batch/watch.ts";
import type { Store } from "../../ports/store/store.ts";
import { WorkerHealth } from "../health/worker-health.ts";
import type { LogEntry } from "./log.ts";
import { makeRetryingStore } from "./retrying-store.ts";

const busy = new SluiceError("STORE_BUSY", "locked", { retryable: true });
const POLICY = {
  watchDelays: DEFAULT_WATCH_DELAYS,
  stallsMax: 3,
  orphanMs: 1_000,
  staleMs: 1_000,
};
const broken = new SluiceError("STORE_CORRUPT", "damaged");

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

/** A store whose calls fail this often before they succeed. */
function makeRig(failures: number, error: Error = busy, retriesForever = (): boolean => false) {
  const clock = new ManualClock();
  const store = createMemoryStore({ clock, sha256: (text) => hash("sha256", text) });
  const health = new WorkerHealth(clock);
  const logs: LogEntry[] = [];
  let calls = 0;
  const fail = <T>(call: () => Promise<T>): Promise<T> =>
    ++calls <= failures ? Promise.reject(error) : call();
  const shaky: Mutable<Store> = {
    ...store,
    getBatch: (id) => fail(() => store.getBatch(id)),
    renew: (worker, leases, leaseMs) => fail(() => store.renew(worker, leases, leaseMs)),
    sweep: (policy) => fail(() => store.sweep(policy)),
    beat: (worker, serves, forMs) => fail(() => store.beat(worker, serves, forMs)),
    redrive: (id, request) => fail(() => store.redrive(id, request)),
  };
  const random = { next: () => 0.5, id: () => "aaaaaaaaaaaa" };
  const log = (entry: LogEntry): void => void logs.push(entry);
  const patient = makeRetryingStore(shaky, {
    clock,
    random,
    log,
    settings: { outageRetryMs: 5_000 },
    retriesForever,
    onRetry: () => health.noteTrouble(),
  });
  return { clock, patient, health, store: shaky, logs, countCalls: () => calls };
}

describe("a retrying store", () => {
  test("retries a call after a transient failure, and logs it", async () => {
    const { clock, patient, logs, countCalls } = makeRig(3);
    const answer = patient.getBatch("b-1");
    await clock.run(1_000);
    expect(await answer).toBeNull();
    expect(countCalls()).toBe(4);
    expect(logs.map(({ event }) => event)).toEqual(["store.retry", "store.retry", "store.retry"]);
  });

  test("gives up after some seconds", async () => {
    const { clock, patient, countCalls } = makeRig(1_000);
    const answer = patient.getBatch("b-1");
    answer.catch(() => undefined);
    await clock.run(60_000);
    await expect(answer).rejects.toBe(busy);
    expect(countCalls()).toBe(20);
  });

  test("with retriesForever it continues for as long as it takes, and does not fill the log", async () => {
    const { clock, patient, logs, countCalls } = makeRig(70, busy, () => true);
    const answer = patient.getBatch("b-1");
    await clock.run(3_600_000);
    expect(await answer).toBeNull();
    expect(countCalls()).toBe(71);
    expect(logs.length).toBeLessThan(80);
  });

  test("waits longer each time while the store is down, up to a minute", async () => {
    const { clock, patient, countCalls } = makeRig(1_000, busy, () => true);
    void patient.getBatch("b-1");
    await clock.run(4_900);
    const calls: number[] = [];
    for (const waitMs of [5_000, 10_000, 20_000, 40_000, 60_000, 60_000]) {
      await clock.run(waitMs);
      calls.push(countCalls());
    }
    expect(calls).toEqual([21, 22, 23, 24, 25, 26]);
  });

  test("continues at once when a beat succeeds after an outage", async () => {
    const { clock, patient, countCalls } = makeRig(23, busy, () => true);
    const answer = patient.getBatch("b-1");
    await clock.run(25_000);
    expect(countCalls()).toBe(22);
    await expect(patient.beat(1, [], 1_000)).rejects.toBe(busy);
    await clock.run(0);
    expect(countCalls()).toBe(23);
    await patient.beat(1, [], 1_000);
    await clock.run(0);
    expect(await answer).toBeNull();
  });

  test("a call that succeeds after an outage wakes the others, also without beats", async () => {
    const { clock, patient, countCalls } = makeRig(49, busy, () => true);
    const answers = [patient.getBatch("b-1"), patient.getBatch("b-2")];
    await clock.run(25_000);
    expect(countCalls()).toBe(44);
    for (let time = 0; time < 5; time++) await expect(patient.sweep(POLICY)).rejects.toBe(busy);
    await clock.run(0);
    expect(countCalls()).toBe(49);
    await patient.sweep(POLICY);
    await clock.run(0);
    expect(await Promise.all(answers)).toEqual([null, null]);
  });

  test("a read that never failed does not end the wait for a store that cannot be written", async () => {
    const { clock, patient, countCalls, store } = makeRig(1_000, busy, () => true);
    void patient.getBatch("b-1");
    await clock.run(25_000);
    expect(countCalls()).toBe(22);
    store.sweep = () => Promise.resolve({ lostLeases: 0, tended: 0, ended: [] });
    await patient.sweep(POLICY);
    await clock.run(0);
    expect(countCalls()).toBe(22);
  });

  test("retries an unexpected error with growing delays, and only for the engine's own work", async () => {
    const odd = new TypeError("cannot read properties of undefined");
    const { clock, patient, logs, countCalls } = makeRig(24, odd, () => true);
    const answer = patient.getBatch("b-1");
    await clock.run(60_000);
    expect(countCalls()).toBe(23);
    await clock.run(600_000);
    expect(await answer).toBeNull();
    expect(logs).toMatchObject(
      Array.from({ length: 24 }, () => ({ event: "store.unexpected_error", error: odd })),
    );
    const asked = makeRig(1_000, odd);
    await expect(asked.patient.getBatch("b-1")).rejects.toBe(odd);
    expect(asked.countCalls()).toBe(1);
  });

  test("a store outage excuses a worker without progress; an unexpected error does not", async () => {
    for (const [error, isExcused] of [
      [busy, true],
      [new TypeError("cannot read properties of undefined"), false],
    ] as const) {
      const { clock, patient, health } = makeRig(2, error, () => true);
      const answer = patient.getBatch("b-1");
      await clock.run(10_000);
      await answer;
      expect(health.pulse.get("troubleAt") > 0).toBe(isExcused);
    }
  });

  test("does not retry a bug of ours", async () => {
    const { patient, countCalls } = makeRig(1_000, new InvariantError("broken"), () => true);
    await expect(patient.getBatch("b-1")).rejects.toThrow("broken");
    expect(countCalls()).toBe(1);
  });

  test("with retriesForever it gives up when it is stopped", async () => {
    let retriesForever = true;
    const { clock, patient } = makeRig(1_000, busy, () => retriesForever);
    const answer = patient.getBatch("b-1");
    answer.catch(() => undefined);
    await clock.run(60_000);
    retriesForever = false;
    await clock.run(5_000);
    await expect(answer).rejects.toBe(busy);
  });

  test("does not retry what will never succeed", async () => {
    const { patient, countCalls } = makeRig(1_000, broken);
    await expect(patient.getBatch("b-1")).rejects.toBe(broken);
    expect(countCalls()).toBe(1);
  });

  test("does not retry a redrive, which would take the next dead letters under its ceiling", async () => {
    const { patient, countCalls } = makeRig(3);
    const request = {
      by: "ada",
      why: null,
      filter: {},
      ceiling: 1,
      perSecond: null,
      withCancelled: false,
      dryRun: false,
    };
    await expect(patient.redrive("b-1", request)).rejects.toBe(busy);
    expect(countCalls()).toBe(1);
  });

  test("does not retry beats, renewals and sweeps, which repeat by themselves", async () => {
    const { patient, countCalls } = makeRig(3);
    await expect(patient.renew(1, [], 1_000)).rejects.toBe(busy);
    await expect(patient.sweep(POLICY)).rejects.toBe(busy);
    await expect(patient.beat(1, [], 1_000)).rejects.toBe(busy);
    expect(countCalls()).toBe(3);
  });

  test("has every call of the store", () => {
    const { clock, patient } = makeRig(0);
    const store = createMemoryStore({ clock, sha256: (text) => text });
    const verbs = Object.keys(store).filter((name) => name !== "state");
    expect(Object.keys(patient).toSorted()).toEqual(verbs.toSorted());
  });

  test("keeps the polling intervals of its store", () => {
    const clock = new ManualClock();
    const store = createMemoryStore({ clock, sha256: (text) => text });
    const looks = { pollMs: 20_000, sweepMs: 5_000 };
    const random = { next: () => 0.5, id: () => "aaaaaaaaaaaa" };
    const settings = { outageRetryMs: 5_000 };
    const patience = { clock, random, log: () => undefined, settings, retriesForever: () => false };
    expect(makeRetryingStore({ ...store, looks }, patience).looks).toEqual(looks);
  });
});
