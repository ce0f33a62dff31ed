/** `sluice ledger show`: what happened, as a timeline that a person can read. */
import type { Command } from "commander";
import { SluiceError } from "../../../core/base/errors.ts";
import type { BatchEntry, ItemEntry, ItemHistory } from "../../../ledger/verify/timeline.ts";
import { readItemHistories, readTimeline } from "../../../ledger/verify/timeline.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import { type OpenLedger, withLedger } from "../../evidence/ledger-file.ts";
import type { Screen } from "../../output/screen.ts";
import { describeRecord } from "../../render/record-words.ts";
import { readSubFlags } from "../../flags/sub-command.ts";
import { renderTable } from "../../output/table.ts";

interface ShowFlags extends CommonFlags {
  readonly item?: string;
}

export function addLedgerShowCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("show")
    .summary("show a batch's timeline, or that of one item")
    .description(
      "Shows what happened to a batch, record by record; with --item what happened to one item: the " +
        "states that it came to, its failed attempts and its outcome, when, and by which worker. It " +
        "judges nothing: `sluice ledger verify` does.",
    )
    .argument("<ledger>", "a batch's id, or an export")
    .option("--item <key>", "only this item: its key, or its number")
    .action(async (where: string) => {
      const flags = readSubFlags<ShowFlags>(command);
      cli.finish(
        await withLedger(cli, where, flags, (open) =>
          flags.item === undefined
            ? showBatch(cli, open, flags)
            : showItem(cli, open, flags.item, flags),
        ),
      );
    });
  addExamples(command, [
    ["sluice ledger show b-k3x", "the batch"],
    ["sluice ledger show b-k3x --item invoice-17", "one item"],
    ["sluice ledger show b-k3x.jsonl --json", "of an export, a JSON object a line"],
  ]);
}

async function showBatch(cli: Cli, open: OpenLedger, flags: ShowFlags): Promise<number> {
  const entries: BatchEntry[] = [];
  await readTimeline(open(), (entry) => {
    if (flags.json === true) cli.out.line(formatJson(entry));
    else if (entry.kind === "batch") entries.push(entry);
  });
  if (flags.json === true) return EXIT.ok;
  const columns = [
    { title: "RECORD", align: "right" as const },
    { title: "TIME" },
    { title: "WHAT" },
    { title: "DETAILS", elastic: true },
  ];
  const rows = entries.map(({ record, at, type, data }) => [
    record,
    at,
    makeInert(type),
    makeInert(describeRecord({ type, data })),
  ]);
  for (const line of renderTable(columns, rows, cli.out)) cli.out.line(line);
  return EXIT.ok;
}

async function showItem(
  cli: Cli,
  open: OpenLedger,
  wanted: string,
  flags: ShowFlags,
): Promise<number> {
  const histories = await findItem(open, wanted);
  if (histories.length === 0) {
    throw new SluiceError("UNKNOWN_ITEM", `the ledger says nothing of an item ${wanted}`, {
      hint: "Items are known by their key or their number, in batches that keep a ledger of items.",
    });
  }
  for (const history of histories) {
    if (flags.json === true) cli.out.line(formatJson(history));
    else printHistory(cli.out, history);
  }
  return EXIT.ok;
}

/** By its key; by its number where no item has such a key. */
async function findItem(open: OpenLedger, wanted: string): Promise<ItemHistory[]> {
  const byKey = await readItemHistories(open, ({ key }) => key === wanted);
  if (byKey.length > 0 || !/^\d+$/.test(wanted)) return byKey;
  return readItemHistories(open, ({ item }) => item === Number(wanted));
}

function printHistory(out: Screen, { step, item, key, entries }: ItemHistory): void {
  const name = key === null ? `item ${item}` : `item ${item} (${makeInert(key)})`;
  out.line(out.colours.bold(`${name} of step ${step}`));
  const columns = [
    { title: "TIME" },
    { title: "STATE" },
    { title: "ATTEMPT", align: "right" as const },
    { title: "WORKER", align: "right" as const },
    { title: "RECORD", align: "right" as const },
    { title: "DETAILS", elastic: true },
  ];
  const rows = entries.map((entry) => [
    entry.at,
    makeInert(entry.state),
    entry.attempt === null ? "" : String(entry.attempt),
    entry.worker === null ? "" : String(entry.worker),
    entry.record,
    makeInert(describeEntry(entry)),
  ]);
  for (const line of renderTable(columns, rows, out)) out.line(line);
}

function describeEntry(entry: ItemEntry & { readonly details: unknown }): string {
  const { code, details, drive } = entry;
  return [
    ...(code === null ? [] : [code]),
    ...(drive === null || drive === 1 ? [] : [`drive ${drive}`]),
    ...(details === null ? [] : [JSON.stringify(details)]),
  ].join(", ");
}
