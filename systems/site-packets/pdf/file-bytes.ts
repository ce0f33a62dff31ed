/**
 * Reads whole files into the same memory, one after the other: a process of the pool has one task at a
 * time, and what each would take anew stays taken until it is collected. The bytes are good until the
 * next call.
 */
import { open } from "node:fs/promises";

let room = Buffer.alloc(0);

export async function readBytes(path: string): Promise<Buffer> {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    if (room.length < size) room = Buffer.allocUnsafeSlow(size);
    let filled = 0;
    while (filled < size) {
      const { bytesRead } = await file.read(room, filled, size - filled, filled);
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
    return room.subarray(0, filled);
  } finally {
    await file.close();
  }
}
