/**
 * What happened, from an export alone: the batch's records and each item's states in the order in
 * which they were committed. It judges nothing: verify the export first.
 */
import type { Json } from "../core/canonical-json.ts";
import type { ByteSource } from "./byte-lines.ts";
import { walkExport } from "./export-walk.ts";
import { readItemLine } from "./item-line.ts";
import type { JsonObject } from "./strict-json.ts";

export interface BatchEntry {
  readonly kind: "batch";
  /** `<seq>` */
  readonly record: string;
  readonly at: string;
  readonly type: string;
  readonly data: JsonObject;
}

export interface ItemEntry {
  readonly kind: "item";
  /** `<seq>/<index>` */
  readonly record: string;
  readonly at: string;
  readonly step: number;
  readonly item: number;
  readonly key: string | null;
  readonly state: string;
  readonly attempt: number;
  readonly drive: number;
  /** Null when the engine itself gave up on the item. */
  readonly worker: number | null;
  readonly code: string | null;
  readonly content: string | null;
}

/** What an item's record said beside its state, as far as it is not erased. */
export interface DetailsEntry {
  readonly kind: "details";
  readonly record: string;
  readonly details: Json;
}

export type TimelineEntry = BatchEntry | ItemEntry | DetailsEntry;

/** Tells of every record, one after the other; nothing is held. */
export async function readTimeline(
  source: ByteSource,
  onEntry: (entry: TimelineEntry) => void,
): Promise<void> {
  await walkExport(source, {
    onRecord: ({ seq, at, type, data }) =>
      onEntry({ kind: "batch", record: String(seq), at, type, data }),
    onItem: (seq, index, text) => {
      const entry = toItemEntry(`${seq}/${index}`, text);
      if (entry !== null) onEntry(entry);
    },
    onDetails: (seq, text) => {
      const { i, details } = JSON.parse(text) as { i: number; details: Json };
      onEntry({ kind: "details", record: `${seq}/${i}`, details });
    },
  });
}

function toItemEntry(record: string, text: string): ItemEntry | null {
  const read = readItemLine(text);
  if (read.kind === "refused") return null;
  const { at, step, item, state, attempt, drive, key, worker, code, content } = read.line;
  return {
    kind: "item",
    record,
    at,
    step,
    item,
    key: key ?? null,
    state,
    attempt,
    drive: drive ?? 1,
    worker: worker ?? null,
    code: code ?? null,
    content: content ?? null,
  };
}

/** One item's part of a timeline. */
export interface ItemHistory {
  readonly step: number;
  readonly item: number;
  readonly key: string | null;
  readonly entries: readonly (ItemEntry & { readonly details: Json | null })[];
}

/** The histories of items that a caller picks, by step and number; each of them is held. */
export async function readItemHistories(
  source: ByteSource,
  picks: (entry: ItemEntry) => boolean,
): Promise<ItemHistory[]> {
  const entries = new Map<string, ItemEntry & { details: Json | null }>();
  await readTimeline(source, (entry) => {
    if (entry.kind === "item" && picks(entry))
      entries.set(entry.record, { ...entry, details: null });
    const known = entry.kind === "details" ? entries.get(entry.record) : undefined;
    if (known !== undefined && entry.kind === "details") known.details = entry.details;
  });
  const byItem = Map.groupBy(entries.values(), ({ step, item }) => `${step}/${item}`);
  return [...byItem.values()]
    .map((all) => {
      const [{ step, item }] = all as [ItemEntry, ...unknown[]];
      const key = all.find((entry) => entry.key !== null)?.key ?? null;
      return { step, item, key, entries: all };
    })
    .toSorted((a, b) => a.step - b.step || a.item - b.item);
}
