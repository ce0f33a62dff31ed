import { expect, test } from "vitest";
import { decodeJson, decodeText, encodeValue, statement } from "./statement.ts";

const roundTrip = (text: string): string => decodeText(encodeValue(text) as string);

test.each(["", "plain", "a\0b", "\0", "\uE000", "\uE0000", "\uE000\0\uE0001", "é😀\0"])(
  "text of any characters is read back unchanged: %j",
  (text) => {
    expect(encodeValue(text)).not.toContain("\0");
    expect(roundTrip(text)).toBe(text);
  },
);

test("JSON that the server makes of such text is valid, and has the same value", () => {
  const text = 'a\0"\uE000\uE0001';
  const made = JSON.stringify([encodeValue(text)]);
  expect(JSON.parse(decodeJson(made))).toEqual([text]);
});

test("bytes are sent as buffers, and numbers and null unchanged", () => {
  const bytes = new Uint8Array([9, 1, 2, 9]).subarray(1, 3);
  expect(encodeValue(bytes)).toEqual(Buffer.from([1, 2]));
  expect([encodeValue(1), encodeValue(null)]).toEqual([1, null]);
});

test.each([
  [[], "{}"],
  [[1, 2.5, -3, 1e300], "{1,2.5,-3,1e+300}"],
  [[1, null], "{1,NULL}"],
  [["", "a", "null", "a b,{}"], '{"","a","null","a b,{}"}'],
  [['"', "\\", '\\"'], String.raw`{"\"","\\","\\\""}`],
  [["a\0"], `{"${encodeValue("a\0") as string}"}`],
  [[new Uint8Array([9, 1, 255]).subarray(1), new Uint8Array()], String.raw`{"\\x01ff","\\x"}`],
])("a list is sent in the server's format: %j", (list, text) => {
  expect(encodeValue(list)).toBe(text);
});

test("a statement has the same name in every process, and a different one from other statements", () => {
  expect(statement("SELECT 1").name).toBe(statement("SELECT 1").name);
  expect(statement("SELECT 1").name).not.toBe(statement("SELECT 2").name);
});
