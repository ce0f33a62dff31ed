import { describe, expect, test } from "vitest";
import {
  buildSample,
  ExportBuilder,
  exportPem,
  newSigningKey,
  type RecordOfItem,
  toBytes,
} from "../../../test/support/ledger-export.ts";
import { dissect } from "../../../test/support/ledger-forger.ts";
import { canonicalize, type Json } from "../../core/base/canonical-json.ts";
import { writeSignedHeadLine, writeExport } from "../format/export-line.ts";
import { signText } from "../format/signing-key.ts";
import { describeVerdict, isConclusive, type Verdict } from "./verdict.ts";
import { verifyExport, type VerifyOptions } from "./verify-export.ts";

const verify = (builder: ExportBuilder, options: Partial<VerifyOptions> = {}): Promise<Verdict> =>
  verifyExport([toBytes(builder.lines())], { trusted: [builder.pem], ...options });

const all = (items: number, state: string, drive = 1): RecordOfItem[] =>
  Array.from({ length: items }, (_, item) => ({ item, state, drive }));

describe("an untouched export", () => {
  test("is intact, and the verdict lists its content", async () => {
    const sample = buildSample();
    const verdict = await verify(sample);
    expect(verdict).toEqual({
      kind: "intact",
      batch: "b-test",
      records: 11,
      items: 19,
      signedHeads: 2,
      signedTo: 11,
      signers: [sample.firstKey.id, sample.key.id],
      isTrusted: true,
      anchors: 0,
      otherAnchors: 0,
      ended: "completed_with_errors",
      details: { present: 2, erased: 0, missing: 0 },
    });
    expect(isConclusive(verdict)).toBe(true);
    expect(describeVerdict(verdict)).toEqual([
      "intact: batch b-test, 11 records, 19 item records",
      `2 signed heads, signed by ${sample.firstKey.id}, ${sample.key.id}`,
      "details of 2 records match, of 0 are erased",
      "the batch ended: completed_with_errors",
    ]);
  });

  test("is intact however it is split into pieces", async () => {
    const sample = buildSample();
    const bytes = toBytes(sample.lines());
    const whole = await verify(sample);
    for (const size of [1, 7, 1_000]) {
      const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
        bytes.subarray(index * size, (index + 1) * size),
      );
      expect(await verifyExport(pieces, { trusted: [sample.pem] })).toEqual(whole);
    }
  });

  test("is not changed by being verified", async () => {
    const sample = buildSample();
    const bytes = toBytes(sample.lines());
    const before = Buffer.from(bytes);
    await verifyExport([bytes], { trusted: [sample.pem] });
    expect(bytes.equals(before)).toBe(true);
  });

  test("equals what the export writer makes of records, blocks and signed heads", async () => {
    const sample = buildSample();
    const lines = sample.lines();
    const text = (all: readonly string[]): string => all.map((line) => `${line}\n`).join("");
    const records = dissect(lines).entries.map(({ record, items, details, signedHead }) => ({
      body: canonicalize(record),
      block:
        items.length === 0 ? null : { bytes: Buffer.from(text(items)), details: text(details) },
      signedHead:
        signedHead === null
          ? null
          : { body: canonicalize(signedHead.body), signature: signedHead.signature },
    }));
    const keys = lines.slice(1, 3).map((line) => {
      const { key: body, signature } = JSON.parse(line) as { key: string; signature: string };
      return { body, signature };
    });
    const pieces: Uint8Array[] = [];
    for await (const piece of writeExport(sample.batch, keys, records)) pieces.push(piece);
    expect(Buffer.concat(pieces).toString()).toBe(text(lines));
  });

  test("is intact without its details, and says how many are missing without an erasure", async () => {
    for (const records of [0, 1, 2]) {
      const sample = buildSample();
      if (records > 0) sample.record("details.erased", { records, by: "ann" }).addSignedHead();
      const lines = sample.lines();
      const left = lines.filter((line) => !line.startsWith('{"details":'));
      expect(left).toHaveLength(lines.length - 2);
      const verdict = await verifyExport([toBytes(left)], { trusted: [sample.pem] });
      const details = { present: 0, erased: records, missing: 2 - records };
      expect(verdict).toMatchObject({ kind: "intact", details });
      expect(isConclusive(verdict)).toBe(records === 2);
      expect(
        describeVerdict(verdict).some((line) => line.includes("missing without an erasure")),
      ).toBe(records < 2);
    }
  });

  test("counts anchors of other batches, and quotes a name that could be read as words", async () => {
    const other = buildSample("b-other");
    const sample = buildSample("b-1, 9 records");
    const anchors = other.signedHeads.map(({ body }) => body);
    const verdict = await verifyExport([toBytes(sample.lines())], { trusted: [], anchors });
    expect(verdict).toMatchObject({ kind: "intact", anchors: 0, otherAnchors: 2 });
    const said = describeVerdict(verdict);
    expect(said).toContain("none of the 2 anchors from outside is of this batch");
    expect(said[0]).toContain('batch "b-1, 9 records", 11 records');
  });

  test("whose end is not signed yet reports up to where it is signed", async () => {
    const sample = buildSample();
    const open = sample.lines().filter((_, index) => index !== 36);
    const verdict = await verifyExport([toBytes(open)], { trusted: [sample.pem] });
    expect(verdict).toMatchObject({ kind: "intact", signedTo: 5, records: 11 });
    expect(isConclusive(verdict)).toBe(false);
    expect(describeVerdict(verdict)[0]).toMatch(
      /^intact, but signed only up to record 5; anyone could have written what follows: /,
    );
  });

  test("of a batch that still runs is intact, and not conclusive", async () => {
    const running = new ExportBuilder()
      .begin({ itemLedger: true })
      .plan(4)
      .block(all(2, "succeeded"))
      .addSignedHead();
    const verdict = await verify(running);
    expect(verdict).toMatchObject({ kind: "intact", ended: null });
    expect(isConclusive(verdict)).toBe(false);
    expect(describeVerdict(verdict).at(-1)).toBe("the export is from before the batch's end");
  });

  test("without signed heads is signed by no key", async () => {
    const plain = new ExportBuilder().begin().plan(0).endStep({}).end("succeeded", {});
    const verdict = await verify(plain);
    expect(verdict).toMatchObject({ kind: "intact", signedTo: 0, signers: [], isTrusted: false });
    expect(describeVerdict(verdict)[1]).toBe("0 signed heads, signed by no key");
  });
});

describe("keys", () => {
  test("an id, or more of the fingerprint, names a key that is trusted", async () => {
    const sample = buildSample();
    for (const trusted of [[sample.firstKey.id], [sample.pem, exportPem(newSigningKey())]]) {
      expect(await verify(sample, { trusted })).toMatchObject({ kind: "intact", isTrusted: true });
    }
  });

  test("without a trusted key, signatures are checked but not trusted", async () => {
    const sample = buildSample();
    const verdict = await verify(sample, { trusted: [] });
    expect(verdict).toMatchObject({ kind: "intact", isTrusted: false });
    expect(isConclusive(verdict)).toBe(false);
    expect(describeVerdict(verdict)).toContain(
      "no key was named as trusted: anybody could have signed it",
    );
    const edited = sample.lines().with(1, buildSample().lines()[1]!);
    const refused = await verifyExport([toBytes(edited)], { trusted: [] });
    expect(refused).toMatchObject({ kind: "broken", line: 3 });
  });

  test("a reader who trusts only the second key does not trust what the first one signed", async () => {
    const sample = buildSample();
    const verdict = await verify(sample, { trusted: [exportPem(sample.key)] });
    expect(verdict).toMatchObject({ kind: "broken", line: 18 });
  });

  test("an invalid key is refused before anything is read", async () => {
    const refused = expect.objectContaining({ code: "LEDGER_KEY" }) as Error;
    await expect(verify(buildSample(), { trusted: ["0123"] })).rejects.toThrow(refused);
  });
});

describe("anchors", () => {
  test("of the batch must match, those of others are ignored", async () => {
    const sample = buildSample();
    const elsewhere = buildSample("b-other").signedHeads.map(({ body }) => body);
    const anchors = [...sample.signedHeads.map(({ body }) => body), ...elsewhere];
    const verdict = await verify(sample, { anchors });
    expect(verdict).toMatchObject({ kind: "intact", anchors: 2 });
    expect(describeVerdict(verdict)).toContain("2 anchors from outside, all found");
  });

  test("that cannot be read are refused: they would prove nothing", async () => {
    const refused = expect.objectContaining({ code: "BAD_OPTION", field: "anchors" }) as Error;
    for (const anchor of ["", "{}", '{"head":"{}","signature":""}', "\u0000"]) {
      await expect(verify(buildSample(), { anchors: [anchor] })).rejects.toThrow(refused);
    }
  });
});

test("a signed head of other records is refused, whatever key signed it", async () => {
  const sample = buildSample();
  const lines = sample.lines();
  const at = lines.findLastIndex((line) => line.startsWith('{"head"'));
  const { body } = sample.signedHeads.at(-1)!;
  const root = "ab".repeat(32);
  const forged = canonicalize({ ...(JSON.parse(body) as Record<string, Json>), root });
  lines[at] = writeSignedHeadLine(signText(sample.key, "sluice-signed-head", forged));
  expect(await verifyExport([toBytes(lines)], { trusted: [sample.pem] })).toMatchObject({
    kind: "broken",
    line: at + 1,
    why: "the signed head has the root of other records",
  });
});

describe("completeness", () => {
  const started = (items: number): ExportBuilder =>
    new ExportBuilder().begin({ itemLedger: true }).plan(items);

  test("a batch without records of items is judged by its counts", async () => {
    const counts = { succeeded: 3, failed: 1 };
    const plain = (): ExportBuilder => new ExportBuilder().begin().plan(4).endStep(counts);
    const batch = plain().end("completed_with_errors", counts);
    expect(await verify(batch)).toMatchObject({ kind: "intact", items: 0 });
    const wrong = plain().end("completed_with_errors", { succeeded: 4 });
    expect(await verify(wrong)).toMatchObject({ kind: "broken", record: "7" });
  });

  test("a batch with a ledger of items must have their records", async () => {
    const counts = { succeeded: 2 };
    const batch = started(2).endStep(counts);
    expect(await verify(batch)).toMatchObject({
      kind: "broken",
      record: "5",
      why: "step 0 ended with 2 succeeded, its items' records say 0",
    });
  });

  test("items that an early end left undone are cancelled and have no record", async () => {
    const counts = { succeeded: 2, cancelled: 3 };
    const batch = started(5).block(all(2, "succeeded")).endStep(counts).end("cancelled", counts);
    expect(await verify(batch)).toMatchObject({ kind: "intact", ended: "cancelled" });
  });

  test("an automatic pass redrives the failures that it lists, and as many as it says", async () => {
    const rescued = (items: number, back = [1, 2], opened = 2): ExportBuilder =>
      started(3)
        .block([...all(1, "succeeded"), { item: 1, state: "failed" }, { item: 2, state: "failed" }])
        .putBack(back, opened)
        .record("dead_letters.redriven", { step: 0, drive: 2, items, pass: 1, by: "engine" })
        .block(
          [1, 2].map((item) => ({ item, state: "succeeded", drive: 2 })),
          { fence: 2 },
        )
        .endStep({ succeeded: 3 })
        .end("succeeded", { succeeded: 3 }, 2);
    expect(await verify(rescued(2))).toMatchObject({ kind: "intact" });
    for (const items of [1, 3]) {
      expect(await verify(rescued(items))).toMatchObject({ kind: "broken", record: "7" });
    }
    expect(await verify(rescued(1, [2]))).toMatchObject({ kind: "broken", record: "8/0" });
    expect(await verify(rescued(2, [0, 1]))).toMatchObject({ kind: "broken", record: "6" });
    expect(await verify(rescued(2, [1, 2], 3))).toMatchObject({ kind: "broken", record: "7" });
  });

  const redriven = (): ExportBuilder => {
    const counts = { succeeded: 1, failed: 2 };
    return started(3)
      .block([...all(1, "succeeded"), { item: 1, state: "failed" }, { item: 2, state: "failed" }])
      .endStep(counts)
      .end("completed_with_errors", counts)
      .addSignedHead()
      .putBack([2], 2)
      .record("dead_letters.redriven", { drive: 2, items: 1, revived: 0, by: "ann" })
      .record("batch.reopened", { step: 0, drive: 2 })
      .record("batch.started", { step: 0, drive: 2 });
  };

  test("a manual redrive reopens the batch, which ends again", async () => {
    const counts = { succeeded: 2, failed: 1 };
    const batch = redriven()
      .block([{ item: 2, state: "succeeded", drive: 2 }], { fence: 2 })
      .endStep(counts)
      .end("completed_with_errors", counts, 2)
      .addSignedHead();
    expect(await verify(batch)).toMatchObject({ kind: "intact", ended: "completed_with_errors" });
    const more = redriven().block(
      [1, 2].map((item) => ({ item, state: "succeeded", drive: 2 })),
      { fence: 2 },
    );
    expect(await verify(more)).toMatchObject({ kind: "broken", record: "14/0" });
  });

  test("one that was reopened and is cancelled before it runs counts the redriven as cancelled", async () => {
    const batch = redriven()
      .record("batch.cancel_requested", { mode: "now", by: "ann" })
      .record("batch.ended", {
        state: "cancelled",
        drive: 2,
        counts: { planned: 3, succeeded: 1, skipped: 0, failed: 1, cancelled: 1, pending: 0 },
      });
    expect(await verify(batch)).toMatchObject({ kind: "intact", ended: "cancelled" });
  });

  test("an open batch grows until it is sealed", async () => {
    const open = (items: number): ExportBuilder =>
      started(0)
        .block(all(3, "succeeded"))
        .record("batch.sealed", { items, chunks: 1 })
        .endStep({ succeeded: 3 })
        .end("succeeded", { succeeded: 3 });
    expect(await verify(open(3))).toMatchObject({ kind: "intact" });
    expect(await verify(open(2))).toMatchObject({ kind: "broken", record: "6" });
    expect(await verify(open(4))).toMatchObject({ kind: "broken", record: "7" });
  });

  test("the steps of a batch are counted together", async () => {
    const twoSteps = (planned: number): ExportBuilder =>
      started(2)
        .block(all(2, "succeeded"))
        .endStep({ succeeded: 2 })
        .plan(planned, 1)
        .block(all(1, "skipped"), { step: 1 })
        .endStep({ skipped: 1 }, 1)
        .end("succeeded", { succeeded: 2, skipped: 1 });
    expect(await verify(twoSteps(1))).toMatchObject({ kind: "intact" });
    expect(await verify(twoSteps(2))).toMatchObject({ kind: "broken", record: "10" });
  });

  test("a step whose slicing was stopped has no plan, and its planned items are cancelled", async () => {
    const stopped = (succeeded: number): ExportBuilder =>
      started(2)
        .block(all(2, "succeeded"))
        .endStep({ succeeded: 2 })
        .record("slicing.started", { step: 1 })
        .record("slicing.aborted", { code: "DEADLINE", message: "it is late" })
        .record("batch.ended", {
          state: "expired",
          drive: 1,
          counts: {
            planned: 7,
            succeeded,
            skipped: 0,
            failed: 0,
            cancelled: 7 - succeeded,
            pending: 0,
          },
        });
    expect(await verify(stopped(2))).toMatchObject({ kind: "intact", ended: "expired" });
    expect(await verify(stopped(3))).toMatchObject({ kind: "broken", record: "9" });
    expect(await verify(stopped(1))).toMatchObject({ kind: "broken", record: "9" });
  });

  test("an item that succeeded or was skipped has a record of its own", async () => {
    for (const outcome of ["succeeded", "skipped"] as const) {
      const batch = started(2)
        .block(all(2, outcome), { unseen: true })
        .endStep({ [outcome]: 2 })
        .end("succeeded", { [outcome]: 2 });
      expect(await verify(batch)).toMatchObject({
        kind: "broken",
        record: "5",
        why: expect.stringMatching(/^item 0 of step 0 .*, but has no record$/) as string,
      });
    }
  });

  test.each([true, false])(
    "a step that was planned cannot be left out (items: %s)",
    async (itemLedger) => {
      const begun = (): ExportBuilder => new ExportBuilder().begin({ itemLedger });
      const unended = { kind: "broken", why: "it ran to its end, but step 0 did not" };
      expect(await verify(begun().plan(1_000).end("succeeded", {}))).toMatchObject(unended);
      const second = begun().plan(0).endStep({}).plan(1_000, 1).end("succeeded", {});
      expect(await verify(second)).toMatchObject({
        kind: "broken",
        why: "it ran to its end, but step 1 did not",
      });
      const early = begun().plan(10).end("cancelled", { cancelled: 1 });
      expect(await verify(early)).toMatchObject({
        kind: "broken",
        why: "it ended with 1 items, and 10 were planned",
      });
    },
  );

  test("a reopened batch ends its step again", async () => {
    const counts = { succeeded: 1, failed: 2 };
    const batch = redriven().end("completed_with_errors", counts, 2);
    expect(await verify(batch)).toMatchObject({
      kind: "broken",
      why: "step 0 ended with 2 failed, its items' records say 1",
    });
  });

  test("a change is about one chunk, and a block has a maximum size", async () => {
    const far = started(3_000_000).record("items.recorded", {
      step: 0,
      chunk: 0,
      fence: 1,
      worker: 1,
      skipped: "0,2000000",
    });
    expect(await verify(far)).toMatchObject({
      kind: "broken",
      why: "it says something impossible about items",
    });
  });

  test("a record of a step that has ended is refused", async () => {
    const batch = started(2)
      .block(all(1, "succeeded"))
      .endStep({ succeeded: 1, cancelled: 1 })
      .block([{ item: 1, state: "succeeded" }], { block: 2 });
    expect(await verify(batch)).toMatchObject({
      kind: "broken",
      record: "7/0",
      why: "step 0 has ended, and item 1 of it has a record after that",
    });
  });

  test("items that the engine itself gave up have no worker", async () => {
    const counts = { succeeded: 1, failed: 1 };
    const batch = started(2)
      .block(all(1, "succeeded"))
      .block([{ item: 1, state: "failed", code: "POISON", attempt: 3 }], { worker: null })
      .endStep(counts)
      .end("completed_with_errors", counts);
    expect(await verify(batch)).toMatchObject({ kind: "intact" });
  });

  test("an unknown type of record is part of the chain and has no other effect", async () => {
    const batch = started(0).record("batch.toString", {}).record("constructor", { step: -1 });
    expect(await verify(batch)).toMatchObject({ kind: "intact", records: 6 });
  });
});
