/** What a task throws is told apart in the worker as it would be in the task. */
import { describe, expect, test } from "vitest";
import { deserialize, serialize } from "node:v8";
import {
  describeError,
  FatalError,
  OutageError,
  PermanentError,
  TransientError,
} from "../../core/errors.ts";
import { readThrown, writeThrown } from "./thrown.ts";

/** As it goes from one process to another. */
function send(thrown: unknown): unknown {
  return readThrown(deserialize(serialize(writeThrown(thrown))) as ReturnType<typeof writeThrown>);
}

const hostile = Object.defineProperty({}, "message", {
  get: () => {
    throw new Error("a trap");
  },
});
const endless: { cause?: unknown; message: string } = { message: "round and round" };
endless.cause = endless;

describe("what a task threw", () => {
  test.each([
    ["a permanent error", new PermanentError("bad", { code: "BAD_PAGE" })],
    ["a transient error", new TransientError("busy", { retryAfterMs: 1_500 })],
    ["a fatal error", new FatalError("no rights")],
    ["an outage", new OutageError("away")],
    ["an error of the network", Object.assign(new Error("reset"), { code: "ECONNRESET" })],
    ["an error with a status", Object.assign(new Error("no"), { status: 404 })],
    [
      "a server that asks for less",
      Object.assign(new Error("slow"), { status: 429, headers: { "retry-after": "3" } }),
    ],
    ["a cause that says more", new TypeError("fetch failed", { cause: { code: "ETIMEDOUT" } })],
    ["a timeout", AbortSignal.abort(new DOMException("late", "TimeoutError")).reason],
    ["a text", "just a text"],
    ["a number", 42],
    ["nothing", undefined],
    ["null", null],
    ["a function", () => "called"],
    ["a symbol", Symbol("sign")],
    ["an object without a message", {}],
    ["an object whose message throws", hostile],
    ["an error that is its own cause", endless],
  ])("is described the same in the worker: %s", (_name, thrown: unknown) => {
    expect(describeError(send(thrown))).toEqual(describeError(thrown));
  });

  test("keeps its name and its stack", () => {
    const thrown = new RangeError("too far");
    expect(send(thrown)).toMatchObject({ name: "RangeError", stack: thrown.stack });
  });
});
