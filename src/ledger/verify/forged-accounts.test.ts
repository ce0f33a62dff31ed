/**
 * Forgeries that even the holder of the key cannot hide: counts that do not add up, and, with
 * anchors, a different history.
 */
import { describe } from "vitest";
import { assemble, type Body, dissect } from "../../../test/support/ledger-forger.ts";
import {
  BY_HOLDER,
  type Tampering,
  at,
  countsOf,
  dataOf,
  drop,
  forge,
  lines,
  sample,
  testTampering,
} from "../../../test/support/ledger-tampering.ts";

/** Even with the key: the records together must be possible. */
const accounts: Readonly<Record<string, Tampering>> = {
  "the plan is changed": {
    forged: forge((model) => (dataOf(at(model, 4))["items"] = 9), BY_HOLDER),
    line: 31,
    record: "7/7",
    why: /item 9 is not in the plan/,
  },
  "the plan is enlarged": {
    forged: forge((model) => (dataOf(at(model, 4))["items"] = 11), BY_HOLDER),
    line: 33,
    record: "8",
    why: /ended with 10 items and was planned with 11/,
  },
  "a count is changed": {
    forged: forge((model) => (countsOf(model, 8)["succeeded"] = 9), BY_HOLDER),
    line: 33,
    record: "8",
    why: /do not add up/,
  },
  "two counts are changed": {
    forged: forge((model) => {
      Object.assign(countsOf(model, 8), { succeeded: 9, failed: 0 });
    }, BY_HOLDER),
    line: 33,
    record: "8",
    why: /9 succeeded, its items' records say 8/,
  },
  "counts of the ending differ from those of its steps": {
    forged: forge((model) => {
      Object.assign(countsOf(model, 10), { skipped: 2, succeeded: 7 });
    }, BY_HOLDER),
    line: 35,
    record: "10",
    why: /7 succeeded, its steps with 8/,
  },
  "a failure is called a success": {
    forged: forge((model) => (dataOf(at(model, 10))["state"] = "succeeded"), BY_HOLDER),
    line: 35,
    record: "10",
    why: /succeeded with 1 failures/,
  },
  "an item never came to its end": {
    forged: forge((model) => (dataOf(at(model, 5))["succeeded"] = "0-2"), BY_HOLDER),
    line: 33,
    record: "8",
    why: /8 succeeded, its items' records say 7/,
  },
  "an item has two outcomes": {
    forged: forge((model) => (dataOf(at(model, 6))["succeeded"] = "3-4"), BY_HOLDER),
    line: 19,
    record: "6",
    why: /item 3 of step 0 already had its outcome/,
  },
  "an item has two outcomes at once": {
    forged: forge((model) => (dataOf(at(model, 7))["skipped"] = "7-8"), BY_HOLDER),
    line: 23,
    record: "7",
    why: /item 7 of step 0 already had its outcome/,
  },
  "an item's failure becomes a success without a redrive": {
    forged: forge((model) => (dataOf(at(model, 7))["succeeded"] = "5-7,9"), BY_HOLDER),
    line: 23,
    record: "7",
    why: /item 9 of step 0 already had its outcome/,
  },
  "an item has a state after its outcome": {
    forged: forge((model) => {
      const { items } = at(model, 6);
      items.push(items[1]!.replace('"item":4', '"item":3'));
    }, BY_HOLDER),
    line: 22,
    record: "6/2",
    why: /item 3 of step 0 already had its outcome/,
  },
  "an item goes back to work that had not failed": {
    forged: forge((model) => {
      const back = structuredClone(at(model, 7));
      back.record["data"] = { step: 0, chunk: 1, fence: 1, redriven: "8-9", drive: 2 };
      model.entries.splice(7, 0, { ...back, items: [], details: [] });
    }, BY_HOLDER),
    line: 33,
    record: "8",
    why: /item 8 of step 0 goes back to work and had not failed/,
  },
  "an item goes back to work without a redrive": {
    forged: forge((model) => {
      const back = structuredClone(at(model, 7));
      back.record["data"] = { step: 0, chunk: 1, fence: 1, redriven: "9", drive: 2 };
      model.entries.splice(7, 0, { ...back, items: [], details: [] });
    }, BY_HOLDER),
    line: 34,
    record: "9",
    why: /without a redrive/,
  },
  "the batch says that it keeps no ledger of items": {
    forged: forge((model) => delete dataOf(at(model, 1))["itemLedger"], BY_HOLDER),
    line: 8,
    record: "5",
    why: /keeps no ledger of items/,
  },
  "a whole block is left out": {
    forged: forge((model) => model.entries.splice(5, 1), BY_HOLDER),
    line: 29,
    record: "7",
    why: /8 succeeded, its items' records say 7/,
  },
  "a whole block is repeated": {
    forged: forge((model) => {
      model.entries.splice(6, 0, structuredClone(at(model, 6)));
    }, BY_HOLDER),
    line: 23,
    record: "7",
    why: /two blocks 2 under fence 1/,
  },
  "a stale worker's block is put in": {
    forged: forge((model) => {
      const stale = structuredClone(at(model, 6));
      Object.assign(dataOf(stale), { fence: 0 });
      model.entries.splice(6, 0, stale);
    }, BY_HOLDER),
    line: 23,
    record: "7",
    why: /under fence 1 before/,
  },
  "a worker reports under a lease that it had lost": {
    forged: forge((model) => {
      const lost = structuredClone(at(model, 6));
      lost.record["data"] = { step: 0, chunk: 0, fence: 1, worker: 3, cause: "lost" };
      model.entries.splice(5, 0, { ...lost, items: [], details: [] });
    }, BY_HOLDER),
    line: 20,
    record: "7",
    why: /under fence 1, which was lost/,
  },
  "a record of an item names another worker than its block": {
    forged: forge((model) => (dataOf(at(model, 7))["worker"] = 5), BY_HOLDER),
    line: 24,
    record: "7/0",
    why: /another worker/,
  },
  "a record of an item is about another step than its block": {
    forged: forge((model) => (dataOf(at(model, 7))["step"] = 1), BY_HOLDER),
    line: 24,
    record: "7/0",
    why: /about step 0, its block about step 1/,
  },
  "items have records after the end": {
    forged: forge((model) => {
      const [block] = model.entries.splice(6, 1);
      Object.assign(countsOf(model, 7), { succeeded: 5, skipped: 0, failed: 0, planned: 5 });
      Object.assign(countsOf(model, 9), { succeeded: 5, skipped: 0, failed: 0, planned: 5 });
      dataOf(at(model, 9))["state"] = "succeeded";
      dataOf(at(model, 4))["items"] = 5;
      model.entries.splice(9, 0, block!);
    }, BY_HOLDER),
    line: 26,
    record: "10",
    why: /after the batch's end/,
  },
  "the batch ends twice": {
    forged: forge((model) => {
      model.entries.splice(10, 0, structuredClone(at(model, 10)));
    }, BY_HOLDER),
    line: 36,
    record: "11",
    why: /ended twice/,
  },
  "an item names a drive that there was not": {
    forged: forge((model) => {
      const { items } = at(model, 7);
      items[7] = items[7]!.replace('"item":9', '"drive":2,"item":9');
    }, BY_HOLDER),
    line: 31,
    record: "7/7",
    why: /drive 2, the batch is in 1/,
  },
  "a failure names a drive that there was not": {
    forged: forge((model) => {
      (dataOf(at(model, 7))["failed"] as Body[])[0]!["drive"] = 2;
    }, BY_HOLDER),
    line: 23,
    record: "7",
    why: /drive 2, the batch is in 1/,
  },
  "ranges overlap": {
    forged: forge((model) => (dataOf(at(model, 7))["succeeded"] = "5-6,6-7"), BY_HOLDER),
    line: 23,
    record: "7",
    why: /something impossible/,
  },
  "a range goes on for ever": {
    forged: forge((model) => (dataOf(at(model, 7))["succeeded"] = "5-9007199254740991"), BY_HOLDER),
    line: 23,
    record: "7",
    why: /something impossible/,
  },
};

const rolledBack = (): string[] => {
  const model = dissect(lines);
  model.entries.length = 6;
  return assemble(model);
};

const anchored: Readonly<Record<string, Tampering>> = {
  "an older, complete copy is put in place": {
    forged: rolledBack(),
    anchors: [sample.signedHeads[1]!.body],
    line: 23,
    record: null,
    why: /older than its anchor: it has 6 records, and on .* there were 11/,
  },
  "the last signed head is dropped": {
    forged: drop(37),
    anchors: [lines[36]!],
    line: 37,
    record: null,
    why: /signed head of record 11, which was anchored/,
  },
  "another history is signed with the same key": {
    forged: forge((model) => (dataOf(at(model, 7))["fence"] = 9), BY_HOLDER),
    anchors: [sample.signedHeads[1]!.body],
    line: 36,
    record: "11",
    why: /history was rewritten/,
  },
  "another history is signed before the anchor": {
    forged: forge((model) => (dataOf(at(model, 1))["key"] = "k"), BY_HOLDER),
    anchors: [sample.signedHeads[0]!.body],
    line: 8,
    record: "5",
    why: /history was rewritten/,
  },
};

describe("forged accounts are found, whatever key signed them", () => testTampering(accounts));

describe("a different history is found by anchors", () => testTampering(anchored));
