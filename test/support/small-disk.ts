/**
 * A small separate disk at a path: a tmpfs, which can be filled to its last byte and emptied again.
 */
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { trySystemProgram } from "./system-program.ts";

/** From large to small, so that it is quick and no space is left. */
const BLOCKS_BYTES = [1_048_576, 65_536, 4_096, 512, 1];

export class SmallDisk {
  readonly path: string;

  private constructor(path: string) {
    this.path = path;
  }

  /** The disk, or the reason why this user may not create one. */
  static mount(path: string, bytes: number): SmallDisk | string {
    mkdirSync(path, { recursive: true });
    const options = `size=${bytes},mode=1777`;
    const problem = trySystemProgram("mount", "-t", "tmpfs", "-o", options, "tmpfs", path);
    return problem === null
      ? new SmallDisk(path)
      : `a small disk cannot be mounted here: ${problem}`;
  }

  /** Changes its size. */
  resize(bytes: number): void {
    const problem = trySystemProgram("mount", "-o", `remount,size=${bytes}`, this.path);
    if (problem !== null) throw new Error(problem);
  }

  /** Takes all the space that is left. */
  fill(): void {
    const file = openSync(join(this.path, BALLAST), "a");
    try {
      for (const bytes of BLOCKS_BYTES) writeUntilFull(file, Buffer.alloc(bytes));
    } finally {
      closeSync(file);
    }
  }

  free(): void {
    rmSync(join(this.path, BALLAST), { force: true });
  }

  /**
   * Removes the disk with everything on it. A process with an open file keeps that file, without an
   * error.
   */
  unmount(): void {
    trySystemProgram("umount", "--lazy", this.path);
  }
}

const BALLAST = "ballast";

function writeUntilFull(file: number, block: Buffer): void {
  try {
    while (writeSync(file, block) === block.length);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
  }
}
