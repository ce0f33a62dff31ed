/**
 * Claims: one worker at a time does a background task, for a limited time. A claim only saves work.
 */
import { expect } from "vitest";
import type { Rule } from "./rig.ts";

const DUTY = "slice batch-1";
const FOR_MS = 5_000;

export function describeClaiming(rule: Rule): void {
  rule("only one worker at a time holds the claim on a background task", async ({ rig }) => {
    expect(await rig.store.claim(DUTY, 1, FOR_MS)).toBe(true);
    expect(await rig.store.claim(DUTY, 2, FOR_MS)).toBe(false);
  });

  rule("the holder can extend its claim, counted from now", async ({ rig }) => {
    await rig.store.claim(DUTY, 1, FOR_MS);
    rig.clock.advance(FOR_MS - 1);
    expect(await rig.store.claim(DUTY, 1, FOR_MS)).toBe(true);
    rig.clock.advance(FOR_MS - 1);
    expect(await rig.store.claim(DUTY, 2, FOR_MS)).toBe(false);
  });

  rule("another worker can take a claim exactly when it expires", async ({ rig }) => {
    await rig.store.claim(DUTY, 1, FOR_MS);
    rig.clock.advance(FOR_MS - 1);
    expect(await rig.store.claim(DUTY, 2, FOR_MS)).toBe(false);
    rig.clock.advance(1);
    expect(await rig.store.claim(DUTY, 2, FOR_MS)).toBe(true);
    expect(await rig.store.claim(DUTY, 1, FOR_MS)).toBe(false);
  });

  rule("a claim that its holder gives up is free at once", async ({ rig }) => {
    await rig.store.claim(DUTY, 1, FOR_MS);
    await rig.store.unclaim(DUTY, 1);
    expect(await rig.store.claim(DUTY, 2, FOR_MS)).toBe(true);
  });

  rule("a worker cannot give up the claim of another worker", async ({ rig }) => {
    await rig.store.claim(DUTY, 1, FOR_MS);
    await rig.store.unclaim(DUTY, 2);
    await rig.store.unclaim("never claimed", 2);
    expect(await rig.store.claim(DUTY, 2, FOR_MS)).toBe(false);
  });

  rule("a jump of the wall clock does not free a claim", async ({ rig }) => {
    await rig.store.claim(DUTY, 1, FOR_MS);
    rig.clock.jumpWall(86_400_000);
    expect(await rig.store.claim(DUTY, 2, FOR_MS)).toBe(false);
  });

  rule("claims on different background tasks are independent", async ({ rig }) => {
    await rig.store.claim(DUTY, 1, FOR_MS);
    expect(await rig.store.claim("slice batch-2", 2, FOR_MS)).toBe(true);
  });

  rule("a refused claim notifies no watcher", async ({ rig }) => {
    const other = await rig.store.registerWorker({ name: "other" });
    await rig.store.claim("deliver/hook", rig.worker, 1_000);
    let told = 0;
    const stop = rig.store.watch(() => told++);
    expect(await rig.store.claim("deliver/hook", other, 1_000)).toBe(false);
    expect(told).toBe(0);
    await rig.submit();
    expect(told).toBeGreaterThan(0);
    stop();
  });
}
