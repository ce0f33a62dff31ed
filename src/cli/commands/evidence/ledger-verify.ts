/** `sluice ledger verify`: whether an export is whole, who signed it, and whether all of it adds up. */
import type { Command } from "commander";
import {
  describeVerdict,
  isConclusive,
  isSignedToItsEnd,
  type Verdict,
} from "../../../ledger/verify/verdict.ts";
import { verifyExport } from "../../../ledger/verify/verify-export.ts";
import { collect } from "../../flags/act-flags.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import { readAnchors, readExport, readTrusted } from "../../evidence/ledger-file.ts";
import { readSubFlags } from "../../flags/sub-command.ts";

interface VerifyFlags extends CommonFlags {
  readonly key?: readonly string[];
  readonly anchors?: string;
  readonly conclusive?: boolean;
}

export function addVerifyCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("verify")
    .summary("check an export: chain, signatures, completeness")
    .description(
      "Checks an export with nothing but the file and the keys that you trust: its chain, its " +
        "signatures, and that every item of the plan is accounted for. Tells the first record that is " +
        "wrong. Exits with 0 when it is intact, with 1 when it is broken or, with --key, not signed to " +
        "its last record.",
    )
    .argument("<export>", "a file that `sluice ledger export` wrote")
    .option(
      "--key <key>",
      "a public key (PEM file) or a key's id that you trust; repeat it",
      collect,
    )
    .option("--anchors <file>", "checkpoints that were kept elsewhere, a line each")
    .option(
      "--conclusive",
      "also exit with 1 if the batch has not ended in it, or details are missing",
    )
    .action(async (file: string) => {
      cli.finish(await verify(cli, file, readSubFlags<VerifyFlags>(command)));
    });
  addExamples(command, [
    ["sluice ledger verify b-k3x.jsonl --key key.pem", "whose key you know"],
    ["sluice ledger verify b-k3x.jsonl --key 06e3fd8fda29bb60", "or its id"],
    [
      "sluice ledger verify b-k3x.jsonl --anchors anchors.jsonl",
      "is it older than what was anchored?",
    ],
  ]);
}

async function verify(cli: Cli, file: string, flags: VerifyFlags): Promise<number> {
  const anchors = flags.anchors === undefined ? [] : readAnchors(flags.anchors);
  const trusted = readTrusted(flags.key ?? []);
  const verdict = await verifyExport(readExport(file), { trusted, anchors });
  if (flags.json === true)
    cli.out.line(formatJson({ ...verdict, conclusive: isConclusive(verdict) }));
  else printVerdict(cli, verdict);
  return isGood(verdict, flags) ? EXIT.ok : EXIT.failed;
}

/** Who names a key wants to know whether all of it is that key's. */
function isGood(verdict: Verdict, { key = [], conclusive }: VerifyFlags): boolean {
  if (conclusive === true) return isConclusive(verdict);
  return key.length > 0 ? isSignedToItsEnd(verdict) : verdict.kind === "intact";
}

function printVerdict({ out }: Cli, verdict: Verdict): void {
  const [first = "", ...rest] = describeVerdict(verdict).map(makeInert);
  const { red, yellow, green } = out.colours;
  const isWhole = verdict.kind === "intact" && verdict.signedTo === verdict.records;
  const paint = verdict.kind === "broken" ? red : isWhole ? green : yellow;
  out.line(paint(first));
  for (const line of rest) out.line(line);
}
