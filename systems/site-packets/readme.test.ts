/** The tables of the README match the code. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { checkConfig } from "./config.ts";
import { REJECTION_CODES } from "./rejection.ts";

const readme = readFileSync(new URL("./README.md", import.meta.url), "utf8");

/** The first two cells of a table's rows, without its header. */
function readRows(head: string): [string, string][] {
  const lines = readme.slice(readme.indexOf(head)).split("\n").slice(2);
  const end = lines.findIndex((line) => !line.startsWith("|"));
  return lines.slice(0, end).map((line) => {
    const [, first = "", second = ""] = line.split("|").map((cell) => cell.trim());
    return [first.replaceAll("`", ""), second];
  });
}

test("the README has every code of a rejection with its message", () => {
  expect(Object.fromEntries(readRows("| code | why |"))).toEqual(REJECTION_CODES);
});

test("the README has every setting", () => {
  const origin = "https://portal.example";
  const config = checkConfig({ sites: { north: { origin } } }, "of a test");
  const named = readRows("| setting | default |").flatMap(([names]) => {
    const [first = "", ...others] = names.split(", ");
    const group = first.includes(".") ? first.slice(0, first.lastIndexOf(".") + 1) : "";
    return [first, ...others.map((name) => group + name)];
  });
  const list = (value: object, path: string): string[] =>
    Object.entries(value).flatMap(([name, inner]) => {
      const own = `${path}${name}`;
      const isGroup = typeof inner === "object" && inner !== null && !Array.isArray(inner);
      // A group that is described in one row.
      return isGroup && !named.includes(own) ? list(inner as object, `${own}.`) : [own];
    });
  const { sites: _, ...settings } = config;
  const ofSites = ["origin", "hosts", "perSecond", "burst", "folder"];
  expect(named.toSorted()).toEqual(
    [
      ...list(settings, ""),
      "pool.size",
      ...ofSites.map((name) => `sites.<name>.${name}`),
    ].toSorted(),
  );
});
