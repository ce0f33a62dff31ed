/** Finds the one dead letter that a command is about, and the pipeline that can read it. */
import { SluiceError } from "../../core/base/errors.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import type { Store } from "../../ports/store/store.ts";
import { canWorkOn, type Pipeline } from "../../runtime/pipeline/pipeline.ts";
import { loadPipeline } from "../config/load-pipeline.ts";
import { findStep } from "../flags/step-flag.ts";
import { nameStep } from "../../views/step.ts";

export interface DeskFlags {
  readonly step?: string;
  readonly pipelineFile?: string;
}

/** The step of the letter: the given one, or the only one in which the item is a dead letter. */
export async function findLetterStep(
  store: Store,
  batch: BatchSnapshot,
  item: number,
  { step }: DeskFlags,
): Promise<number> {
  if (step !== undefined) return findStep(batch, step);
  const found: number[] = [];
  for (const at of batch.steps.keys()) {
    const place = await store.findItem(batch.id, at, item);
    if (place !== null && place.letter !== null) found.push(at);
  }
  if (found.length <= 1) return found[0] ?? batch.step;
  const names = found.map((at) => nameStep(batch, at));
  throw new SluiceError(
    "AMBIGUOUS",
    `item ${item} of batch ${batch.id} is a dead letter in several steps: ${names.join(", ")}`,
    { kind: "item", hint: "Say which with --step <name>." },
  );
}

/** Null where no file was named. */
export async function loadPipelineOf(
  batch: BatchSnapshot,
  { pipelineFile }: DeskFlags,
): Promise<Pipeline | null> {
  if (pipelineFile === undefined) return null;
  const pipeline = await loadPipeline(pipelineFile);
  if (canWorkOn(pipeline, batch)) return pipeline;
  const named = `${pipeline.name} in version ${pipeline.version}`;
  throw new SluiceError(
    "OTHER_PIPELINE",
    `${pipelineFile} has the pipeline ${named}, and batch ${batch.id} is of ${batch.pipeline} in version ${batch.version}`,
    { hint: "Name the file of the batch's own pipeline." },
  );
}
