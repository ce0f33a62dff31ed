/** A signed head is also a message where somebody listens: whoever anchors them elsewhere. */
import { canonicalize } from "../base/canonical-json.ts";
import type { NewMessage } from "../events/topic.ts";

export const SIGNED_HEADS_TOPIC = "ledger.heads";

/** What was signed, and how far it reaches. */
interface SignedHeadBody {
  readonly size: number;
  readonly body: string;
  readonly signature: string;
}

/** Its body is the line that an export has for the signed head. */
export function describeSignedHead(batch: string, signedHead: SignedHeadBody): NewMessage {
  const { size, body, signature } = signedHead;
  return {
    topic: SIGNED_HEADS_TOPIC,
    id: `${batch}/head/${size}`,
    batch,
    body: canonicalize({ head: body, signature }),
    traceparent: null,
  };
}
