/** Appends to a file of events, whatever the file ends with. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { BatchEvent } from "../ports/store/batch-event.ts";
import type { SinkContext } from "../ports/sink.ts";
import { fileSink, planAppend } from "./file.ts";

const LINE = '{"id":"b-1/2"}\n';

/** Like the sink: reads the end of the file, one byte more than the line. */
function append(content: string): string {
  const [file, line] = [Buffer.from(content), Buffer.from(LINE)];
  const tail = file.subarray(-(line.length + 1));
  return content + planAppend(tail, file.length, line).toString();
}

describe("a line is appended", () => {
  test.each([
    ["to an empty file", "", LINE],
    ["after another line", '{"id":"b-1/1"}\n', `{"id":"b-1/1"}\n${LINE}`],
    ["after a much longer line", `${"x".repeat(500)}\n`, `${"x".repeat(500)}\n${LINE}`],
    ["after an empty line", "\n", `\n${LINE}`],
  ])("%s", (_where, content, whole) => {
    expect(append(content)).toBe(whole);
  });

  test("only once, when the file already ends with it", () => {
    expect(append(LINE)).toBe(LINE);
    expect(append(`{"id":"b-1/1"}\n${LINE}`)).toBe(`{"id":"b-1/1"}\n${LINE}`);
    expect(append(`x${LINE}`)).toBe(`x${LINE}${LINE}`);
  });

  test("as its missing rest, wherever a crash has cut it", () => {
    for (let at = 1; at < LINE.length; at++) {
      expect(append(LINE.slice(0, at))).toBe(LINE);
      expect(append(`{"id":"b-1/1"}\n${LINE.slice(0, at)}`)).toBe(`{"id":"b-1/1"}\n${LINE}`);
    }
  });

  test("as its own line after the cut line of another event", () => {
    for (const torn of ['{"id":"b-9', "x", `${LINE.trimEnd()}x`, "x".repeat(500)]) {
      expect(append(torn)).toBe(`${torn}\n${LINE}`);
      expect(append(`a\n${torn}`)).toBe(`a\n${torn}\n${LINE}`);
    }
  });
});

describe("a file of events", () => {
  let folder = "";
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "sluice-sink-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const makeEvent = (seq: number): BatchEvent => ({
    id: `b-1/${seq}`,
    batch: "b-1",
    seq,
    type: "batch.ended",
    at: "2026-01-01T00:00:00.000Z",
    data: { text: "two\nlines \u2028 grün" },
  });
  const deliver = (path: string, seq: number): Promise<void> =>
    fileSink({ path }).deliver(makeEvent(seq), {} as SinkContext);

  test("is created with its folder, and has one line of JSON for each event", async () => {
    const path = join(folder, "deep/down/events.jsonl");
    for (const seq of [1, 2, 3]) await deliver(path, seq);
    const lines = readFileSync(path, "utf8").trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([1, 2, 3].map(makeEvent));
  });

  test("has only lines that parse after a crash in the middle of one", async () => {
    const path = join(folder, "events.jsonl");
    await deliver(path, 1);
    await deliver(path, 2);
    const whole = readFileSync(path);
    writeFileSync(path, whole.subarray(0, -20));
    await deliver(path, 2);
    await deliver(path, 3);
    const lines = readFileSync(path, "utf8").trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([1, 2, 3].map(makeEvent));
  });

  test("that cannot be written fails with the reason, and is retried", async () => {
    const failed = deliver(folder, 1);
    await expect(failed).rejects.toMatchObject({ code: "EISDIR" });
    expect(fileSink({ path: "x" }).retry.attempts).toBe(Number.POSITIVE_INFINITY);
  });

  test("without a path is refused", () => {
    for (const path of ["", "a\0b", undefined]) {
      expect(() => fileSink({ path: path as string })).toThrow(
        expect.objectContaining({ code: "BAD_OPTION", field: "sink" }) as Error,
      );
    }
  });
});
