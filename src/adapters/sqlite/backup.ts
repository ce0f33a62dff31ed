/**
 * A consistent copy of the file while others continue to work. It reads through its own connection:
 * on one that also writes, a step of the copy may collide with a transaction and fail. All pages
 * are copied in one step, off this thread, so that no writer in between makes it start again.
 */
import { backup, DatabaseSync } from "node:sqlite";
import { SluiceError } from "../../core/base/errors.ts";
import { translateError } from "./connection/errors.ts";

const ALL_PAGES = 2_147_483_647;

export async function backUp(from: string, to: string): Promise<void> {
  if (from === ":memory:") {
    // Another connection would see another, empty database.
    throw new SluiceError("STORE_UNSUPPORTED", "a memory store cannot be backed up", {
      kind: "backup",
      hint: "Use a SQLite file.",
    });
  }
  try {
    const source = new DatabaseSync(from, { readOnly: true });
    try {
      await backup(source, to, { rate: ALL_PAGES });
    } finally {
      source.close();
    }
  } catch (error) {
    throw translateError(error, to);
  }
}
