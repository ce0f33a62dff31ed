/**
 * What happened, from an export alone: the batch's records, and of each item its states, failed
 * attempts and outcomes, in the order in which they were committed. It judges nothing: verify the
 * export first.
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
  /** `<seq>/<index>` for what a handler recorded, `<seq>` for what the engine says. */
  readonly record: string;
  readonly at: string;
  readonly step: number;
  readonly item: number;
  /** Null where it is not said: an outcome names items by number. */
  readonly key: string | null;
  /** What a handler recorded; or succeeded, skipped, failed, retried, redriven. */
  readonly state: string;
  /** Null where it is not said. */
  readonly attempt: number | null;
  readonly drive: number | null;
  /** Null when nobody had the item. */
  readonly worker: number | null;
  readonly code: string | null;
  readonly content: string | null;
}>;

/** What an item's record said beside its state, as far as it is not erased. */
type DetailsEntry = Unnamed<{
  readonly kind: "details";
  readonly record: string;
  readonly details: Json;
}>;

export type TimelineEntry = BatchEntry | ItemEntry | DetailsEntry;

/** Tells of every record, one after the other; no more than one block is held. */
export async function readTimeline(
  source: ByteSource,
  onEntry: (entry: TimelineEntry) => void,
): Promise<void> {
  /** What the last record says of items comes after the states of its block. */
  let told: ItemEntry[] = [];
  const tell = (): void => {
    for (const entry of told) onEntry(entry);
    told = [];
  };
  await walkExport(source, {
    onRecord: (record, _text, change) => {
      tell();
      const { seq, at, type, data } = record;
      onEntry({ kind: "batch", record: String(seq), at, type, data });
      if (change !== null) told = listTold(record, change);
    },
    onItem: (place, line) => onEntry(toItemEntry(nameItem(place), line)),
    onDetails: (place, { details }) =>
      onEntry({ kind: "details", record: nameItem(place), details }),
    onSignedHead: tell,
  });
  tell();
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

/** What a record of the chain says of items, one by one. */
function listTold({ seq, at }: ChainLine, change: ItemsChange): ItemEntry[] {
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
 * The histories of items that a caller picks by something that is said of them, by step and number;
 * each of them is held. The export is read twice: an item's key is not said with everything.
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
