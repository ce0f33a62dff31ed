/** Explains why a user's file could not be imported, with the place and the remedy. */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { basename, dirname, extname } from "node:path";
import { fileURLToPath } from "node:url";
import { describeError, SluiceError } from "../../core/base/errors.ts";
import { formatDidYouMean, findSimilar } from "../../core/base/similar-words.ts";
import { isSluiceError } from "../../views/error.ts";
import { showPath } from "../output/show-path.ts";

/** The purpose of a file, for messages. */
export type FileRole = "pipeline" | "configuration";

interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number | null;
}

/** Codes of definition errors: their messages are complete, so only the place is added. */
const OWN_CODES: ReadonlySet<string> = new Set(["BAD_PIPELINE", "BAD_OPTION"]);

export function describeImportFailure(error: unknown, file: string, role: FileRole): SluiceError {
  const code = readCode(error);
  if (isSluiceError(error) && OWN_CODES.has(error.code)) {
    const place = findFrame(error);
    const at = place === null ? showPath(file) : showPlace(place);
    const hint = `${error.hint ?? "Fix the definition."} It is in ${at}.`;
    return new SluiceError(error.code, error.message, { field: error.field, hint, cause: error });
  }
  if (code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND") {
    return describeMissingModule(error as Error, file);
  }
  if (error instanceof SyntaxError) return describeSyntax(error, code, file);
  const place = findFrame(error);
  const at = place === null ? showPath(file) : showPlace(place);
  const { message } = describeError(error);
  const detail = isSluiceError(error) ? `${error.code}: ${message}` : message;
  return new SluiceError("IMPORT_FAILED", `loading the ${role} failed at ${at}: ${detail}`, {
    hint: isSluiceError(error) && error.hint !== undefined ? error.hint : "Fix that line.",
    cause: error,
  });
}

function describeSyntax(error: SyntaxError, code: string, file: string): SluiceError {
  const place = findHeading(error.stack ?? "") ?? checkWithNode(file);
  const at = place === null ? showPath(file) : showPlace(place);
  const makeError = (message: string, hint: string): SluiceError =>
    new SluiceError("IMPORT_FAILED", message, { hint, cause: error });
  if (code === "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX") {
    return makeError(
      `${at}: ${error.message}: Node only strips types, and compiles nothing`,
      "Write it without enum, namespace and parameter properties; `erasableSyntaxOnly` in tsconfig.json finds them all.",
    );
  }
  if (/does not provide an export named/.test(error.message)) {
    const hint =
      "Check the name. If it is a type, import it with `import type`: Node removes types before it runs the file.";
    return makeError(`${at}: ${error.message}`, hint);
  }
  if (/import statement outside a module|Unexpected token 'export'/.test(error.message)) {
    const hint =
      'Set "type": "module" in the nearest package.json, or give the file the extension .mts (or .mjs).';
    return makeError(`${at}: ${error.message}: its package is CommonJS`, hint);
  }
  return makeError(`${at}: ${error.message}`, "Fix that line.");
}

function describeMissingModule(error: Error, file: string): SluiceError {
  const [, kind, name = "?", from] =
    /Cannot find (package|module) '([^']+)'(?: imported from (.+?))?(?:\n|$)/.exec(error.message) ??
    [];
  const at = showPath(from === undefined ? file : from);
  if (kind === "package" || !/^[./]|^file:/.test(name)) {
    const installed = name.startsWith("@")
      ? name.split("/").slice(0, 2).join("/")
      : name.split("/")[0];
    return new SluiceError(
      "IMPORT_FAILED",
      `the package ${installed} is not installed (imported in ${at})`,
      {
        hint: `Run: npm install ${installed}`,
        cause: error,
      },
    );
  }
  return new SluiceError("IMPORT_FAILED", `there is no ${showPath(name)} (imported in ${at})`, {
    hint: adviseMissing(name),
    cause: error,
  });
}

function adviseMissing(path: string): string {
  const stem = path.slice(0, path.length - extname(path).length);
  const written = [`${path}.ts`, `${stem}.ts`, `${stem}.mts`].find((other) => existsSync(other));
  if (written !== undefined) {
    return `Node does not rewrite imports: import it as ${basename(written)}, with that extension.`;
  }
  let names: string[] = [];
  try {
    names = readdirSync(dirname(path));
  } catch {
    // The folder is missing as well, so there is nothing to suggest.
  }
  return formatDidYouMean(findSimilar(basename(path), names)) || "Check the path in that import.";
}

/** Node puts the place of a syntax error above its message: `file:line`, the line, a caret. */
function findHeading(text: string): Place | null {
  const lines = text.split("\n");
  const [, path, line] = /^((?:file:\/\/)?\/.+):(\d+)$/.exec(lines[0] ?? "") ?? [];
  if (path === undefined) return null;
  const caret = lines.slice(1, 5).find((one) => /^\s*\^+\s*$/.test(one));
  const column = caret === undefined ? null : caret.indexOf("^") + 1;
  return { file: toPath(path), line: Number(line), column };
}

/** For JavaScript, `import()` does not say where; `node --check` does. */
function checkWithNode(file: string): Place | null {
  const CHECK_MS_MAX = 10_000;
  const { stderr } = spawnSync(process.execPath, ["--check", file], {
    encoding: "utf8",
    timeout: CHECK_MS_MAX,
  });
  return findHeading(stderr ?? "");
}

/** The innermost frame of the stack that is the user's own code. */
function findFrame(error: unknown): Place | null {
  const stack = error instanceof Error ? (error.stack ?? "") : "";
  const own = dirname(fileURLToPath(new URL("../..", import.meta.url)));
  const frames = [...stack.matchAll(/^\s+at .*?((?:file:\/\/)?\/[^()\n]+?):(\d+):(\d+)\)?$/gm)];
  const places = frames.map(([, path = "", line, column]) => ({
    file: toPath(path),
    line: Number(line),
    column: Number(column),
  }));
  const outside = places.filter(({ file }) => !file.startsWith(own));
  return outside.find(({ file }) => !file.includes("node_modules")) ?? outside[0] ?? null;
}

function showPlace({ file, line, column }: Place): string {
  return `${showPath(file)}, line ${line}${column === null ? "" : `, column ${column}`}`;
}

function toPath(path: string): string {
  return path.startsWith("file:") ? fileURLToPath(path) : path;
}

function readCode(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}
