/** The task that `fingerprint.ts` runs in a process of the pool. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";

export interface Fingerprint {
  readonly bytes: number;
  readonly sha256: string;
}

export default async function fingerprint(path: string): Promise<Fingerprint> {
  const hash = createHash("sha256");
  let bytes = 0;
  for await (const piece of createReadStream(path) as AsyncIterable<Buffer>) {
    hash.update(piece);
    bytes += piece.length;
  }
  return { bytes, sha256: hash.digest("hex") };
}
