/** A kill at every commit finds the mistakes of a user's pipeline and accepts a correct one. */
import { appendFile, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  type BatchEvent,
  definePipeline,
  defineStep,
  later,
  PermanentError,
  type Pipeline,
  succeeded,
  TransientError,
} from "../../../src/index.ts";
import { crash, killAtEveryCommit, late, type World } from "../../../src/testing.ts";

/** A bank that executes every charge, but the same key only once. */
class Bank {
  readonly charges: string[] = [];
  readonly #keys = new Set<string>();

  async charge(card: string, key?: string): Promise<void> {
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    if (key !== undefined && this.#keys.has(key)) return;
    if (key !== undefined) this.#keys.add(key);
    this.charges.push(card);
  }
}

const CARDS = ["visa", "amex", "diners", "maestro", "girocard"];

function makePayments(bank: Bank, keyed: boolean): Pipeline<string, Iterable<string>> {
  return definePipeline({
    name: "payments",
    chunkSize: 2,
    concurrency: 2,
    process: (card: string, { idempotencyKey }) =>
      keyed ? bank.charge(card, idempotencyKey) : bank.charge(card),
  });
}

function checkCharges({ charges }: Bank): void {
  for (const card of CARDS) {
    const times = charges.filter((charge) => charge === card).length;
    if (times !== 1) throw new Error(`${card} was charged ${times} times`);
  }
}

const payments = (keyed: boolean) => ({
  setUp: () => new Bank(),
  batch: (bank: Bank) => ({ pipeline: makePayments(bank, keyed), input: CARDS }),
  check: checkCharges,
});

async function findFailure(work: Promise<unknown>): Promise<Error & { hint?: string }> {
  const outcome = await work.then(
    () => new Error("it passed"),
    (error: unknown) => error,
  );
  return outcome as Error;
}

describe("a card that is charged", () => {
  test("without an idempotency key is charged twice, and the kill that shows it is named", async () => {
    const failure = await findFailure(killAtEveryCommit(payments(false)));
    expect(failure).toMatchObject({
      code: "RUN_FAILED",
      message: expect.stringMatching(
        /^killed before commit (\d+) \([a-z +]+\): visa was charged 2 times\nrepeat just this run with seed: 1, only: crash\.before\("commit", \1\)\n/,
      ) as string,
      hint: expect.stringContaining("idempotencyKey") as string,
      cause: expect.objectContaining({ message: "visa was charged 2 times" }) as Error,
    });
  });

  test("with one is charged once, whenever its process is killed", async () => {
    const report = await killAtEveryCommit(payments(true));
    expect(report).toMatchObject({ state: "succeeded", missed: [], lostAnswers: 0 });
    expect(report.commits.length).toBeGreaterThanOrEqual(6);
    expect(report.kills).toBe(2 * report.commits.length);
    expect(report.runs).toBe(1 + report.kills);
  });

  test.each([1, 2, 3, 4, 5])(
    "is charged once with three processes and lost replies, seed %d",
    async (seed) => {
      const options = { ...payments(true), seed, processes: 3, lostAnswers: true };
      const report = await killAtEveryCommit(options);
      expect(report).toMatchObject({ state: "succeeded", missed: [], seed });
      expect(report.lostAnswers).toBe(report.commits.length);
      expect(report.runs).toBe(1 + 3 * report.commits.length);
      const failure = await findFailure(killAtEveryCommit({ ...options, ...payments(false) }));
      expect(failure.message).toMatch(/was charged \d times/);
    },
  );

  test("can repeat the named run alone", async () => {
    const failure = await findFailure(killAtEveryCommit(payments(false)));
    const nth = Number(/commit (\d+)/.exec(failure.message)?.[1]);
    const alone = { ...payments(false), only: crash.before("commit", nth) };
    expect((await findFailure(killAtEveryCommit(alone))).message).toBe(failure.message);
    const report = await killAtEveryCommit({ ...payments(true), only: late("settle", 1, 60_000) });
    expect(report).toMatchObject({ runs: 2, kills: 0, missed: [] });
  });
});

describe("other mistakes are found", () => {
  test("a handler that fails because of what it did before", async () => {
    const failure = await findFailure(
      killAtEveryCommit({
        setUp: () => new Set<string>(),
        batch: (rows) => ({
          pipeline: definePipeline({
            name: "inserts",
            process: (row: string) => {
              if (rows.has(row)) throw new PermanentError("row exists", { code: "DUPLICATE_ROW" });
              rows.add(row);
            },
          }),
          input: ["a", "b"],
        }),
      }),
    );
    expect(failure.message).toMatch(
      /^killed before commit \d+ \(settle \+ end\): it ended completed/,
    );
    expect(failure.message).toContain("without a fault it ends succeeded");
    expect(failure.message).toContain("item 0: DUPLICATE_ROW: row exists");
  });

  test("an ending that differs, unless that is allowed", async () => {
    const report = await killAtEveryCommit({
      sameEnding: false,
      setUp: () => new Set<string>(),
      batch: (rows) => ({
        pipeline: definePipeline({
          name: "inserts",
          process: (row: string) => {
            if (rows.has(row)) throw new PermanentError("row exists");
            rows.add(row);
          },
        }),
        input: ["a", "b"],
      }),
    });
    expect(report.state).toBe("succeeded");
  });

  test("a batch that never ends after its process was killed", async () => {
    const failure = await findFailure(
      killAtEveryCommit({
        virtualMsMax: 3_600_000,
        setUp: () => new Set<string>(),
        batch: (locks) => ({
          pipeline: definePipeline({
            name: "locked",
            process: (name: string) => {
              // A lock file that stays when its process dies.
              if (locks.has(name)) return later(60_000);
              locks.add(name);
              return undefined;
            },
          }),
          input: ["a"],
        }),
      }),
    );
    expect(failure.message).toMatch(/^killed before commit \d+ \(settle \+ end\): 3600000 ms/);
  });

  test("a file that is appended to, but not one that is replaced", async () => {
    const play = (write: (path: string) => Promise<void>): Promise<unknown> =>
      killAtEveryCommit({
        setUp: () => mkdtemp(join(tmpdir(), "sluice-kills-")),
        tearDown: (folder) => rm(folder, { recursive: true }),
        batch: (folder) => ({
          pipeline: definePipeline({
            name: "files",
            process: (name: string) => write(join(folder, name)),
          }),
          input: ["a", "b", "c"],
        }),
        check: async (folder, { state }) => {
          expect(state).toBe("succeeded");
          for (const name of await readdir(folder)) {
            expect(await readFile(join(folder, name), "utf8")).toBe("done\n");
          }
        },
      });
    await expect(play((path) => appendFile(path, "done\n"))).rejects.toThrow(/^killed before/);
    await play(async (path) => {
      await writeFile(`${path}.part`, "done\n");
      await rename(`${path}.part`, path);
    });
  });
});

describe("correct pipelines of every kind pass", () => {
  test("with items that fail, wait and are retried", async () => {
    const report = await killAtEveryCommit({
      lostAnswers: true,
      setUp: () => new Map<number, number>(),
      batch: (tries) => ({
        pipeline: definePipeline({
          name: "flaky",
          chunkSize: 3,
          retry: { attempts: 5, baseMs: 60_000, capMs: 300_000 },
          maxRedrives: 1,
          process: (n: number) => {
            tries.set(n, (tries.get(n) ?? 0) + 1);
            if (n === 4) throw new PermanentError("never", { code: "NEVER" });
            if (n % 2 === 0 && (tries.get(n) ?? 0) < 3) throw new TransientError("not yet");
            return n;
          },
        }),
        input: [1, 2, 3, 4, 5],
      }),
      check: (_tries, { results, deadLetters }) => {
        expect(results.map(({ value }) => value)).toEqual([1, 2, 3, 5]);
        expect(deadLetters.map(({ code }) => code)).toEqual(["NEVER"]);
      },
    });
    expect(report).toMatchObject({ state: "completed_with_errors", missed: [] });
    expect(report.commits).toContain("giveBack");
  });

  test("with several steps, whole chunks and an outside count", async () => {
    const report = await killAtEveryCommit({
      setUp: (world: World) => ({ world, indexed: new Set<number>() }),
      batch: ({ world, indexed }) => ({
        pipeline: definePipeline({
          name: "stepped",
          steps: [
            defineStep({
              name: "parse",
              chunkSize: 2,
              process: async (n: number) => {
                await world.sleep(5_000);
                return n * 10;
              },
            }),
            defineStep({
              name: "index",
              chunkSize: 2,
              processChunk: (items: readonly { item: number }[]) => {
                for (const { item } of items) indexed.add(item);
                return items.map(({ item }) => succeeded(item));
              },
            }),
            defineStep({ name: "wait", waitFor: { count: () => indexed.size, target: 3 } }),
          ],
        }),
        input: [1, 2, 3],
      }),
      check: ({ indexed }) => expect(indexed).toEqual(new Set([10, 20, 30])),
    });
    expect(report).toMatchObject({ state: "succeeded", missed: [] });
  });

  test("with checkpoints: a recorded stage does not run again", async () => {
    const report = await killAtEveryCommit({
      lostAnswers: true,
      setUp: () => ({ uploads: 0, recorded: 0 }),
      batch: (seen) => ({
        pipeline: definePipeline({
          name: "staged",
          process: async (_n: number, { checkpoint, lastCheckpoint }) => {
            if (lastCheckpoint !== null) return;
            seen.uploads++;
            await checkpoint("uploaded", { at: seen.uploads });
            seen.recorded++;
          },
        }),
        input: [1],
      }),
      check: ({ uploads, recorded }) => {
        expect(recorded).toBeLessThanOrEqual(1);
        expect(uploads - recorded).toBeLessThanOrEqual(1);
      },
    });
    expect(report.commits.filter((what) => what.includes("checkpoint"))).toHaveLength(1);
  });

  test("with a subscriber: every event arrives at least once, with the same id", async () => {
    const report = await killAtEveryCommit({
      setUp: () => new Map<string, number>(),
      onStart: (engine, seen) =>
        engine.subscribe("diary", ({ id, type }: BatchEvent) => {
          seen.set(`${type} ${id.split("/")[1]}`, 1 + (seen.get(type) ?? 0));
        }),
      batch: () => ({
        pipeline: definePipeline({ name: "told", process: (n: number) => n }),
        input: [1, 2],
      }),
      check: (seen) => {
        expect([...seen.keys()].filter((name) => name.startsWith("batch.ended"))).toHaveLength(1);
        expect([...seen.keys()].filter((name) => name.startsWith("batch.released"))).toHaveLength(
          1,
        );
      },
    });
    expect(report.commits.filter((what) => what === "deliver").length).toBeGreaterThanOrEqual(5);
  });

  test("with no items, and with a lane of its own", async () => {
    const report = await killAtEveryCommit({
      setUp: () => null,
      batch: () => ({
        pipeline: definePipeline({ name: "nothing", process: (n: number) => n }),
        input: [],
        lane: "quiet",
      }),
      check: (_context, { counts }) => expect(counts.planned).toBe(0),
    });
    expect(report.state).toBe("succeeded");
  });
});

describe("the runs", () => {
  test("each have a context, which is told about its run and disposed", async () => {
    const made: number[] = [];
    const gone: number[] = [];
    const faults: (string | null)[] = [];
    const report = await killAtEveryCommit({
      setUp: () => {
        made.push(made.length);
        return made.length;
      },
      tearDown: (context) => void gone.push(context),
      batch: () => ({
        pipeline: definePipeline({ name: "plain", process: (n: number) => n }),
        input: [1],
      }),
      check: (_context, { fault, starts, history }) => {
        faults.push(fault);
        expect(starts).toBe(fault === null ? 1 : 2);
        expect(history[0]).toContain("main.1 starts");
      },
    });
    expect(gone).toEqual(made.map((n) => n + 1));
    expect(gone).toHaveLength(report.runs);
    expect(faults.slice(0, 3)).toEqual([
      null,
      "killed before commit 1 (submit)",
      "killed after commit 1 (submit)",
    ]);
    expect(new Set(faults).size).toBe(report.runs);
  });

  test("dispose their context even when they fail", async () => {
    let gone = 0;
    const failing = killAtEveryCommit({
      setUp: () => "context",
      tearDown: () => void gone++,
      batch: () => ({
        pipeline: definePipeline({ name: "plain", process: (n: number) => n }),
        input: [1],
      }),
      check: () => {
        throw new Error("wrong from the beginning");
      },
    });
    await expect(failing).rejects.toThrow("without any fault: wrong from the beginning\nseed 1");
    expect(gone).toBe(1);
  });

  test("are refused before they start if there are more than allowed", async () => {
    const refused = killAtEveryCommit({ ...payments(true), runsMax: 5 });
    await expect(refused).rejects.toMatchObject({ code: "BAD_OPTION", field: "runsMax" });
    await expect(refused).rejects.toThrow(/the batch has \d+ commits, which make \d+ runs/);
  });

  test("fail when a fault that was requested alone does not happen", async () => {
    const unmet = killAtEveryCommit({ ...payments(true), only: crash.after("commit", 999) });
    await expect(unmet).rejects.toMatchObject({ code: "FAULT_NOT_REACHED" });
  });

  test("report an error of a process together with the kill", async () => {
    const failing = killAtEveryCommit({
      ...payments(true),
      batch: () => {
        throw new Error("no such table");
      },
    });
    await expect(failing).rejects.toThrow("without any fault: no such table");
  });

  test("refuse all bad options at once", async () => {
    const options = { setup: () => 1, runsMax: 0, only: "all", check: 3 };
    const refused = killAtEveryCommit(options as never);
    await expect(refused).rejects.toMatchObject({ code: "BAD_OPTION", field: "world" });
    const parts = [
      "setup is not an option. Did you mean setUp?",
      "setUp is missing",
      "batch is missing",
      "check must be a function",
      "runsMax must be",
      "only must be a fault",
    ];
    for (const part of parts) await expect(refused).rejects.toThrow(part);
  });

  test("give the same report for the same seed", async () => {
    const play = (): Promise<unknown> =>
      killAtEveryCommit({ ...payments(true), seed: 11, processes: 2 });
    expect(await play()).toEqual(await play());
  });
});
