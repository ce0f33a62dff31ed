/** `sluice gc`: removes what is older than it has to be kept. */
import type { Command } from "commander";
import { isEnded } from "../../../core/batch/batch.ts";
import { SluiceError } from "../../../core/base/errors.ts";
import { computeAges, type RetentionAges } from "../../../core/batch/retention.ts";
import type { PruneResult } from "../../../ports/store/operating.ts";
import { Operator } from "../../../runtime/engine/operator.ts";
import {
  findRetentionProblem,
  type RetentionPolicy,
} from "../../../runtime/conducting/retention.ts";
import { DEFAULT_SETTINGS } from "../../../runtime/system/settings.ts";
import { type ActFlags, addYesFlag } from "../../flags/act-flags.ts";
import { findBatch } from "../../flags/batch-id.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { Config } from "../../config/config.ts";
import { confirmAct } from "../../output/confirm.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatDuration } from "../../output/format-duration.ts";
import { countNoun } from "../../output/format-number.ts";
import { formatJson } from "../../output/inert-text.ts";
import { parseDuration } from "../../config/parse-duration.ts";
import { type StoreLook, withStore } from "../../session/with-store.ts";

interface GcFlags extends ActFlags {
  readonly keep?: string;
  readonly keepEvidence?: string;
  readonly batch?: string;
  readonly dryRun?: boolean;
}

const FOREVER = "forever";

export function addGcCommand(program: Command, cli: Cli): void {
  const command = program
    .command("gc")
    .summary("remove what is older than it has to be kept")
    .description(
      "Removes what a redrive would need from batches that ended long ago, and with --keep-evidence whole " +
        "batches with all that is known of them. Batches whose pipeline has ages of its own go by " +
        "those, unless one is named. Never touches an unfinished batch, nor one of which a subscriber " +
        "has not been told yet.",
    )
    .option("--keep <age>", "how long an ended batch can be redriven (default: keepMs, 30d)")
    .option(
      "--keep-evidence <age>",
      `how long it is known at all, or ${FOREVER} (default: keepEvidenceMs, ${FOREVER})`,
    )
    .option("--batch <batch>", "only this batch, if it is old enough")
    .option("--dry-run", "only say what would go");
  addYesFlag(command).action(async () => {
    cli.finish(await gc(cli, command.optsWithGlobals<GcFlags>()));
  });
  addExamples(command, [
    ["sluice gc --dry-run", "what would go"],
    ["sluice gc --keep 7d --keep-evidence 365d --yes", "for cron"],
    ["sluice gc --batch b-k3x --keep 0s", "one batch, whatever its age"],
  ]);
}

function gc(cli: Cli, flags: GcFlags): Promise<number> {
  const given = readAges(flags);
  return withStore(cli, flags, [], async (parts) => {
    const policy = await readPolicy(parts, given, flags);
    const operator = new Operator(parts.store, cli.clock);
    const planned = await operator.prune({ ...policy, dryRun: true });
    const isDry = flags.dryRun === true;
    const hasWork = planned.scratched + planned.removed + planned.messages > 0;
    if (!isDry && hasWork) await confirmAct(cli, flags, describeQuestion(planned));
    const result = isDry || !hasWork ? planned : await operator.prune(policy);
    if (flags.json === true) {
      const { scratched, removed, messages, owed } = result;
      const { keepMs, keepEvidenceMs } = policy;
      const ages = { keepMs, keepEvidenceMs: keepEvidenceMs === 0 ? null : keepEvidenceMs };
      cli.out.line(formatJson({ dryRun: isDry, scratched, removed, messages, owed, ...ages }));
    } else printResult(cli, result, policy, isDry);
    return EXIT.ok;
  });
}

/** Found to be wrong before the store is opened. */
function readAges({ keep, keepEvidence }: GcFlags): RetentionAges {
  return {
    ...(keep === undefined ? {} : { keepMs: parseDuration("--keep", keep) }),
    ...(keepEvidence === undefined ? {} : { keepEvidenceMs: readEvidenceAge(keepEvidence) }),
  };
}

/** 0 is for ever in a policy, and would be the opposite on a command line. */
function readEvidenceAge(text: string): number {
  if (text === FOREVER) return 0;
  return Math.max(1, parseDuration("--keep-evidence", text));
}

async function readPolicy(
  { store, config }: StoreLook,
  given: RetentionAges,
  { batch: id }: GcFlags,
): Promise<RetentionPolicy> {
  const configured = readConfigured(config);
  if (id === undefined) return checkPolicy({ ...configured, ...given });
  const batch = await findBatch(store, id);
  // What its pipeline promised for it is not broken by a default: somebody has to say so.
  const own = computeAges(configured, batch.settings.retention ?? {});
  const policy = checkPolicy({ ...own, ...given, batch: batch.id });
  if (isEnded(batch.state)) return policy;
  throw new SluiceError("BATCH_UNFINISHED", `batch ${batch.id} is ${batch.state}`, {
    hint: "Nothing of an unfinished batch is ever removed. To end it: sluice cancel.",
  });
}

function checkPolicy(policy: RetentionPolicy): RetentionPolicy {
  const problem = findRetentionProblem(policy);
  if (problem === null) return policy;
  throw new SluiceError("BAD_RETENTION", problem, {
    hint: "Give --keep-evidence an age that is not below --keep, or forever.",
  });
}

function readConfigured({ engine }: Config): Required<RetentionAges> {
  const { keepMs, keepEvidenceMs } = { ...DEFAULT_SETTINGS, ...engine };
  return { keepMs, keepEvidenceMs };
}

function describeQuestion({ scratched, removed, messages }: PruneResult): string {
  const parts = [
    ...(scratched > 0 ? [`what a redrive of ${nameBatches(scratched)} needs`] : []),
    ...(removed > 0 ? [`${nameBatches(removed)} with all evidence`] : []),
    ...(messages > 0 ? [nameMessages(messages)] : []),
  ];
  return `Remove ${parts.join(", and ")}?`;
}

function nameBatches(count: number): string {
  return countNoun(count, "batch", "batches");
}

function nameMessages(count: number): string {
  return `${countNoun(count, "message", "messages")} of topics`;
}

function printResult(
  { out }: Cli,
  { scratched, removed, messages, owed }: PruneResult,
  { keepMs, keepEvidenceMs, batch }: RetentionPolicy,
  isDry: boolean,
): void {
  const verb = isDry ? "would be removed" : "removed";
  const since = (ms: number): string => `ended more than ${formatDuration(ms)} ago`;
  const evidence = keepEvidenceMs === 0 ? "evidence is kept for ever" : since(keepEvidenceMs);
  const other = batch === undefined ? ", or as its pipeline says" : "";
  out.line(
    `${verb}: what a redrive needs, of ${nameBatches(scratched)} (${since(keepMs)}${other})`,
  );
  out.line(`${verb}: ${nameBatches(removed)} with all evidence (${evidence}${other})`);
  if (messages > 0)
    out.line(`${verb}: ${nameMessages(messages)} that all groups have acknowledged`);
  if (owed > 0) {
    out.line(`owed: ${nameBatches(owed)} old enough to go, of which a subscriber was not told yet`);
  }
}
