/**
 * Items that a batch owns, frozen as JSON lines. What an item was when it was frozen is what every
 * try of it sees, whatever became of the array or the API that it came from.
 */
import { PermanentError, SluiceError } from "../core/errors.ts";
import type { SliceItems } from "../ports/source.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export function freezeItem(item: unknown, index: number): string {
  let text: string | undefined;
  let cause: unknown;
  try {
    text = JSON.stringify(item);
  } catch (error) {
    cause = error;
  }
  if (text === undefined) {
    throw new SluiceError("BAD_ITEM", `item ${index} cannot be written as JSON`, {
      hint: "Hand over plain data: no functions, BigInts or cycles.",
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
      return JSON.parse(line) as unknown;
    },
  };
}
