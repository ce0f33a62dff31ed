/**
 * What a forger does to an export: changes it and updates everything that needs no key (numbers,
 * hashes, roots, counts), or signs with the forger's own key. It shares no code with the verifier
 * except the canonical writer and the signing.
 */
import { createHash } from "node:crypto";
import { canonicalize, type Json } from "../../src/core/base/canonical-json.ts";
import { type SigningKey, signText } from "../../src/ledger/format/signing-key.ts";

export type Body = Record<string, Json>;

export interface Entry {
  record: Body;
  items: string[];
  details: string[];
  signedHead: { body: Body; signature: string } | null;
}

export interface Model {
  header: string;
  keys: string[];
  entries: Entry[];
}

export interface Assembly {
  /** Numbers, links and hashes every record again. */
  readonly rechain?: boolean;
  /**
   * Makes the signed heads fit the records, with their old signatures or with those of this key.
   */
  readonly recheck?: SigningKey | "unsigned";
}

export function dissect(lines: readonly string[]): Model {
  const [header = "", ...rest] = lines;
  const model: Model = { header, keys: [], entries: [] };
  let left = 0;
  for (const line of rest) {
    const last = model.entries.at(-1);
    if (left > 0) {
      last?.items.push(line);
      left--;
    } else if (line.startsWith('{"key":')) model.keys.push(line);
    else if (line.startsWith('{"details":')) last?.details.push(line);
    else if (line.startsWith('{"head":')) {
      const { head, signature } = JSON.parse(line) as Record<string, string>;
      const body = JSON.parse(head ?? "") as Body;
      if (last !== undefined) last.signedHead = { body, signature: signature ?? "" };
    } else if (!line.startsWith('{"end":')) {
      const record = JSON.parse(line) as Body;
      const data = record["data"] as Body;
      left = Number((data["block"] as Body | undefined)?.["count"] ?? 0);
      model.entries.push({ record, items: [], details: [], signedHead: null });
    }
  }
  return model;
}

export function assemble(model: Model, { rechain = false, recheck }: Assembly = {}): string[] {
  const lines = [model.header, ...model.keys];
  let prev = "0".repeat(64);
  let signedPrev = prev;
  const leaves: Buffer[] = [];
  let items = 0;
  for (const [index, entry] of model.entries.entries()) {
    const { record } = entry;
    if (rechain) {
      const data = record["data"] as Body | null;
      if (typeof data?.["block"] === "object") {
        const root = rootOf(entry.items.map(leafOf)).toString("hex");
        data["block"] = { ...(data["block"] as Body), count: entry.items.length, root };
      }
      Object.assign(record, { seq: index + 1, prev });
    }
    const text = canonicalize(record);
    prev = sha256(Buffer.from(text)).toString("hex");
    leaves.push(leafOf(text));
    items += entry.items.length;
    lines.push(text, ...entry.items, ...entry.details);
    if (entry.signedHead === null) continue;
    const { body } = entry.signedHead;
    let { signature } = entry.signedHead;
    if (recheck !== undefined) {
      const root = rootOf(leaves).toString("hex");
      Object.assign(body, { size: leaves.length, root, head: prev, prev: signedPrev });
      if (recheck !== "unsigned") {
        body["key"] = recheck.id;
        signature = signText(recheck, "sluice-signed-head", canonicalize(body)).signature;
      }
    }
    signedPrev = sha256(Buffer.from(canonicalize(body))).toString("hex");
    lines.push(canonicalize({ head: canonicalize(body), signature }));
  }
  return [...lines, canonicalize({ end: { records: model.entries.length, items } })];
}

function sha256(...parts: readonly Uint8Array[]): Buffer {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
}

export function leafOf(text: string): Buffer {
  return sha256(Buffer.of(0), Buffer.from(text));
}

/** As RFC 6962 defines it. */
export function rootOf(leaves: readonly Buffer[]): Buffer {
  if (leaves.length === 0) return sha256();
  if (leaves.length === 1) return leaves[0]!;
  let split = 1;
  while (split * 2 < leaves.length) split *= 2;
  return sha256(Buffer.of(1), rootOf(leaves.slice(0, split)), rootOf(leaves.slice(split)));
}
