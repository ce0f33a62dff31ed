/** How watchers learn of commits on a server. */
import { expect, onTestFinished, test, vi } from "vitest";
import { openPostgresStore } from "../../src/adapters/postgres/store.ts";
import type { Store } from "../../src/ports/store/store.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { systemRandom } from "../../src/runtime/system/system-random.ts";
import { CuttingProxy } from "../support/cutting-proxy.ts";
import { makePlace } from "./postgres-rig.ts";

const WAIT = { timeout: 20_000, interval: 20 };

async function open(address: string): Promise<Store> {
  const store = await openPostgresStore(address, { clock: systemClock, random: systemRandom });
  onTestFinished(() => store.close());
  return store;
}

/** A commit that watchers are notified of. */
function change(store: Store, lane: string): Promise<boolean> {
  return store.pause({ scope: "lane", name: lane, mode: "drain", by: "test", why: null });
}

/** Counts notifications from the moment it listens. */
async function listen(store: Store, other: Store): Promise<() => number> {
  let told = 0;
  onTestFinished(store.watch(() => void told++));
  let lanes = 0;
  await vi.waitUntil(async () => {
    await change(other, `heard ${lanes++}`);
    return told > 0;
  }, WAIT);
  // An earlier notification may still arrive.
  for (let before = -1; before !== told; ) {
    before = told;
    await new Promise((resolve) => {
      setTimeout(resolve, 200);
    });
  }
  told = 0;
  return () => told;
}

test("watchers are notified of a commit just before a store closes", async () => {
  const { address } = await makePlace();
  const [watching, other, leaving] = [
    await open(address),
    await open(address),
    await open(address),
  ];
  const countTold = await listen(watching, other);
  await change(leaving, "last");
  await leaving.close();
  await vi.waitUntil(() => countTold() > 0, WAIT);
});

test("a store polls only while it cannot receive notifications", async () => {
  const { address } = await makePlace();
  const proxy = await CuttingProxy.start(address);
  onTestFinished(() => proxy.close());
  proxy.isDeaf = true;
  const [deaf, hearing] = [await open(proxy.address), await open(address)];
  let looks = 0;
  let heard = 0;
  onTestFinished(deaf.watch(() => void looks++));
  onTestFinished(hearing.watch(() => void heard++));
  await vi.waitUntil(() => looks > 1, WAIT);
  expect(heard).toBe(0);
});
