import { hash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canonicalize } from "../../core/base/canonical-json.ts";
import { sha256 } from "../../../test/support/ledger-export.ts";
import { BlockBuilder, computeBlockRoot } from "./block.ts";
import { readItemLine } from "./item-line.ts";
import {
  digestDetails,
  type ItemRecordFacts,
  type ItemRecordPlace,
  ItemRecordWriter,
  SEEN,
} from "./item-record.ts";
import { computeRoot, hashLeaf } from "./merkle-tree.ts";

const number = fc.oneof(fc.nat(100), fc.maxSafeNat());
const text = fc.oneof(fc.string({ unit: "binary" }), fc.string({ unit: "grapheme" }));
const hex = fc.string({ maxLength: 9 }).map(sha256);
const orNull = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(value);
const place: fc.Arbitrary<ItemRecordPlace> = fc.record({
  batch: text,
  lane: text,
  step: number,
  worker: number,
});
const facts: fc.Arbitrary<ItemRecordFacts> = fc.record({
  atMs: fc.integer({ min: 0, max: Date.UTC(9999, 0) }),
  item: number,
  key: orNull(text),
  state: fc.oneof(
    fc.constantFrom("RECEIVED", SEEN),
    text.filter((one) => one !== ""),
  ),
  attempt: number,
  drive: fc.integer({ min: 1, max: 1000 }),
  content: orNull(hex),
});

describe("a record of an item", () => {
  test("is written like the canonical writer does, whatever its content", () => {
    fc.assert(
      fc.property(place, fc.array(facts, { maxLength: 5 }), orNull(hex), (where, all, details) => {
        const writer = new ItemRecordWriter(where);
        for (const one of all) {
          const line = writer.write(one, details);
          const { atMs, key, content, drive, ...rest } = one;
          const plain = canonicalize({
            v: 1,
            at: new Date(atMs).toISOString(),
            ...rest,
            ...where,
            ...(key === null ? {} : { key }),
            ...(content === null ? {} : { content }),
            ...(details === null ? {} : { details }),
            ...(drive === 1 ? {} : { drive }),
          });
          expect(line).toBe(plain);
          expect(readItemLine(line)).toMatchObject({ kind: "item" });
        }
      }),
    );
  });

  test("replaces ill-formed text, so that it can always be written", () => {
    const writer = new ItemRecordWriter({ batch: "b-1", lane: "l\ud800", step: 0, worker: 1 });
    const fact = { atMs: 0, item: 0, state: "A", attempt: 1, drive: 1, content: null };
    const line = writer.write({ ...fact, key: "k\udc00" }, null);
    expect(readItemLine(line)).toMatchObject({ line: { key: "k\ufffd", lane: "l\ufffd" } });
  });

  test("is the example of the page about the format", () => {
    const writer = new ItemRecordWriter({ batch: "b-1", lane: "north", step: 0, worker: 3 });
    const atMs = Date.UTC(2026, 10, 16, 15, 17, 0, 123);
    const content = sha256('{"id":12}');
    const line = writer.write(
      {
        atMs,
        item: 12,
        key: "item-12",
        state: "RECEIVED",
        attempt: 1,
        drive: 1,
        content,
      },
      null,
    );
    expect(line).toBe(
      `{"at":"2026-11-16T15:17:00.123Z","attempt":1,"batch":"b-1","content":"${content}",` +
        '"item":12,"key":"item-12","lane":"north","state":"RECEIVED","step":0,"v":1,"worker":3}',
    );
  });
});

describe("a block", () => {
  const where = { batch: "b-1", lane: "l", step: 0, worker: 1 };
  const fact = (item: number): ItemRecordFacts => ({
    atMs: item,
    item,
    key: `ключ ${item}`,
    state: "RECEIVED",
    attempt: 1,
    drive: 1,
    content: null,
  });

  test.each([1, 2, 3, 100])("of %i records has the root over its lines", (count) => {
    const builder = new BlockBuilder(where);
    for (let item = 0; item < count; item++) builder.add(fact(item), null);
    const { bytes, root, details, ...block } = builder.finish();
    const lines = Buffer.from(bytes).toString().split("\n").slice(0, -1);
    expect(block.count).toBe(count);
    expect(lines).toHaveLength(count);
    expect(root).toBe(computeRoot(lines.map((line) => hashLeaf(Buffer.from(line)))));
    expect(computeBlockRoot(bytes)).toBe(root);
    expect(details).toBe("");
  });

  test("keeps details separate, with only their salted digest in the record", () => {
    const builder = new BlockBuilder(where);
    const salt = "0123456789abcdef0123456789abcdef";
    builder.add(fact(0), null);
    builder.add(fact(1), { salt, details: { name: "Ann", at: [1, 2] } });
    const { bytes, details } = builder.finish();
    expect(details).toBe(`{"details":{"at":[1,2],"name":"Ann"},"i":1,"salt":"${salt}"}\n`);
    const bare = Buffer.from(
      `${salt}${Buffer.from('{"at":[1,2],"name":"Ann"}').toString("hex")}`,
      "hex",
    );
    const digest = digestDetails(salt, { name: "Ann", at: [1, 2] });
    expect(digest).toBe(hash("sha256", bare, "hex"));
    expect(Buffer.from(bytes).toString()).toContain(`"details":"${digest}"`);
    expect(Buffer.from(bytes).toString()).not.toContain("Ann");
  });
});
