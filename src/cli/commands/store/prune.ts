/** `sluice prune`: deletes expired batches and messages. */
import type { Command } from "commander";
import { isEnded } from "../../../core/batch/batch.ts";
import { SluiceError } from "../../../core/base/errors.ts";
import { computeAges, type RetentionAges } from "../../../core/batch/retention.ts";
import type { PruneResult } from "../../../ports/store/operator-store.ts";
import { Operator } from "../../../runtime/engine/operator.ts";
import {
  findRetentionProblem,
  type RetentionPolicy,
} from "../../../runtime/conducting/retention.ts";
import { DEFAULT_SETTINGS } from "../../../runtime/system/settings.ts";
import { type ActFlags, addYesFlag } from "../../flags/act-flags.ts";
import { viewPruned } from "../../../views/act.ts";
import { ABOUT_BATCH, findBatch } from "../../flags/batch-id.ts";
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

interface PruneFlags extends ActFlags {
  readonly keep?: string;
  readonly keepEvidence?: string;
  readonly dryRun?: boolean;
}

const FOREVER = "forever";

export function addPruneCommand(program: Command, cli: Cli): void {
  const command = program
    .command("prune")
    .summary("delete expired batches and messages")
    .description(
      "Delete what a redrive would need from batches that ended long ago, with --keep-evidence whole " +
        "batches, and messages that all groups have acknowledged. A pipeline's own ages take precedence, " +
        "unless you name a batch. Never touches an unfinished batch, nor one with events that a subscriber " +
        "has not received. Asks for confirmation.",
    )
    .argument("[batch]", `only this batch, if it is old enough: ${ABOUT_BATCH}`)
    .option("--keep <duration>", "how long ended batches can be redriven (default: keepMs, 30d)")
    .option(
      "--keep-evidence <duration>",
      `how long ended batches are kept, or ${FOREVER} (default: keepEvidenceMs, ${FOREVER})`,
    )
    .option("--dry-run", "show what would be done, and change nothing");
  addYesFlag(command).action(async (id: string | undefined) => {
    cli.finish(await prune(cli, id, command.optsWithGlobals<PruneFlags>()));
  });
  addExamples(command, [
    ["sluice prune --dry-run", "what would be deleted"],
    ["sluice prune --keep 7d --keep-evidence 365d --yes", "for cron"],
    ["sluice prune b-k3x --keep 0s", "one batch, whatever its age"],
  ]);
}

function prune(cli: Cli, id: string | undefined, flags: PruneFlags): Promise<number> {
  const given = readAges(flags);
  return withStore(cli, flags, [], async (parts) => {
    const policy = await readPolicy(parts, given, id);
    const operator = new Operator(parts.store, cli.clock);
    const planned = await operator.prune({ ...policy, dryRun: true });
    const isDry = flags.dryRun === true;
    const hasWork = planned.scratched + planned.removed + planned.messages > 0;
    if (!isDry && hasWork) await confirmAct(cli, flags, describeQuestion(planned));
    const result = isDry || !hasWork ? planned : await operator.prune(policy);
    if (flags.json === true) cli.out.line(formatJson(viewPruned(result, policy, isDry)));
    else printResult(cli, result, policy, isDry);
    return EXIT.ok;
  });
}

/** Checked before the store is opened. */
function readAges({ keep, keepEvidence }: PruneFlags): RetentionAges {
  return {
    ...(keep === undefined ? {} : { keepMs: parseDuration("--keep", keep) }),
    ...(keepEvidence === undefined ? {} : { keepEvidenceMs: readEvidenceAge(keepEvidence) }),
  };
}

/** In a policy 0 means for ever, which would be misread on a command line. */
function readEvidenceAge(text: string): number {
  if (text === FOREVER) return 0;
  return Math.max(1, parseDuration("--keep-evidence", text));
}

async function readPolicy(
  { store, config }: StoreLook,
  given: RetentionAges,
  id: string | undefined,
): Promise<RetentionPolicy> {
  const configured = readConfigured(config);
  if (id === undefined) return checkPolicy({ ...configured, ...given });
  const batch = await findBatch(store, id);
  // Only a flag overrides the ages of a pipeline; a default does not.
  const own = computeAges(configured, batch.settings.retention ?? {});
  const policy = checkPolicy({ ...own, ...given, batch: batch.id });
  if (isEnded(batch.state)) return policy;
  throw new SluiceError("WRONG_STATE", `batch ${batch.id} is ${batch.state}`, {
    kind: "batch",
    hint: "Only ended batches are pruned. To end it: sluice cancel.",
  });
}

function checkPolicy(policy: RetentionPolicy): RetentionPolicy {
  const problem = findRetentionProblem(policy);
  if (problem === null) return policy;
  throw new SluiceError("BAD_OPTION", problem, {
    field: "retention",
    hint: "Give --keep-evidence an age that is not below --keep, or forever.",
  });
}

function readConfigured({ engine }: Config): Required<RetentionAges> {
  const { keepMs, keepEvidenceMs } = { ...DEFAULT_SETTINGS, ...engine };
  return { keepMs, keepEvidenceMs };
}

function describeQuestion({ scratched, removed, messages }: PruneResult): string {
  const parts = [
    ...(scratched > 0 ? [`the redrive data of ${nameBatches(scratched)}`] : []),
    ...(removed > 0 ? [`${nameBatches(removed)} with all evidence`] : []),
    ...(messages > 0 ? [nameMessages(messages)] : []),
  ];
  return `Delete ${parts.join(", and ")}?`;
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
  const verb = isDry ? "would be deleted" : "deleted";
  const since = (ms: number): string => `ended more than ${formatDuration(ms)} ago`;
  const evidence = keepEvidenceMs === 0 ? "evidence is kept forever" : since(keepEvidenceMs);
  const other = batch === undefined ? ", or as its pipeline says" : "";
  out.line(`${verb}: redrive data of ${nameBatches(scratched)} (${since(keepMs)}${other})`);
  out.line(`${verb}: ${nameBatches(removed)} with all evidence (${evidence}${other})`);
  if (messages > 0)
    out.line(`${verb}: ${nameMessages(messages)} that all groups have acknowledged`);
  if (owed > 0) {
    out.line(
      `kept: ${nameBatches(owed)} old enough, but with events that a subscriber has not received`,
    );
  }
}
