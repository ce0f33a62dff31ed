/**
 * Reads a file once from start to end, with one reused buffer, and yields its slices. It continues
 * after any cursor, and notices when the file has been replaced or changed.
 */
import type { FileHandle } from "node:fs/promises";
import { crc32 } from "node:zlib";
import { SluiceError } from "../../core/base/errors.ts";
import { describeFileError, readFully } from "./source-file.ts";
import { type FilePosition, loadedBytes, parseCursor } from "./record-range.ts";
import { LINE_FEED } from "./record-scanner.ts";
import type { BuiltSlice, SliceBuilder } from "./slice-builder.ts";

/** The slices from `start` on, as many at a time as one buffer of the file contains. */
export async function* sliceFile(
  path: string,
  handle: FileHandle,
  start: FilePosition,
  builder: SliceBuilder,
  bufferBytes: number,
): AsyncGenerator<readonly BuiltSlice[]> {
  const sizeAtStart = await readSize(path, handle);
  const buffer = Buffer.allocUnsafeSlow(Math.min(bufferBytes, Math.max(1, sizeAtStart)));
  let at = start.byte;
  for (;;) {
    const { bytesRead } = await handle
      .read(buffer, 0, buffer.length, at)
      .catch((cause: unknown) => {
        throw describeFileError(path, cause);
      });
    if (bytesRead === 0) break;
    at += bytesRead;
    const bytes = bytesRead === buffer.length ? buffer : buffer.subarray(0, bytesRead);
    yield await addHeadChecksums(path, handle, builder.feed(bytes));
  }
  if (at < sizeAtStart) {
    throw new SluiceError(
      "SOURCE_CHANGED",
      `${path} shrank from ${sizeAtStart} to ${at} bytes while it was sliced`,
      { hint: "Do not write to a file that a batch reads. Submit the batch again." },
    );
  }
  yield await addHeadChecksums(path, handle, builder.finish());
}

/** Where slicing continues after a cursor, if the file still has a line that begins there. */
export async function resumeAfter(
  kind: string,
  path: string,
  handle: FileHandle,
  cursor: string,
): Promise<FilePosition> {
  const position = parseCursor(kind, cursor);
  const size = await readSize(path, handle);
  if (position.byte === size) return position;
  const before = Buffer.alloc(1);
  if (position.byte > 0 && position.byte < size) {
    await readFully(path, handle, before, position.byte - 1);
    if (before[0] === LINE_FEED) return position;
  }
  throw new SluiceError(
    "SOURCE_CHANGED",
    `${path} has no line that begins at byte ${position.byte}, where slicing had stopped ` +
      `(line ${position.line}; the file has ${size} bytes)`,
    {
      hint: "The file was changed since the batch was submitted. Restore it, or submit the batch again.",
    },
  );
}

async function readSize(path: string, handle: FileHandle): Promise<number> {
  try {
    return (await handle.stat()).size;
  } catch (cause) {
    throw describeFileError(path, cause);
  }
}

/** Overlong records are rare; reading the head of each again is cheaper than keeping all heads. */
async function addHeadChecksums(
  path: string,
  handle: FileHandle,
  built: readonly BuiltSlice[],
): Promise<readonly BuiltSlice[]> {
  if (!built.some((slice) => slice.overlong)) return built;
  const complete: BuiltSlice[] = [];
  for (const slice of built) {
    if (!slice.overlong) {
      complete.push(slice);
      continue;
    }
    const head = Buffer.alloc(loadedBytes(slice));
    const bytes = await readFully(path, handle, head, slice.from);
    complete.push({ ...slice, crc: crc32(head.subarray(0, bytes)) });
  }
  return complete;
}
