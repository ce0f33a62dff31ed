/** `sluice ledger show`: what happened, as a timeline that a person can read. */
import { type Command, Option } from "commander";
import { SluiceError } from "../../../core/base/errors.ts";
import type { BatchEntry } from "../../../ledger/verify/timeline.ts";
import { readItemHistories, readTimeline } from "../../../ledger/verify/timeline.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatJson } from "../../output/inert-text.ts";
import { type OpenLedger, withLedger } from "../../evidence/ledger-file.ts";
import { readItem } from "../../flags/letter-flags.ts";
import { renderHistory, renderRecords } from "../../render/timeline.ts";
import { readSubFlags } from "../../flags/sub-command.ts";

interface ShowFlags extends CommonFlags {
  readonly item?: string;
  readonly itemKey?: string;
}

export function addLedgerShowCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("show")
    .summary("show the records of a batch, or the history of one item")
    .description(
      "Show what happened to a batch, record by record, or to one item: its states, failed attempts and " +
        "outcome, when, and by which worker. It checks nothing: `sluice ledger verify` does.",
    )
    .argument("<ledger>", "batch id, or an export")
    .addOption(
      new Option("--item <n>", "only this item, by its number from 0").conflicts("itemKey"),
    )
    .option("--item-key <key>", "only the item with this key")
    .action(async (where: string) => {
      const flags = readSubFlags<ShowFlags>(command);
      if (flags.item !== undefined) readItem(flags.item);
      cli.finish(
        await withLedger(cli, where, flags, (open) =>
          flags.item === undefined && flags.itemKey === undefined
            ? showBatch(cli, open, flags)
            : showItem(cli, open, flags),
        ),
      );
    });
  addExamples(command, [
    ["sluice ledger show b-k3x", "a batch"],
    ["sluice ledger show b-k3x --item-key invoice-17", "one item"],
    ["sluice ledger show b-k3x.jsonl --json", "an export, one JSON object per line"],
  ]);
}

async function showBatch(cli: Cli, open: OpenLedger, flags: ShowFlags): Promise<number> {
  const entries: BatchEntry[] = [];
  await readTimeline(open(), (entry) => {
    if (flags.json === true) cli.out.line(formatJson(entry));
    else if (entry.kind === "batch") entries.push(entry);
  });
  if (flags.json === true) return EXIT.ok;
  for (const line of renderRecords(entries, cli.out)) cli.out.line(line);
  return EXIT.ok;
}

async function showItem(cli: Cli, open: OpenLedger, flags: ShowFlags): Promise<number> {
  const { item, itemKey } = flags;
  const histories = await readItemHistories(open, (one) =>
    itemKey === undefined ? one.item === Number(item) : one.key === itemKey,
  );
  if (histories.length === 0) {
    const wanted = itemKey === undefined ? item : `with the key ${itemKey}`;
    throw new SluiceError("NOT_FOUND", `the ledger has no item ${wanted}`, {
      kind: "item",
      hint: "Only batches with a ledger of items know their items.",
    });
  }
  for (const history of histories) {
    if (flags.json === true) cli.out.line(formatJson(history));
    else for (const line of renderHistory(history, cli.out)) cli.out.line(line);
  }
  return EXIT.ok;
}
