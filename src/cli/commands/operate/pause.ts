/** `sluice pause` and `sluice resume`. */
import type { Command } from "commander";
import type { PauseFacts } from "../../../core/batch/why.ts";
import { Operator } from "../../../runtime/engine/operator.ts";
import { addActFlags, readActOptions } from "../../flags/act-flags.ts";
import { viewPaused, viewResumed } from "../../../views/act.ts";
import { describeWho } from "../../../views/hold.ts";
import { readHold } from "../../session/read-hold.ts";
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
      .summary("pause a batch, a lane or a pipeline")
      .description(
        "Start nothing more of a batch, a lane or a pipeline until `sluice resume`. Running items finish; " +
          "with --now, workers give them back.",
      ),
  ).option("--now", "stop running items instead of finishing them");
  addActFlags(command).action(async (id: string | undefined) => {
    cli.finish(await pause(cli, id, command.optsWithGlobals<PauseFlags>()));
  });
  addExamples(command, [
    ["sluice pause b-k3x", "one batch"],
    ["sluice pause --lane case-7 --why audit", "a lane, with a reason"],
    ["sluice pause --pipeline import --now", "all batches of a pipeline, at once"],
  ]);
}

export function addResumeCommand(program: Command, cli: Cli): void {
  const command = addTargetFlags(
    program
      .command("resume")
      .summary("resume a paused or parked batch, lane or pipeline")
      .description("Resume a paused batch, lane or pipeline, or a parked batch"),
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
      cli.out.line(formatJson(viewPaused(target, mode, changed)));
      return EXIT.ok;
    }
    const running = mode === "now" ? "workers give running items back" : "running items finish";
    cli.out.line(
      changed
        ? `paused ${makeInert(nameTarget(target))}: ${running}, and nothing more starts`
        : `${makeInert(nameTarget(target))} was paused before; that pause still applies`,
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
      cli.out.line(formatJson(viewResumed(target, batch, hold, changed)));
      return EXIT.ok;
    }
    const name = makeInert(nameTarget(target));
    const not = "batch" in target ? "was neither paused nor parked" : "was not paused";
    cli.out.line(changed ? `resumed ${name}` : `${name} ${not}`);
    const wider = batch?.pause ?? null;
    if (wider !== null) adviseWider(cli, parts, wider);
    else if (hold !== null) cli.err.line(`it continues later: ${makeInert(hold)}`);
    return EXIT.ok;
  });
}

/** Resuming a batch does not resume its paused lane or pipeline. */
function adviseWider({ err }: Cli, { config }: StoreLook, held: PauseFacts): void {
  const command = ["sluice", "resume", `--${held.scope}`, held.name, ...config.storeFlag];
  err.line(`its ${held.scope} is still paused by ${makeInert(describeWho(held))}. To resume it:`);
  err.line(err.colours.cyan(`  ${quoteCommand(command)}`));
}
