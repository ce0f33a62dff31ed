import { hash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { CHAIN_START, type ChainedRecord, chainRecord, verifyChain } from "./chain.ts";

const sha256 = (text: string): string => hash("sha256", text);
const AT = "2026-01-01T00:00:00.000Z";

/** A chain with this many records. */
function make(records: number, batch = "b"): ChainedRecord[] {
  const chain: ChainedRecord[] = [];
  for (let n = 0; n < records; n++) {
    const head = chain.at(-1) ?? CHAIN_START;
    const facts = { batch, type: "step.ended", at: AT, data: { step: n } } as const;
    chain.push(chainRecord(head, facts, sha256));
  }
  return chain;
}

/** A record with another body and the hash that goes with it, as a forger would write it. */
const forge = (body: string): { body: string; hash: string } => ({ body, hash: sha256(body) });

describe("a chain of records", () => {
  test("starts at CHAIN_START, and an empty one is intact", () => {
    expect(CHAIN_START).toEqual({ seq: 0, hash: "0".repeat(64) });
    expect(verifyChain([], sha256)).toEqual({ kind: "intact", head: CHAIN_START });
  });

  test("links each record to its predecessor within the hashed bytes", () => {
    const [one, two] = make(2) as [ChainedRecord, ChainedRecord];
    expect(one.body).toBe(
      `{"at":"${AT}","batch":"b","data":{"step":0},"prev":"${"0".repeat(64)}","seq":1,` +
        `"type":"step.ended","v":1}`,
    );
    expect(one.hash).toBe(sha256(one.body));
    expect(JSON.parse(two.body)).toMatchObject({ seq: 2, prev: one.hash });
  });

  test("verifies as it was written, and returns its head", () => {
    const chain = make(5);
    const { seq, hash: last } = chain.at(-1)!;
    expect(verifyChain(chain, sha256)).toEqual({ kind: "intact", head: { seq, hash: last } });
  });

  const chain: readonly { body: string; hash: string }[] = make(6);
  const edited = chain[2]!.body.replace('"step":2', '"step":9');
  const attacks: Readonly<
    Record<string, { seq: number; records: { body: string; hash: string }[] }>
  > = {
    "a body that was edited": { seq: 3, records: chain.with(2, { ...chain[2]!, body: edited }) },
    "a body and its hash that were edited": {
      seq: 4,
      records: chain.with(2, { ...chain[2]!, ...forge(edited) }),
    },
    "a hash that was edited": {
      seq: 3,
      records: chain.with(2, { ...chain[2]!, hash: "f".repeat(64) }),
    },
    "a record that was dropped": { seq: 3, records: chain.toSpliced(2, 1) },
    "a duplicated record": { seq: 4, records: chain.toSpliced(2, 0, chain[2]!) },
    "two records that were swapped": {
      seq: 3,
      records: chain.with(2, chain[3]!).with(3, chain[2]!),
    },
    "the oldest records cut off": { seq: 1, records: chain.slice(2) },
    "another chain's records spliced in": {
      seq: 4,
      records: [...chain.slice(0, 3), ...make(6, "other").slice(3)],
    },
    "a record in reverse order": { seq: 1, records: chain.toReversed() },
    "a forged record that is no JSON": {
      seq: 3,
      records: chain.toSpliced(2, 9, forge("{")),
    },
    "a forged record that is no object": {
      seq: 3,
      records: chain.toSpliced(2, 9, forge("null")),
    },
    "a forged record without a number": {
      seq: 3,
      records: chain.toSpliced(2, 9, forge("{}")),
    },
  };
  for (const [attack, { seq, records }] of Object.entries(attacks)) {
    test(`${attack} is detected, at its position`, () => {
      expect(verifyChain(records, sha256)).toMatchObject({ kind: "broken", seq });
    });
  }

  test("cutting off the newest records shows in the head, which an anchor stores", () => {
    const cut = verifyChain(chain.slice(0, 4), sha256);
    expect(cut).toEqual({ kind: "intact", head: { seq: 4, hash: chain[3]!.hash } });
    expect(cut).not.toEqual(verifyChain(chain, sha256));
  });

  test("every flipped bit in any body is detected", () => {
    for (const [index, record] of chain.entries()) {
      for (let at = 0; at < record.body.length; at++) {
        const flipped = String.fromCharCode(record.body.charCodeAt(at) ^ 1);
        const body = record.body.slice(0, at) + flipped + record.body.slice(at + 1);
        const tampered = chain.with(index, { ...record, body });
        expect(verifyChain(tampered, sha256).kind).toBe("broken");
      }
    }
  });
});
