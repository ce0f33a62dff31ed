import { expect, test } from "vitest";
import { Screen } from "./screen.ts";
import { type Cell, type Column, renderFacts, renderTable } from "./table.ts";

const screen = new Screen(process.stdout, {}, true);
type Row = readonly [n: Cell, what: Cell];
const columns: readonly Column<Row>[] = [
  { title: "N", value: ([n]) => n, align: "right" },
  { title: "WHAT", value: ([, what]) => what },
];

test("a column is as wide as its widest cell, or its title", () => {
  const rows: Row[] = [
    ["1", "a"],
    ["10", ""],
    ["100", "bcdefg"],
  ];
  expect(renderTable(columns, rows, screen)).toEqual(["  N  WHAT", "  1  a", " 10", "100  bcdefg"]);
});

test("a number has its thousands separated, and nothing is a dash", () => {
  expect(renderTable(columns, [[1_000, null]], screen)).toEqual(["    N  WHAT", "1,000  -"]);
});

test("an optional column is left out where no row has a value", () => {
  const note: Column<Row> = { title: "NOTE", value: ([, what]) => what, optional: true };
  const render = (row: Row): string[] => renderTable([columns[0]!, note], [row], screen);
  expect(render([1, null])).toEqual(["N", "1"]);
  expect(render([1, "x"])).toEqual(["N  NOTE", "1  x"]);
});

test("a cell cannot control the terminal", () => {
  expect(renderTable(columns, [[1, "\u001b[2J"]], screen).at(1)).toBe("1  \\x1b[2J");
  expect(renderFacts([{ name: "key", value: "\u001b[2J" }], screen)).toEqual(["  key  \\x1b[2J"]);
});

test("facts are lined up, and those without a value are left out", () => {
  const facts = [
    { name: "planned", value: 1_000 },
    { name: "key", value: null },
    { name: "ETA", value: "6-8 s" },
  ];
  expect(renderFacts(facts, screen)).toEqual(["  planned  1,000", "  ETA      6-8 s"]);
  expect(renderFacts(facts, screen, "right")).toEqual(["  planned  1,000", "  ETA      6-8 s"]);
});

test("a table may have more rows than a call may have arguments", () => {
  const rows = Array.from({ length: 150_002 }, (_, nth): Row => [nth, ""]);
  expect(renderTable(columns, rows, screen)).toHaveLength(150_003);
});
