/**
 * A file that is written completely or not at all: it gets another name in the same folder, and is
 * renamed when it is complete and on disk.
 */
import { type FileHandle, link, open, rename, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { SluiceError } from "../../core/base/errors.ts";
import { systemRandom } from "../../runtime/system/system-random.ts";

export class OutputFile {
  readonly #path: string;
  readonly #temporary: string;
  readonly #handle: FileHandle;

  private constructor(path: string, temporary: string, handle: FileHandle) {
    this.#path = path;
    this.#temporary = temporary;
    this.#handle = handle;
  }

  static async create(path: string): Promise<OutputFile> {
    const temporary = nameTemporary(path);
    try {
      return new OutputFile(path, temporary, await open(temporary, "wx"));
    } catch (cause) {
      const isTaken = (cause as NodeJS.ErrnoException).code === "EEXIST";
      throw describeFailure(isTaken ? temporary : path, cause);
    }
  }

  async write(text: string | Uint8Array): Promise<void> {
    try {
      await this.#handle.writeFile(text);
    } catch (cause) {
      throw describeFailure(this.#path, cause);
    }
  }

  /** Renames the file to its final name; replaces an older file. */
  async finish(): Promise<void> {
    try {
      await this.#handle.sync();
      await this.#handle.close();
      await rename(this.#temporary, this.#path);
    } catch (cause) {
      throw describeFailure(this.#path, cause);
    }
  }

  async discard(): Promise<void> {
    await this.#handle.close().catch(() => undefined);
    await unlink(this.#temporary).catch(() => undefined);
  }
}

/**
 * An unguessable name: in a folder where others may write, they could plant a link that leads
 * elsewhere. It is opened only if it is new.
 */
export function nameTemporary(path: string): string {
  return join(dirname(path), `.${basename(path)}.${systemRandom.id()}.tmp`);
}

/** Renames a finished temporary file, unless a file of that name exists. */
export async function nameNewFile(temporary: string, path: string): Promise<void> {
  try {
    // A rename would replace a file that was created meanwhile; creating a link fails instead.
    await link(temporary, path);
    await unlink(temporary);
  } catch (cause) {
    await unlink(temporary).catch(() => undefined);
    throw describeFailure(path, cause);
  }
}

export function describeFailure(path: string, cause: unknown): SluiceError {
  if (cause instanceof SluiceError) return cause;
  const { code } = cause as NodeJS.ErrnoException;
  if (code === "EEXIST") {
    return new SluiceError("FILE_EXISTS", `${path} already exists`, {
      hint: "Choose another name, or remove that file first.",
      cause,
    });
  }
  return new SluiceError("OUTPUT_FAILED", `${path} cannot be written: ${code ?? String(cause)}`, {
    hint: "Check that its folder exists, that this user may write there, and the free space.",
    cause,
  });
}
