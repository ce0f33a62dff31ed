/**
 * Options are checked when a source is made, not when its first item is read: a typing mistake must
 * not cost an hour of slicing. A misspelled option is refused, never ignored.
 */
import { SluiceError } from "../../core/base/errors.ts";
import type { SliceRequest } from "../../ports/source.ts";

/** Refuses options that the source does not know. */
export function checkOptionNames(source: string, options: object, known: readonly string[]): void {
  const unknown = Object.keys(options).filter((name) => !known.includes(name));
  if (unknown.length === 0) return;
  throw new SluiceError("BAD_OPTION", `${source}() has no option ${unknown.join(", ")}`, {
    field: unknown.join(", "),
    hint: `Its options are: ${known.join(", ")}.`,
  });
}

/** A size: a whole number from 1 to `max`, or the fallback. */
export function checkSize(
  source: string,
  name: string,
  value: number | undefined,
  fallback: number,
  max: number = Number.MAX_SAFE_INTEGER,
): number {
  if (value === undefined) return fallback;
  if (Number.isSafeInteger(value) && value >= 1 && value <= max) return value;
  throw new SluiceError("BAD_OPTION", `${source}(): ${name} is ${String(value)}`, {
    field: name,
    hint: `Give a whole number from 1 to ${max}, or leave it out for ${fallback}.`,
  });
}

/** A flag; false by default. */
export function checkFlag(source: string, name: string, value: unknown): boolean {
  if (value === undefined || typeof value === "boolean") return value ?? false;
  throw new SluiceError("BAD_OPTION", `${source}(): ${name} is ${JSON.stringify(value)}`, {
    field: name,
    hint: `Give ${name} as true or false, or leave it out.`,
  });
}

/** A path to open: text that is not empty and has no NUL, which no file system accepts. */
export function checkPath(source: string, path: unknown): string {
  if (typeof path === "string" && path !== "" && !path.includes("\0")) return path;
  throw new SluiceError("BAD_OPTION", `${source}(): the path is ${JSON.stringify(path)}`, {
    field: "path",
    hint: "Give the path of a file or folder as text.",
  });
}

/** A callback of the options. */
export function checkFunction(source: string, name: string, value: unknown): void {
  if (typeof value === "function") return;
  throw new SluiceError("BAD_OPTION", `${source}(): ${name} is not a function`, {
    field: name,
    hint: `Give ${name} as a function; see the example in its documentation.`,
  });
}

/** Checks what the engine passes to `slice`. */
export function checkRequest(source: string, request: SliceRequest): void {
  checkSize(source, "chunkSize", request.chunkSize, 1);
  checkSize(source, "sliceBytesMax", request.sliceBytesMax, 1);
}
