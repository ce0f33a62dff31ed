/** The checker gets forged evidence with each kind of fault and must report every one. */
import { expect, test } from "vitest";
import type { ItemCounts } from "./evidence.ts";
import { findFaults } from "./find-faults.ts";
import { forgeEvidence, type Parts } from "./forged-evidence.ts";
import { markCaught } from "./naps.ts";
import type { Run } from "./run-log.ts";

test("accepts a correct batch with a kill, a retry, a skip and a repeated delivery", () => {
  expect(findFaults(forgeEvidence())).toEqual([]);
});

function recount(parts: Parts, changed: Partial<ItemCounts>): void {
  const { steps } = parts.status;
  parts.status = {
    ...parts.status,
    ...changed,
    steps: steps.map((step) => ({ ...step, ...changed })),
  };
}

function tellOtherwise(parts: Parts, changed: Record<string, unknown>): void {
  const at = parts.events.findIndex(({ type }) => type === "batch.ended");
  const event = parts.events[at]!;
  parts.events[at] = { ...event, data: { ...event.data, ...changed } };
}

function addRun(parts: Parts, run: Partial<Run>): void {
  const known = parts.runs.at(-1)!;
  parts.runs.push({ ...known, answer: "ok", endAt: 501, startAt: 500, ...run });
}

const FAULTS: readonly (readonly [string, RegExp, (parts: Parts) => void])[] = [
  [
    "counts that do not add up",
    /^counts do not add up/,
    (parts) => recount(parts, { succeeded: 5 }),
  ],
  [
    "counts that did not add up while it ran",
    /^counts do not add up/,
    ({ looks }) => {
      looks[0] = { ...looks[0]!, status: { ...looks[0]!.status, pending: 5 } };
    },
  ],
  [
    "a count of successes that falls",
    /^the count of successes fell/,
    ({ looks }) => {
      const { status } = looks[0]!;
      looks[0] = { ...looks[0]!, status: { ...status, succeeded: 7, pending: 1 } };
    },
  ],
  [
    "an end with pending items",
    /^the end left items pending/,
    (parts) => recount(parts, { succeeded: 5, pending: 1 }),
  ],
  ["an item that was never planned", /^the input has 9 items/, (parts) => (parts.items = 9)],
  ["a lost item", /^lost: in no export: 7/, ({ results }) => results.splice(results.length - 1)],
  [
    "an item with two results",
    /^more than one outcome: 4/,
    ({ results }) => results.push(results[3]!),
  ],
  [
    "an item that succeeded and failed",
    /^more than one outcome: 6/,
    ({ results }) => results.push({ ...results[0]!, item: 6, key: "i6" }),
  ],
  [
    "an item that was not submitted",
    /^not an item of the input: .*"i9"/,
    ({ results }) => results.push({ ...results[0]!, item: 9, key: "i9" }),
  ],
  [
    "a result under another item's name",
    /^not an item of the input: .*"i1"/,
    ({ results }) => (results[0] = { ...results[0]!, key: "i1" }),
  ],
  [
    "counts that differ from the exports",
    /^counts differ from the exports: .*"failed"/,
    ({ letters }) => letters.pop(),
  ],
  [
    "a second outcome after a reported one",
    /^an outcome changed after it was reported: .*"item":4/,
    ({ results }) => {
      results[3] = { ...results[3]!, value: { by: "second", fence: 2, attempt: 1 } };
    },
  ],
  [
    "an outcome that vanished",
    /^an outcome changed .*"item":0.*"now":null/,
    ({ results }) => results.shift(),
  ],
  [
    "a start after a reported outcome",
    /^started again after its outcome was reported: .*"item":4/,
    (parts) => addRun(parts, { item: 4, fence: 3 }),
  ],
  [
    "a success although an item failed",
    /^succeeded although items failed/,
    (parts) => {
      parts.status = { ...parts.status, state: "succeeded" };
      tellOtherwise(parts, { state: "succeeded" });
    },
  ],
  [
    "completed_with_errors without errors",
    /^completed_with_errors without errors/,
    (parts) => recount(parts, { succeeded: 7, failed: 0 }),
  ],
  [
    "a failure without a reason",
    /^ended early without a reason/,
    (parts) => (parts.status = { ...parts.status, state: "failed" }),
  ],
  [
    "a batch that has not ended",
    /^not ended/,
    (parts) => (parts.status = { ...parts.status, state: "running" }),
  ],
  [
    "a second ending",
    /^ended more than once in a drive: 1/,
    ({ events }) => {
      const ending = events[6]!;
      events.splice(7, 0, { ...ending, seq: 8 });
      events[8] = { ...events[8]!, seq: 9 };
    },
  ],
  ["no ending", /^no ending/, ({ events }) => (events[6] = { ...events[6]!, type: "step.ended" })],
  [
    "a second ending without a reopening",
    /^reopened without a redrive/,
    (parts) => {
      parts.status = { ...parts.status, drive: 2 };
      const ending = parts.events[6]!;
      parts.events.push({ ...ending, seq: 9, data: { ...ending.data, drive: 2 } });
    },
  ],
  ["a gap in the events", /^events are missing/, ({ events }) => events.splice(3, 1)],
  [
    "an ending with other counts",
    /^the event and the status differ/,
    (parts) => tellOtherwise(parts, { counts: { planned: 8, succeeded: 8 } }),
  ],
  [
    "work after the ending",
    /^happened after the ending: "step.ended"/,
    ({ events }) => events.push({ ...events[4]!, seq: 9 }),
  ],
  [
    "an event that was not delivered",
    /^recorded but never delivered: .*batch.ended/,
    ({ delivered }) => delivered.splice(7, 1),
  ],
  [
    "an event that never happened",
    /^delivered but never recorded: .*batch.expired/,
    ({ delivered }) => (delivered[7] = { ...delivered[7]!, type: "batch.expired" }),
  ],
  [
    "the same event under two names",
    /^delivered with a wrong id/,
    ({ delivered }) => (delivered[7] = { ...delivered[7]!, id: "b-forged/70" }),
  ],
  [
    "events out of order",
    /^delivered out of order/,
    ({ delivered }) => delivered.splice(3, 2, delivered[4]!, delivered[3]!),
  ],
  [
    "a fence that falls",
    /^a chunk's fence fell/,
    (parts) => addRun(parts, { item: 3, fence: 1, process: "first" }),
  ],
  [
    "two processes under one lease",
    /^one lease ran in two processes: .*"1\/1".*"third"/,
    (parts) => addRun(parts, { item: 6, process: "third", fence: 1, startAt: 113.1 }),
  ],
  [
    "an item that starts twice under one lease",
    /^started twice under one lease/,
    (parts) => addRun(parts, { item: 5, attempt: 3 }),
  ],
  [
    "a result of a worker that had lost its lease",
    /^a result of an earlier lease: .*"by":"first"/,
    ({ results }) => {
      results[1] = { ...results[1]!, value: { by: "first", fence: 1, attempt: 1 } };
    },
  ],
  [
    "a result without a run",
    /^a result without a finished run: .*"item":2/,
    (parts) => (parts.runs = parts.runs.filter(({ item }) => item !== 2)),
  ],
  [
    "a result of a run that failed",
    /^a result without a finished run: .*"item":7/,
    ({ runs }) => (runs.find(({ item }) => item === 7)!.answer = "fail"),
  ],
  [
    "more attempts than allowed",
    /^more than 1 attempts: .*"item":5/,
    (parts) => (parts.attemptsMax = 1),
  ],
  [
    "a conviction without deaths",
    /^convicted without proof: .*"item":6/,
    ({ letters }) => (letters[0] = { ...letters[0]!, code: "POISON", deaths: 3 }),
  ],
  [
    "a conviction after one loss",
    /^convicted without proof: .*"item":6/,
    (parts) => {
      parts.letters[0] = { ...parts.letters[0]!, code: "POISON", deaths: 3 };
      parts.disturbed.add("second");
      // Its chunk was leased once more only for this item.
      parts.runs = parts.runs.filter(({ item }) => item !== 5);
    },
  ],
  [
    "a start without a reason",
    /^started again without a reason: .*"item":1/,
    ({ disturbed }) => disturbed.clear(),
  ],
];

test("accepts a start that may have begun before its process was stopped, and no other", () => {
  const late = { process: "third", item: 4, fence: 0, startAt: 500, endAt: null, answer: null };
  const evidence = forgeEvidence((parts) => {
    parts.disturbed.add("third");
    addRun(parts, late);
  });
  const complaints = [/^a chunk's fence fell/, /^started again after its outcome/];
  const list = (): string[] =>
    findFaults(evidence).filter((fault) => complaints.some((one) => one.test(fault)));
  expect(list()).toHaveLength(2);
  markCaught(evidence.runs, [{ process: "second", from: 410, to: 499 }]);
  markCaught(evidence.runs, [{ process: "third", from: 410, to: null }]);
  expect(list()).toHaveLength(2);
  markCaught(evidence.runs, [{ process: "third", from: 410, to: 499 }]);
  expect(list()).toEqual([]);
});

test.each(FAULTS)("reports %s", (_what, complaint, forge) => {
  const faults = findFaults(forgeEvidence(forge));
  expect(faults.filter((fault) => complaint.test(fault))).toHaveLength(1);
});
