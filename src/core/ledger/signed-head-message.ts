/** A signed head is also published as a message, for consumers that anchor it elsewhere. */
import { canonicalize } from "../base/canonical-json.ts";
import type { NewMessage } from "../events/topic.ts";

export const SIGNED_HEADS_TOPIC = "ledger.heads";

/** What was signed, and up to which record. */
interface SignedHeadBody {
  readonly size: number;
  readonly body: string;
  readonly signature: string;
}

/** The body is the line that an export contains for the signed head. */
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
