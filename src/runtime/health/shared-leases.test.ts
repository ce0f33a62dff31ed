import { setImmediate as turn } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { describe, expect, test } from "vitest";
import { type LeaseHold, SharedLeases } from "./shared-leases.ts";

const lease = (chunk: number, fence = 1, batch = "b-abc") => ({ batch, step: 0, chunk, fence });

describe("shared leases", () => {
  test("shows the other thread the held leases, and nothing else", () => {
    const page = new SharedLeases();
    const other = new SharedLeases(page.buffer);
    const holds = [lease(1), lease(2, 7), lease(3, 2, "b-ünïcödé")].map((one) => page.enter(one));
    expect(other.list().map((found) => found.lease)).toEqual([
      lease(1),
      lease(2, 7),
      lease(3, 2, "b-ünïcödé"),
    ]);
    holds[1]?.release();
    holds[1]?.release();
    expect(other.list().map((found) => found.lease.chunk)).toEqual([1, 3]);
    page.enter(lease(4));
    expect(other.list().map((found) => found.lease.chunk)).toEqual([1, 4, 3]);
    expect(other.count()).toBe(3);
  });

  test("reports to a holder only the renewals of its own lease", () => {
    const page = new SharedLeases();
    const other = new SharedLeases(page.buffer);
    const first = page.enter(lease(1));
    expect(first?.readRenewedUntil()).toBe(0);
    const [found] = other.list();
    if (found === undefined || first === null) throw new Error("it is entered");
    other.enterRenewal(found, 5_000.7);
    expect(first.readRenewedUntil()).toBe(5_000);
    first.release();
    expect(first.readRenewedUntil()).toBe(0);
    // In the same place: a renewal of the previous lease arrives late.
    const second = page.enter(lease(1, 2));
    expect(second?.readRenewedUntil()).toBe(0);
    other.enterRenewal(found, 9_000);
    expect(second?.readRenewedUntil()).toBe(0);
  });

  test("leaves out an id that does not fit: cut off, it could be another batch's", () => {
    const page = new SharedLeases();
    expect(page.enter(lease(1, 1, "b".repeat(200)))).not.toBeNull();
    expect(page.list()).toEqual([]);
    expect(page.count()).toBe(0);
  });

  test("has limited room, and reuses it", () => {
    const page = new SharedLeases();
    const holds = Array.from({ length: 16_384 }, (_, chunk) => page.enter(lease(chunk)));
    expect(page.enter(lease(99_999))).toBeNull();
    holds[5]?.release();
    expect(page.enter(lease(99_999))).not.toBeNull();
    expect(page.list()).toHaveLength(16_384);
  });

  test("is never read half written by a thread that reads continuously", async () => {
    const page = new SharedLeases();
    // Every lease contains the same number four times, so a half-read lease is recognised.
    const reader = new Worker(
      `const { workerData, parentPort } = require("node:worker_threads");
       import(workerData.module).then(({ SharedLeases }) => {
         const page = new SharedLeases(workerData.buffer);
         let seen = 0, torn = 0;
         parentPort.postMessage("ready");
         const until = performance.now() + 1000;
         while (performance.now() < until) {
           for (const { lease } of page.list()) {
             seen++;
             const all = new Set([lease.step, lease.chunk, lease.fence, Number(lease.batch)]);
             if (all.size !== 1) torn++;
           }
         }
         parentPort.postMessage({ seen, torn });
       });`,
      {
        eval: true,
        workerData: {
          buffer: page.buffer,
          module: new URL("./shared-leases.ts", import.meta.url).href,
        },
      },
    );
    const answers: unknown[] = [];
    const isOver = new Promise<void>((resolve, reject) => {
      reader.on("message", (answer: unknown) => void answers.push(answer));
      reader.on("error", reject);
      reader.on("exit", () => resolve());
    });
    const holds: (LeaseHold | null)[] = [];
    const ended = new AbortController();
    void isOver.finally(() => ended.abort());
    for (let round = 0; !ended.signal.aborted; round++) {
      for (let at = 0; at < 200; at++) {
        const n = round * 200 + at;
        holds.push(page.enter({ batch: String(n), step: n, chunk: n, fence: n }));
        if (holds.length > 20) holds.shift()?.release();
      }
      await turn();
    }
    await isOver;
    expect(answers[0]).toBe("ready");
    expect(answers[1]).toMatchObject({ torn: 0 });
    expect((answers[1] as { seen: number }).seen).toBeGreaterThan(0);
  });
});
