import { describe, expect, test } from "vitest";
import { QUEUED_CHARS_MAX, STATEMENTS_PER_ITEM_MAX } from "../../core/items/item-commit.ts";
import { StatementBuffer } from "./statement-buffer.ts";

const SQL = "INSERT INTO t VALUES (?)";

function queue(...values: readonly unknown[]): readonly unknown[] | undefined {
  const queued = new StatementBuffer();
  queued.add(SQL, values);
  return queued.list()[0]?.values;
}

test("values are converted to what a database can store, and copied", () => {
  const at = new Date(Date.UTC(2026, 0, 2, 3, 4, 5, 6));
  expect(queue("a", 1.5, true, null, at)).toEqual([
    "a",
    1.5,
    true,
    null,
    "2026-01-02T03:04:05.006Z",
  ]);
  const bytes = Uint8Array.of(1, 2);
  const values = [bytes];
  const queued = new StatementBuffer();
  queued.add(SQL, values);
  bytes[0] = 9;
  values.push(bytes);
  expect(queued.list()).toEqual([{ sql: SQL, values: [Uint8Array.of(1, 2)] }]);
});

describe("is refused, by the name of the argument:", () => {
  const refused = (fault: string): unknown =>
    expect.objectContaining({ code: "BAD_STATEMENT", message: expect.stringContaining(fault) });

  test("a value that a database cannot store", () => {
    const bad: readonly (readonly [unknown, string])[] = [
      [undefined, "values[1] of commitWith is undefined"],
      [Number.NaN, "values[1] of commitWith is NaN"],
      [1n, "of the type bigint"],
      [{ a: 1 }, "of the type object"],
      [[1], "a list"],
      [new Date(Number.NaN), "an invalid date"],
      [() => 1, "of the type function"],
    ];
    for (const [value, fault] of bad) expect(() => queue("a", value)).toThrow(refused(fault));
  });

  test("values that are not a list, and sql that is not a statement", () => {
    const queued = new StatementBuffer();
    expect(() => queued.add(SQL, "a" as unknown as [])).toThrow(refused("values of commitWith"));
    expect(() => queued.add(7 as unknown as string)).toThrow(refused("sql of commitWith"));
    expect(() => queued.add("COMMIT")).toThrow(refused('begins with "COMMIT"'));
    expect(() => queue(...Array.from({ length: 1_001 }, () => 1))).toThrow(refused("1001 entries"));
    expect(queued.list()).toEqual([]);
  });
});

test("limits the statements of an item in number and size", () => {
  const refused = (message: string): unknown =>
    expect.objectContaining({
      code: "BAD_STATEMENT",
      message: expect.stringContaining(message) as string,
    });
  const queued = new StatementBuffer();
  for (let nth = 0; nth < STATEMENTS_PER_ITEM_MAX; nth++) queued.add(SQL, [nth]);
  expect(() => queued.add(SQL, [0])).toThrow(refused("more than 100 statements"));
  expect(() => queue("x".repeat(QUEUED_CHARS_MAX))).toThrow(refused("characters together"));
});
