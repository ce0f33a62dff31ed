/** A task of the pool: the SHA-256 of a file, read in pieces, so that its size costs no memory. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { pipeline } from "node:stream/promises";

export async function hashFile(path: string): Promise<string> {
  const sha256 = createHash("sha256");
  await pipeline(createReadStream(path), sha256);
  return sha256.digest("hex");
}
