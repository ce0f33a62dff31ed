/**
 * Writes a stream to a file, never more than a bound, and leaves no part of it behind. It takes the
 * next piece when the last one is written, so a fast sender waits for a slow disk. Whatever fails is
 * thrown as it is: the disk's errors are told from the stream's by who threw them.
 */
import { type FileHandle, open, rm } from "node:fs/promises";

export interface WriteBound {
  readonly bytesMax: number;
  readonly makeTooLarge: () => Error;
}

/** Answers the number of bytes written. A file that was there before is overwritten. */
export async function writeBounded(
  pieces: AsyncIterable<Uint8Array>,
  target: string,
  bound: WriteBound,
): Promise<number> {
  // What could not be opened is not ours to remove.
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
    // Unlike `write`, this one goes on until all of the piece is written.
    await file.writeFile(piece);
  }
  return bytes;
}

/** What went wrong first is what is told, not that the part could not be removed either. */
async function removePart(file: FileHandle, target: string): Promise<void> {
  await Promise.allSettled([file.close()]);
  await Promise.allSettled([rm(target, { force: true })]);
}
