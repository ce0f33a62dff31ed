import { describe, expect, test } from "vitest";
import { makeRedact } from "../../core/base/redact.ts";
import { SeededRandom } from "../../testing/world/seeded-random.ts";
import { readItemLine } from "../../ledger/format/item-line.ts";
import { DETAILS_CHARS_MAX, LedgerLines, refuseState, type RecordedState } from "./ledger-lines.ts";

const FACTS = { batch: "b-1", lane: "north", step: 2, fence: 1, scopes: [], hasSql: false };

function makeLines(): LedgerLines {
  return new LedgerLines({
    worker: 3,
    clock: { wallMs: () => Date.parse("2026-11-16T15:17:00.123Z") },
    random: new SeededRandom(1),
    redact: makeRedact(["open sesame"]),
  });
}

function record(changes: Partial<RecordedState> = {}): RecordedState {
  const usual = { item: 12, key: "k", attempt: 1, drive: 1, state: "RECEIVED" };
  return { ...usual, details: undefined, read: () => ({ b: 1, a: 2 }), ...changes };
}

describe("lines for the ledger", () => {
  test("contain no secret in details, whether it is recognised by name, by shape or because it was named", () => {
    const lines = makeLines();
    const details = {
      password: "hunter2-hunter2",
      url: "https://ann:hunter2@portal.example/x",
      note: "she said open sesame",
      pages: 3,
    };
    lines.add(FACTS, record({ details }));
    const kept = lines.list()[0]?.details ?? "";
    expect(kept).not.toMatch(/hunter2|sesame/);
    expect(JSON.parse(kept)).toMatchObject({ details: { password: "[redacted]", pages: 3 } });
  });

  test("are canonical, with the item's content in its first", () => {
    const lines = makeLines();
    lines.add(FACTS, record());
    lines.add(FACTS, record({ state: "DONE", attempt: 2, drive: 3 }));
    const [block] = lines.list();
    expect(block).toMatchObject({ number: 1, count: 2, details: null });
    const texts = block?.lines.split("\n").slice(0, -1) ?? [];
    const at = "2026-11-16T15:17:00.123Z";
    const common = {
      at,
      batch: "b-1",
      item: 12,
      key: "k",
      lane: "north",
      step: 2,
      worker: 3,
      v: 1,
    };
    const content = "d3626ac30a87e6f7a6428233b3c68299976865fa5508e4267c5415c76af7a772";
    expect(texts.map(readItemLine)).toEqual([
      { kind: "item", line: { ...common, attempt: 1, content, state: "RECEIVED" } },
      { kind: "item", line: { ...common, attempt: 2, drive: 3, state: "DONE" } },
    ]);
  });

  test("that were sent stay unchanged until the store has answered", () => {
    const lines = makeLines();
    expect(lines.list()).toEqual([]);
    lines.add(FACTS, record());
    const first = lines.list();
    lines.add(FACTS, record({ state: "DONE" }));
    const both = lines.list();
    expect(both).toMatchObject([{ number: 1 }, { number: 2 }]);
    expect(both[0]).toBe(first[0]);
    lines.forget(first);
    expect(lines.list()).toEqual([both[1]]);
    lines.forget(both.slice(1));
    lines.add(FACTS, record());
    expect(lines.list()).toMatchObject([{ number: 3 }]);
  });

  test("are closed as a block before it grows too large", () => {
    const lines = makeLines();
    for (let nth = 0; nth < 40; nth++) lines.add(FACTS, record({ details: "x".repeat(60_000) }));
    const blocks = lines.list();
    expect(blocks.length).toBeGreaterThan(1);
    expect(blocks.reduce((sum, { count }) => sum + count, 0)).toBe(40);
    for (const { details } of blocks) expect(details?.length).toBeLessThan(1_100_000);
  });

  test("store details separately, each with its own salt", () => {
    const lines = makeLines();
    const details = { when: new Date(0), b: undefined };
    lines.add(FACTS, record({ details }));
    lines.add(FACTS, record({ details: null }));
    const [block] = lines.list();
    const kept = (block?.details ?? "").split("\n").slice(0, -1);
    const parsed = kept.map((line) => JSON.parse(line) as { i: number; salt: string });
    expect(parsed).toMatchObject([
      { i: 0, details: { when: "1970-01-01T00:00:00.000Z" } },
      { i: 1, details: null },
    ]);
    expect(new Set(parsed.map(({ salt }) => salt)).size).toBe(2);
    expect(parsed.every(({ salt }) => /^[0-9a-f]{32}$/.test(salt))).toBe(true);
    expect(block?.lines).not.toContain("1970-01-01");
  });

  test("of an item without a canonical form have no content hash", () => {
    const lines = makeLines();
    lines.add(FACTS, record({ read: () => "\ud800" }));
    expect(lines.list()[0]?.lines).not.toContain("content");
  });

  test("refused details leave no line", () => {
    const lines = makeLines();
    const refuse = (details: unknown): unknown => {
      try {
        lines.add(FACTS, record({ details }));
      } catch (error) {
        return error;
      }
      return "it was taken";
    };
    const bad = { name: "PermanentError", code: "BAD_DETAILS" };
    expect(refuse("x".repeat(DETAILS_CHARS_MAX))).toMatchObject(bad);
    expect(refuse("\udfff")).toMatchObject(bad);
    expect(refuse(Symbol("no"))).toMatchObject(bad);
    expect(refuse(1n)).toMatchObject(bad);
    expect(lines.list()).toEqual([]);
  });
});

describe("a state", () => {
  test("must be declared by the pipeline", () => {
    expect(refuseState("DONE", ["DONE"])).toBeNull();
    expect(refuseState("DNOE", ["DONE"])).toMatchObject({
      code: "UNDECLARED",
      message: expect.stringContaining("Did you mean DONE?") as string,
    });
    expect(refuseState("ELSE", ["DONE", "RECEIVED"])?.message).toContain(
      "They are DONE, RECEIVED.",
    );
    expect(refuseState("DONE", [])?.message).toContain('Add states: ["DONE"] to its ledger.');
    expect(refuseState({}, ["DONE"])).toMatchObject({ code: "UNDECLARED" });
    expect(refuseState("DONE", null)).toMatchObject({ code: "UNDECLARED" });
  });
});
