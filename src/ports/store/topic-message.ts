/** A message of a topic as a program sees it. */
import type { Json } from "../../core/base/canonical-json.ts";

export interface TopicMessage {
  /** The same for every delivery: `<batch>/<step>/<item>/<drive>/<n>`. */
  readonly id: string;
  readonly topic: string;
  /** Rises within the topic, with gaps. Acknowledging a message acknowledges all before it. */
  readonly position: number;
  readonly batch: string;
  /** When it was written: UTC, ISO 8601. */
  readonly at: string;
  /** The trace in which it was emitted, as a W3C header; absent without tracing. */
  readonly traceparent?: string;
  /** The data that was emitted. */
  readonly data: Json;
}
