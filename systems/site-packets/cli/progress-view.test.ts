/** Progress is redrawn in place on a terminal, and a line now and then elsewhere. */
import { stripVTControlCharacters } from "node:util";
import { expect, test, vi } from "vitest";
import type { SiteProgress } from "../ingest.ts";
import { describeAll, describeSite, ProgressView } from "./progress-view.ts";

const makeSite = (site: string, more: Partial<SiteProgress> = {}): SiteProgress => ({
  site,
  entries: 10,
  received: 4,
  archived: 3,
  deduped: 1,
  rejected: 1,
  ended: false,
  ...more,
});

function makeView(screen: { isTTY?: boolean; rows?: number } = {}) {
  const written: string[] = [];
  const write = (text: string): number => written.push(text);
  return { view: new ProgressView({ ...screen, write }), written };
}

test("a site's bar shows the share of its finished documents", () => {
  const bar = (more: Partial<SiteProgress>): number =>
    describeSite(makeSite("a", more), 1).split("█").length - 1;
  expect(bar({})).toBe(12);
  expect(bar({ archived: 0, deduped: 0, rejected: 0 })).toBe(0);
  expect(bar({ archived: 8 })).toBe(24);
  expect(bar({ archived: 7 })).toBeLessThan(24);
  expect(bar({ entries: 0 })).toBe(24);
  const half = describeSite(makeSite("a", { received: 7 }), 1).split("▒").length - 1;
  expect(half).toBe(7);
  expect(stripVTControlCharacters(describeSite(makeSite("a"), 3))).toBe(
    `a    ${"█".repeat(12)}${"░".repeat(12)}     5 of 10       3 archived    1 repeated    1 rejected`,
  );
});

test("the line for all sites has their sums", () => {
  expect(describeAll([makeSite("a"), makeSite("b", { ended: true })])).toBe(
    "10 of 20 documents done: 6 archived, 2 repeated, 2 rejected; 1 of 2 sites busy",
  );
});

test("on a terminal each drawing replaces the one before", () => {
  const { view, written } = makeView({ isTTY: true });
  view.show([makeSite("a"), makeSite("b")]);
  view.show([makeSite("a"), makeSite("b")]);
  expect(written[0]?.startsWith("\u001B[0J")).toBe(true);
  expect(written[1]?.startsWith("\u001B[3A\u001B[0J")).toBe(true);
  expect(written[1]?.match(/\n/g)?.length).toBe(3);
});

test("a line longer than the terminal is cut to one line", () => {
  const { view, written } = makeView({ isTTY: true });
  view.show([makeSite("s".repeat(63))]);
  const [off, on] = [written[0]?.indexOf("\u001B[?7l"), written[0]?.indexOf("\u001B[?7h")];
  expect(off).toBeGreaterThan(-1);
  expect(off).toBeLessThan(written[0]?.indexOf("sss") as number);
  expect(on).toBeGreaterThan(written[0]?.indexOf("busy") as number);
});

test("the busy sites are shown if there are more than fit", () => {
  const { view, written } = makeView({ isTTY: true, rows: 7 });
  const names = ["a1", "a2", "a3", "a4", "a5", "a6"];
  view.show(names.map((name) => makeSite(name, { ended: name < "a3" })));
  const lines = stripVTControlCharacters(written[0] as string).split("\n");
  expect(lines.map((line) => line.slice(0, 2))).toEqual(["a3", "a4", "a5", "30", ""]);
});

test("without a terminal there is a line every five seconds, and one at the end", () => {
  const now = vi.spyOn(performance, "now");
  const { view, written } = makeView();
  const showAt = (atMs: number, ended = false): void => {
    now.mockReturnValue(atMs);
    view.show([makeSite("a", { ended })]);
  };
  showAt(0);
  showAt(4_999);
  expect(written.length).toBe(1);
  showAt(5_000);
  expect(written.length).toBe(2);
  showAt(5_250, true);
  showAt(5_500, true);
  expect(written.length).toBe(3);
  expect(written.join("")).not.toContain("\u001B");
});
