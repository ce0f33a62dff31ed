/** How a sweep changes chunks of a server: all at once. */
import { StepChanges } from "../../sql/step-changes.ts";
import type { OpenLeft } from "../../sql/working/left-chunks.ts";
import type { Chunks, HeldChunk } from "../chunks/chunks.ts";
import { ownOf } from "../connection/rules.ts";
import type { Ledger } from "../ledger/ledger.ts";

export function composeOpenLeft(chunks: Chunks, ledger: Ledger): OpenLeft {
  return function* openLeft(tx, rows) {
    const own = ownOf(tx);
    const changes = new StepChanges();
    const writes = chunks.begin();
    const links = ledger.begin();
    // None of them is in a run of leases: those were written out before.
    const alone = rows.map((row) => ({ row, run: null, worker: row.worker }));
    const held = (yield chunks.readItems(own, alone)) as readonly HeldChunk[];
    return {
      stored: held.map((chunk) => chunks.readStored(chunk)),
      note: (num, place, change) => links.note(num, place, change),
      apply: (_row, effect, at) => writes.apply(held[at] as HeldChunk, effect, changes),
      *finish() {
        yield writes.send(own);
        yield links.send(own);
        return (yield chunks.applyChanges(own, changes)) as number[];
      },
    };
  };
}
