/**
 * The timeline from an export alone: the batch's records, and for each item its states, failed
 * attempts and outcomes, in the order of their commits. It verifies nothing: verify the export
 * first.
 */
import type { Json } from "../../core/base/canonical-json.ts";
import type { Unnamed } from "../../core/base/unnamed.ts";
import type { ByteSource } from "../format/byte-lines.ts";
import type { ChainLine } from "../format/chain-line.ts";
import { type ItemPlace, walkExport } from "./export-walk.ts";
import type { ItemLine } from "../format/item-line.ts";
import type { BadTry, ItemsChange, Range } from "../format/items-change.ts";
import type { JsonObject } from "../format/strict-json.ts";

export type BatchEntry = Unnamed<{
  readonly kind: "batch";
  /** `<seq>` */
  readonly record: string;
  readonly at: string;
  readonly type: string;
  readonly data: JsonObject;
}>;

type ItemEntry = Unnamed<{
  readonly kind: "item";
  /** `<seq>/<index>` for a state that a handler recorded, `<seq>` for the engine's own. */
  readonly record: string;
  readonly at: string;
  readonly step: number;
  readonly item: number;
  /** Null when unknown: an outcome lists items by number only. */
  readonly key: string | null;
  /** A state that a handler recorded; or succeeded, skipped, failed, retried, redriven. */
  readonly state: string;
  /** Null when unknown. */
  readonly attempt: number | null;
  readonly drive: number | null;
  /** Null when no worker held the item. */
  readonly worker: number | null;
  readonly code: string | null;
  readonly content: string | null;
}>;

/** The details that a handler recorded with the state, unless erased. */
type DetailsEntry = Unnamed<{
  readonly kind: "details";
  readonly record: string;
  readonly details: Json;
}>;

export type TimelineEntry = BatchEntry | ItemEntry | DetailsEntry;

/** Yields every record, one after the other; only one block is in memory. */
export async function readTimeline(
  source: ByteSource,
  onEntry: (entry: TimelineEntry) => void,
): Promise<void> {
  /** The item changes of the last record come after the states of its block. */
  let changes: ItemEntry[] = [];
  const flush = (): void => {
    for (const entry of changes) onEntry(entry);
    changes = [];
  };
  await walkExport(source, {
    onRecord: (record, _text, change) => {
      flush();
      const { seq, at, type, data } = record;
      onEntry({ kind: "batch", record: String(seq), at, type, data });
      if (change !== null) changes = listChanges(record, change);
    },
    onItem: (place, line) => onEntry(toItemEntry(nameItem(place), line)),
    onDetails: (place, { details }) =>
      onEntry({ kind: "details", record: nameItem(place), details }),
    onSignedHead: flush,
  });
  flush();
}

function nameItem({ seq, index }: ItemPlace): string {
  return `${seq}/${index}`;
}

function toItemEntry(record: string, line: ItemLine): ItemEntry {
  const { at, step, item, state, attempt, drive = 1, key = null, worker, content = null } = line;
  return {
    kind: "item",
    record,
    at,
    step,
    item,
    key,
    state,
    attempt,
    drive,
    worker,
    code: null,
    content,
  };
}

/** The item changes of a record of the chain, one by one. */
function listChanges({ seq, at }: ChainLine, change: ItemsChange): ItemEntry[] {
  const { step, worker, drive } = change;
  const common = { kind: "item", record: String(seq), at, step, worker, content: null } as const;
  const ofTry = (state: string, one: BadTry): ItemEntry => {
    const { item, key, attempts: attempt, code, drive: of = 1 } = one;
    return { ...common, item, key, state, attempt, drive: of, code };
  };
  const ofRanges = (state: string, ranges: readonly Range[]): ItemEntry[] =>
    ranges.flatMap(([first, last]) =>
      Array.from({ length: last - first + 1 }, (_, nth): ItemEntry => {
        const item = first + nth;
        return { ...common, item, key: null, state, attempt: null, drive, code: null };
      }),
    );
  return [
    ...change.retried.map((one) => ofTry("retried", one)),
    ...ofRanges("succeeded", change.succeeded),
    ...ofRanges("skipped", change.skipped),
    ...change.failed.map((one) => ofTry("failed", one)),
    ...ofRanges("redriven", change.redriven),
  ];
}

/** One item's part of a timeline. */
export interface ItemHistory {
  readonly step: number;
  readonly item: number;
  readonly key: string | null;
  readonly entries: readonly (ItemEntry & { readonly details: Json | null })[];
}

/**
 * The histories of the selected items, by step and number; all of them are in memory. The export is
 * read twice, because not every record contains the item's key.
 */
export async function readItemHistories(
  open: () => ByteSource,
  picks: (entry: ItemEntry) => boolean,
): Promise<ItemHistory[]> {
  const name = ({ step, item }: ItemEntry): string => `${step}/${item}`;
  const picked = new Map<string, (ItemEntry & { details: Json | null })[]>();
  await readTimeline(open(), (entry) => {
    if (entry.kind === "item" && picks(entry)) picked.set(name(entry), []);
  });
  const records = new Map<string, { details: Json | null }>();
  await readTimeline(open(), (entry) => {
    if (entry.kind === "details") {
      const known = records.get(entry.record);
      if (known !== undefined) known.details = entry.details;
    } else if (entry.kind === "item") {
      const one = { ...entry, details: null };
      picked.get(name(entry))?.push(one);
      if (picked.has(name(entry)) && entry.record.includes("/")) records.set(entry.record, one);
    }
  });
  return [...picked.values()]
    .map((entries) => {
      const [{ step, item }] = entries as [ItemEntry, ...unknown[]];
      const key = entries.find((entry) => entry.key !== null)?.key ?? null;
      return { step, item, key, entries };
    })
    .toSorted((a, b) => a.step - b.step || a.item - b.item);
}
