import { describe, expect, test } from "vitest";
import { canonicalize, type Json } from "../../core/base/canonical-json.ts";
import { makeDraw, drawExport } from "../../../test/support/ledger-corpus.ts";
import {
  buildSample,
  ExportBuilder,
  exportPem,
  newSigningKey,
  toBytes,
} from "../../../test/support/ledger-export.ts";
import { assemble, dissect } from "../../../test/support/ledger-forger.ts";
import { checkConsistency, checkProof } from "./check-proof.ts";
import { parsePlace, proveConsistency, proveRecord } from "./proof.ts";

const sample = buildSample();
const lines = sample.lines();
const trusted = [sample.pem];
const source = (): Buffer[] => [toBytes(lines)];
const prove = (place: string): Promise<string> => proveRecord(source(), place);

type Document = Record<string, Json>;
const edit = (proof: string, change: (document: Document) => void): string => {
  const document = JSON.parse(proof) as Document;
  change(document);
  return canonicalize(document);
};

describe("a proof of one record", () => {
  test("holds for every record and every item, and needs only a key", async () => {
    for (const seed of [1, 2, 3]) {
      const builder = drawExport(makeDraw(seed)).record("batch.noted", {}).addSignedHead();
      const { entries } = dissect(builder.lines());
      for (const [at, entry] of entries.entries()) {
        const places = [`${at + 1}`, ...entry.items.map((_, index) => `${at + 1}/${index}`)];
        const texts = [canonicalize(entry.record), ...entry.items];
        for (const [which, place] of places.entries()) {
          const proof = await proveRecord([toBytes(builder.lines())], place);
          expect(checkProof(proof, [builder.pem])).toMatchObject({
            kind: "proven",
            place,
            text: texts[which],
            signedHead: { batch: builder.batch, size: entries.length },
          });
        }
      }
    }
  });

  test("contains the details as long as they are not erased", async () => {
    const proof = await prove("6/0");
    expect(JSON.parse(proof)).toMatchObject({ details: { details: { name: "Ann" } } });
    expect(checkProof(proof, trusted)).toMatchObject({ kind: "proven", place: "6/0" });
    const erased = lines.filter((line) => !line.startsWith('{"details":'));
    const bare = await proveRecord([toBytes(erased)], "6/0");
    expect(bare).not.toContain("Ann");
    expect(checkProof(bare, trusted)).toMatchObject({ kind: "proven", place: "6/0" });
  });

  test("ends with a newline or without", async () => {
    const proof = await prove("3");
    expect(checkProof(`${proof}\n`, trusted)).toMatchObject({ kind: "proven" });
  });

  const forgeries: Readonly<Record<string, readonly [string, (document: Document) => void]>> = {
    "another record": ["3", (one) => (one["record"] = lines[4]!)],
    "an edited record": ["3", (one) => (one["record"] = lines[5]!.replace("2026", "2025"))],
    "an edited item": ["7/7", (one) => (one["record"] = lines[30]!.replace("RECEIVED", "STORED"))],
    "another item": ["7/7", (one) => (one["record"] = lines[29]!)],
    "an item's place": ["7/7", (one) => ((one["block"] as Document)["index"] = 6)],
    "a record's place": ["3", (one) => ((one["tree"] as Document)["index"] = 3)],
    "another block": ["7/7", (one) => ((one["block"] as Document)["header"] = lines[18]!)],
    "a record without a block": [
      "7/7",
      (one) => ((one["block"] as Document)["header"] = lines[5]!),
    ],
    "a cut path": ["3", (one) => (one["tree"] as { path: Json[] }).path.pop()],
    "a longer path": ["3", (one) => (one["tree"] as { path: Json[] }).path.push("0".repeat(64))],
    "an endless path": [
      "3",
      (one) =>
        ((one["tree"] as Document)["path"] = Array.from({ length: 200 }, () => "0".repeat(64))),
    ],
    "other details": ["6/0", (one) => ((one["details"] as Document)["details"] = { name: "Bob" })],
    "details of what has none": [
      "3",
      (one) => (one["details"] = { details: 1, salt: "0".repeat(32) }),
    ],
    "another signature": ["3", (one) => ((one["head"] as Document)["signature"] = "0".repeat(128))],
    "an edited signed head": [
      "3",
      (one) => {
        const signedHead = one["head"] as Document;
        signedHead["body"] = (signedHead["body"] as string).replace('"size":11', '"size":12');
      },
    ],
    "no statements of keys": ["3", (one) => (one["keys"] = [])],
    "a strange member": ["3", (one) => (one["x"] = 1)],
    "another version": ["3", (one) => (one["proof"] = 2)],
    "no path": ["3", (one) => (one["tree"] = {})],
    "keys that are none": [
      "3",
      (one) => (one["keys"] = [{ body: "{}", signature: "0".repeat(128) }]),
    ],
  };
  for (const [what, [place, change]] of Object.entries(forgeries)) {
    test(`is refused with ${what}`, async () => {
      const forged = edit(await prove(place), change);
      expect(checkProof(forged, trusted)).toMatchObject({ kind: "refused" });
    });
  }

  test("is refused when another key signed it", async () => {
    const forger = newSigningKey();
    const forged = assemble(dissect(lines), { rechain: true, recheck: forger });
    const proof = await proveRecord([toBytes(forged)], "3");
    const why = expect.stringMatching(/neither trusted/) as string;
    expect(checkProof(proof, trusted)).toEqual({ kind: "refused", why });
    expect(checkProof(proof, [exportPem(forger)])).toMatchObject({ kind: "proven" });
    expect(checkProof(proof, [])).toMatchObject({ kind: "refused" });
  });

  test("cannot be made of what is not there, or not signed", async () => {
    const missing = expect.objectContaining({ code: "NOT_FOUND", kind: "record" }) as Error;
    const code = (name: string): Error => expect.objectContaining({ code: name }) as Error;
    await expect(prove("12")).rejects.toThrow(missing);
    await expect(prove("7/8")).rejects.toThrow(missing);
    await expect(prove("3/0")).rejects.toThrow(missing);
    await expect(prove("seven")).rejects.toThrow(missing);
    const unsigned = lines.toSpliced(36, 1);
    const late = proveRecord([toBytes(unsigned)], "7");
    await expect(late).rejects.toThrow(code("LEDGER_UNSIGNED"));
  });

  test.each(["1", "12", "7/0", "7/12"])("%s names a record", (place) => {
    expect(parsePlace(place)).not.toBeNull();
  });

  test.each(["", "0", "01", "7/", "7/01", "-1", "7/-1", "1.5", "7/0/0", "x", " 1"])(
    "%j names none",
    (place) => expect(parsePlace(place)).toBeNull(),
  );
});

describe("a proof that one signed head extends another", () => {
  const growing = new ExportBuilder().begin();
  for (let size = 3; size <= 40; size++) {
    growing.record("batch.noted", { size });
    if (size % 3 === 0) growing.addSignedHead();
  }
  const sizes = Array.from({ length: 13 }, (_, index) => 3 * (index + 1));
  const bytes = (): Buffer[] => [toBytes(growing.lines())];

  test("holds for any two of a batch", async () => {
    for (const from of sizes) {
      for (const to of sizes.filter((size) => size >= from)) {
        const proof = await proveConsistency(bytes(), from, to);
        const verdict = checkConsistency(proof, [growing.pem]);
        expect(verdict).toMatchObject({
          kind: "consistent",
          older: { size: from },
          newer: { size: to },
        });
      }
    }
  });

  test("is refused for signed heads of two histories, and with any change", async () => {
    const proof = await proveConsistency(bytes(), 9, 30);
    const fork = dissect(growing.lines());
    (fork.entries[4]!.record["data"] as Document)["size"] = 99;
    const forked = assemble(fork, { rechain: true, recheck: growing.firstKey });
    const other = JSON.parse(await proveConsistency([toBytes(forked)], 9, 30)) as Document;
    const trusts = [growing.pem];
    expect(checkConsistency(canonicalize(other), trusts)).toMatchObject({ kind: "consistent" });
    for (const change of [
      (one: Document): unknown => (one["newer"] = other["newer"]!),
      (one: Document): unknown => (one["older"] = other["older"]!),
      (one: Document): unknown => (one["path"] as Json[]).pop(),
      (one: Document): unknown => (one["path"] = []),
      (one: Document): unknown => ([one["older"], one["newer"]] = [one["newer"]!, one["older"]!]),
      (one: Document): unknown => (one["consistency"] = 2),
    ]) {
      const forged = edit(proof, (document) => void change(document));
      expect(checkConsistency(forged, trusts)).toMatchObject({ kind: "refused" });
    }
  });

  test("needs both signed heads", async () => {
    const refused = expect.objectContaining({ code: "LEDGER_UNSIGNED" }) as Error;
    await expect(proveConsistency(bytes(), 4, 30)).rejects.toThrow(refused);
  });
});
