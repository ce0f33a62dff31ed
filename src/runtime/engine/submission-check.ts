/**
 * Checks a submission before it is recorded: plain data, a valid key and lane, a deadline in the
 * future.
 */
import { canonicalize, type Json } from "../../core/base/canonical-json.ts";
import { SluiceError } from "../../core/base/errors.ts";
import { TENANT_CHARS_MAX } from "../../core/limits/fair-share.ts";
import type { BatchSettings } from "../../ports/store/conductor-store.ts";
import { isIterable } from "../reading/open-source.ts";
import type { Pipeline } from "../pipeline/pipeline.ts";

const LANE = /^[A-Za-z0-9._:-]{1,128}$/;
const KEY_CHARS_MAX = 256;

export function checkItems(
  pipeline: Pipeline,
  input: unknown,
): Iterable<unknown> | AsyncIterable<unknown> {
  if (isIterable(input)) return input;
  throw new SluiceError(
    "BAD_INPUT",
    `the pipeline ${pipeline.name} has no source, so its input must be the items themselves`,
    { hint: "Submit an array or an iterable of items, or give the pipeline a source." },
  );
}

export function checkNames(key: string | undefined, lane: string): void {
  if (key !== undefined && (key === "" || key.length > KEY_CHARS_MAX)) {
    throw new SluiceError("BAD_OPTION", `a key has 1 to ${KEY_CHARS_MAX} characters`, {
      field: "key",
      hint: "Choose a shorter key.",
    });
  }
  if (!LANE.test(lane)) {
    throw new SluiceError("BAD_OPTION", `${JSON.stringify(lane)} is not a lane name`, {
      field: "lane",
      hint: "A lane has 1 to 128 letters, digits, dots, dashes, underscores or colons.",
    });
  }
}

/** The tenant of a lane's batches. */
export function nameTenant({ name, share: { tenant } }: Pipeline, lane: string): string {
  if (tenant === null) return lane;
  const named: unknown = tenant(lane);
  if (typeof named === "string" && named !== "" && named.length <= TENANT_CHARS_MAX) return named;
  throw new SluiceError(
    "BAD_FUNCTION_RESULT",
    `the pipeline ${name} names ${JSON.stringify(named) ?? "nothing"} as the tenant of lane ${lane}`,
    {
      field: "share.tenant",
      hint: `A tenant is a text of 1 to ${TENANT_CHARS_MAX} characters. Fix the option share.tenant.`,
    },
  );
}

/** The settings for sharing that are recorded with a batch. */
export function describeShare(
  { share: { weights }, caps }: Pipeline,
  tenant: string,
): Pick<BatchSettings, "weight" | "caps"> {
  const weight = Object.hasOwn(weights, tenant) ? weights[tenant] : undefined;
  return {
    ...(weight === undefined ? {} : { weight }),
    ...(Object.keys(caps).length === 0 ? {} : { caps }),
  };
}

export function checkDeadline(deadline: Date, now: number): number {
  const at = deadline.getTime();
  if (at > now) return at;
  const what = Number.isNaN(at) ? "is not a time" : `${deadline.toISOString()} has passed`;
  throw new SluiceError("BAD_OPTION", `the deadline ${what}`, {
    field: "deadline",
    hint: "Give a deadline in the future.",
  });
}

export function writeInput(pipeline: Pipeline, input: unknown): string {
  try {
    return canonicalize((input ?? null) as Json);
  } catch (error) {
    throw new SluiceError("BAD_INPUT", `the input of ${pipeline.name} is not plain data`, {
      hint: "Pass plain data that JSON can represent: it is recorded with the batch.",
      cause: error,
    });
  }
}

/** The content that distinguishes two batches of owned items, where they will be compared. */
export function describeOwned(
  input: unknown,
  open: boolean,
  keyed: boolean,
  resume: boolean,
): string {
  if (open) return "open";
  if (!keyed && !resume) return "items";
  if (Array.isArray(input)) return JSON.stringify(input);
  // The key says that they are the same; checking it would mean reading all items.
  if (keyed) return "items";
  throw new SluiceError(
    "BAD_INPUT",
    "the items of an iterable cannot be compared with those of an unfinished batch",
    { hint: "Submit an array or give a key, or leave out resume." },
  );
}
