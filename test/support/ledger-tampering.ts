/**
 * The sample export that tests tamper with, and ways to do it. Its lines:
 *
 *   1 header   2-3 keys   4-7 records 1-4   8 record 5 and its block (9-17)   18 signed head of 5
 *   19 record 6 (20-21, details 22)   23 record 7 (24-31, details 32)   33-36 records 8-11
 *   37 signed head of 11   38 end
 */
import { expect, test } from "vitest";
import type { Verdict } from "../../src/ledger/verify/verdict.ts";
import { verifyExport } from "../../src/ledger/verify/verify-export.ts";
import { buildSample, type ExportBuilder, newSigningKey, toBytes } from "./ledger-export.ts";
import {
  assemble,
  type Assembly,
  type Body,
  dissect,
  type Entry,
  type Model,
} from "./ledger-forger.ts";

export const sample: ExportBuilder = buildSample();
export const lines: readonly string[] = sample.lines();
export const other = buildSample("b-other");
export const forger = newSigningKey();

export const verify = (
  forged: readonly string[] | Buffer,
  anchors: readonly string[] = [],
): Promise<Verdict> =>
  verifyExport([Buffer.isBuffer(forged) ? forged : toBytes(forged)], {
    trusted: [sample.pem],
    anchors,
  });

/** The line, from 1, with a change. */
export const change = (number: number, edit: (line: string) => string): string[] =>
  lines.map((line, index) => (index === number - 1 ? edit(line) : line));
export const drop = (from: number, count = 1): string[] => lines.toSpliced(from - 1, count);
export const insert = (before: number, ...added: string[]): string[] =>
  lines.toSpliced(before - 1, 0, ...added);
export const swap = (a: number, b: number): string[] =>
  lines.map((line, index) =>
    index === a - 1 ? lines[b - 1]! : index === b - 1 ? lines[a - 1]! : line,
  );

/** Changes the content and updates everything that needs no key. */
export function forge(edit: (model: Model) => void, how: Assembly): string[] {
  const model = dissect(lines);
  edit(model);
  return assemble(model, how);
}
export const dataOf = ({ record }: Entry): Body => record["data"] as Body;
export const at = (model: Model, seq: number): Entry => model.entries[seq - 1]!;
export const countsOf = (model: Model, seq: number): Body =>
  dataOf(at(model, seq))["counts"] as Body;

export const RECHAINED: Assembly = { rechain: true };
export const UNSIGNED: Assembly = { rechain: true, recheck: "unsigned" };
export const BY_FORGER: Assembly = { rechain: true, recheck: forger };
/** What even the owner of the key cannot make the verifier accept. */
export const BY_HOLDER: Assembly = { rechain: true, recheck: sample.firstKey };

export interface Tampering {
  readonly forged: readonly string[] | Buffer;
  readonly anchors?: readonly string[];
  readonly line: number;
  readonly record: string | null;
  readonly why: RegExp;
}

export const bitFlipped = (number: number, byte: number): Buffer => {
  const bytes = toBytes(lines);
  const before = toBytes(lines.slice(0, number - 1)).length;
  bytes[before + byte]! ^= 1;
  return bytes;
};

/** The verifier finds each of them, at its place and with its reason. */
export function testTampering(all: Readonly<Record<string, Tampering>>): void {
  for (const [name, { forged, anchors, line, record, why }] of Object.entries(all)) {
    test(name, async () => {
      const verdict = await verify(forged, anchors);
      const expected = { kind: "broken", line, record, why: expect.stringMatching(why) as string };
      expect(verdict).toEqual(expected);
    });
  }
}
