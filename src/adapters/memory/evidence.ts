/** Signed heads of chains, the keys that signed them, and erasing, on the reference model. */
import { describeAct } from "../../core/batch/batch.ts";
import { SIGNED_HEADS_TOPIC, describeSignedHead } from "../../core/ledger/signed-head-message.ts";
import type { LedgerStore } from "../../ports/store/ledger-store.ts";
import type { Ledger } from "./ledger.ts";
import type { RecordLog } from "./records.ts";
import type { Batch, State } from "./state.ts";
import type { Topics } from "./topics.ts";

export interface EvidenceParts {
  readonly state: State;
  readonly records: RecordLog;
  readonly ledger: Ledger;
  readonly topics: Topics;
  /** Throws for an unknown batch. */
  readonly find: (id: string) => Batch;
  readonly act: <T>(change: () => T) => Promise<T>;
}

export function composeEvidence(parts: EvidenceParts): LedgerStore {
  const { state, records, ledger, topics } = parts;
  const find = (id: string): Batch => parts.find(id);
  const act = <T>(change: () => T): Promise<T> => parts.act(change);
  return {
    readLedger: async (id, after, limit) => ledger.read(id, after, limit),
    findSignedHead: async (id) => state.batches.get(id)?.signedHeads.at(-1) ?? null,
    readSignedHeads: async (id) => [...(state.batches.get(id)?.signedHeads ?? [])],
    addSignedHead: (id, signedHead, afterSize) =>
      act(() => {
        const { signedHeads } = find(id);
        if ((signedHeads.at(-1)?.size ?? 0) !== afterSize) return false;
        signedHeads.push(signedHead);
        if (topics.hasGroups(SIGNED_HEADS_TOPIC)) topics.add([describeSignedHead(id, signedHead)]);
        return true;
      }),
    readKeys: async () => [...state.keys.values()],
    addKey: (key) =>
      act(() => {
        if (!state.keys.has(key.id)) state.keys.set(key.id, key);
      }),
    eraseDetails: (id, kept, by) =>
      act(() => {
        const batch = find(id);
        let count = 0;
        for (const { seq, was, details, records: erased } of kept) {
          const link = batch.links.find((one) => one.seq === seq);
          if (link?.block?.details !== was) continue;
          link.block = { ...link.block, details };
          count += erased;
        }
        if (count === 0) return 0;
        records.record(batch, {
          type: "details.erased",
          data: { records: count, ...describeAct(by) },
        });
        return count;
      }),
  };
}
