/**
 * OpenTelemetry spans for batches, chunks, items and consumed messages. Without an SDK nothing is
 * recorded: a chunk costs one call that does nothing, and an item one comparison.
 *
 *   sluice.batch                 from the submit until the batch has ended, or its submitter closes
 *     sluice.chunk               each lease of a chunk, in any process
 *       sluice.item              each attempt at an item; `sluice.items` where one call takes
 *       several
 *   sluice.consume               a delivery of messages, linked to the spans that emitted them
 */
import {
  type Attributes,
  type Context,
  context,
  type Link,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { describeError } from "../../core/base/errors.ts";
import { readTraceparent, writeTraceparent } from "../../core/base/trace-parent.ts";

const TRACER = "sluice";

/** A recorded span, and the code that runs inside of it. */
export class Trace {
  readonly #span: Span;
  readonly #context: Context;

  private constructor(span: Span, parent: Context) {
    this.#span = span;
    this.#context = trace.setSpan(parent, span);
  }

  /** Null when it is not recorded. */
  static start(
    name: string,
    attributes: Attributes,
    { parent = context.active(), kind = SpanKind.INTERNAL, links = [] as readonly string[] } = {},
  ): Trace | null {
    const span = trace
      .getTracer(TRACER)
      .startSpan(name, { kind, attributes, links: links.flatMap(readLink) }, parent);
    return span.isRecording() ? new Trace(span, parent) : null;
  }

  /** A span within this one. */
  startInner(name: string, attributes: Attributes): Trace | null {
    return Trace.start(name, attributes, { parent: this.#context });
  }

  /** The span's place as a text that travels. */
  get traceparent(): string | null {
    return writeTraceparent(this.#span.spanContext());
  }

  run<T>(act: () => T): T {
    return context.with(this.#context, act);
  }

  set(attributes: Attributes): void {
    this.#span.setAttributes(attributes);
  }

  /**
   * With the code of the error, and not its message, which may contain a secret that only the
   * caller knows.
   */
  end(error?: unknown): void {
    if (error !== undefined) {
      const { code } = describeError(error);
      this.#span.setAttribute("error.type", code);
      this.#span.setStatus({ code: SpanStatusCode.ERROR, message: code });
    }
    this.#span.end();
  }
}

/** A context whose current span is in another process; the root context where there is none. */
export function readParent(traceparent: string | null | undefined): Context {
  const place = traceparent ? readTraceparent(traceparent) : null;
  return place === null
    ? ROOT_CONTEXT
    : trace.setSpanContext(ROOT_CONTEXT, { ...place, isRemote: true });
}

function readLink(traceparent: string): Link[] {
  const place = readTraceparent(traceparent);
  return place === null ? [] : [{ context: { ...place, isRemote: true } }];
}
