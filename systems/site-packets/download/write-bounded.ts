/**
 * Writes a stream to a file, up to a limit, and leaves no partial file. It takes the next piece
 * when the last one is written, so a fast sender waits for a slow disk. Errors are thrown
 * unchanged: the caller distinguishes the disk's errors from the stream's.
 */
import { type FileHandle, open, rm } from "node:fs/promises";

export interface WriteBound {
  readonly bytesMax: number;
  readonly makeTooLarge: () => Error;
}

/** Returns the number of bytes written. An existing file is overwritten. */
export async function writeBounded(
  pieces: AsyncIterable<Uint8Array>,
  target: string,
  bound: WriteBound,
): Promise<number> {
  // A file that could not be opened is not deleted.
  const file = await open(target, "w");
  try {
    const bytes = await writePieces(pieces, file, bound);
    await file.close();
    return bytes;
  } catch (error) {
    await removePart(file, target);
    throw error;
  }
}

async function writePieces(
  pieces: AsyncIterable<Uint8Array>,
  file: FileHandle,
  { bytesMax, makeTooLarge }: WriteBound,
): Promise<number> {
  let bytes = 0;
  for await (const piece of pieces) {
    bytes += piece.byteLength;
    if (bytes > bytesMax) throw makeTooLarge();
    // Unlike `write`, this continues until the whole piece is written.
    await file.writeFile(piece);
  }
  return bytes;
}

/** The first error is reported, not a failed deletion afterwards. */
async function removePart(file: FileHandle, target: string): Promise<void> {
  await Promise.allSettled([file.close()]);
  await Promise.allSettled([rm(target, { force: true })]);
}
