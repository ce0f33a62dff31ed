/** `sluice pause` and `sluice resume`: nothing more is started, until somebody goes on with it. */
import type { Command } from "commander";
import type { PauseFacts } from "../../../core/batch/why.ts";
import type { BatchSnapshot } from "../../../ports/store/conducting.ts";
import { Operator } from "../../../runtime/engine/operator.ts";
import { addActFlags, readActOptions } from "../../flags/act-flags.ts";
import { describeWho, readHold } from "../../../views/hold.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import { quoteCommand } from "../../output/shell-words.ts";
import {
  addTargetFlags,
  checkTarget,
  findTarget,
  nameTarget,
  type TargetFlags,
} from "../../flags/target-flags.ts";
import { type StoreLook, withStore } from "../../session/with-store.ts";

interface PauseFlags extends TargetFlags {
  readonly now?: boolean;
}

export function addPauseCommand(program: Command, cli: Cli): void {
  const command = addTargetFlags(
    program
      .command("pause")
      .summary("start nothing more of a batch, a lane or a pipeline")
      .description(
        "Nothing more of a batch, a lane or a pipeline is started until `sluice resume`. What workers " +
          "have in hand is finished; with --now they are told to give it back.",
      ),
  ).option("--now", "also give back what is in hand");
  addActFlags(command).action(async (id: string | undefined) => {
    cli.finish(await pause(cli, id, command.optsWithGlobals<PauseFlags>()));
  });
  addExamples(command, [
    ["sluice pause b-k3x", "one batch"],
    ["sluice pause --lane case-7 --why audit", "a lane, with a reason for the others"],
    ["sluice pause --pipeline import --now", "all batches of a pipeline, at once"],
  ]);
}

export function addResumeCommand(program: Command, cli: Cli): void {
  const command = addTargetFlags(
    program
      .command("resume")
      .summary("go on with what was paused or parked")
      .description(
        "Goes on with a batch, a lane or a pipeline that was paused, or a parked batch.",
      ),
  );
  addActFlags(command).action(async (id: string | undefined) => {
    cli.finish(await resume(cli, id, command.optsWithGlobals<TargetFlags>()));
  });
  addExamples(command, [
    ["sluice resume b-k3x", "one batch"],
    ["sluice resume --lane case-7", "a lane"],
  ]);
}

function pause(cli: Cli, id: string | undefined, flags: PauseFlags): Promise<number> {
  checkTarget(id, flags);
  const mode = flags.now === true ? "now" : "drain";
  return withStore(cli, flags, [], async ({ store }) => {
    const target = await findTarget(store, id, flags);
    const operator = new Operator(store, cli.clock);
    const changed = await operator.pause(target, { ...readActOptions(flags), mode });
    if (flags.json === true) {
      cli.out.line(formatJson({ ...target, paused: true, changed, mode: changed ? mode : null }));
      return EXIT.ok;
    }
    const hands = mode === "now" ? "what is in hand is given back" : "what is in hand is finished";
    cli.out.line(
      changed
        ? `paused ${makeInert(nameTarget(target))}: ${hands}, and nothing more is started`
        : `${makeInert(nameTarget(target))} was paused before; that pause stands`,
    );
    return EXIT.ok;
  });
}

function resume(cli: Cli, id: string | undefined, flags: TargetFlags): Promise<number> {
  checkTarget(id, flags);
  return withStore(cli, flags, [], async (parts) => {
    const { store } = parts;
    const target = await findTarget(store, id, flags);
    const changed = await new Operator(store, cli.clock).resume(target, readActOptions(flags));
    const batch = "batch" in target ? await store.getBatch(target.batch) : null;
    const hold = batch === null ? null : (await readHold(store, batch)).text;
    if (flags.json === true) {
      cli.out.line(formatJson({ ...target, paused: hasPause(batch), changed, waits: hold }));
      return EXIT.ok;
    }
    const name = makeInert(nameTarget(target));
    const not = "batch" in target ? "was neither paused nor parked" : "was not paused";
    cli.out.line(changed ? `resumed ${name}` : `${name} ${not}`);
    const wider = batch?.pause ?? null;
    if (wider !== null) adviseWider(cli, parts, wider);
    else if (hold !== null) cli.err.line(`it goes on later: ${makeInert(hold)}`);
    return EXIT.ok;
  });
}

function hasPause(batch: BatchSnapshot | null): boolean {
  return batch !== null && batch.pause !== null;
}

/** A batch under a paused lane or pipeline is not helped by resuming the batch. */
function adviseWider({ err }: Cli, { config }: StoreLook, held: PauseFacts): void {
  const command = ["sluice", "resume", `--${held.scope}`, held.name, ...config.storeFlag];
  err.line(`its ${held.scope} is still paused by ${makeInert(describeWho(held))}. To go on:`);
  err.line(err.colours.cyan(`  ${quoteCommand(command)}`));
}
