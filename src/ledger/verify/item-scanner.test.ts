import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canonicalize, type Json } from "../../core/base/canonical-json.ts";
import { sha256 } from "../../../test/support/ledger-export.ts";
import { readItemLine } from "../format/item-line.ts";
import { ItemScanner } from "./item-scanner.ts";

const BATCH = "b-1";
const LANE = 'l\u00e4ne "1"';

/** The answer of the simple reader, for the batch and lane of the scanner. */
function readPlainly(text: string): object | null {
  const read = readItemLine(text);
  if (read.kind === "refused") return null;
  const { batch, lane, step, item, attempt, drive = 1, worker, details } = read.line;
  if (batch !== BATCH || lane !== LANE) return null;
  return { step, item, attempt, drive, worker, digest: details ?? null };
}

function scan(scanner: ItemScanner, text: string): object | null {
  const line = Buffer.from(text);
  // As in a file: bytes before it, then a newline and the next line.
  const bytes = Buffer.concat([Buffer.from("x\n"), line, Buffer.from('\n{"at":"')]);
  if (!scanner.scan(bytes, 2, 2 + line.length)) return null;
  const { step, item, attempt, drive, worker, detailsAt } = scanner;
  const digest = detailsAt === -1 ? null : bytes.toString("latin1", detailsAt, detailsAt + 64);
  return { step, item, attempt, drive, worker, digest };
}

const text = fc.oneof(fc.string({ unit: "binary" }), fc.string({ unit: "grapheme" }));
const number = fc.oneof(fc.nat(100), fc.maxSafeNat());
const hex = fc.string({ maxLength: 9 }).map(sha256);
const instant = fc.date({
  min: new Date(0),
  max: new Date(Date.UTC(9999, 0)),
  noInvalidDate: true,
});
const line = fc
  .record(
    {
      at: instant.map((date) => date.toISOString()),
      attempt: number,
      batch: fc.constant(BATCH),
      content: hex,
      details: hex,
      drive: fc.integer({ min: 2, max: 99 }),
      item: number,
      key: text,
      lane: fc.constant(LANE),
      state: text.filter((one) => one !== ""),
      step: number,
      v: fc.constant(1),
      worker: number,
    },
    { requiredKeys: ["at", "attempt", "batch", "item", "lane", "state", "step", "v", "worker"] },
  )
  .map((value) => canonicalize(value as Json));

describe("the scanner of item records", () => {
  const scanner = new ItemScanner(BATCH, LANE);

  test("reads every record as the simple reader does", () => {
    fc.assert(
      fc.property(line, (one) => {
        expect(scan(scanner, one)).toEqual(readPlainly(one));
        expect(scan(scanner, one)).not.toBeNull();
      }),
      { numRuns: 300 },
    );
  });

  test("refuses what the simple reader refuses, and nothing else", () => {
    const noise = fc.constantFrom(
      ...Array.from('0123456789abcdefu\\"{}[],:. +-\u00e9\u0001\u007f'),
    );
    const edit = fc.tuple(fc.nat(), fc.nat(3), fc.array(noise, { maxLength: 3 }));
    fc.assert(
      fc.property(line, edit, (one, [at, cut, added]) => {
        const chars = Array.from(one);
        chars.splice(at % chars.length, cut, ...added);
        const changed = chars.join("");
        expect({ changed, read: scan(scanner, changed) }).toEqual({
          changed,
          read: readPlainly(changed),
        });
      }),
      { numRuns: 1_000 },
    );
  });

  const base =
    '{"at":"2026-11-16T15:17:00.123Z","attempt":1,"batch":"b-1","item":1,' +
    '"lane":"l\u00e4ne \\"1\\"","state":"A","step":0,"v":1,"worker":4}';
  const refused: Readonly<Record<string, string>> = {
    "another batch": base.replace("b-1", "b-2"),
    "another lane": base.replace("\u00e4", "a"),
    "a leading zero": base.replace('"item":1', '"item":01'),
    "a negative number": base.replace('"item":1', '"item":-1'),
    "a fraction": base.replace('"item":1', '"item":1.5'),
    "an exponent": base.replace('"item":1', '"item":1e3'),
    "a number that is not exact": base.replace('"item":1', '"item":9007199254740993'),
    "no number": base.replace('"item":1', '"item":'),
    "an empty state": base.replace('"A"', '""'),
    "a version to come": base.replace('"v":1', '"v":12'),
    "no worker": base.replace(',"worker":4', ""),
    "drive 1, which is not written": base.replace('"item"', '"drive":1,"item"'),
    "a short instant": base.replace(".123Z", "Z"),
    "an escape that is not needed": base.replace('"A"', '"\\u0041"'),
    "an escaped slash": base.replace('"A"', '"\\/"'),
    "a long escape for a newline": base.replace('"A"', '"\\u000a"'),
    "an escape in upper case": base.replace('"A"', '"\\u001F"'),
    "half a character": base.replace('"A"', '"\\ud800"'),
    "a raw control character": base.replace('"A"', '"\u0001"'),
    "members out of order": base.replace('"attempt":1,"batch":"b-1"', '"batch":"b-1","attempt":1'),
    "a member twice": base.replace('"attempt":1', '"attempt":1,"attempt":1'),
    "a strange member": base.replace('"v":1', '"v":1,"x":1'),
    "a member missing": base.replace('"attempt":1,', ""),
    "something behind it": `${base} `,
    "a cut": base.slice(0, -1),
    nothing: "",
  };
  for (const [what, forged] of Object.entries(refused)) {
    test(`refuses ${what}`, () => {
      expect(scan(scanner, forged)).toBeNull();
      expect(readPlainly(forged)).toBeNull();
    });
  }

  test("refuses bytes that are not UTF-8", () => {
    const bytes = Buffer.from(`${base.replace('"A"', '"\u00e9"')}\n`);
    expect(scanner.scan(bytes, 0, bytes.length - 1)).toBe(true);
    bytes[bytes.indexOf('"state":"') + 9] = 0xff;
    expect(scanner.scan(bytes, 0, bytes.length - 1)).toBe(false);
  });
});
