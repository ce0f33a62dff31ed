/**
 * The signing key as a file: made on first use, readable by its owner alone. Beside it lies a file of
 * statements, which is public and goes into every export: how each key came to follow the one before.
 */
import { createPrivateKey } from "node:crypto";
import {
  appendFileSync,
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fstatSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { SluiceError } from "../core/errors.ts";
import { readSigned, writeKeyLine } from "./export-line.ts";
import {
  introduceKey,
  makeKey,
  type Signed,
  type SigningKey,
  toSigningKey,
} from "./signing-key.ts";
import { parseCanonical } from "./strict-json.ts";

const OWNER_ONLY = 0o600;
const OTHERS = 0o077;

export interface KeyFile {
  readonly key: SigningKey;
  /** How it and its predecessors were introduced, the first first. */
  readonly statements: readonly Signed[];
}

/** Reads the key, and makes one where there is none. `at` is the time of day, for its statement. */
export function openKeyFile(path: string, at: string): KeyFile {
  if (!existsSync(path)) createKeyFile(path);
  const { key, statements } = readKeyFile(path);
  const isIntroduced = statements.some(({ body }) => body.includes(`"key":"${key.id}"`));
  if (isIntroduced) return { key, statements };
  // A new key, or one that somebody brought along.
  appendStatement(path, introduceKey(key, null, at));
  return readKeyFile(path);
}

/** As `openKeyFile`, without making one. */
export function readKeyFile(path: string): KeyFile {
  const key = readKey(path);
  return { key, statements: readStatements(path) };
}

export interface Rotation {
  readonly keyFile: KeyFile;
  /** Where the old key lies now; null when it was dropped. */
  readonly oldPath: string | null;
}

/**
 * Puts a new key in the place of the old one, which introduces it. The statement is on disk before
 * the key is: one that was never used does no harm, a key that nobody introduced would.
 */
export function rotateKeyFile(
  path: string,
  at: string,
  options: { readonly keepOld: boolean },
): Rotation {
  const old = readKey(path);
  const key = toSigningKey(makeKey());
  const fresh = writeKeyBeside(path, key);
  const oldPath = options.keepOld ? `${path}.${old.id}` : null;
  try {
    appendStatement(path, introduceKey(key, old, at));
    if (oldPath !== null) copyFileSync(path, oldPath, constants.COPYFILE_EXCL);
    renameSync(fresh, path);
  } catch (error) {
    rmSync(fresh, { force: true });
    throw error;
  }
  return { keyFile: readKeyFile(path), oldPath };
}

/** Several processes may do this at once: one of them wins, and all of them use its key. */
function createKeyFile(path: string): void {
  const fresh = writeKeyBeside(path, toSigningKey(makeKey()));
  try {
    putInPlace(fresh, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    rmSync(fresh, { force: true });
  }
}

/** Whole or not at all, and never over another one. */
function putInPlace(fresh: string, path: string): void {
  try {
    linkSync(fresh, path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // Some file systems know no second names.
    if (code !== "EPERM" && code !== "ENOTSUP" && code !== "EOPNOTSUPP") throw error;
    copyFileSync(fresh, path, constants.COPYFILE_EXCL);
  }
}

function writeKeyBeside(path: string, key: SigningKey): string {
  const fresh = `${path}.${key.id}.new`;
  const file = openSync(fresh, "wx", OWNER_ONLY);
  try {
    writeSync(file, String(key.privateKey.export({ type: "pkcs8", format: "pem" })));
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  return fresh;
}

function readKey(path: string): SigningKey {
  const pem = readPrivately(path);
  try {
    const key = createPrivateKey(pem);
    if (key.asymmetricKeyType === "ed25519") return toSigningKey(key);
  } catch {
    // Said below: what the platform says about it may hold some of it.
  }
  throw new SluiceError("LEDGER_KEY", `${path} is no Ed25519 private key`, {
    hint: "It must be PKCS#8 PEM, as it was made by Sluice. Restore it, or move it away and begin with a new one.",
  });
}

/** The mode is asked of the very file that is read. */
function readPrivately(path: string): string {
  const file = openSync(path, "r");
  try {
    const mode = fstatSync(file).mode & 0o777;
    if (process.platform !== "win32" && (mode & OTHERS) !== 0) {
      const shown = mode.toString(8).padStart(3, "0");
      throw new SluiceError(
        "LEDGER_KEY_EXPOSED",
        `others may use the key ${path}: its mode is ${shown}`,
        {
          hint: `Run \`chmod 600 ${path}\`. If others may have read it, replace the key.`,
        },
      );
    }
    return readFileSync(file, "utf8");
  } finally {
    closeSync(file);
  }
}

function nameStatements(path: string): string {
  return `${path}.statements`;
}

function appendStatement(path: string, statement: Signed): void {
  appendFileSync(nameStatements(path), `${writeKeyLine(statement)}\n`, { flush: true });
}

function readStatements(path: string): Signed[] {
  const file = nameStatements(path);
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, "utf8").split("\n");
  return lines
    .filter((line) => line !== "")
    .map((line, index) => {
      const parsed = parseCanonical(line);
      const signed = parsed.kind === "object" ? readSigned(parsed.value, "key") : null;
      if (signed !== null) return signed;
      throw new SluiceError("LEDGER_KEY", `line ${index + 1} of ${file} is no statement of a key`, {
        hint: "Restore the file, or remove the line if it was cut while it was written.",
      });
    });
}
