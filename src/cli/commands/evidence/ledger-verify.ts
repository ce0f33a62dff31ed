/** `sluice ledger verify`: checks that an export is complete, signed and consistent. */
import type { Command } from "commander";
import {
  describeVerdict,
  isConclusive,
  isSignedToItsEnd,
  type Verdict,
} from "../../../ledger/verify/verdict.ts";
import { viewVerdict } from "../../../views/ledger.ts";
import { verifyExport } from "../../../ledger/verify/verify-export.ts";
import { collect } from "../../flags/act-flags.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import { ABOUT_TRUST, readAnchors, readExport, readTrusted } from "../../evidence/ledger-file.ts";
import { readSubFlags } from "../../flags/sub-command.ts";

interface VerifyFlags extends CommonFlags {
  readonly trust?: readonly string[];
  readonly anchors?: string;
  readonly conclusive?: boolean;
}

export function addVerifyCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("verify")
    .summary("check an export: chain, signatures, completeness")
    .description(
      "Check an export with only the file and the keys that you trust: its chain, its signatures, and " +
        "that every item of the plan is accounted for. Names the first record that is wrong. Exits with " +
        "0 if the export is intact, and with 1 if it is broken or, with --trust, not signed to its last " +
        "record.",
    )
    .argument("<export>", "file that `sluice ledger export` wrote")
    .option("--trust <key>", ABOUT_TRUST, collect)
    .option("--anchors <file>", "signed heads that were kept elsewhere, one per line")
    .option("--conclusive", "exit with 1 also if the batch has not ended or details are missing")
    .action(async (file: string) => {
      cli.finish(await verify(cli, file, readSubFlags<VerifyFlags>(command)));
    });
  addExamples(command, [
    ["sluice ledger verify b-k3x.jsonl --trust key.pem", "by a public key"],
    ["sluice ledger verify b-k3x.jsonl --trust 06e3fd8fda29bb60", "by a key id"],
    ["sluice ledger verify b-k3x.jsonl --anchors anchors.jsonl", "against anchors"],
  ]);
}

async function verify(cli: Cli, file: string, flags: VerifyFlags): Promise<number> {
  const anchors = flags.anchors === undefined ? [] : readAnchors(flags.anchors);
  const trusted = readTrusted(flags.trust ?? []);
  const verdict = await verifyExport(readExport(file), { trusted, anchors });
  if (flags.json === true) cli.out.line(formatJson(viewVerdict(verdict)));
  else printVerdict(cli, verdict);
  return isGood(verdict, flags) ? EXIT.ok : EXIT.failed;
}

/** With a trusted key, all of the export must be signed by it. */
function isGood(verdict: Verdict, { trust = [], conclusive }: VerifyFlags): boolean {
  if (conclusive === true) return isConclusive(verdict);
  return trust.length > 0 ? isSignedToItsEnd(verdict) : verdict.kind === "intact";
}

function printVerdict({ out }: Cli, verdict: Verdict): void {
  const [first = "", ...rest] = describeVerdict(verdict).map(makeInert);
  const { red, yellow, green } = out.colours;
  const isWhole = verdict.kind === "intact" && verdict.signedTo === verdict.records;
  const paint = verdict.kind === "broken" ? red : isWhole ? green : yellow;
  out.line(paint(first));
  for (const line of rest) out.line(line);
}
