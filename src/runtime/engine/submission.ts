/** What a submit records, and what the store's answer means for the submitter. */
import { hash } from "node:crypto";
import { isEnded } from "../../core/batch/batch.ts";
import { SluiceError } from "../../core/base/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Submission, SubmitResult } from "../../ports/store/conductor-store.ts";
import type { Random } from "../../ports/random.ts";
import type { SubmitOptions } from "./engine-options.ts";
import { acceptsVersion, type Pipeline } from "../pipeline/pipeline.ts";
import { describeStep } from "../pipeline/step.ts";
import {
  checkDeadline,
  checkNames,
  describeOwned,
  describeShare,
  nameTenant,
  writeInput,
} from "./submission-check.ts";
import type { Recorded } from "./submit-within.ts";

export interface Submitted {
  readonly pipeline: Pipeline;
  readonly input: unknown;
  readonly options: SubmitOptions;
  /** Items are added until it is sealed. */
  readonly open: boolean;
}

export interface SubmissionParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly sealWithinMs: number;
}

export function describeSubmission(
  { pipeline, input, options, open }: Submitted,
  { clock, random, sealWithinMs }: SubmissionParts,
): Submission {
  const { key, lane = pipeline.name, resume = false, deadline } = options;
  checkNames(key, lane);
  const tenant = nameTenant(pipeline, lane);
  const owned = open || pipeline.steps[0].source === null;
  const text = owned ? null : writeInput(pipeline, input);
  return {
    id: `b-${random.id()}`,
    pipeline: pipeline.name,
    version: pipeline.version,
    lane,
    tenant,
    key: key ?? null,
    input: text,
    inputHash: hash("sha256", text ?? describeOwned(input, open, key !== undefined, resume)),
    resume,
    open,
    sealWithinMs,
    deadlineAt: deadline === undefined ? null : checkDeadline(deadline, clock.wallMs()),
    settings: {
      strict: options.strict ?? pipeline.strict,
      steps: pipeline.steps.map(describeStep),
      maxRunMs: pipeline.maxRunMs,
      ...describeShare(pipeline, tenant),
      ...(pipeline.ledger !== null && { ledger: { item: true as const } }),
      // A promise for this batch: later changes of the pipeline or engine do not change it.
      ...(Object.keys(pipeline.retention).length > 0 && { retention: pipeline.retention }),
    },
  };
}

/** Refuses an existing batch that is not the one that the caller meant. */
export function readSubmitted(
  { kind, batch }: SubmitResult,
  { key }: Submission,
  pipeline: Pipeline,
): Recorded {
  if (kind === "key_taken") {
    throw new SluiceError(
      "KEY_TAKEN",
      `the key ${JSON.stringify(key)} belongs to batch ${batch.id}, which has another input`,
      { hint: "Use another key, or the input of that batch." },
    );
  }
  if (!isEnded(batch.state) && !acceptsVersion(pipeline, batch.version)) {
    throw new SluiceError(
      "OTHER_VERSION",
      `batch ${batch.id} is unfinished and belongs to version ${batch.version} of ${pipeline.name}; this is version ${pipeline.version}`,
      {
        hint: `Finish it with the code of version ${batch.version}. If this code can do that too, add accepts: [${JSON.stringify(batch.version)}]. To run another batch at the same time, give another key.`,
      },
    );
  }
  return { batch, takenUp: kind === "existing" ? batch : null };
}
