import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canonicalize, type Json } from "./canonical-json.ts";

const refused = expect.objectContaining({ name: "SluiceError", code: "NOT_JSON" }) as Error;

function nest(levels: number, wrap: (inner: Json) => Json): Json {
  let value: Json = 0;
  for (let level = 0; level < levels; level++) value = wrap(value);
  return value;
}

describe("canonical JSON (RFC 8785)", () => {
  test("writes the RFC's own example", () => {
    const value = {
      numbers: [Number("333333333.33333329"), 1e30, 4.5, 2e-3, 0.000000000000000000000000001],
      string: "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"/",
      literals: [null, true, false],
    };
    expect(canonicalize(value)).toBe(
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],' +
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    );
  });

  test("sorts keys by UTF-16 code units, as the RFC's example does", () => {
    const value = {
      "\u20ac": "Euro Sign",
      "\r": "Carriage Return",
      "\ufb33": "Hebrew Letter Dalet With Dagesh",
      "1": "One",
      "\ud83d\ude00": "Emoji: Grinning Face",
      "\u0080": "Control",
      "\u00f6": "Latin Small Letter O With Diaeresis",
    };
    const values = Object.values(JSON.parse(canonicalize(value)) as Record<string, string>);
    // JSON.parse puts the integer-like key first; the text itself has the carriage return first.
    expect(values.toSorted()).toEqual(Object.values(value).toSorted());
    expect(canonicalize(value)).toBe(
      '{"\\r":"Carriage Return","1":"One","\u0080":"Control",' +
        '"ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign",' +
        '"😀":"Emoji: Grinning Face","\ufb33":"Hebrew Letter Dalet With Dagesh"}',
    );
  });

  for (const [number, text] of [
    [-0, "0"],
    [5e-324, "5e-324"],
    [-5e-324, "-5e-324"],
    [Number.MAX_VALUE, "1.7976931348623157e+308"],
    [9007199254740992, "9007199254740992"],
    [295147905179352830000, "295147905179352830000"],
    [1e21, "1e+21"],
    [999999999999999900000, "999999999999999900000"],
    [9.999999999999997e22, "9.999999999999997e+22"],
    [1e23, "1e+23"],
    [0.000001, "0.000001"],
    [1e-7, "1e-7"],
    [333333333.3333332, "333333333.3333332"],
  ] as const) {
    test(`writes the number ${text} as the RFC does`, () => {
      expect(canonicalize(number)).toBe(text);
    });
  }

  test("escapes only what must be escaped", () => {
    expect(canonicalize('\b\t\n\f\r"\\\u0001\u001f')).toBe(
      '"\\b\\t\\n\\f\\r\\"\\\\\\u0001\\u001f"',
    );
    expect(canonicalize("/\u007f\u2028\u00e9")).toBe('"/\u007f\u2028\u00e9"');
  });

  test("does not depend on the order of keys", () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: "grapheme" }), (value) => {
        const text = canonicalize(value);
        const plain: unknown = JSON.parse(JSON.stringify(value));
        expect(JSON.parse(text)).toEqual(plain);
        expect(canonicalize(reverseKeys(value) as Json)).toBe(text);
        expect(canonicalize(JSON.parse(text) as Json)).toBe(text);
      }),
    );
  });

  test("leaves out members that are undefined", () => {
    expect(canonicalize({ b: 1, a: undefined })).toBe('{"b":1}');
  });

  test("writes keys that look like a prototype's as any other", () => {
    const value = JSON.parse('{"__proto__":{"x":1},"constructor":2}') as Json;
    expect(canonicalize(value)).toBe('{"__proto__":{"x":1},"constructor":2}');
    expect(({} as { x?: number }).x).toBeUndefined();
  });

  test("takes an object without a prototype as plain data", () => {
    expect(canonicalize(Object.assign(Object.create(null), { a: 1 }) as Json)).toBe('{"a":1}');
  });

  const notJson: Readonly<Record<string, unknown>> = {
    "not a number": Number.NaN,
    "positive infinity": Number.POSITIVE_INFINITY,
    "negative infinity": Number.NEGATIVE_INFINITY,
    undefined,
    "a bigint": 1n,
    "a symbol": Symbol("s"),
    "a function": () => 1,
    "a date": new Date(0),
    "a map": new Map(),
    bytes: new Uint8Array(1),
    "an object of a class": Object.create({ a: 1 }),
    "an error": new Error("x"),
    "a lone high surrogate": "\ud800",
    "a lone low surrogate": "a\udc00",
  };
  for (const [what, value] of Object.entries(notJson)) {
    test(`refuses ${what}, at any depth`, () => {
      expect(() => canonicalize(value as Json)).toThrow(refused);
      expect(() => canonicalize([1, value] as Json)).toThrow(refused);
      if (value !== undefined)
        expect(() => canonicalize({ a: { b: value } } as Json)).toThrow(refused);
    });
  }

  test("refuses a lone surrogate in a key", () => {
    expect(() => canonicalize({ "\ud800": 1 })).toThrow(refused);
  });

  test("refuses an array with holes, which would not be JSON", () => {
    const holes: number[] = [];
    holes[2] = 1;
    expect(() => canonicalize(holes)).toThrow(refused);
  });

  test("writes a thousand levels and refuses two thousand, instead of overflowing the stack", () => {
    for (const wrap of [(inner: Json) => [inner], (inner: Json) => ({ a: inner })]) {
      expect(canonicalize(nest(1_000, wrap))).toHaveLength(
        canonicalize(wrap(0)).length * 1_000 - 999,
      );
      expect(() => canonicalize(nest(2_000, wrap))).toThrow(refused);
      expect(() => canonicalize(nest(100_000, wrap))).toThrow(refused);
    }
  });
});

function reverseKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reverseKeys);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).toReversed();
  return Object.fromEntries(members.map(([key, member]) => [key, reverseKeys(member)]));
}
