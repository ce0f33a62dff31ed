/** A checkpoint is also a message where somebody listens: whoever anchors them elsewhere. */
import { canonicalize } from "../base/canonical-json.ts";
import type { NewMessage } from "../events/topic.ts";

export const SIGNED_HEADS_TOPIC = "ledger.checkpoints";

/** What was signed, and how far it reaches. */
interface SignedCheckpoint {
  readonly size: number;
  readonly body: string;
  readonly signature: string;
}

/** Its body is the line that an export has for the checkpoint. */
export function describeSignedHead(batch: string, checkpoint: SignedCheckpoint): NewMessage {
  const { size, body, signature } = checkpoint;
  return {
    topic: SIGNED_HEADS_TOPIC,
    id: `${batch}/checkpoint/${size}`,
    batch,
    body: canonicalize({ checkpoint: body, signature }),
    traceparent: null,
  };
}
