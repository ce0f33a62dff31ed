/** The span of one delivery of messages, linked to the spans that emitted them. */
import { ROOT_CONTEXT, SpanKind } from "@opentelemetry/api";
import type { TopicMessage } from "../../ports/store/topic-message.ts";
import { Trace } from "./tracing.ts";

/** Links of one span; a delivery may have ten thousand messages. */
const LINKS_MAX = 128;

export async function traceConsume(
  messages: readonly TopicMessage[],
  call: () => unknown,
): Promise<unknown> {
  const [first] = messages;
  const links = messages
    .slice(0, LINKS_MAX)
    .flatMap(({ traceparent }) => (traceparent === undefined ? [] : [traceparent]));
  const attributes = {
    "messaging.destination.name": first?.topic ?? "",
    "messaging.batch.message_count": messages.length,
    "sluice.batch": first?.batch ?? "",
  };
  // Its own trace: a consumer may run days after the trace that emitted.
  const options = { parent: ROOT_CONTEXT, kind: SpanKind.CONSUMER, links };
  const trace = Trace.start("sluice.consume", attributes, options);
  if (trace === null) return call();
  try {
    const result = await trace.run(call);
    trace.end();
    return result;
  } catch (error) {
    trace.end(error);
    throw error;
  }
}
