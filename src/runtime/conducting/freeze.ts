/**
 * Freezes an iterable into chunks of JSON lines that the batch owns, each within the size limit of
 * a slice.
 */
import { SluiceError } from "../../core/base/errors.ts";
import type { PlannedChunk } from "../../ports/store/conductor-store.ts";
import type { SliceItems, Source } from "../../ports/source.ts";
import { freezeItem, UnreadableItem, writeManifest } from "../reading/manifest.ts";

/** A chunk ends early at this size, so that a worker's memory stays bounded. */
export const SLICE_BYTES_MAX = 4 * 1_048_576;

/** A chunk to be planned, and the cursor from which slicing continues after it. */
export interface Piece {
  readonly chunk: PlannedChunk;
  readonly cursor: string | null;
}

export async function* freezePieces(
  items: Iterable<unknown> | AsyncIterable<unknown>,
  chunkSize: number,
): AsyncGenerator<Piece> {
  let lines: string[] = [];
  let chars = 0;
  let index = 0;
  const pack = (): Piece => ({
    chunk: { items: lines.length, locator: null, manifest: writeManifest(lines), keys: null },
    cursor: null,
  });
  for await (const item of items) {
    const line = freezeItem(item, index++);
    if (lines.length > 0 && (lines.length >= chunkSize || chars + line.length > SLICE_BYTES_MAX)) {
      yield pack();
      lines = [];
      chars = 0;
    }
    lines.push(line);
    chars += line.length;
  }
  if (lines.length > 0) yield pack();
}

/** All items of a source, in order. An unreadable item is frozen as such, and fails alone. */
export async function* readItems(
  source: Source,
  chunkSize: number,
): AsyncGenerator<unknown, void, void> {
  const request = { chunkSize, sliceBytesMax: SLICE_BYTES_MAX, after: null };
  for await (const { locator } of source.slice(request)) {
    for (const items of await source.read([locator])) {
      for (let at = 0; at < items.count; at++) yield readItem(items, at);
      items.release?.();
    }
  }
}

function readItem(items: SliceItems, at: number): unknown {
  try {
    return items.at(at);
  } catch (error) {
    return new UnreadableItem(error);
  }
}

/** Throws when the items are read a second time, where a used-up iterable would look empty. */
export function readOnce(
  items: Iterable<unknown> | AsyncIterable<unknown>,
): AsyncIterable<unknown> {
  let used = false;
  return {
    async *[Symbol.asyncIterator]() {
      if (used) {
        throw new SluiceError("ITEMS_USED_UP", "the items were read already and cannot be again", {
          hint: "Submit an array, or give the pipeline a source that can be opened again.",
        });
      }
      used = true;
      yield* items;
    },
  };
}
