/** For any input instead of an export, the answer is a verdict, and neither a crash nor a hang. */
import { describe, expect, test } from "vitest";
import { buildSample, toBytes } from "../../../test/support/ledger-export.ts";
import { LINE_BYTES_MAX } from "../format/byte-lines.ts";
import { checkConsistency, checkProof } from "./check-proof.ts";
import { proveRecord } from "./proof.ts";
import type { Verdict } from "./verdict.ts";
import { verifyExport } from "./verify-export.ts";

const sample = buildSample();
const lines = sample.lines();
const verify = (bytes: Uint8Array | string): Promise<Verdict> =>
  verifyExport([typeof bytes === "string" ? Buffer.from(bytes) : bytes], { trusted: [sample.pem] });
const replace = (number: number, line: string): Buffer => toBytes(lines.with(number - 1, line));

const nested = (open: string, close: string): string =>
  open.repeat(200_000) + close.repeat(200_000);
const record = lines[5]!;
const item = lines[9]!;

const hostile: Readonly<Record<string, readonly [Buffer | string, number, RegExp]>> = {
  "an empty file": ["", 1, /empty/],
  "an empty line": ["\n", 1, /line is empty/],
  "only newlines": ["\n\n\n", 1, /line is empty/],
  "no newline at all": ["hello", 1, /cut here/],
  "not JSON": ["hello\n", 1, /not JSON/],
  "binary bytes": [Buffer.from([0xff, 0xfe, 0, 1, 10]), 1, /not UTF-8/],
  zeros: [Buffer.alloc(1_000), 1, /cut here/],
  "a JSON array": ["[]\n", 1, /not a JSON object/],
  "JSON null": ["null\n", 1, /not a JSON object/],
  "a byte order mark": [
    Buffer.concat([Buffer.from("\ufeff"), toBytes(lines)]),
    1,
    /byte order mark/,
  ],
  "line ends of Windows": [lines.map((line) => `${line}\r\n`).join(""), 1, /carriage return/],
  "line ends of Windows in one place": [replace(6, `${record}\r`), 6, /carriage return/],
  "a carriage return in a block": [replace(10, `${item}\r`), 10, /carriage return/],
  "another format": ['{"batch":"b-test","ledger":2}\n', 1, /version 2/],
  "a header with more": ['{"batch":"b-test","ledger":1,"x":1}\n', 1, /not the header/],
  "deep arrays": [replace(6, nested("[", "]")), 6, /not a JSON object|not JSON/],
  "deep objects": [replace(6, nested('{"a":', "}").replace("}", "1}")), 6, /canonical|not JSON/],
  "deep arrays in a block": [replace(10, nested("[", "]")), 10, /not a JSON object|not JSON/],
  "deep details": [replace(22, `{"details":${nested("[", "]")},"i":0,"salt":""}`), 22, /canonical/],
  "a prototype in a record": [
    replace(6, record.replace("{", '{"__proto__":{"x":1},')),
    6,
    /members/,
  ],
  "a prototype as data": [
    replace(6, record.replace('"data":{', '"data":{"__proto__":{"step":0},')),
    7,
    /does not follow/,
  ],
  "a prototype as a type": [
    replace(6, record.replace("slicing.started", "__proto__")),
    7,
    /does not follow/,
  ],
  "what cannot be printed in place of a number": [
    replace(5, lines[4]!.replace('"drive":1', '"drive":{"toString":1,"valueOf":1}')),
    5,
    /starts in drive \{"toString":1/,
  ],
  "what cannot be printed in place of a version": [
    replace(6, record.replace('"v":1', '"v":{"toString":1}')),
    6,
    /version \{"toString":1\}/,
  ],
  "what cannot be printed in the header": [
    '{"batch":"b-test","ledger":{"toJSON":1,"toString":1}}\n',
    1,
    /version/,
  ],
  "what cannot be printed at the end": [
    replace(38, '{"end":{"items":{"toString":1},"records":[]}}'),
    38,
    /ends with \[\] records/,
  ],
  "a name of megabytes": [
    replace(6, record.replace("b-test", "b".repeat(3_000_000))),
    6,
    /^it is about batch "b{79}…$/,
  ],
  "a key twice": [replace(6, record.replace('"seq":3', '"seq":3,"seq":3')), 6, /canonical/],
  "a lone surrogate, escaped": [replace(6, record.replace("b-test", "\\ud800")), 6, /canonical/],
  "a lone surrogate as bytes": [
    Buffer.concat([toBytes(lines.slice(0, 5)), Buffer.from([0xed, 0xa0, 0x80, 10])]),
    6,
    /not UTF-8/,
  ],
  "an overlong spelling": [
    Buffer.concat([toBytes(lines.slice(0, 5)), Buffer.from([0xc0, 0x80, 10])]),
    6,
    /not UTF-8/,
  ],
  "a huge number": [replace(6, record.replace('"seq":3', `"seq":${"9".repeat(400)}`)), 6, /./],
  "a number of records beyond all bounds": [
    replace(8, lines[7]!.replace('"count":9', '"count":9007199254740991')),
    8,
    /something impossible/,
  ],
  "an item beyond all bounds": [
    replace(10, item.replace('"item":0', '"item":9007199254740991')),
    10,
    /not in the plan/,
  ],
  "a step beyond all bounds": [replace(6, record.replace('"step":0', '"step":99999')), 6, /step/],
  "signatures that are no hex": [replace(18, '{"head":"{}","signature":"zz"}'), 18, /malformed/],
  "a key that is no key": [replace(2, '{"key":"{}","signature":"00"}'), 2, /malformed/],
  "a signed head first": [toBytes([lines[0]!, lines[17]!]), 2, /members/],
  "an end first": [toBytes([lines[0]!, lines.at(-1)!]), 2, /members/],
};

describe("a hostile file", () => {
  for (const [what, [bytes, line, why]] of Object.entries(hostile)) {
    test(`of ${what} has a verdict`, async () => {
      const verdict = await verify(bytes);
      expect(verdict).toMatchObject({ kind: "broken", line });
      expect(verdict.kind === "broken" && verdict.why).toMatch(why);
      expect(({} as { x?: number }).x).toBeUndefined();
    });
  }

  test("with a line of a gigabyte is not read completely", async () => {
    let read = 0;
    function* endless(): Generator<Uint8Array, void, void> {
      yield toBytes(lines.slice(0, 5));
      const piece = Buffer.alloc(1024 * 1024, "a");
      for (; read < 1024; read++) yield piece;
    }
    const verdict = await verifyExport(endless(), { trusted: [] });
    expect(verdict).toMatchObject({
      kind: "broken",
      line: 6,
      why: expect.stringMatching(/longer/) as string,
    });
    expect(read).toBeLessThan(2 * (LINE_BYTES_MAX / (1024 * 1024)));
  });

  test("whose source fails throws the error of the source", async () => {
    const broken = new Error("the disk is gone");
    async function* failing(): AsyncGenerator<Uint8Array, void, void> {
      yield toBytes(lines.slice(0, 5));
      await Promise.resolve();
      throw broken;
    }
    await expect(verifyExport(failing(), { trusted: [] })).rejects.toBe(broken);
  });

  test("is also refused by show and prove", async () => {
    const refused = expect.objectContaining({ code: "LEDGER_EXPORT" }) as Error;
    for (const [bytes] of Object.values(hostile).slice(0, 12)) {
      const source = [Buffer.from(bytes)];
      await expect(proveRecord(source, "1")).rejects.toThrow(refused);
    }
  });

  test("instead of a proof is refused", () => {
    const texts = ["", "null", "[]", "{}", "x", nested("[", "]"), '{"__proto__":1}', '{"proof":1}'];
    for (const text of [...texts, ...lines]) {
      expect(checkProof(text, [sample.pem])).toMatchObject({ kind: "refused" });
      expect(checkConsistency(text, [sample.pem])).toMatchObject({ kind: "refused" });
    }
  });
});
