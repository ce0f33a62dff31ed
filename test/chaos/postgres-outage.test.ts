/**
 * A server that is away, full, silent, read-only or busy: every call says so in time and in words that
 * let its caller wait, and all is well as soon as the server is.
 */
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { PostgresStoreOptions } from "../../src/adapters/postgres/store.ts";

import { makePlace, openAt, type Place } from "../conformance/postgres-rig.ts";
import { Rig, SWEEP_POLICY } from "../conformance/rig.ts";
import { CuttingProxy } from "../support/cutting-proxy.ts";
import { ManualClock } from "../support/manual-clock.ts";

let place: Place;
let proxy: CuttingProxy;
beforeEach(async () => {
  place = await makePlace();
  proxy = await CuttingProxy.start(place.address);
  onTestFinished(() => proxy.close());
});

async function openBehindProxy(options: Partial<PostgresStoreOptions> = {}): Promise<Rig> {
  const clock = new ManualClock();
  const store = await openAt(proxy.address, clock, options);
  onTestFinished(() => store.close());
  return new Rig(store, clock, await store.registerWorker({ name: "worker" }));
}

/** One call of each kind: looks, changes, and those that are both. */
const CALLS: Readonly<Record<string, (rig: Rig) => Promise<unknown>>> = {
  "a look at a batch": ({ store }) => store.getBatch("none"),
  "a list": ({ store }) => store.listLimits(),
  "a read of records": ({ store }) => store.readRecords(null, 0, 10),
  "a submit": (rig) => rig.submit(),
  "a look for work": (rig) => rig.look(),
  "a claim": ({ store, worker }) => store.claim("conduct", worker, 1_000),
  "a sweep": ({ store }) => store.sweep(SWEEP_POLICY),
  "a beat": ({ store, worker }) => store.beat(worker, [], 1_000),
};
const AWAY = { code: "STORE_UNREACHABLE", retryable: true };

async function expectAll(rig: Rig, failure: object): Promise<void> {
  for (const [what, call] of Object.entries(CALLS)) {
    await expect(call(rig), what).rejects.toMatchObject(failure);
  }
}

describe("a server that cannot be reached", () => {
  test("makes every call fail for the moment, looks as well as changes", async () => {
    const rig = await openBehindProxy();
    proxy.refuse();
    await expectAll(rig, AWAY);
    proxy.accept();
    for (const call of Object.values(CALLS)) await call(rig);
  });
});
