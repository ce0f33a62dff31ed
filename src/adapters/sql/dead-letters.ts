/** Reads the row of a dead letter as a value, for both SQL stores. */
import type { Act } from "../../core/batch/batch.ts";
import type { ErrorClass } from "../../core/base/errors.ts";
import type { DeadLetter } from "../../ports/store/query-store.ts";
import type { ItemRow } from "./rows.ts";

export type DeadLetterRow = ItemRow & {
  readonly step: number;
  readonly failed_at: number;
  readonly discarded_by: string | null;
  readonly discarded_why: string | null;
  readonly edited: number;
};

export function toDeadLetter(row: DeadLetterRow): DeadLetter {
  const { step, item, key, attempts, deaths, drive } = row;
  const discarded: Act | null =
    row.discarded_by === null ? null : { by: row.discarded_by, why: row.discarded_why };
  return {
    step,
    item,
    key,
    attempts,
    deaths,
    errorClass: row.error_class as ErrorClass,
    code: row.code ?? "",
    message: row.message ?? "",
    failedAt: row.failed_at,
    drive,
    discarded,
    edited: row.edited === 1,
  };
}
