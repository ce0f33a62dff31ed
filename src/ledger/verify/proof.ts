/**
 * Proofs that one record was in a ledger, without showing the others; and that one signed head
 * extends another. A proof is a JSON document; checking it needs only a key.
 */
import { hash } from "node:crypto";
import { canonicalize, type Json } from "../../core/base/canonical-json.ts";
import { SluiceError } from "../../core/base/errors.ts";
import type { ByteSource } from "../format/byte-lines.ts";
import { parseSignedHead } from "../format/signed-head.ts";
import { walkExport } from "./export-walk.ts";
import { computeConsistencyPath, computeInclusionPath, hashLeaf } from "../format/merkle-tree.ts";
import type { Signed } from "../format/signing-key.ts";

export const PROOF_VERSION = 1;

/** The position of a record. */
interface RecordPlace {
  readonly seq: number;
  readonly index: number | null;
}

/** Reads `<seq>`, or `<seq>/<index>` for a record of an item. */
export function parsePlace(text: string): RecordPlace | null {
  const [, seq, index] = /^([1-9]\d{0,14})(?:\/(0|[1-9]\d{0,14}))?$/.exec(text) ?? [];
  if (seq === undefined) return null;
  return { seq: Number(seq), index: index === undefined ? null : Number(index) };
}

/** Proves one record of an export with its last signed head: `7`, or `7/0` for one of an item. */
export async function proveRecord(source: ByteSource, name: string): Promise<string> {
  const place = parsePlace(name);
  if (place === null) throw refuseUnknown(name);
  const found = await gather(source, place);
  const { leaves, body, keys, signedHeads, lines, details } = found;
  const signedHead = signedHeads.at(-1);
  const { seq, index } = place;
  const line = index === null ? body : lines[index];
  if (body === null || line === null || line === undefined) {
    throw refuseUnknown(name);
  }
  const size = signedHead === undefined ? 0 : (parseSignedHead(signedHead.body)?.size ?? 0);
  if (signedHead === undefined || size < seq) throw refuseUnsigned(name);
  const block =
    index === null
      ? null
      : { header: body, index, path: computeInclusionPath(lines.map(hashLeaf), index) };
  return canonicalize({
    proof: PROOF_VERSION,
    record: line,
    ...(block === null ? {} : { block }),
    ...(details === null ? {} : { details }),
    tree: { index: seq - 1, path: computeInclusionPath(leaves.slice(0, size), seq - 1) },
    head: { ...signedHead },
    keys: keys.map((key) => ({ ...key })),
  });
}

/** Proves that the signed head of `to` records extends the one of `from` records. */
export async function proveConsistency(
  source: ByteSource,
  from: number,
  to: number,
): Promise<string> {
  const { leaves, signedHeads, keys } = await gather(source, null);
  const find = (size: number): Signed => {
    const found = signedHeads.find(({ body }) => parseSignedHead(body)?.size === size);
    if (found === undefined) throw refuseUnsigned(`${size}, as the last of a signed head,`);
    return found;
  };
  const older = find(from);
  const newer = find(to);
  return canonicalize({
    consistency: PROOF_VERSION,
    older: { ...older },
    newer: { ...newer },
    path: computeConsistencyPath(leaves.slice(0, to), from),
    keys: keys.map((key) => ({ ...key })),
  });
}

interface Gathered {
  /** For every record of the chain. */
  readonly leaves: string[];
  readonly keys: Signed[];
  readonly signedHeads: Signed[];
  /** The requested record of the chain. */
  body: string | null;
  /** The lines of its block. */
  readonly lines: string[];
  details: Json | null;
}

async function gather(source: ByteSource, place: RecordPlace | null): Promise<Gathered> {
  const found: Gathered = {
    leaves: [],
    keys: [],
    signedHeads: [],
    body: null,
    lines: [],
    details: null,
  };
  await walkExport(source, {
    onKey: (signed) => void found.keys.push(signed),
    onSignedHead: (signed) => void found.signedHeads.push(signed),
    onRecord: ({ seq }, text) => {
      found.leaves.push(hashLeaf(text));
      if (seq === place?.seq) found.body = text;
    },
    onItem: ({ seq }, _item, text) => {
      if (seq === place?.seq && place.index !== null) found.lines.push(text);
    },
    onDetails: ({ seq, index }, { salt, details }) => {
      if (seq === place?.seq && index === place.index) found.details = { salt, details };
    },
  });
  return found;
}

/** The hash of a record's body, as its successor and a signed head contain it. */
export function hashBody(body: string): string {
  return hash("sha256", body, "hex");
}

function refuseUnknown(name: string): SluiceError {
  return new SluiceError("NOT_FOUND", `the export has no record ${name}`, {
    kind: "record",
    hint: "A record is named by its number in the chain; one of an item also by its place in its block: 7/0.",
  });
}

function refuseUnsigned(name: string): SluiceError {
  return new SluiceError("LEDGER_UNSIGNED", `no signed head of the export covers record ${name}`, {
    hint: "Signed heads are signed at intervals and at the batch's end: export it again then.",
  });
}
