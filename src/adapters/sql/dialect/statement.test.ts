import { expect, test } from "vitest";
import { renderStatement, statement } from "./statement.ts";

test("each dialect gets what is marked as its own, and nothing of the other", () => {
  const both = statement(
    `SELECT /*sqlite min*//*postgres least*/(a, $1) FROM t /*sqlite INDEXED BY t_a
     WHERE*//*postgres WHERE*/ b = $2 /*postgres FOR UPDATE*/`,
  );
  expect(renderStatement(both, "sqlite").replaceAll(/\s+/g, " ").trim()).toBe(
    "SELECT min(a, $1) FROM t INDEXED BY t_a WHERE b = $2",
  );
  expect(renderStatement(both, "postgres").replaceAll(/\s+/g, " ").trim()).toBe(
    "SELECT least(a, $1) FROM t WHERE b = $2 FOR UPDATE",
  );
});

test("text without marks is the same in both", () => {
  const plain = statement("SELECT 1 /* not a mark */ FROM t");
  expect(renderStatement(plain, "sqlite")).toBe(plain.text);
  expect(renderStatement(plain, "postgres")).toBe(plain.text);
});
