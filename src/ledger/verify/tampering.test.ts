/** All tampering that is possible without the key, and where the verifier finds it. */
import { describe, expect, test } from "vitest";
import { canonicalize, type Json } from "../../core/base/canonical-json.ts";
import {
  buildSample,
  exportPem,
  rewrite,
  SALT,
  toBytes,
} from "../../../test/support/ledger-export.ts";
import type { Body } from "../../../test/support/ledger-forger.ts";
import {
  BY_FORGER,
  BY_HOLDER,
  RECHAINED,
  type Tampering,
  UNSIGNED,
  at,
  bitFlipped,
  change,
  dataOf,
  drop,
  forge,
  forger,
  insert,
  lines,
  other,
  sample,
  swap,
  testTampering,
  verify,
} from "../../../test/support/ledger-tampering.ts";
import { introduceKey } from "../format/signing-key.ts";
import { writeKeyLine } from "../format/export-line.ts";
import { verifyExport } from "./verify-export.ts";

const edits: Readonly<Record<string, Tampering>> = {
  "a bit is flipped in a record": {
    forged: bitFlipped(6, 9),
    line: 7,
    record: "4",
    why: /does not follow/,
  },
  "a bit is flipped in the last record": {
    forged: bitFlipped(36, 9),
    line: 37,
    record: null,
    why: /another last record/,
  },
  "a bit is flipped in a record of an item": {
    forged: bitFlipped(10, 8),
    line: 8,
    record: "5",
    why: /its block, lines 9 to 17, is not/,
  },
  "a record's type is edited": {
    forged: change(7, (line) => line.replace("slicing.finished", "slicing.finishes")),
    line: 8,
    record: "5",
    why: /does not follow/,
  },
  "a record's time is edited": {
    forged: change(5, (line) => line.replace("2026-", "2025-")),
    line: 6,
    record: "3",
    why: /does not follow/,
  },
  "an item's state is edited": {
    forged: change(30, (line) => line.replace("REPEATED", "RECEIVED")),
    line: 23,
    record: "7",
    why: /lines 24 to 31/,
  },
  "an item's outcome is edited": {
    forged: change(23, (line) => line.replace('"skipped":"8"', '"succeeded":"8"')),
    line: 23,
    record: "7",
    why: /canonical/,
  },
  "an item's outcome is moved to its neighbour": {
    forged: change(19, (line) => line.replace('"succeeded":"4"', '"succeeded":"5"')),
    line: 19,
    record: "6",
    why: /item 5 of step 0 succeeded, but has no record/,
  },
  "an item's error code is edited": {
    forged: change(23, (line) => line.replace("NO_PAGE", "NO_SITE")),
    line: 33,
    record: "8",
    why: /does not follow/,
  },
  "a record is deleted": { forged: drop(6), line: 6, record: "3", why: /record 3 is missing/ },
  "the last record is deleted": {
    forged: drop(36),
    line: 36,
    record: null,
    why: /covers 11 records but stands after record 10/,
  },
  "an item's record is deleted": {
    forged: drop(12),
    line: 17,
    record: "5/8",
    why: /malformed|members/,
  },
  "a record is inserted": {
    forged: insert(7, lines[5]!),
    line: 7,
    record: "4",
    why: /number 3, record 4 is missing/,
  },
  "a record of an item is inserted": {
    forged: insert(10, lines[9]!.replace('"item":0', '"item":1')),
    line: 8,
    record: "5",
    why: /lines 9 to 17/,
  },
  "a record of an item is duplicated": {
    forged: insert(10, lines[8]!),
    line: 8,
    record: "5",
    why: /lines 9 to 17/,
  },
  "two records are swapped": {
    forged: swap(5, 6),
    line: 5,
    record: "2",
    why: /record 2 is missing/,
  },
  "two records of items are swapped": {
    forged: swap(10, 12),
    line: 8,
    record: "5",
    why: /lines 9 to 17/,
  },
  "records of items of two blocks are swapped": {
    forged: swap(10, 20),
    line: 8,
    record: "5",
    why: /lines 9 to 17/,
  },
  "two blocks are swapped": {
    forged: [
      ...lines.slice(0, 18),
      ...lines.slice(22, 32),
      ...lines.slice(18, 22),
      ...lines.slice(32),
    ],
    line: 19,
    record: "6",
    why: /record 6 is missing/,
  },
  "the head is cut off": {
    forged: [lines[0]!, ...lines.slice(7)],
    line: 2,
    record: "1",
    why: /record 1 is missing/,
  },
  "the header is cut off": {
    forged: lines.slice(1),
    line: 1,
    record: null,
    why: /not the header/,
  },
  "the tail is cut off": {
    forged: lines.slice(0, 34),
    line: 34,
    record: null,
    why: /cut after record 9/,
  },
  "the tail is cut off in the middle of a line": {
    forged: toBytes(lines).subarray(0, -100),
    line: 37,
    record: null,
    why: /cut here/,
  },
  "the end is cut off in the middle of a block": {
    forged: lines.slice(0, 12),
    line: 12,
    record: null,
    why: /cut after record 5/,
  },
  "something is added after the end": {
    forged: [...lines, lines[4]!],
    line: 39,
    record: null,
    why: /follows the end/,
  },
  "the number of records at the end is edited": {
    forged: change(38, (line) => line.replace('"records":11', '"records":12')),
    line: 38,
    record: null,
    why: /ends with 12 records, but has 11/,
  },
  "the number of items at the end is edited": {
    forged: change(38, (line) => line.replace('"items":19', '"items":18')),
    line: 38,
    record: null,
    why: /ends with 18 items, but has 19/,
  },
  "the header names another batch": {
    forged: change(1, (line) => line.replace("b-test", "b-text")),
    line: 4,
    record: "1",
    why: /about batch "b-test"/,
  },
  "a record is spelled with a space": {
    forged: change(6, (line) => line.replace('"seq":3', '"seq": 3')),
    line: 6,
    record: "3",
    why: /canonical/,
  },
  "a record of an item is spelled with an escape": {
    forged: change(10, (line) => line.replace('"item-0"', '"\\u0069tem-0"')),
    line: 10,
    record: "5/1",
    why: /canonical/,
  },
  "a key is repeated": {
    forged: change(6, (line) => line.replace('"seq":3', '"seq":3,"seq":3')),
    line: 6,
    record: "3",
    why: /canonical/,
  },
  "details are edited": {
    forged: change(22, (line) => line.replace("Ann", "Bob")),
    line: 22,
    record: "6",
    why: /not those that were recorded/,
  },
  "details are given another salt": {
    forged: change(22, (line) => line.replace(SALT, "f".repeat(32))),
    line: 22,
    record: "6",
    why: /not those that were recorded/,
  },
  "details are moved to a record without any": {
    forged: change(22, (line) => line.replace('"i":0', '"i":1')),
    line: 22,
    record: "6",
    why: /has none/,
  },
  "details are duplicated": {
    forged: insert(23, lines[21]!),
    line: 23,
    record: "6",
    why: /repeated/,
  },
  "details are moved to another block": {
    forged: [...lines.slice(0, 21), ...lines.slice(22, 31), lines[21]!, ...lines.slice(31)],
    line: 31,
    record: "7",
    why: /has none/,
  },
};

const signatures: Readonly<Record<string, Tampering>> = {
  "a signature is edited": {
    forged: change(18, (line) => line.replace(/.(?="\}$)/, (digit) => (digit === "0" ? "1" : "0"))),
    line: 18,
    record: null,
    why: /signature of the signed head is not that of key/,
  },
  "a signed head's time is edited": {
    forged: change(18, (line) => line.replace("2026-", "2025-")),
    line: 18,
    record: null,
    why: /signature/,
  },
  "a signed head is dropped between others": {
    forged: drop(18),
    line: 36,
    record: null,
    why: /before this one is missing/,
  },
  "a signed head is repeated": {
    forged: insert(19, lines[17]!),
    line: 19,
    record: null,
    why: /follows one of 5/,
  },
  "a signed head is moved": {
    forged: [...lines.slice(0, 17), ...lines.slice(18, 22), lines[17]!, ...lines.slice(22)],
    line: 22,
    record: null,
    why: /covers 5 records but stands after record 6/,
  },
  "a record is edited and all later ones are chained again": {
    forged: forge((model) => (dataOf(at(model, 1))["pipeline"] = "export"), RECHAINED),
    line: 18,
    record: null,
    why: /another last record/,
  },
  "all is chained again from the middle": {
    forged: forge((model) => (dataOf(at(model, 7))["fence"] = 9), RECHAINED),
    line: 37,
    record: null,
    why: /another last record/,
  },
  "all is chained again, and signed heads keep their signatures": {
    forged: forge((model) => (dataOf(at(model, 7))["fence"] = 9), UNSIGNED),
    line: 37,
    record: null,
    why: /signature/,
  },
  "an item is left out, and everything is computed again": {
    forged: forge((model) => {
      at(model, 5).items.splice(0, 2);
      at(model, 4).record["data"] = { step: 0, items: 10, chunks: 1 };
    }, UNSIGNED),
    line: 8,
    record: "5",
    why: /item 0 of step 0 succeeded, but has no record/,
  },
  "all is signed with another key": {
    forged: forge(() => undefined, BY_FORGER),
    line: 18,
    record: null,
    why: /signed by key [0-9a-f]{16}, which is not known/,
  },
  "all is signed with another key, which introduces itself": {
    forged: forge((model) => {
      model.keys.push(writeKeyLine(introduceKey(forger, null, "2026-11-16T12:00:00.000Z")));
    }, BY_FORGER),
    line: 19,
    record: null,
    why: /neither trusted nor introduced/,
  },
  "another key is put under the id of a trusted one": {
    forged: change(2, (line) => {
      const { key: body, signature } = JSON.parse(line) as Record<string, string>;
      const own = introduceKey(forger, null, "2026-11-16T12:00:00.000Z");
      const spki = (JSON.parse(own.body) as Body)["public"] as Json;
      const edited = rewrite(body!, (value) => (value["public"] = spki));
      return canonicalize({ key: edited, signature: signature! });
    }),
    line: 2,
    record: null,
    why: /id of another key/,
  },
  "a statement of a key is edited": {
    forged: change(3, (line) => line.replace("2026-", "2025-")),
    line: 3,
    record: null,
    why: /not signed by key/,
  },
  "a statement claims the old key's consent": {
    forged: forge((model) => {
      const own = introduceKey(forger, null, "2026-11-16T12:00:00.000Z");
      const body = rewrite(own.body, (value) => (value["prev"] = sample.firstKey.id));
      model.keys.push(canonicalize({ key: body, signature: own.signature }));
    }, BY_FORGER),
    line: 4,
    record: null,
    why: /not signed by key/,
  },
  "the statement that introduces the second key is dropped": {
    forged: drop(3),
    line: 36,
    record: null,
    why: /which is not known/,
  },
  "a signed head of another batch, signed by the same key, is put in": {
    forged: change(18, () => buildSample("b-third", sample.firstKey).lines()[17]!),
    line: 18,
    record: null,
    why: /about batch "b-third"/,
  },
  "two batches are spliced": {
    forged: [...lines.slice(0, 18), ...other.lines().slice(18)],
    line: 19,
    record: "6",
    why: /about batch "b-other"/,
  },
  "a block of another batch is put in": {
    forged: lines.toSpliced(8, 9, ...other.lines().slice(8, 17)),
    line: 9,
    record: "5/0",
    why: /about batch "b-other"/,
  },
};

const ALL = { ...edits, ...signatures };

describe("tampering is found where it was done", () => {
  test("there are more than thirty kinds of it", () => {
    expect(Object.keys(ALL).length).toBeGreaterThan(30);
  });

  testTampering(ALL);

  test("the sample is intact without tampering, also when it is written again", async () => {
    const anchors = sample.signedHeads.map(({ body }) => body);
    expect(await verify(lines, anchors)).toMatchObject({ kind: "intact", anchors: 2 });
    expect(forge(() => undefined, RECHAINED)).toEqual([...lines]);
    expect(await verify(forge(() => undefined, BY_HOLDER))).toMatchObject({ kind: "intact" });
  });

  test("every single bit matters", async () => {
    const bytes = toBytes(lines);
    // A prime number of bits between two positions, so that every byte is hit somewhere.
    for (let bit = 0; bit < bytes.length * 8; bit += 509) {
      const flipped = Buffer.from(bytes);
      flipped[bit >> 3]! ^= 1 << (bit & 7);
      const verdict = await verify(flipped);
      expect(verdict.kind, `bit ${bit}`).toBe("broken");
    }
  }, 60_000);

  test("a reader who trusts the forger's key sees no tampering, but another key", async () => {
    const forged = forge((model) => {
      model.keys.push(writeKeyLine(introduceKey(forger, null, "2026-11-16T12:00:00.000Z")));
    }, BY_FORGER);
    const trusted = [exportPem(forger)];
    const verdict = await verifyExport([toBytes(forged)], { trusted });
    expect(verdict).toMatchObject({ kind: "intact", signers: [forger.id] });
  });
});
