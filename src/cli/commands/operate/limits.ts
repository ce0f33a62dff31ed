/** `sluice limits`: caps, weights and rates that operators set while batches run, and their use. */
import { Argument, type Command } from "commander";
import { BATCH_STATES, isEnded } from "../../../core/batch/batch.ts";
import { SluiceError } from "../../../core/base/errors.ts";
import { LIMIT_KINDS, type LimitTarget, type LimitValue } from "../../../core/limits/limit.ts";
import type { Store } from "../../../ports/store/store.ts";
import { Operator } from "../../../runtime/engine/operator.ts";
import { type ActFlags, addActFlags, readActOptions } from "../../flags/act-flags.ts";
import { findBatch } from "../../flags/batch-id.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import { describeLimit, formatLimit, renderChanges, renderLimits } from "../../render/limits.ts";
import { viewLimitChange, viewLimits, viewLimitSet } from "../../../views/limit.ts";
import { addClosedCommand, addCloseCommand, addOpenCommand } from "./limits-keys.ts";
import { readLimitNumber, readLimitWords, readRate } from "../../flags/limit-words.ts";
import { readSubFlags, refuseExcess } from "../../flags/sub-command.ts";
import { withStore } from "../../session/with-store.ts";

interface SetFlags extends ActFlags {
  readonly burst?: string;
}

const UNFINISHED = BATCH_STATES.filter((state) => !isEnded(state));
/** Unfinished batches whose limits are shown. */
const BATCHES_MAX = 10_000;
const CHANGES_PAGE = 1_000;

export function addLimitsCommand(program: Command, cli: Cli): void {
  const command = program
    .command("limits")
    .summary("list and change caps, weights, rates and closed keys")
    .description(
      "List the limits that operators have set and those that unfinished batches declare, with the " +
        "number of handler calls in use under each cap",
    )
    .usage("[options]")
    .allowExcessArguments()
    .action(async () => {
      refuseExcess(command);
      cli.finish(await list(cli, command.optsWithGlobals<CommonFlags>()));
    });
  addExamples(command, [
    ["sluice limits", "a table"],
    ["sluice limits set cap pipeline import 50", "50 concurrent calls in all workers"],
    ["sluice limits clear cap pipeline import", "back to the pipeline's own cap"],
    ["sluice limits history", "who changed what, and why"],
    ["sluice limits close fetch example.com --for 2m", "start nothing of a key"],
  ]);
  addSetCommand(command, cli);
  addClearCommand(command, cli);
  addHistoryCommand(command, cli);
  addClosedCommand(command, cli);
  addCloseCommand(command, cli);
  addOpenCommand(command, cli);
}

/** Checked later with a suggestion for a similar name; a list of choices has none. */
const kindArgument = (): Argument =>
  new Argument("<kind>", "kind of limit").choices(LIMIT_KINDS).argParser((value) => value);

function addSetCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("set")
    .summary("set a limit for items that start from now on")
    .description(
      "Set the cap of a batch, a lane or a pipeline, the weight of a tenant, or a rate. It replaces " +
        "the pipeline's own limit until it is cleared.",
    )
    .addArgument(kindArgument())
    .argument("<words...>", "name and value of the limit, see the examples")
    .option("--burst <n>", "burst of a rate, in calls (default: the calls of one second)");
  addActFlags(command).action(async (kind: string, words: string[]) => {
    cli.finish(await set(cli, kind, words, readSubFlags<SetFlags>(command)));
  });
  addExamples(command, [
    ["sluice limits set cap lane case-7 2 --why audit", "2 concurrent handler calls in a lane"],
    ["sluice limits set weight import acme 3", "three times the share of other tenants"],
    ["sluice limits set rate portal north 5/s --burst 10", "5 calls a second for one key"],
  ]);
}

function addClearCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("clear")
    .summary("clear a limit that an operator set")
    .description("Clear a limit that an operator set. The pipeline's own limit applies again.")
    .addArgument(kindArgument())
    .argument("<words...>", "name of the limit, see the examples");
  addActFlags(command).action(async (kind: string, words: string[]) => {
    cli.finish(await clear(cli, kind, words, readSubFlags<ActFlags>(command)));
  });
  addExamples(command, [
    ["sluice limits clear cap lane case-7", "the cap of a lane"],
    ["sluice limits clear weight import acme", "the weight of a tenant"],
  ]);
}

function addHistoryCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("history")
    .summary("list changes of limits: who, when and why")
    .description("List every change of a limit by an operator, oldest first")
    .action(async () => {
      cli.finish(await history(cli, readSubFlags<CommonFlags>(command)));
    });
  addExamples(command, [["sluice limits history --json", "one JSON object per line"]]);
}

function list(cli: Cli, flags: CommonFlags): Promise<number> {
  return withStore(cli, flags, [], async ({ store }) => {
    const limits = viewLimits(
      await store.listLimits(),
      await store.listBatches({ states: UNFINISHED, limit: BATCHES_MAX }),
      await store.listCapUse(),
    );
    if (flags.json === true) for (const one of limits) cli.out.line(formatJson(one));
    else if (limits.length === 0) cli.err.line("no limit is set, and no unfinished batch has one");
    else for (const line of renderLimits(limits, cli.out)) cli.out.line(line);
    return EXIT.ok;
  });
}

function set(cli: Cli, kind: string, words: readonly string[], flags: SetFlags): Promise<number> {
  const { target, rest } = readLimitWords(kind, words, 1);
  const [word = ""] = rest;
  if (target.kind !== "rate" && flags.burst !== undefined) {
    throw new SluiceError("USAGE", `a ${target.kind} has no burst`, {
      hint: "Leave --burst out: only a rate has one.",
    });
  }
  const value = target.kind === "rate" ? readRate(word, flags.burst) : readLimitNumber(word);
  return change(cli, target, value, flags);
}

function clear(cli: Cli, kind: string, words: readonly string[], flags: ActFlags): Promise<number> {
  return change(cli, readLimitWords(kind, words, 0).target, null, flags);
}

function change(
  cli: Cli,
  named: LimitTarget,
  value: LimitValue | null,
  flags: ActFlags,
): Promise<number> {
  return withStore(cli, flags, [], async ({ store }) => {
    const target = await findTarget(store, named);
    const request = { ...target, value };
    const changed = await new Operator(store, cli.clock).setLimit(request, readActOptions(flags));
    if (flags.json === true) cli.out.line(formatJson(viewLimitSet(target, value, changed)));
    else cli.out.line(makeInert(describeChange(target, value, changed)));
    return EXIT.ok;
  });
}

function describeChange(target: LimitTarget, value: LimitValue | null, changed: boolean): string {
  const what = describeLimit(target);
  if (value === null) return changed ? `cleared ${what}` : `${what} was not set`;
  return changed
    ? `set ${what} to ${formatLimit(value)}`
    : `${what} is ${formatLimit(value)} already`;
}

/** A batch may be named by its first characters. */
async function findTarget(store: Store, target: LimitTarget): Promise<LimitTarget> {
  if (target.kind !== "cap" || target.scope !== "batch") return target;
  return { ...target, name: (await findBatch(store, target.name)).id };
}

function history(cli: Cli, flags: CommonFlags): Promise<number> {
  return withStore(cli, flags, [], async ({ store }) => {
    let shown = 0;
    for (let after = 0; !cli.out.closed; ) {
      const page = await store.listLimitChanges(after, CHANGES_PAGE);
      const changes = page.map(viewLimitChange);
      const last = changes.at(-1);
      if (last === undefined) break;
      after = last.seq;
      const [titles = "", ...rows] = renderChanges(changes, cli.out);
      if (flags.json === true) {
        for (const one of changes) cli.out.line(formatJson(one));
      } else for (const line of shown === 0 ? [titles, ...rows] : rows) cli.out.line(line);
      shown += changes.length;
    }
    if (shown === 0 && flags.json !== true) cli.err.line("no operator has set a limit");
    return EXIT.ok;
  });
}
