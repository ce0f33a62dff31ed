/** Files of messages: whole lines only, finished atomically, and nothing lost or overwritten. */
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { SinkContext } from "../ports/sink.ts";
import type { TopicMessage } from "../ports/store/topic-message.ts";
import { jsonlSink } from "./jsonl.ts";

let folder: string;
let nowMs = 0;
const context = {
  clock: { monotonicMs: () => nowMs },
  signal: new AbortController().signal,
} as unknown as SinkContext;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-jsonl-"));
  nowMs = 0;
});
afterEach(() => {
  chmodSync(folder, 0o700);
  rmSync(folder, { recursive: true });
});

function makeMessage(position: number, topic = "email"): TopicMessage {
  const id = `b-1/0/${position}/1/0`;
  return { id, topic, position, batch: "b-1", at: "2026-01-01T00:00:00.000Z", data: { position } };
}

const lineOf = (position: number, topic?: string): string =>
  `${JSON.stringify(makeMessage(position, topic))}\n`;

function deliver(sink: ReturnType<typeof jsonlSink>, ...positions: number[]): Promise<void> {
  const messages = positions.map((position) => makeMessage(position));
  return sink.deliverAll?.(messages, context) ?? Promise.reject(new Error("it takes no lists"));
}

const list = (): string[] => readdirSync(folder).toSorted();
const read = (name: string): string => readFileSync(join(folder, name), "utf8");

test("messages are lines of a part that is named by its first one", async () => {
  const sink = jsonlSink({ folder: join(folder, "deep/er") });
  await deliver(sink, 3, 5);
  await sink.deliver(makeMessage(6), context);
  expect(readFileSync(join(folder, "deep/er/email-3.jsonl.part"), "utf8")).toBe(
    lineOf(3) + lineOf(5) + lineOf(6),
  );
});

test("a part that is large enough gets its final name", async () => {
  const sink = jsonlSink({ folder, maxBytes: 2 * lineOf(1).length });
  await deliver(sink, 1);
  expect(list()).toEqual(["email-1.jsonl.part"]);
  await deliver(sink, 2);
  expect(list()).toEqual(["email-1.jsonl"]);
  await deliver(sink, 3, 4, 5);
  expect(list()).toEqual(["email-1.jsonl", "email-3.jsonl"]);
  expect(read("email-1.jsonl")).toBe(lineOf(1) + lineOf(2));
  expect(read("email-3.jsonl")).toBe(lineOf(3) + lineOf(4) + lineOf(5));
});

test("a part that is old enough is finished by the next message", async () => {
  const sink = jsonlSink({ folder, maxMs: 1_000 });
  await deliver(sink, 1);
  nowMs = 999;
  await deliver(sink, 2);
  nowMs = 1_000;
  await deliver(sink, 3);
  expect(list()).toEqual(["email-1.jsonl", "email-3.jsonl.part"]);
  expect(read("email-1.jsonl")).toBe(lineOf(1) + lineOf(2));
});

test("a last line that a crash has cut anywhere is removed and written again", async () => {
  const path = join(folder, "email-1.jsonl.part");
  for (let at = 0; at < lineOf(2).length; at++) {
    writeFileSync(path, lineOf(1) + lineOf(2).slice(0, at));
    await deliver(jsonlSink({ folder }), 2);
    expect(read("email-1.jsonl.part")).toBe(lineOf(1) + lineOf(2));
  }
});

test("a cut line of any length is removed, also when it is the only one", async () => {
  writeFileSync(join(folder, "email-1.jsonl.part"), "x".repeat(200_000));
  await deliver(jsonlSink({ folder }), 1);
  expect(read("email-1.jsonl.part")).toBe(lineOf(1));
  writeFileSync(join(folder, "email-1.jsonl.part"), `${lineOf(1)}${"x".repeat(200_000)}`);
  await deliver(jsonlSink({ folder }), 2);
  expect(read("email-1.jsonl.part")).toBe(lineOf(1) + lineOf(2));
});

test("a part that a crash left large enough is finished before anything else", async () => {
  writeFileSync(join(folder, "email-1.jsonl.part"), `${lineOf(1)}${lineOf(2)}{"id":`);
  await deliver(jsonlSink({ folder, maxBytes: 10 }), 3);
  expect(list()).toEqual(["email-1.jsonl", "email-3.jsonl"]);
  expect(read("email-1.jsonl")).toBe(lineOf(1) + lineOf(2));
});

test("a replay does not overwrite finished files", async () => {
  const sink = jsonlSink({ folder, maxBytes: 1 });
  await deliver(sink, 1);
  await deliver(sink, 1);
  await deliver(sink, 1);
  expect(list()).toEqual(["email-1.2.jsonl", "email-1.3.jsonl", "email-1.jsonl"]);
});

test("each topic has its own files, also if one name is the start of another", async () => {
  const sink = jsonlSink({ folder });
  for (const topic of ["a", "a-1", "a-1-2"]) await sink.deliver(makeMessage(1, topic), context);
  for (const topic of ["a", "a-1", "a-1-2"]) await sink.deliver(makeMessage(2, topic), context);
  expect(list()).toEqual(["a-1-1.jsonl.part", "a-1-2-1.jsonl.part", "a-1.jsonl.part"]);
  expect(read("a-1.jsonl.part")).toBe(lineOf(1, "a") + lineOf(2, "a"));
});

test("a folder that cannot be written is a clear error, and is retried", async () => {
  writeFileSync(join(folder, "file"), "");
  await expect(deliver(jsonlSink({ folder: join(folder, "file") }), 1)).rejects.toMatchObject({
    errorClass: "transient",
    message: `${join(folder, "file")} cannot be written: part of the path is a file (EEXIST)`,
  });
  expect(existsSync(join(folder, "file"))).toBe(true);
});

test("events are refused, and so are bad options", async () => {
  const event = {
    id: "b-1/1",
    batch: "b-1",
    seq: 1,
    type: "batch.ended",
    at: "",
    data: {},
  } as const;
  await expect(jsonlSink({ folder }).deliver(event, context)).rejects.toMatchObject({
    errorClass: "permanent",
    code: "UNKNOWN_EVENT",
  });
  const bad = { folder: "", maxBytes: 0, maxMs: Number.NaN, maxByte: 1 };
  expect(() => jsonlSink(bad)).toThrow(
    expect.objectContaining({
      code: "BAD_OPTION",
      field: "sink",
      message: [
        "jsonlSink has 4 problems:",
        "  - maxByte is not an option. Did you mean maxBytes?",
        "  - folder must be the path of a folder",
        "  - maxBytes must be a whole number from 1 to 1099511627776 (got 0)",
        "  - maxMs must be a whole number from 1 to 31536000000 (got NaN)",
      ].join("\n"),
    }) as Error,
  );
});
