/** The content of a ledger's record in one line for people. */
import { ITEMS_RECORDED } from "../../core/batch/batch.ts";
import { readRanges } from "../../core/ledger/item-ledger.ts";
import type { BatchEntry } from "../../ledger/verify/timeline.ts";

export function describeRecord({ type, data }: Pick<BatchEntry, "type" | "data">): string {
  const said = type === ITEMS_RECORDED ? summarise(data) : data;
  return Object.entries(said)
    .map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ");
}

/** Only the numbers of items; `--item` shows single items. */
function summarise({ block: _block, ...data }: BatchEntry["data"]): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(data).map(([name, value]) => [name, COUNTED.has(name) ? count(value) : value]),
  );
}

const COUNTED = new Set(["succeeded", "skipped", "failed", "retried", "redriven"]);

function count(value: unknown): unknown {
  if (Array.isArray(value)) return value.length;
  if (typeof value !== "string") return value;
  let items = 0;
  for (const [first, last] of readRanges(value)) items += last - first + 1;
  return items;
}
