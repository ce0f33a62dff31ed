/** What keeps a batch from running, with how many batches come before it. */
import type { BatchFacts } from "../../core/batch/why.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import type { Store } from "../../ports/store/store.ts";
import { describeHold } from "../../views/hold.ts";

export interface Hold {
  readonly text: string | null;
  readonly facts: BatchFacts | null;
}

export async function readHold(store: Store, batch: BatchSnapshot): Promise<Hold> {
  const facts = (await store.readWaiting(batch.id, 0))?.batch ?? null;
  return { text: describeHold(batch, facts?.ahead ?? null), facts };
}
