import { describe, expect, test } from "vitest";
import { ChunkNotes, writeCheckpoint } from "./chunk-notes.ts";

const failure = (index: number) => ({
  index,
  key: null,
  attempts: 1,
  retryInMs: null,
  ...({ errorClass: "permanent", code: "E", message: "m" } as const),
});

/** One note of each kind, about this item. */
function note(notes: ChunkNotes, index: number): Promise<void> {
  notes.addFailure(failure(index));
  notes.addResult(index, "k", { index });
  notes.addDeferral({ index, key: null, inMs: 5 });
  notes.addContent({ index, content: `c${index}` });
  notes.addAbandoned(index);
  return notes.addCheckpoint(index, null, { name: "n", data: `${index}` }).saved;
}

function listIndexes(notes: ChunkNotes): number[][] {
  const { failures, results, deferrals, contents, checkpoints, abandoned } = notes.list();
  return [failures, results, deferrals, contents, checkpoints]
    .map((all: readonly { readonly index: number }[]) => all.map(({ index }) => index))
    .concat([[...abandoned]]);
}

describe("notes about a chunk", () => {
  test("are listed in the order in which they came, with results as JSON", () => {
    const notes = new ChunkNotes();
    void note(notes, 0);
    void note(notes, 1);
    expect(listIndexes(notes)).toEqual(Array.from({ length: 6 }, () => [0, 1]));
    expect(notes.list().results[1]).toEqual({ index: 1, key: "k", value: '{"index":1}' });
    expect(notes.list().checkpoints[0]).toEqual({ index: 0, key: null, name: "n", data: "0" });
  });

  test("that came after a list stay when the listed ones are dropped", async () => {
    const notes = new ChunkNotes();
    const first = note(notes, 0);
    const told = notes.list();
    const second = note(notes, 1);
    notes.forget(told);
    await first;
    expect(listIndexes(notes)).toEqual(Array.from({ length: 6 }, () => [1]));
    notes.forget(notes.list());
    await second;
    expect(listIndexes(notes)).toEqual(Array.from({ length: 6 }, () => []));
  });

  test("a list does not change when more is noted", () => {
    const notes = new ChunkNotes();
    void note(notes, 0);
    const told = notes.list();
    void note(notes, 1);
    expect(told.failures).toHaveLength(1);
    expect(told.abandoned).toEqual([0]);
  });

  test("a handler that waits for its checkpoint is rejected when no report will follow", async () => {
    const notes = new ChunkNotes();
    const waiting = [0, 1].map((index) => note(notes, index));
    expect(notes.hasCheckpoints).toBe(true);
    notes.giveUp(new Error("gone"));
    for (const told of waiting) await expect(told).rejects.toThrow("gone");
    expect(notes.hasCheckpoints).toBe(false);
  });
});

describe("a checkpoint", () => {
  test("is a name and JSON; without data its data is null", () => {
    expect(writeCheckpoint("fetched", { a: [1] })).toEqual({ name: "fetched", data: '{"a":[1]}' });
    expect(writeCheckpoint("fetched", undefined)).toEqual({ name: "fetched", data: "null" });
    expect(writeCheckpoint("é".repeat(100), 1).name).toHaveLength(100);
  });

  test.each(["", "x".repeat(101), "a\0b"])("refuses the name %j", (name) => {
    expect(() => writeCheckpoint(name, 1)).toThrow(/1 to 100 characters/);
  });

  test.each([5n, () => 1, Symbol("x")])("refuses data that JSON cannot express", (data) => {
    expect(() => writeCheckpoint("n", data)).toThrow(/checkpoint's data/);
  });

  test("refuses a cycle, and data of more than a megabyte", () => {
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    expect(() => writeCheckpoint("n", cycle)).toThrow(/cannot be written as JSON/);
    expect(() => writeCheckpoint("n", "x".repeat(1_048_576))).toThrow(/over the limit/);
    expect(writeCheckpoint("n", "x".repeat(1_048_574)).data).toHaveLength(1_048_576);
  });

  test("that cannot be stored fails its item for good", () => {
    try {
      writeCheckpoint("", 1);
      expect.unreachable();
    } catch (error) {
      expect(error).toMatchObject({ name: "PermanentError", code: "BAD_CHECKPOINT" });
    }
  });
});
