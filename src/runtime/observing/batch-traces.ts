/** The spans of batches that this engine has submitted and that have not ended. */
import { SpanKind } from "@opentelemetry/api";
import type { Submission } from "../../ports/store/conductor-store.ts";
import { Trace } from "./tracing.ts";

/** More are ended early: a long-lived submitter must not keep them all. */
const OPEN_MAX = 10_000;

export class BatchTraces {
  readonly #open = new Map<string, Trace>();

  /**
   * The submission with its place in the caller's trace, and a function to call when it is
   * recorded.
   */
  begin(submission: Submission): { readonly submission: Submission; readonly trace: Trace | null } {
    const { id, pipeline, lane } = submission;
    const attributes = { "sluice.batch": id, "sluice.pipeline": pipeline, "sluice.lane": lane };
    const trace = Trace.start("sluice.batch", attributes, { kind: SpanKind.PRODUCER });
    const traceparent = trace?.traceparent ?? null;
    if (traceparent === null) return { submission, trace };
    return {
      submission: { ...submission, settings: { ...submission.settings, traceparent } },
      trace,
    };
  }

  /**
   * The batch of the span. If this process will not see its end, the span covers only the submit.
   */
  keep(batch: string, trace: Trace | null, isWorkedOn: boolean): void {
    if (trace === null) return;
    if (isWorkedOn && this.#open.size < OPEN_MAX) this.#open.set(batch, trace);
    else trace.end();
  }

  noteEnded(batches: readonly string[]): void {
    for (const batch of batches) {
      this.#open.get(batch)?.end();
      this.#open.delete(batch);
    }
  }

  /** Spans of batches that have not ended here end now. */
  close(): void {
    this.noteEnded([...this.#open.keys()]);
  }
}
