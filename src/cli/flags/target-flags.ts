/** The target of an operator command: one batch, or all batches of a lane or of a pipeline. */
import { type Command, Option } from "commander";
import { SluiceError } from "../../core/base/errors.ts";
import type { Store } from "../../ports/store/store.ts";
import type { Target } from "../../runtime/engine/operator.ts";
import type { ActFlags } from "./act-flags.ts";
import { ABOUT_BATCH, findBatch } from "./batch-id.ts";

export interface TargetFlags extends ActFlags {
  readonly lane?: string;
  readonly pipeline?: string;
}

export function addTargetFlags(command: Command): Command {
  return command
    .argument("[batch]", ABOUT_BATCH)
    .addOption(new Option("--lane <name>", "all batches of this lane").conflicts("pipeline"))
    .option("--pipeline <name>", "all batches of this pipeline");
}

/** Exactly one of the three. */
export function checkTarget(id: string | undefined, { lane, pipeline }: TargetFlags): void {
  const given = [id, lane, pipeline].filter((one) => one !== undefined).length;
  if (given === 1) return;
  throw new SluiceError(
    "USAGE",
    given === 0
      ? "no batch, lane or pipeline was given"
      : "more than one of batch, lane and pipeline was given",
    { hint: "Give one of <batch>, --lane <name> and --pipeline <name>." },
  );
}

export async function findTarget(
  store: Store,
  id: string | undefined,
  { lane, pipeline }: TargetFlags,
): Promise<Target> {
  if (id !== undefined) return { batch: (await findBatch(store, id)).id };
  return lane === undefined ? { pipeline: pipeline ?? "" } : { lane };
}

/** "batch b-...", "lane case-7" */
export function nameTarget(target: Target): string {
  if ("batch" in target) return `batch ${target.batch}`;
  return "lane" in target ? `lane ${target.lane}` : `pipeline ${target.pipeline}`;
}
