import { constants, DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { runNow } from "../../sql/dialect/act.ts";
import { statement } from "../../sql/dialect/statement.ts";
import { Statements, Transaction } from "./transaction.ts";

const clock = {
  wallMs: () => 2_000,
  monotonicMs: () => 10.5,
  after: () => () => undefined,
  turn: () => Promise.resolve(),
};

function open(): Transaction {
  const db = new DatabaseSync(":memory:");
  db.exec("CREATE TABLE t (a INTEGER, b TEXT)");
  return new Transaction(new Statements(db), clock);
}

const INSERT = statement("INSERT INTO t (b, a) VALUES ($2, $1)");
const SELECT = statement("SELECT a, b FROM t WHERE a >= $1 AND (a = $1 OR b = $2) ORDER BY a");

test("numbered parameters may come in any order, and more than once", () => {
  const tx = open();
  expect(tx.run(INSERT, 1, "one")).toBe(1);
  expect(tx.run(INSERT, 2, "two")).toBe(1);
  expect(tx.all(SELECT, 1, "two").map((row) => ({ ...(row as object) }))).toEqual([
    { a: 1, b: "one" },
    { a: 2, b: "two" },
  ]);
  expect([...tx.iterate<{ a: number }>(SELECT, 2, "")].map(({ a }) => a)).toEqual([2]);
  expect(tx.get(SELECT, 3, "")).toBeUndefined();
});

test("a list is one parameter: JSON", () => {
  const tx = open();
  for (const a of [1, 2, 3]) tx.run(INSERT, a, "x");
  const among = statement(
    "SELECT count(*) AS n FROM t WHERE a IN (SELECT value FROM json_each($1))",
  );
  expect(tx.get<{ n: number }>(among, [1, 3, 9])?.n).toBe(2);
});

test("rules read and write through the same transaction, at once", () => {
  const { rules } = open();
  rules.send(INSERT, 7, "seven");
  expect(runNow(rules.get<{ b: string }>(SELECT, 7, ""))?.b).toBe("seven");
  expect([rules.now, rules.wallMs]).toEqual([10.5, 2_000]);
});

test("a statement is compiled once, whatever its limit", () => {
  const db = new DatabaseSync(":memory:");
  db.exec("CREATE TABLE t (a INTEGER)");
  const tx = new Transaction(new Statements(db), clock);
  const first = statement("SELECT a FROM t WHERE a > $1 ORDER BY a LIMIT $2");
  let compiled = 0;
  db.setAuthorizer(() => {
    compiled++;
    return constants.SQLITE_OK;
  });
  tx.all(first, 0, 1);
  const once = compiled;
  for (const limit of [1, 2, 3]) tx.all(first, 0, limit);
  expect(once).toBeGreaterThan(0);
  expect(compiled).toBe(once);
});
