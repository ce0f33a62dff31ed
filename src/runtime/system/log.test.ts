import { expect, it } from "vitest";
import { makeRedact } from "../../core/base/redact.ts";
import { addFacts, guardLog, type LogEntry } from "./log.ts";

const SECRET = "c4nary-value";

function collect(): { readonly entries: LogEntry[]; readonly log: (entry: LogEntry) => void } {
  const entries: LogEntry[] = [];
  return { entries, log: (entry) => void entries.push(entry) };
}

it("neither message, error, stack nor cause of an entry holds a secret", () => {
  const { entries, log } = collect();
  const cause = new Error(`token=${SECRET}`);
  const error = Object.assign(new TypeError(`refused ${SECRET}`, { cause }), { code: "NO" });
  guardLog(
    log,
    makeRedact([SECRET]),
  )({
    level: "warn",
    event: "x.y",
    message: `with ${SECRET}`,
    error,
  });
  const [entry] = entries;
  const told = entry?.error as Error & { code: string };
  expect(entry?.message).toBe("with [redacted]");
  expect(told).toBeInstanceOf(Error);
  expect(told).toMatchObject({ name: "TypeError", code: "NO", message: "refused [redacted]" });
  expect((told.cause as Error).message).toBe("token=[redacted]");
  expect(told.stack).toContain("log.test.ts");
  expect(`${told.stack}${(told.cause as Error).stack}`).not.toContain(SECRET);
});

it("properties that clients add to their errors contain no secret, and the error keeps its class", () => {
  const { entries, log } = collect();
  class ClientError extends Error {
    readonly status = 401;
    readonly config = { url: "https://portal.test", headers: { authorization: SECRET } };
  }
  const error = new ClientError("refused");
  guardLog(log, makeRedact([]))({ level: "warn", event: "x.y", message: "m", error });
  const told = entries[0]?.error;
  expect(told).toBeInstanceOf(ClientError);
  expect(told).toMatchObject({
    message: "refused",
    status: 401,
    config: { url: "https://portal.test", headers: { authorization: "[redacted]" } },
  });
});

it("an error without a secret is passed on unchanged", () => {
  const { entries, log } = collect();
  const error = new Error("plain");
  guardLog(log, makeRedact([SECRET]))({ level: "warn", event: "x.y", message: "m", error });
  expect(entries[0]?.error).toBe(error);
});

it("an error that throws on every access is replaced by a message", () => {
  const { entries, log } = collect();
  const trap = (): never => {
    throw new Error("a trap");
  };
  const error = new Proxy({}, { get: trap, getPrototypeOf: trap });
  guardLog(log, makeRedact([SECRET]))({ level: "warn", event: "x.y", message: "m", error });
  expect(entries).toMatchObject([{ event: "x.y", message: "m" }]);
});

it("a log that throws does not fail its caller", () => {
  const log = guardLog(() => {
    throw new Error("full");
  }, makeRedact([]));
  expect(() => log({ level: "info", event: "x.y", message: "m" })).not.toThrow();
});

it("an entry's own facts take precedence over added ones", () => {
  const { entries, log } = collect();
  addFacts(log, { worker: 1, batch: "a" })({ level: "info", event: "e", message: "m", batch: "b" });
  expect(entries).toEqual([{ level: "info", event: "e", message: "m", worker: 1, batch: "b" }]);
});
