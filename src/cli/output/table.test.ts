import { expect, test } from "vitest";
import { Screen } from "./screen.ts";
import { renderTable } from "./table.ts";

const screen = new Screen(process.stdout, {}, true);

test("a column is as wide as its widest cell, or its title", () => {
  const columns = [{ title: "N", align: "right" as const }, { title: "WHAT" }];
  expect(renderTable(columns, [["1", "a"], ["10"], ["100", "bcdefg"]], screen)).toEqual([
    "  N  WHAT",
    "  1  a",
    " 10",
    "100  bcdefg",
  ]);
});

test("a table may have more rows than a call has arguments", () => {
  const rows = Array.from({ length: 150_002 }, (_, nth) => [String(nth)]);
  expect(renderTable([{ title: "N" }], rows, screen)).toHaveLength(150_003);
});
