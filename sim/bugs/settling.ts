/** Bugs of reports: what counts, what is stored, and what a lost answer does. */
import type { Bug } from "./bug.ts";

const OUTCOMES = "src/core/items/outcome-map.ts";
const REPORT = "src/core/items/report.ts";
const NOTES = "src/runtime/chunk/chunk-notes.ts";
const RETRYING = "src/runtime/system/retrying-store.ts";

export const settlingBugs: readonly Bug[] = [
  {
    name: "repeated-report-counted-again",
    what: "Counters rise by what a report lists, not by what it adds.",
    peers: ["sidekiq#4361", "laravel#47196", "sidekiq-batch#90"],
    file: OUTCOMES,
    before: "succeeded: after.succeeded - before.succeeded,",
    after: "succeeded: countOutcomes(reported).succeeded,",
  },
  {
    name: "failure-not-counted",
    what: "An item that failed for good still counts as pending.",
    peers: ["laravel#35711", "bullmq#3362"],
    file: "src/core/batch/counts.ts",
    before: "pending: counts.pending - delta.succeeded - delta.skipped - delta.failed,",
    after: "pending: counts.pending - delta.succeeded - delta.skipped,",
  },
  {
    name: "flushed-results-dropped",
    what: "Only the report that settles the chunk keeps its results.",
    peers: ["sidekiq#2268"],
    file: REPORT,
    before: "({ index }) => fresh(index) && getOutcome(merged.map, index) === SUCCEEDED,",
    after: `({ index }) =>
      end === "settled" && fresh(index) && getOutcome(merged.map, index) === SUCCEEDED,`,
  },
  {
    name: "letter-dropped-with-its-chunk",
    what: "Settling a chunk deletes its dead letters together with rows that are not needed any more.",
    peers: ["bull#2082"],
    file: REPORT,
    before: "(item) => item.dead || (isPending(item.index) && isWorthARow(item)),",
    after: `(item) =>
      (item.dead && merged.pending > 0) || (isPending(item.index) && isWorthARow(item)),`,
  },
  {
    name: "forgets-more-than-it-reported",
    what: "When the store has answered, the worker also forgets what it noted meanwhile.",
    peers: ["celery#2911"],
    file: NOTES,
    before: "this.#results = this.#results.slice(reported.results.length);",
    after: "this.#results = [];",
  },
  {
    name: "acknowledged-before-recorded",
    what: "A worker forgets its outcomes before the store has answered, and a repeat of the report lacks them.",
    peers: ["sidekiq#4361", "celery#3363", "bullmq#834"],
    file: "src/runtime/chunk/pending-report.ts",
    before: `    const result = await act(pending.map(({ report }) => report));
    const now = clock.monotonicMs();
    for (const [at, { run, report }] of pending.entries()) {
      const refused = result.refused?.filter((refusal) => refusal.report === at);
      run.markReported(report, result.reports[at] ?? "lost", now, refused);
    }
    return result;`,
    after: `    for (const { run, report } of pending) {
      run.markReported(report, "kept", clock.monotonicMs());
    }
    return await act(pending.map(({ report }) => report));`,
    also: [
      {
        file: RETRYING,
        before: '  "draw",\n]',
        after: '  "draw",\n  "work",\n]',
      },
      {
        file: "src/runtime/leasing/step-worker.ts",
        before: "await this.#commit(reports, request);",
        after: `try {
        await this.#commit(reports, request);
      } catch {
        await sleep(this.#parts.clock, 100);
      }`,
      },
    ],
  },
  {
    name: "lost-answer-taken-for-a-refusal",
    what: "A report whose answer was lost counts as refused: the worker drops the chunk and its work.",
    peers: ["celery#2952", "sqs-consumer#85"],
    file: "src/runtime/chunk/pending-report.ts",
    before: "const result = await act(pending.map(({ report }) => report));",
    after: `const result = await act(pending.map(({ report }) => report)).catch(
      (): WorkResult => ({ reports: [], leased: [], nextDueInMs: null, ended: [] }),
    );`,
    also: [
      {
        file: RETRYING,
        before: '  "draw",\n]',
        after: '  "draw",\n  "work",\n]',
      },
    ],
  },
  {
    name: "gives-up-after-one-refusal",
    what: "One temporary refusal of the store stops the worker.",
    peers: ["bullmq#36", "pg-boss#549"],
    file: RETRYING,
    before: "if (!mayTryAgain(error, errorClass, parts)) throw error;",
    after: "if (attempt >= 1 || !mayTryAgain(error, errorClass, parts)) throw error;",
  },
  {
    name: "report-shares-its-map",
    what: "A report on its way changes when later items end, without the notes that belong to them.",
    file: "src/runtime/chunk/chunk-run.ts",
    before: "outcomes: this.finished ? this.#outcomes : new Uint8Array(this.#outcomes),",
    after: "outcomes: this.#outcomes,",
  },
  {
    name: "chunk-answer-for-another-item",
    what: "The answers of a chunk's handler count from the chunk's start, not from its first unfinished item.",
    file: "src/runtime/running/chunk-call.ts",
    before: "noteAnswer(position, given, answers[at], listener);",
    after: "noteAnswer(at, given, answers[at], listener);",
  },
  {
    name: "manifest-of-another-chunk",
    what: "Chunks that are not adjacent are read as if they were, so handlers get items of other chunks.",
    file: "src/runtime/reading/batch-reader.ts",
    before: "if (last?.at(-1)?.chunk === chunk.chunk - 1) last.push(chunk);",
    after: "if (last !== undefined) last.push(chunk);",
  },
];
