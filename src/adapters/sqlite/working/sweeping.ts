/** How a sweep changes chunks of a file: one after the other. */
import { answered } from "../../sql/dialect/act.ts";
import { StepChanges } from "../../sql/step-changes.ts";
import type { OpenLeft } from "../../sql/working/left-chunks.ts";
import type { Chunks } from "../chunks/chunks.ts";
import type { Ledger } from "../ledger/ledger.ts";

export function composeOpenLeft(chunks: Chunks, ledger: Ledger): OpenLeft {
  return (_tx, rows) => {
    const changes = new StepChanges();
    return answered({
      stored: rows.map((row) => chunks.readStored(row)),
      note: (num, place, change) => ledger.write(num, place, change),
      apply: (row, effect) => chunks.apply(row, effect, changes),
      finish: () => answered(chunks.applyChanges(changes)),
    });
  };
}
