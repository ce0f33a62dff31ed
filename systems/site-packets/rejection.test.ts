/**
 * A rejection is on the ledger before its item fails; a document that may still succeed is not
 * rejected.
 */
import { FatalError, type ItemContext, PermanentError, TransientError } from "sluice";
import { expect, test } from "vitest";
import { orReject, reject } from "./rejection.ts";

const ATTEMPTS = 3;

async function fail(
  thrown: Error,
  { attempt = 1, final = true, aborted = false } = {},
): Promise<unknown[]> {
  const records: unknown[] = [];
  const signal = aborted ? AbortSignal.abort() : new AbortController().signal;
  const record = (...args: unknown[]): void => void records.push(args);
  const context = { attempt, final, signal, record } as unknown as ItemContext;
  await expect(orReject(context, ATTEMPTS, () => Promise.reject(thrown))).rejects.toBe(thrown);
  return records;
}

test("a stage that succeeds returns its value and records nothing", async () => {
  const context = { signal: new AbortController().signal } as ItemContext;
  expect(await orReject(context, ATTEMPTS, async () => 5)).toBe(5);
});

test("a permanent failure is rejected at once, with its code", async () => {
  const error = reject("EMPTY", "it has no bytes");
  expect(error).toBeInstanceOf(PermanentError);
  const expected = [["REJECTED", { code: "EMPTY", message: "it has no bytes" }]];
  expect(await fail(error)).toEqual(expected);
  expect(await fail(error, { final: false })).toEqual(expected);
});

test.for([new TransientError("away", { code: "DOWNLOAD_FAILED" }), new Error("odd")])(
  "%s is rejected only with the last attempt of the last pass",
  async (error) => {
    expect(await fail(error, { attempt: ATTEMPTS - 1 })).toEqual([]);
    expect(await fail(error, { attempt: ATTEMPTS, final: false })).toEqual([]);
    expect((await fail(error, { attempt: ATTEMPTS })).length).toBe(1);
  },
);

test("an error that stops the worker rejects no document", async () => {
  expect(await fail(new FatalError("the disk is gone"), { attempt: ATTEMPTS })).toEqual([]);
});

test("a document whose worker was stopped is not rejected", async () => {
  const last = { attempt: ATTEMPTS, aborted: true };
  expect(await fail(new DOMException("stopped", "AbortError"), last)).toEqual([]);
  expect(await fail(reject("EMPTY", "it has no bytes"), last)).toEqual([]);
});
