/** Checks an item against the pipeline's schema. */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { PermanentError } from "../../core/base/errors.ts";

const ISSUES_SHOWN_MAX = 5;

/** The item as the schema returns it; a promise only if the schema is asynchronous. */
export function checkItem(schema: StandardSchemaV1<unknown, unknown>, item: unknown): unknown {
  const checked = schema["~standard"].validate(item);
  return checked instanceof Promise ? checked.then(unwrap) : unwrap(checked);
}

function unwrap(result: StandardSchemaV1.Result<unknown>): unknown {
  if (result.issues === undefined) return result.value;
  const shown = result.issues.slice(0, ISSUES_SHOWN_MAX).map(describeIssue);
  const more = result.issues.length - shown.length;
  throw new PermanentError(
    `does not fit the pipeline's item schema: ${shown.join("; ")}${more > 0 ? `; and ${more} more` : ""}`,
    { code: "INVALID_ITEM" },
  );
}

function describeIssue({ path, message }: StandardSchemaV1.Issue): string {
  const place = (path ?? [])
    .map((segment) => String(typeof segment === "object" ? segment.key : segment))
    .join(".");
  return place === "" ? message : `${place}: ${message}`;
}
