/** Each chunk of a run (adjacent chunks leased together) ends independently of the others. */
import { expect } from "vitest";
import type { LeasedChunk } from "../../src/ports/store/worker-store.ts";
import { allOf, LEASE_MS, ME, type Rig, type Rule, say, steps } from "./rig.ts";

/** A batch of chunks of two items. The first chunks are leased together. */
async function leaseRun(
  rig: Rig,
  chunks: number,
  leased = chunks,
): Promise<{ readonly id: string; readonly run: readonly LeasedChunk[] }> {
  const id = await rig.running(Array.from({ length: chunks }, () => 2));
  return { id, run: await leaseMore(rig, leased) };
}

async function leaseMore(rig: Rig, chunksMax: number, worker = rig.worker) {
  const run = await rig.lease({ chunksMax, worker });
  expect(run).toHaveLength(chunksMax);
  return run;
}

function settleAll(run: readonly LeasedChunk[]) {
  return run.map((lease) => say(lease, { succeeded: allOf(lease) }));
}

const numbersOf = (leases: readonly { readonly chunk: number }[]) =>
  leases.map(({ chunk }) => chunk);

/** The chunks that a query shows, each with its state and worker. */
async function look(rig: Rig, id: string): Promise<string[]> {
  const facts = await rig.store.readWaiting(id, 100);
  const chunks = facts?.chunks ?? [];
  const leased = chunks.filter(({ state }) => state === "leased");
  expect(facts?.batch.leased).toBe(leased.length);
  for (const { chunk, state } of chunks) {
    expect((await rig.store.findItem(id, 0, chunk * 2))?.state).toBe(state);
  }
  return chunks.map(({ chunk, state, worker }) => `${chunk} ${state} ${worker ?? "-"}`);
}

export function describeLeaseRuns(rule: Rule): void {
  rule("the chunk list shows which chunks are leased and by which worker", async ({ rig }) => {
    const { id, run } = await leaseRun(rig, 6, 3);
    const other = await rig.store.registerWorker({ name: "other" });
    const [theirs] = await leaseMore(rig, 1, other);
    await rig.settle(run[1]!);
    await rig.report(run[2]!, { succeeded: [0], intent: "keep" });
    expect(await look(rig, id)).toEqual([
      `0 leased ${rig.worker}`,
      `2 leased ${rig.worker}`,
      `3 leased ${other}`,
      "4 planned -",
      "5 planned -",
    ]);
    await rig.store.work(settleAll([run[0]!, theirs!]), null);
    await rig.report(run[2]!, { retryInMs: { 1: 5 } });
    expect(await look(rig, id)).toEqual(["2 waiting -", "4 planned -", "5 planned -"]);
  });

  rule("when a worker dies, only the unreported rest of its run is lost", async ({ rig }) => {
    const { id, run } = await leaseRun(rig, 7, 6);
    const reports = settleAll([run[0]!, run[1]!, run[4]!]);
    expect((await rig.store.work(reports, null)).reports).toEqual(Array(3).fill("settled"));
    rig.clock.advance(LEASE_MS);
    expect(await rig.sweep()).toMatchObject({ lostLeases: 3 });
    const again = await leaseMore(rig, 4);
    expect(numbersOf(again)).toEqual([2, 3, 5, 6]);
    expect(again.map(({ guarded }) => guarded)).toEqual([true, true, true, false]);
    expect(again.map(({ fence }) => fence)).toEqual([2, 2, 2, 1]);
    await rig.store.work(settleAll(again), null);
    expect(await rig.get(id)).toMatchObject({ state: "succeeded", counts: { succeeded: 14 } });
  });

  rule("a report on a swept run is lost, before and after the next lease", async ({ rig }) => {
    const { id, run } = await leaseRun(rig, 3);
    await rig.settle(run[0]!);
    await rig.lose();
    const late = [...settleAll(run), say(run[1]!, { succeeded: [0], intent: "keep" })];
    expect((await rig.store.work(late, null)).reports).toEqual(Array(4).fill("lost"));
    expect(await rig.renew(run, LEASE_MS)).toEqual(run);
    const again = await leaseMore(rig, 2);
    expect((await rig.store.work(late, null)).reports).toEqual(Array(4).fill("lost"));
    expect(await rig.renew([...run, ...again], LEASE_MS)).toEqual(run);
    await rig.store.work(settleAll(again), null);
    expect(await rig.state(id)).toBe("succeeded");
  });

  rule("one report can end each chunk of a run in its own way", async ({ rig }) => {
    const { id, run } = await leaseRun(rig, 6);
    const { reports } = await rig.store.work(
      [
        say(run[4]!, { succeeded: [0], failed: [1] }),
        say(run[0]!, { succeeded: [0, 1] }),
        say(run[1]!, { succeeded: [0], intent: "keep" }),
        say(run[2]!, { succeeded: [0], retryInMs: { 1: 1_000 } }),
        say(run[3]!, {}),
      ],
      null,
    );
    expect(reports).toEqual(["settled", "settled", "kept", "yielded", "yielded"]);
    // Flushed chunks keep their expiry, and so does the chunk without a report.
    rig.clock.advance(LEASE_MS - 1);
    expect(await rig.sweep()).toMatchObject({ lostLeases: 0 });
    const back = await leaseMore(rig, 2);
    expect(back.map(({ chunk, fence, guarded }) => [chunk, fence, guarded])).toEqual([
      [3, 2, false],
      [2, 2, false],
    ]);
    expect(await rig.renew([run[1]!, run[5]!, run[2]!], LEASE_MS)).toEqual([run[2]!]);
    rig.clock.advance(LEASE_MS - 1);
    expect(await rig.report(run[1]!, { succeeded: [0, 1] })).toBe("settled");
    expect(await rig.settle(run[5]!)).toBe("settled");
    await rig.store.work(
      back.map((lease) => say(lease, { succeeded: allOf(lease) })),
      null,
    );
    expect(await rig.get(id)).toMatchObject({
      state: "completed_with_errors",
      counts: { succeeded: 11, failed: 1, pending: 0 },
    });
  });

  rule("a chunk that is flushed and settled in one call leaves its run once", async ({ rig }) => {
    const { id, run } = await leaseRun(rig, 2);
    const { reports } = await rig.store.work(
      [
        say(run[0]!, { succeeded: [0], intent: "keep" }),
        say(run[0]!, { succeeded: [0, 1] }),
        say(run[0]!, { succeeded: [0, 1] }),
      ],
      null,
    );
    expect(reports).toEqual(["kept", "settled", "lost"]);
    expect(await look(rig, id)).toEqual([`1 leased ${rig.worker}`]);
    await rig.settle(run[1]!);
    expect(await rig.state(id)).toBe("succeeded");
  });

  rule("one report covers several adjacent runs", async ({ rig }) => {
    const { id, run } = await leaseRun(rig, 6, 2);
    const others = [await leaseMore(rig, 2), await leaseMore(rig, 2)].flat();
    const mixed = [others[1]!, run[1]!, others[0]!];
    expect((await rig.store.work(settleAll(mixed), null)).reports).toEqual(
      Array(3).fill("settled"),
    );
    const left = [0, 4, 5].map((chunk) => `${chunk} leased ${rig.worker}`);
    expect(await look(rig, id)).toEqual(left);
    const rest = settleAll([run[0]!, others[2]!, others[3]!]);
    expect((await rig.store.work(rest, null)).ended).toEqual([id]);
    expect(await rig.get(id)).toMatchObject({ counts: { succeeded: 12, pending: 0 } });
  });

  rule("a chunk that is not leased cannot be reported on or renewed", async ({ rig }) => {
    const { id, run } = await leaseRun(rig, 3, 1);
    const forged = { ...run[0]!, chunk: 1, start: 2, end: 4 };
    expect(await rig.settle(forged)).toBe("lost");
    expect(await rig.renew([forged], LEASE_MS)).toEqual([forged]);
    expect(await rig.store.claimContents(forged, [{ index: 0, content: "a" }])).toBeNull();
    const zero = { ...run[0]!, fence: 0 };
    expect(await rig.settle(zero)).toBe("lost");
    expect(await rig.get(id)).toMatchObject({ counts: { succeeded: 0, pending: 6 } });
  });

  rule("the chunks of a run that a renewal does not name expire", async ({ rig }) => {
    const { id, run } = await leaseRun(rig, 5, 4);
    rig.clock.advance(LEASE_MS - 1);
    expect(await rig.renew([run[3]!, run[1]!, run[1]!], LEASE_MS)).toEqual([]);
    rig.clock.advance(1);
    expect(await rig.sweep()).toMatchObject({ lostLeases: 2 });
    const kept = [run[1]!, run[3]!];
    expect(await rig.renew(run, LEASE_MS)).toEqual([run[0]!, run[2]!]);
    expect((await rig.store.work(settleAll(kept), null)).reports).toEqual(["settled", "settled"]);
    expect(numbersOf(await leaseMore(rig, 3))).toEqual([0, 2, 4]);
    expect(await rig.state(id)).toBe("running");
  });

  rule("a run stays leased when all its remaining chunks are renewed", async ({ rig }) => {
    const { run } = await leaseRun(rig, 4);
    await rig.settle(run[2]!);
    rig.clock.advance(LEASE_MS - 1);
    expect(await rig.renew(run, LEASE_MS)).toEqual([run[2]!]);
    rig.clock.advance(LEASE_MS - 1);
    expect(await rig.sweep()).toMatchObject({ lostLeases: 0 });
    rig.clock.advance(1);
    expect(await rig.sweep()).toMatchObject({ lostLeases: 3 });
  });

  rule("only the expired one of two runs in a batch is lost", async ({ rig }) => {
    const { id, run } = await leaseRun(rig, 4, 2);
    rig.clock.advance(1);
    const other = await rig.store.registerWorker({ name: "other" });
    const theirs = await leaseMore(rig, 2, other);
    rig.clock.advance(LEASE_MS - 1);
    expect(await rig.sweep()).toMatchObject({ lostLeases: 2 });
    expect(await look(rig, id)).toEqual([
      `2 leased ${other}`,
      `3 leased ${other}`,
      "0 waiting -",
      "1 waiting -",
    ]);
    const { reports } = await rig.store.work(settleAll([...run, ...theirs]), null);
    expect(reports).toEqual(["lost", "lost", "settled", "settled"]);
  });

  rule(
    "one sweep takes a thousand chunks of a run, and the next sweep takes the rest",
    async ({ rig }) => {
      const id = await rig.running(Array.from({ length: 1_200 }, () => 1));
      const run = await rig.lease({ chunksMax: 1_100, itemsMax: 2_000 });
      expect(run).toHaveLength(1_100);
      rig.clock.advance(LEASE_MS);
      expect((await rig.sweep()).lostLeases + (await rig.sweep()).lostLeases).toBe(1_100);
      expect(await rig.lease({ chunksMax: 2_000, itemsMax: 2_000 })).toHaveLength(1_200);
      expect(await rig.get(id)).toMatchObject({ counts: { pending: 1_200 } });
    },
  );

  rule("a drained cancel waits for every chunk of a run", async ({ rig }) => {
    const { id, run } = await leaseRun(rig, 5, 3);
    await rig.cancel(id, "drain");
    expect((await rig.store.work(settleAll([run[1]!]), null)).ended).toEqual([]);
    expect((await rig.store.work([say(run[0]!, { succeeded: [0] })], null)).ended).toEqual([]);
    expect(await rig.renew([run[2]!], LEASE_MS)).toEqual([]);
    expect((await rig.store.work(settleAll([run[2]!]), null)).ended).toEqual([id]);
    expect(await rig.get(id)).toMatchObject({
      state: "cancelled",
      counts: { succeeded: 5, cancelled: 5, pending: 0 },
    });
  });

  rule("a run under a `now` cancel is not renewed, and the ending names it", async ({ rig }) => {
    const { id, run } = await leaseRun(rig, 4, 3);
    await rig.cancel(id, "now");
    await rig.settle(run[0]!);
    rig.clock.advance(LEASE_MS - 1);
    expect(await rig.renew([run[1]!, run[2]!], LEASE_MS)).toEqual([]);
    expect(await rig.renew([run[1]!], LEASE_MS)).toEqual([]);
    rig.clock.advance(1);
    expect(await rig.sweep()).toMatchObject({ lostLeases: 2, ended: [id] });
    const [ended] = await rig.recorded(id, "batch.ended");
    expect(ended).toMatchObject({
      abandoned: [
        { step: 0, chunk: 1, items: null },
        { step: 0, chunk: 2, items: null },
      ],
    });
    expect((await rig.store.work(settleAll(run), null)).reports).toEqual(Array(3).fill("lost"));
  });

  rule(
    "reports on a run are lost after an early end, and its cancelled items can be revived",
    async ({ rig }) => {
      const { id, run } = await leaseRun(rig, 4, 3);
      await rig.settle(run[1]!);
      await rig.store.fail(id, { code: "NO", message: "not any more" });
      expect((await rig.store.work(settleAll(run), null)).reports).toEqual(Array(3).fill("lost"));
      expect(await rig.renew(run, LEASE_MS)).toEqual(run);
      expect(await look(rig, id)).toEqual(["3 planned -", "0 cancelled -", "2 cancelled -"]);
      expect(await rig.redrive(id, { withCancelled: true, ...ME })).toMatchObject({ revived: 6 });
      const again = await leaseMore(rig, 3);
      expect(again.map(({ chunk, fence }) => [chunk, fence])).toEqual([
        [0, 2],
        [2, 2],
        [3, 1],
      ]);
      expect((await rig.store.work(settleAll(run), null)).reports).toEqual(Array(3).fill("lost"));
      await rig.store.work(settleAll(again), null);
      expect(await rig.state(id)).toBe("succeeded");
    },
  );

  rule("an exceeded failure budget ends a batch with running runs", async ({ rig }) => {
    const settings = steps({ budget: { any: { count: 0 } } });
    const id = await rig.running([2, 2, 2], { settings });
    const run = await leaseMore(rig, 2);
    const { ended } = await rig.store.work([say(run[0]!, { succeeded: [0], failed: [1] })], null);
    expect(ended).toEqual([id]);
    expect(await rig.settle(run[1]!)).toBe("lost");
  });

  rule("a content that a run has claimed stays claimed while the run lasts", async ({ rig }) => {
    const { run } = await leaseRun(rig, 3);
    const wanted = [{ index: 0, content: "a" }];
    expect(await rig.store.claimContents(run[0]!, wanted)).toEqual(["claimed"]);
    expect(await rig.store.claimContents(run[1]!, wanted)).toEqual(["held"]);
    rig.clock.advance(LEASE_MS - 1);
    await rig.renew([run[1]!], LEASE_MS);
    expect(await rig.store.claimContents(run[1]!, wanted)).toEqual(["held"]);
    rig.clock.advance(1);
    await rig.sweep();
    expect(await rig.store.claimContents(run[0]!, wanted)).toBeNull();
    expect(await rig.store.claimContents(run[1]!, wanted)).toEqual(["claimed"]);
  });

  rule("a canary passes when the last chunk of its run is settled", async ({ rig }) => {
    const settings = steps({ chunkSize: 2, canary: { items: 4, failuresMax: 0 } });
    const id = await rig.running([2, 2, 2], { settings });
    const run = await rig.lease({ chunksMax: 9 });
    expect(numbersOf(run)).toEqual([0, 1]);
    await rig.settle(run[1]!);
    expect(await rig.lease({ chunksMax: 9 })).toEqual([]);
    await rig.settle(run[0]!);
    expect(numbersOf(await rig.lease({ chunksMax: 9 }))).toEqual([2]);
    expect(await rig.state(id)).toBe("running");
  });
}
