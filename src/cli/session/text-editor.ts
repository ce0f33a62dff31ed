/** Opens a text in the editor that the person has chosen. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SluiceError } from "../../core/base/errors.ts";

/** The saved text. It is read back from a folder that only this user may read. */
export function editText(text: string, name: string, env: NodeJS.ProcessEnv): string {
  const editor = env["VISUAL"] || env["EDITOR"] || "vi";
  const folder = mkdtempSync(join(tmpdir(), "sluice-edit-"));
  const path = join(folder, name);
  try {
    writeFileSync(path, text, { mode: 0o600 });
    // A shell, as the variable may hold options: EDITOR="code --wait".
    const { status, error } = spawnSync("sh", ["-c", `${editor} "$1"`, "sh", path], {
      stdio: "inherit",
    });
    if (status !== 0) {
      throw new SluiceError("EDITOR_FAILED", `the editor ${editor} failed`, {
        hint: "Set EDITOR to an installed editor, or give the payload with --set or --file.",
        cause: error,
      });
    }
    return readFileSync(path, "utf8");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
