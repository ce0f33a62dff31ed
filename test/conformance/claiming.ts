/** Claiming: a duty is one worker's at a time, for a limited time. It only saves work. */
import { expect } from "vitest";
import type { Rule } from "./rig.ts";

const DUTY = "slice batch-1";
const FOR_MS = 5_000;

export function describeClaiming(rule: Rule): void {
  rule("a duty is claimed by one worker at a time", async ({ rig }) => {
    expect(await rig.store.claim(DUTY, 1, FOR_MS)).toBe(true);
    expect(await rig.store.claim(DUTY, 2, FOR_MS)).toBe(false);
  });

  rule("its holder can prolong a claim, from now on", async ({ rig }) => {
    await rig.store.claim(DUTY, 1, FOR_MS);
    rig.clock.advance(FOR_MS - 1);
    expect(await rig.store.claim(DUTY, 1, FOR_MS)).toBe(true);
    rig.clock.advance(FOR_MS - 1);
    expect(await rig.store.claim(DUTY, 2, FOR_MS)).toBe(false);
  });

  rule("a claim can be taken over exactly when its time is over", async ({ rig }) => {
    await rig.store.claim(DUTY, 1, FOR_MS);
    rig.clock.advance(FOR_MS - 1);
    expect(await rig.store.claim(DUTY, 2, FOR_MS)).toBe(false);
    rig.clock.advance(1);
    expect(await rig.store.claim(DUTY, 2, FOR_MS)).toBe(true);
    expect(await rig.store.claim(DUTY, 1, FOR_MS)).toBe(false);
  });

  rule("a claim that is given up is free at once", async ({ rig }) => {
    await rig.store.claim(DUTY, 1, FOR_MS);
    await rig.store.unclaim(DUTY, 1);
    expect(await rig.store.claim(DUTY, 2, FOR_MS)).toBe(true);
  });

  rule("nobody gives up another's claim", async ({ rig }) => {
    await rig.store.claim(DUTY, 1, FOR_MS);
    await rig.store.unclaim(DUTY, 2);
    await rig.store.unclaim("never claimed", 2);
    expect(await rig.store.claim(DUTY, 2, FOR_MS)).toBe(false);
  });

  rule("a jump of the wall clock frees no claim", async ({ rig }) => {
    await rig.store.claim(DUTY, 1, FOR_MS);
    rig.clock.jumpWall(86_400_000);
    expect(await rig.store.claim(DUTY, 2, FOR_MS)).toBe(false);
  });

  rule("duties are claimed each on its own", async ({ rig }) => {
    await rig.store.claim(DUTY, 1, FOR_MS);
    expect(await rig.store.claim("slice batch-2", 2, FOR_MS)).toBe(true);
  });

  rule("a claim that is refused wakes nobody who watches", async ({ rig }) => {
    const other = await rig.store.registerWorker({ name: "other" });
    await rig.store.claim("relay/hook", rig.worker, 1_000);
    let told = 0;
    const stop = rig.store.watch(() => told++);
    expect(await rig.store.claim("relay/hook", other, 1_000)).toBe(false);
    expect(told).toBe(0);
    await rig.submit();
    expect(told).toBeGreaterThan(0);
    stop();
  });
}
