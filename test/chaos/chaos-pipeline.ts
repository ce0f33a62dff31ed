/**
 * The pipeline of the chaos tests. Its handlers write down what they do and return their process.
 * Its options are in `chaos.json` of the working folder; the process's name is a variable.
 */
import { readFileSync } from "node:fs";
import { definePipeline, jsonl, PermanentError, skipped, TransientError } from "sluice";
import { type Answer, RunLog, RUNS_FOLDER } from "./black-box/run-log.ts";

export interface ChaosOptions {
  readonly chunkSize: number;
  readonly concurrency: number;
  /** How long a handler takes. */
  readonly workMs: number;
  /** Some items are skipped, some fail permanently and some temporarily; the others succeed. */
  readonly mixed: boolean;
  /** Results are this much larger than necessary. */
  readonly ballastChars: number;
  /** A temporary failure asks for this delay. */
  readonly retryAfterMs: number;
  /** Null for as many as there are slots. */
  readonly rate: { readonly perSecond: number; readonly burst: number } | null;
  readonly pace: { readonly items: number; readonly everyMs: number } | null;
}

const options = JSON.parse(readFileSync("chaos.json", "utf8")) as ChaosOptions;
const { chunkSize, concurrency, workMs, mixed, retryAfterMs, rate, pace } = options;
const ballast = options.ballastChars > 0 ? { ballast: "x".repeat(options.ballastChars) } : {};
const name = process.env["CHAOS_NAME"] ?? "unnamed";
const log = new RunLog(RUNS_FOLDER, name);

/** One in a hundred of each kind, the same in every run. */
function decideAnswer(n: number, attempt: number): Answer | "fail_for_good" {
  if (!mixed) return "ok";
  if (n % 100 === 17) return "skip";
  if (n % 100 === 42) return "fail_for_good";
  return n % 100 === 71 && attempt === 1 ? "fail" : "ok";
}

export const chaosPipeline = definePipeline({
  name: "chaos",
  chunkSize,
  concurrency,
  source: ({ input }: { input: string }) => jsonl<{ id: string; n: number }>(input),
  key: ({ id }) => id,
  ledger: { item: true, states: ["BEGUN", "ENDED"] },
  retry: { attempts: 4, baseMs: 50 },
  ...(rate && { rate }),
  ...(pace && { pace }),
  process: async ({ n }, context) => {
    log.start(context);
    context.record("BEGUN");
    if (workMs > 0) {
      await new Promise((resolve) => {
        setTimeout(resolve, workMs);
      });
    }
    const answer = decideAnswer(n, context.attempt);
    log.end(context, answer === "fail_for_good" ? "fail" : answer);
    context.record("ENDED", { by: name });
    const { fence, attempt } = context;
    switch (answer) {
      case "ok":
        return { by: name, fence, attempt, ...ballast };
      case "skip":
        return skipped();
      case "fail":
        throw new TransientError("not now", { code: "NOT_NOW", retryAfterMs });
      case "fail_for_good":
        throw new PermanentError("never", { code: "NEVER" });
    }
  },
});
