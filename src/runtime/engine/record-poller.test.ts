import { hash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { createMemoryStore } from "../../adapters/memory/store.ts";
import type { Submission } from "../../ports/store/conductor-store.ts";
import type { Store } from "../../ports/store/store.ts";
import { RecordPoller } from "./record-poller.ts";
import { systemClock } from "../system/system-clock.ts";

function describeSubmission(id: string): Submission {
  return {
    id,
    pipeline: "import",
    version: "1",
    lane: id,
    key: null,
    input: "null",
    inputHash: "h",
    resume: false,
    open: false,
    sealWithinMs: 1_000,
    deadlineAt: null,
    settings: {
      strict: false,
      steps: [
        {
          name: "import",
          chunkSize: 10,
          maxRedrives: 0,
          carries: false,
          budget: null,
          canary: null,
        },
      ],
    },
  };
}

interface Scene {
  readonly store: Store;
  readonly tail: RecordPoller;
  /** How often the records were read. */
  readonly looks: () => number;
}

function setUp(): Scene {
  const shared = createMemoryStore({
    clock: systemClock,
    sha256: (text) => hash("sha256", text),
  });
  let looks = 0;
  const store: Store = {
    ...shared,
    readRecords: (...args) => {
      looks++;
      return shared.readRecords(...args);
    },
  };
  return { store, tail: new RecordPoller(store, systemClock, 1_000), looks: () => looks };
}

describe("a poller of records", () => {
  test("wakes only the listeners of a batch with each of its records", async () => {
    const { store, tail } = setUp();
    let other = 0;
    const { promise, resolve } = Promise.withResolvers<void>();
    const leaveMine = await tail.listen("mine", resolve);
    const leaveOther = await tail.listen("other", () => other++);
    await store.submit(describeSubmission("mine"));
    await promise;
    expect(other).toBe(0);
    leaveMine();
    leaveOther();
  });

  test("reports nothing that was recorded before the listener came", async () => {
    const { store, tail } = setUp();
    await store.submit(describeSubmission("mine"));
    let woken = 0;
    const { promise, resolve } = Promise.withResolvers<void>();
    const leaveMine = await tail.listen("mine", () => woken++);
    const leaveNext = await tail.listen("next", resolve);
    await store.submit(describeSubmission("next"));
    await promise;
    expect(woken).toBe(0);
    leaveMine();
    leaveNext();
  });

  test("reads once for a thousand listeners, and never without listeners", async () => {
    const { store, tail, looks } = setUp();
    const { promise, resolve } = Promise.withResolvers<void>();
    const leaves = [await tail.listen("mine", resolve)];
    for (let n = 0; n < 1_000; n++) leaves.push(await tail.listen(`b-${n}`, () => undefined));
    const before = looks();
    await store.submit(describeSubmission("mine"));
    await promise;
    expect(looks() - before).toBeLessThanOrEqual(2);
    for (const leave of leaves) leave();
    const { promise: again, resolve: wakeAgain } = Promise.withResolvers<void>();
    // A listener that returns after the poller had stopped misses nothing.
    const leave = await tail.listen("late", wakeAgain);
    await store.submit(describeSubmission("late"));
    await again;
    leave();
  });
});
