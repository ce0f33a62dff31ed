/**
 * Items that a batch owns, frozen as JSON lines. Every attempt sees an item as it was when it was
 * frozen, even if the array or API that it came from has changed. An item that could not be read
 * when it was frozen has a line that is not JSON, with the error that it fails with.
 */
import { describeError, PermanentError, SluiceError } from "../../core/base/errors.ts";
import { isUnreadable, readUnreadable, writeUnreadable } from "../../core/items/frozen-line.ts";
import type { SliceItems } from "../../ports/source.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** A source yields this in the place of an item that cannot be read. */
export class UnreadableItem {
  readonly error: unknown;

  constructor(error: unknown) {
    this.error = error;
  }
}

export function freezeItem(item: unknown, index: number): string {
  if (item instanceof UnreadableItem) {
    return writeUnreadable(describeError(item.error));
  }
  let text: string | undefined;
  let cause: unknown;
  try {
    text = JSON.stringify(item);
  } catch (error) {
    cause = error;
  }
  if (text === undefined) {
    throw new SluiceError("NOT_JSON", `item ${index} cannot be written as JSON`, {
      hint: "Pass plain data: no functions, BigInts or cycles.",
      cause,
    });
  }
  return text;
}

export function writeManifest(lines: readonly string[]): Uint8Array {
  return encoder.encode(lines.join("\n"));
}

export function readManifest(bytes: Uint8Array): SliceItems {
  const lines = decoder.decode(bytes).split("\n");
  return {
    count: lines.length,
    at(position) {
      const line = lines[position];
      if (line === undefined) {
        throw new PermanentError(`the manifest has no item ${position}`, { code: "BAD_MANIFEST" });
      }
      if (isUnreadable(line)) throw readError(line);
      return JSON.parse(line) as unknown;
    },
  };
}

function readError(line: string): PermanentError {
  const { code, message } = readUnreadable(line);
  return new PermanentError(message, { code });
}
