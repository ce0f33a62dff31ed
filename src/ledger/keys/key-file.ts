/**
 * The signing key as a file: created on first use, readable by its owner only. Beside it is a
 * public file of statements, which goes into every export: each statement introduces a key, signed
 * by the key before. It is checked whenever it is read, because one bad statement would break every
 * later export. Links are resolved first, so that all names of a key have one file and one list of
 * statements.
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
  lstatSync,
  openSync,
  readFileSync,
  readlinkSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { dirname, resolve } from "node:path";
import { classifyPortError, SluiceError } from "../../core/base/errors.ts";
import { readSigned, writeKeyLine } from "../format/export-line.ts";
import { KeyRing } from "./key-ring.ts";
import {
  introduceKey,
  makeKey,
  type Signed,
  type SigningKey,
  toSigningKey,
} from "../format/signing-key.ts";
import { parseCanonical } from "../format/strict-json.ts";

const OWNER_ONLY = 0o600;
const PUBLIC = 0o644;
const OTHERS = 0o077;
const NEWLINE = 10;

export interface KeyFile {
  readonly key: SigningKey;
  /** How it and its predecessors were introduced, the first one first. */
  readonly statements: readonly Signed[];
}

/**
 * Reads the key, and creates one if there is none. `at` is the wall-clock time, for its statement.
 */
export function openKeyFile(path: string, at: string): KeyFile {
  return useKeyFile(path, (file) => {
    if (!existsSync(file)) createKeyFile(file);
    const { key, ring, statements } = readBoth(file);
    if (ring.find(key.id) !== undefined) return { key, statements };
    // A new key, or one that the user brought.
    const statement = introduceKey(key, null, at);
    appendStatement(file, statement);
    return { key, statements: [...statements, statement] };
  });
}

/** Like `openKeyFile`, without creating one. */
export function readKeyFile(path: string): KeyFile {
  const { key, statements } = useKeyFile(path, readBoth);
  return { key, statements };
}

export interface Rotation {
  readonly keyFile: KeyFile;
  /** Where the old key is now; null when it was dropped. */
  readonly oldPath: string | null;
}

/**
 * Replaces the old key by a new one, which the old key introduces. That revokes nothing: readers
 * that trust the old key still accept what it signs. The statement is on disk before the key: an
 * unused statement does no harm, but a key without one would. It can be repeated after a crash at
 * any point.
 */
export function rotateKeyFile(
  path: string,
  at: string,
  options: { readonly keepOld: boolean },
): Rotation {
  return useKeyFile(path, (file) => {
    const { key: old, statements } = readBoth(file);
    const key = toSigningKey(makeKey());
    const statement = introduceKey(key, old, at);
    const oldPath = options.keepOld ? `${file}.${old.id}` : null;
    if (oldPath !== null) keepOldKey(file, oldPath);
    const fresh = writeKeyBeside(file, key);
    try {
      appendStatement(file, statement);
      renameSync(fresh, file);
    } catch (error) {
      rmSync(fresh, { force: true });
      throw error;
    }
    return { keyFile: { key, statements: [...statements, statement] }, oldPath };
  });
}

/** An interrupted rotation may have left it there already; then the content is the same. */
function keepOldKey(path: string, oldPath: string): void {
  try {
    putInPlace(path, oldPath);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    if (readPrivately(oldPath) === readPrivately(path)) return;
    throw new SluiceError("LEDGER_KEY", `${oldPath} already exists and is not the old key`, {
      hint: "Check what it is and move it away, then rotate again. Nothing was changed.",
    });
  }
}

/** Resolves links, and turns system errors into ours. */
function useKeyFile<T>(path: string, use: (file: string) => T): T {
  try {
    return use(followLink(path));
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).syscall === undefined) throw cause;
    const { message } = cause as Error;
    throw new SluiceError("LEDGER_KEY_FILE", `the key ${path} cannot be used: ${message}`, {
      hint: "Check that its folder exists and that this user may read and write there, and the free space.",
      // A background signer retries these errors as before.
      retryable: classifyPortError(cause) !== "fatal",
      cause,
    });
  }
}

function followLink(path: string): string {
  if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return path;
  try {
    return realpathSync(path);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "ENOENT") throw cause;
    const target = resolve(dirname(path), readlinkSync(path));
    throw new SluiceError("LEDGER_KEY", `${path} is a link to ${target}, which does not exist`, {
      hint: "Put the key there; or remove the link, and a new key is made in its place.",
      cause,
    });
  }
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

/** Completely or not at all, and never over an existing file. */
function putInPlace(fresh: string, path: string): void {
  try {
    linkSync(fresh, path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // Some file systems do not support hard links.
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
    // Reported below: the platform's message may contain parts of the key.
  }
  throw new SluiceError("LEDGER_KEY", `${path} is not an Ed25519 private key`, {
    hint: "It must be PKCS#8 PEM, as it was made by Sluice. Restore it, or move it away to start with a new one.",
  });
}

/** Checks the mode of the very file that it reads. */
function readPrivately(path: string): string {
  const file = openSync(path, "r");
  try {
    const mode = fstatSync(file).mode & 0o777;
    if (process.platform !== "win32" && (mode & OTHERS) !== 0) {
      const shown = mode.toString(8).padStart(3, "0");
      throw new SluiceError(
        "LEDGER_KEY_FILE",
        `other users can access the key ${path}: its mode is ${shown}`,
        {
          hint: `Run \`chmod 600 ${path}\`. If others may have read it, move it away: a new key is created. Then trust only that one.`,
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
  const file = openSync(nameStatements(path), "a+", PUBLIC);
  try {
    const lead = endsWithLine(file) ? "" : "\n";
    appendFileSync(file, `${lead}${writeKeyLine(statement)}\n`, { flush: true });
  } finally {
    closeSync(file);
  }
}

/** An editor may have left the last line without its end. */
function endsWithLine(file: number): boolean {
  const { size } = fstatSync(file);
  if (size === 0) return true;
  const last = Buffer.alloc(1);
  readSync(file, last, 0, 1, size - 1);
  return last[0] === NEWLINE;
}

interface KeyWithRing extends KeyFile {
  /** All keys that the statements introduce. */
  readonly ring: KeyRing;
}

function readBoth(path: string): KeyWithRing {
  const key = readKey(path);
  const file = nameStatements(path);
  const ring = new KeyRing([]);
  const lines = existsSync(file) ? readFileSync(file, "utf8").split("\n") : [];
  const statements = lines.flatMap((line, index) => {
    if (line === "") return [];
    const parsed = parseCanonical(line);
    const signed = parsed.kind === "object" ? readSigned(parsed.value, "key") : null;
    const why = signed === null ? "it is not a signed statement" : ring.introduce(signed);
    if (signed !== null && why === null) return [signed];
    const place = `line ${index + 1} of ${file}`;
    throw new SluiceError("LEDGER_KEY", `${place} is not a valid key statement: ${why}`, {
      hint: "Restore the file. A line that was cut while it was written can be removed.",
    });
  });
  return { key, statements, ring };
}
