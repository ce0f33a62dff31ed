/** Notifications are a hint: without any of them every batch still ends. */
import { expect, onTestFinished, test } from "vitest";
import { makePlace } from "../conformance/postgres-rig.ts";
import { CuttingProxy } from "../support/cutting-proxy.ts";
import { findFaults } from "./black-box/find-faults.ts";
import { Crew } from "./crew.ts";

test("a batch on several processes ends without any notification, and each item runs once", async () => {
  const { address } = await makePlace();
  const proxy = await CuttingProxy.start(address);
  onTestFinished(() => proxy.close());
  proxy.isDeaf = true;
  const crew = new Crew({ items: 2_000, workMs: 2, mixed: true, store: proxy.address });
  onTestFinished(() => crew.dispose());
  for (const _worker of [1, 2]) {
    await crew.start("work").running.waitFor(/working on/);
  }
  crew.start("submit");
  await crew.onlooker.waitForEnd();
  expect(findFaults(await crew.gather())).toEqual([]);
  expect(proxy.swallowed).toBeGreaterThan(0);
});
