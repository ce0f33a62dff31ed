/** Reads a ledger from an export file, or from a batch in the store. */
import { createReadStream, existsSync, readFileSync, statSync } from "node:fs";
import { SluiceError } from "../../core/base/errors.ts";
import type { ByteSource } from "../../ledger/format/byte-lines.ts";
import { exportLedger } from "../../runtime/evidence/ledger-export.ts";
import type { Cli } from "../output/cli.ts";
import type { CommonFlags } from "../config/common-flags.ts";
import { withBatch } from "../session/with-store.ts";

/** Called again for each reading. */
export type OpenLedger = () => ByteSource;

/** The file with that name, or else the batch with that id. */
export function withLedger(
  cli: Cli,
  where: string,
  flags: CommonFlags,
  look: (open: OpenLedger) => Promise<number>,
): Promise<number> {
  if (isFile(where)) return look(() => readExport(where));
  return withBatch(cli, where, flags, [], ({ id }, { store }) =>
    look(() => exportLedger(store, id)),
  );
}

function isFile(path: string): boolean {
  return existsSync(path) && statSync(path).isFile();
}

/** The bytes of an export. A missing file is reported before any other problem. */
export function readExport(path: string): ByteSource {
  if (!isFile(path)) throw refuseFile(path, "an export of a ledger");
  return createReadStream(path);
}

export function readWhole(path: string, what: string): string {
  if (!isFile(path)) throw refuseFile(path, what);
  return readFileSync(path, "utf8");
}

function refuseFile(path: string, what: string): SluiceError {
  return new SluiceError("FILE_MISSING", `there is no file ${path}`, {
    hint: `Give the path of ${what}.`,
  });
}

/** The description of `--trust` in help texts. */
export const ABOUT_TRUST = "trusted public key: a PEM file or a key id; repeatable";

/** Each value of `--trust`. */
export function readTrusted(given: readonly string[]): string[] {
  return given.map((one) => (isFile(one) ? readFileSync(one, "utf8") : one));
}

/**
 * Signed heads from a file of anchors, one per line: in the form of exports, or of messages of the
 * topic.
 */
export function readAnchors(path: string): string[] {
  const lines = readWhole(path, "anchors").split("\n");
  return lines.filter((line) => line.trim() !== "").map(readAnchorLine);
}

function readAnchorLine(line: string): string {
  try {
    const { data } = JSON.parse(line) as { readonly data?: { readonly head?: unknown } };
    return typeof data?.head === "string" ? data.head : line;
  } catch {
    // The verifier reports the problem.
    return line;
  }
}
