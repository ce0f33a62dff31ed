/** The checker is shown forged evidence of each kind of fault: it must complain of every one. */
import { expect, test } from "vitest";
import type { ItemCounts } from "./evidence.ts";
import { findFaults } from "./find-faults.ts";
import { forgeEvidence, type Parts } from "./forged-evidence.ts";
import { markCaught } from "./naps.ts";
import type { Run } from "./run-log.ts";

test("a batch as promised is not complained of, with a kill, a retry, a skip and a repeat delivery", () => {
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
    "successes that were taken back",
    /^successes were taken back/,
    ({ looks }) => {
      const { status } = looks[0]!;
      looks[0] = { ...looks[0]!, status: { ...status, succeeded: 7, pending: 1 } };
    },
  ],
  [
    "an end with items pending",
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
    "an item that nobody submitted",
    /^no item of the input: .*"i9"/,
    ({ results }) => results.push({ ...results[0]!, item: 9, key: "i9" }),
  ],
  [
    "a result under another item's name",
    /^no item of the input: .*"i1"/,
    ({ results }) => (results[0] = { ...results[0]!, key: "i1" }),
  ],
  [
    "counts that the exports do not bear out",
    /^other numbers than exports: .*"failed"/,
    ({ letters }) => letters.pop(),
  ],
  [
    "a second outcome over a reported one",
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
    "success over a dead letter",
    /^succeeded over what did not succeed/,
    (parts) => {
      parts.status = { ...parts.status, state: "succeeded" };
      tellOtherwise(parts, { state: "succeeded" });
    },
  ],
  [
    "errors that there were not",
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
    "a second ending of a batch that nobody reopened",
    /^reopened by nobody/,
    (parts) => {
      parts.status = { ...parts.status, drive: 2 };
      const ending = parts.events[6]!;
      parts.events.push({ ...ending, seq: 9, data: { ...ending.data, drive: 2 } });
    },
  ],
  ["a gap in the events", /^events are missing/, ({ events }) => events.splice(3, 1)],
  [
    "an ending with other counts",
    /^the event says otherwise/,
    (parts) => tellOtherwise(parts, { counts: { planned: 8, succeeded: 8 } }),
  ],
  [
    "work after the ending",
    /^happened after the ending: "step.ended"/,
    ({ events }) => events.push({ ...events[4]!, seq: 9 }),
  ],
  [
    "an event that nobody was told of",
    /^recorded and never delivered: .*batch.ended/,
    ({ delivered }) => delivered.splice(7, 1),
  ],
  [
    "an event that never happened",
    /^delivered and never recorded: .*batch.expired/,
    ({ delivered }) => (delivered[7] = { ...delivered[7]!, type: "batch.expired" }),
  ],
  [
    "the same event under two names",
    /^delivered under another name/,
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
    /^a result of a lease that was not the last: .*"by":"first"/,
    ({ results }) => {
      results[1] = { ...results[1]!, value: { by: "first", fence: 1, attempt: 1 } };
    },
  ],
  [
    "a result without a run",
    /^a result without a run that came to its end: .*"item":2/,
    (parts) => (parts.runs = parts.runs.filter(({ item }) => item !== 2)),
  ],
  [
    "a result of a run that failed",
    /^a result without a run that came to its end: .*"item":7/,
    ({ runs }) => (runs.find(({ item }) => item === 7)!.answer = "fail"),
  ],
  ["more tries than allowed", /^more than 1 tries: .*"item":5/, (parts) => (parts.attemptsMax = 1)],
  [
    "a conviction without deaths",
    /^convicted without having killed anybody: .*"item":6/,
    ({ letters }) => (letters[0] = { ...letters[0]!, code: "POISON", deaths: 3 }),
  ],
  [
    "a conviction after one loss",
    /^convicted without having killed anybody: .*"item":6/,
    (parts) => {
      parts.letters[0] = { ...parts.letters[0]!, code: "POISON", deaths: 3 };
      parts.disturbed.add("second");
      // Its chunk was leased once more only for this one.
      parts.runs = parts.runs.filter(({ item }) => item !== 5);
    },
  ],
  [
    "a start without a reason",
    /^started again without a reason: .*"item":1/,
    ({ disturbed }) => disturbed.clear(),
  ],
];

test("a start that may have been on its way when its process fell asleep is no fault; any other is", () => {
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

test.each(FAULTS)("it complains of %s", (_what, complaint, forge) => {
  const faults = findFaults(forgeEvidence(forge));
  expect(faults.filter((fault) => complaint.test(fault))).toHaveLength(1);
});
