/** The ledger of a batch record by record, and the history of one item. */
import type { BatchEntry, ItemHistory } from "../../ledger/verify/timeline.ts";
import { makeInert } from "../output/inert-text.ts";
import type { Screen } from "../output/screen.ts";
import { type Column, renderTable } from "../output/table.ts";
import { describeRecord } from "./record-words.ts";

const RECORDS: readonly Column<BatchEntry>[] = [
  { title: "RECORD", value: ({ record }) => record, align: "right" },
  { title: "TIME", value: ({ at }) => at },
  { title: "WHAT", value: ({ type }) => type },
  { title: "DETAILS", value: describeRecord, elastic: true },
];

export function renderRecords(entries: readonly BatchEntry[], screen: Screen): string[] {
  return renderTable(RECORDS, entries, screen);
}

type HistoryEntry = ItemHistory["entries"][number];

const HISTORY: readonly Column<HistoryEntry>[] = [
  { title: "TIME", value: ({ at }) => at },
  { title: "STATE", value: ({ state }) => state },
  { title: "ATTEMPT", value: ({ attempt }) => attempt ?? "", align: "right" },
  { title: "WORKER", value: ({ worker }) => String(worker ?? ""), align: "right" },
  { title: "RECORD", value: ({ record }) => record, align: "right" },
  { title: "DETAILS", value: describeEntry, elastic: true },
];

export function renderHistory({ step, item, key, entries }: ItemHistory, screen: Screen): string[] {
  const name = key === null ? `item ${item}` : `item ${item} (${makeInert(key)})`;
  return [screen.colours.bold(`${name} of step ${step}`), ...renderTable(HISTORY, entries, screen)];
}

function describeEntry({ code, details, drive }: HistoryEntry): string {
  return [
    ...(code === null ? [] : [code]),
    ...(drive === null || drive === 1 ? [] : [`drive ${drive}`]),
    ...(details === null ? [] : [JSON.stringify(details)]),
  ].join(", ");
}
