/**
 * Imports a user's file by Node's own type stripping. Common mistakes are checked before the
 * import, so that the message is about the file and not about Node's loader.
 */
import { readdirSync, readFileSync, realpathSync, type Stats, statSync } from "node:fs";
import { basename, dirname, extname, resolve, sep } from "node:path";
import { pathToFileURL } from "node:url";
import { SluiceError } from "../../core/base/errors.ts";
import { formatDidYouMean, findSimilar } from "../../core/base/similar-words.ts";
import { describeImportFailure, type FileRole } from "./import-failure.ts";
import { showPath } from "../output/show-path.ts";

type Namespace = Readonly<Record<string, unknown>>;

const ENDINGS = [".ts", ".mts", ".js", ".mjs"];

/** The file's default export. */
export async function importDefault(file: string, role: FileRole): Promise<unknown> {
  const exported = await importModule(file, role);
  if (isMissingDefault(exported, role)) {
    const shown = showPath(file);
    throw new SluiceError("IMPORT_FAILED", `${shown} has no default export`, {
      hint: adviseDefault(exported, role),
    });
  }
  return exported["default"];
}

async function importModule(file: string, role: FileRole): Promise<Namespace> {
  checkFile(file, role);
  try {
    return (await import(pathToFileURL(resolve(file)).href)) as Namespace;
  } catch (error) {
    throw describeImportFailure(error, file, role);
  }
}

function checkFile(file: string, role: FileRole): void {
  const shown = showPath(file);
  const makeError = (message: string, hint: string): SluiceError =>
    new SluiceError("IMPORT_FAILED", message, { hint });
  const stats = statFile(file, role);
  if (stats.isDirectory()) {
    const inside = listScripts(file).slice(0, 5).join(", ");
    const hint = inside === "" ? `Name a ${role} file.` : `Name one of its files: ${inside}.`;
    throw makeError(`${shown} is a folder, not a ${role} file`, hint);
  }
  if (!stats.isFile()) {
    throw makeError(`${shown} is not a regular file`, `Name a ${role} file.`);
  }
  if (!ENDINGS.includes(extname(file))) {
    const hint = `A ${role} is TypeScript or JavaScript: its name ends in ${ENDINGS.join(", ")}.`;
    throw makeError(`${shown} is not a ${role} file`, hint);
  }
  const real = realpathSync(file);
  if (real.endsWith("ts") && real.split(sep).includes("node_modules")) {
    throw makeError(
      `${shown} is inside node_modules, where Node runs no TypeScript`,
      "Copy the file into your project, or compile it to JavaScript.",
    );
  }
  if (readFileSync(file, "utf8").trim() === "") {
    throw makeError(`${shown} is empty`, adviseDefault({}, role));
  }
}

function statFile(file: string, role: FileRole): Stats {
  try {
    return statSync(file);
  } catch (cause) {
    const shown = showPath(file);
    const { code } = cause as NodeJS.ErrnoException;
    if (code !== "ENOENT" && code !== "ENOTDIR") {
      throw new SluiceError("IMPORT_FAILED", `${shown} cannot be read: ${code}`, {
        hint: "Give this user the right to read the file and to enter its folders.",
        cause,
      });
    }
    const meant = formatDidYouMean(findSimilar(basename(file), listScripts(dirname(file))));
    throw new SluiceError("FILE_MISSING", `there is no ${role} file ${shown}`, {
      hint: meant || "Check the path. `sluice init` creates a starter pipeline.",
      cause,
    });
  }
}

function listScripts(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => ENDINGS.includes(extname(name)));
  } catch {
    return [];
  }
}

/** A script without exports is CommonJS to Node, whose default is then an empty object. */
function isMissingDefault(exported: Namespace, role: FileRole): boolean {
  if (!("default" in exported)) return true;
  const value = exported["default"];
  const isEmpty = typeof value === "object" && value !== null && Object.keys(value).length === 0;
  // An empty configuration is fine, unless nothing was exported.
  return isEmpty && (role === "pipeline" || "module.exports" in exported);
}

function adviseDefault(exported: Namespace, role: FileRole): string {
  if (role === "configuration") return 'Write: export default { store: "jobs.db" }';
  const named = Object.keys(exported).find(
    (name) => /^[A-Za-z_$][\w$]*$/.test(name) && name !== "default",
  );
  if (named !== undefined) return `If ${named} is the pipeline, add: export default ${named};`;
  return "Write: export default definePipeline({ ... }). `sluice init` creates a starter pipeline.";
}
