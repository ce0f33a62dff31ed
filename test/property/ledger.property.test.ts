/** Two verifiers that share no code agree on every export, unchanged or forged. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { verifyExport } from "../../src/ledger/verify/verify-export.ts";
import { drawExport, makeDraw, mutate } from "../support/ledger-corpus.ts";
import { toBytes } from "../support/ledger-export.ts";
import { assemble, type Body, dissect, type Entry } from "../support/ledger-forger.ts";
import { verifyNaively } from "../support/naive-verifier.ts";

const SEED = fc.integer();
const RUNS = 60;

test("both verifiers accept an unchanged export", async () => {
  await fc.assert(
    fc.asyncProperty(SEED, async (seed) => {
      const builder = drawExport(makeDraw(seed));
      const bytes = toBytes(builder.lines());
      const anchors = builder.signedHeads.map(({ body }) => body);
      expect(verifyNaively(bytes, { pem: builder.pem, anchors })).toBeNull();
      const verdict = await verifyExport([bytes], { trusted: [builder.pem], anchors });
      expect(verdict).toMatchObject({
        kind: "intact",
        batch: builder.batch,
        records: builder.head.seq,
        items: builder.items,
        signedHeads: anchors.length,
      });
    }),
    { numRuns: RUNS },
  );
});

test("both verifiers judge a forged export alike", async () => {
  let broken = 0;
  await fc.assert(
    fc.asyncProperty(SEED, async (seed) => {
      const draw = makeDraw(seed);
      const builder = drawExport(draw);
      const lines = builder.lines();
      for (let round = 0; round < 10; round++) {
        const bytes = mutate(draw, builder, lines);
        const anchors = draw(3) === 0 ? builder.signedHeads.map(({ body }) => body) : [];
        const naive = verifyNaively(bytes, { pem: builder.pem, anchors });
        const verdict = await verifyExport([bytes], { trusted: [builder.pem], anchors });
        const said = verdict.kind === "broken" ? `${verdict.line}: ${verdict.why}` : null;
        expect({ round, naive, said }).toSatisfy(() => (naive === null) === (said === null));
        if (said !== null) broken++;
      }
    }),
    { numRuns: RUNS },
  );
  expect(broken).toBeGreaterThan(0);
});

test("both verifiers give the same answer for any value in any place, and neither crashes", async () => {
  await fc.assert(
    fc.asyncProperty(SEED, fc.jsonValue({ maxDepth: 3 }), async (seed, strange) => {
      const draw = makeDraw(seed);
      const builder = drawExport(draw);
      const model = dissect(builder.lines());
      const { record, signedHead } = model.entries[draw(model.entries.length)] as Entry;
      const data = record["data"] as Body;
      const nests = [record, data, data["counts"] as Body | undefined, signedHead?.body];
      const nest = nests.filter((one) => one !== undefined)[draw(2)] ?? data;
      const names = Object.keys(nest);
      const name = names[draw(names.length + 1)] ?? "toString";
      nest[name] = strange;
      const how = draw(2) === 0 ? {} : { rechain: true, recheck: builder.firstKey };
      const bytes = toBytes(assemble(model, how));
      const naive = verifyNaively(bytes, { pem: builder.pem });
      const verdict = await verifyExport([bytes], { trusted: [builder.pem] });
      const said = verdict.kind === "broken" ? `${verdict.line}: ${verdict.why}` : null;
      expect({ name, naive, said }).toSatisfy(() => (naive === null) === (said === null));
    }),
    { numRuns: 5 * RUNS },
  );
});
