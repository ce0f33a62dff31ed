/**
 * Connections that break around a COMMIT. A call whose commit reached the server gets its answer as
 * if nothing had happened. A call whose commit did not reach it changes nothing and says so.
 * Nothing is done twice.
 */
import pg from "pg";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { makePlace, openAt, openStore, type Place } from "../conformance/postgres-rig.ts";
import { manifests, Rig, say, steps } from "../conformance/rig.ts";
import { CuttingProxy } from "../support/cutting-proxy.ts";
import { BehindProxy } from "./behind-proxy.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { startOwnPostgres } from "../support/postgres-server.ts";

/** Called for every act; returns its answer. */
type Around = <T>(verb: string, act: () => Promise<T>) => Promise<T>;

const BATCH = "batch-1";

let place: Place;
let proxy: CuttingProxy;
let behind: BehindProxy;
beforeEach(async () => {
  behind = await BehindProxy.start();
  ({ place, proxy } = behind);
});

/** The life of a batch through all calls; returns the answer of each. */
async function live(rig: Rig, around: Around): Promise<unknown[]> {
  const { store } = rig;
  const answers: unknown[] = [];
  const act = async <T>(verb: string, call: () => Promise<T>): Promise<T> => {
    const answer = await around(verb, call);
    answers.push({ verb, answer });
    return answer;
  };
  const draft = rig.draft({ id: BATCH, settings: steps({}) });
  await act("submit", () => store.submit(draft));
  await act("startSlicing", () => store.startSlicing(BATCH, false));
  const { sliceFence: fence } = await rig.get(BATCH);
  const part = { batch: BATCH, step: 0, afterChunks: 0, chunks: manifests(2, 2), cursor: null };
  await act("plan", () => store.plan({ ...part, fence, part: "part-1" }));
  await act("finishSlicing", () => store.finishSlicing(BATCH, 2, fence));
  await act("pause", () => rig.pause("batch", BATCH));
  await act("resume", () => rig.resume("batch", BATCH));
  const first = await act("lease", () => rig.lease());
  await act("renew", () => store.renew(rig.worker, first, 20_000));
  const failing = first.map((lease) => say(lease, { succeeded: [0], failed: [1] }));
  const second = await act("settle and lease", () => store.work(failing, rig.request()));
  const done = second.leased.map((lease) => say(lease, { succeeded: [0], failed: [1] }));
  await act("settle the last", () => store.work(done, null));
  await act("edit", () => rig.edit(BATCH, 1, '"fixed"'));
  await act("redrive", () => rig.redrive(BATCH, { ceiling: 1 }));
  await act("cancel", () => rig.cancel(BATCH));
  return answers;
}

/** The answers without a fault, on a separate store. */
async function liveUndisturbed(): Promise<{ answers: unknown[]; seen: unknown }> {
  const clock = new ManualClock();
  const store = await openStore(await makePlace(), clock);
  const rig = new Rig(store, clock, await store.registerWorker({ name: "worker" }));
  const answers = await live(rig, (_verb, act) => act());
  return { answers, seen: await rig.observe(BATCH) };
}

/** Over another connection: null before there is anything to see. */
async function observeFromElsewhere({ clock, worker }: Rig): Promise<unknown> {
  const store = await openAt(place.address, clock);
  try {
    const isThere = (await store.getBatch(BATCH)) !== null;
    return isThere ? await new Rig(store, clock, worker).observe(BATCH) : null;
  } finally {
    await store.close();
  }
}

describe("a lost reply to COMMIT", () => {
  for (const connectionsMax of [8, 1]) {
    test(`does not change the answer of any call, and each is done once: ${connectionsMax} connections`, async () => {
      const expected = await liveUndisturbed();
      const rig = await behind.open({ connectionsMax });
      const broken: string[] = [];
      const answers = await live(rig, async (verb, act) => {
        const cut = proxy.breakCommit("lose_answer");
        const [answer] = await Promise.all([act(), cut]);
        broken.push(verb);
        return answer;
      });
      expect(answers).toEqual(expected.answers);
      expect(broken).toHaveLength(expected.answers.length);
      expect(await observeFromElsewhere(rig)).toEqual(expected.seen);
    });
  }
});

describe("a COMMIT that does not reach the server", () => {
  test("makes every call fail temporarily, change nothing, and succeed when repeated", async () => {
    const expected = await liveUndisturbed();
    const rig = await behind.open();
    let broken = 0;
    const answers = await live(rig, async (verb, act) => {
      const before = await observeFromElsewhere(rig);
      const cut = proxy.breakCommit("lose_request");
      const failure = { code: "STORE_UNREACHABLE", retryable: true };
      await expect(act(), verb).rejects.toMatchObject(failure);
      await cut;
      broken++;
      expect(await observeFromElsewhere(rig), verb).toEqual(before);
      return act();
    });
    expect(answers).toEqual(expected.answers);
    expect(broken).toBe(expected.answers.length);
    expect(await observeFromElsewhere(rig)).toEqual(expected.seen);
  });
});

describe("a connection that breaks at any statement", () => {
  /** More statements than any call has. */
  const STATEMENTS_MAX = 200;

  /**
   * Breaks the connection at the first statement, the second, and so on, until the call succeeds.
   */
  async function breakEverywhere<T>(verb: string, act: () => Promise<T>): Promise<T> {
    for (let n = 1; n <= STATEMENTS_MAX; n++) {
      let isCut = false;
      void proxy.cutAtStatement(n).then(() => (isCut = true));
      try {
        const answer = await act();
        proxy.leaveAlone();
        if (!isCut) return answer;
        throw new Error(`${verb} answered although its statement ${n} never arrived`);
      } catch (error) {
        expect(error, `${verb} at ${n}`).toMatchObject({
          code: "STORE_UNREACHABLE",
          retryable: true,
        });
      }
    }
    throw new Error(`${verb} has no end`);
  }

  test("leaves no change until the call succeeds, and then does not change its answer", async () => {
    const expected = await liveUndisturbed();
    const rig = await behind.open();
    const answers = await live(rig, breakEverywhere);
    expect(answers).toEqual(expected.answers);
    expect(await observeFromElsewhere(rig)).toEqual(expected.seen);
  });

  test("grants a lease of several batches with tried items once, and lets a sweep finish", async () => {
    const rig = await behind.open();
    const ids = [await rig.running([2]), await rig.running([2]), await rig.running([2])];
    for (const lease of await rig.lease({ chunksMax: 10 })) {
      await rig.report(lease, { succeeded: [0], retryInMs: { 1: 10 } });
    }
    rig.clock.advance(20);
    const leased = await breakEverywhere("lease", () => rig.lease({ chunksMax: 10 }));
    expect(leased.map(({ batch }) => batch).toSorted()).toEqual(ids.toSorted());
    rig.clock.advance(60_000);
    await breakEverywhere("sweep", () => rig.sweep());
    expect(await rig.lease({ chunksMax: 10 })).toHaveLength(3);
  });
});

/**
 * When the server crashes before anything of a transaction is on disk, it forgets that it used the
 * transaction's number and uses it again.
 */
describe("a server that crashes during a COMMIT and reuses its transaction number", () => {
  const FORGETFUL = { wal_writer_delay: "10s", bgwriter_delay: "10s", autovacuum: "off" };

  async function readNumber(raw: pg.Client): Promise<bigint> {
    const { rows } = await raw.query<{ id: string }>(
      "SELECT max(backend_xid::text::bigint)::text AS id FROM pg_stat_activity WHERE application_name = 'sluice'",
    );
    return BigInt(rows[0]?.id ?? 0);
  }

  /** Transactions of another client, up to the one with this number. */
  async function commitUpTo(raw: pg.Client, number: bigint): Promise<bigint> {
    for (;;) {
      const { rows } = await raw.query<{ id: string }>("SELECT pg_current_xact_id()::text AS id");
      const given = BigInt(rows[0]?.id ?? 0);
      if (given >= number) return given;
    }
  }

  async function connect(address: string): Promise<pg.Client> {
    const raw = new pg.Client(address);
    raw.on("error", () => undefined);
    await raw.connect();
    onTestFinished(() => raw.end().catch(() => undefined));
    return raw;
  }

  test("does not take the lost commit for the other one", async () => {
    const server = await startOwnPostgres({ durable: true, settings: FORGETFUL });
    onTestFinished(() => server.stop());
    const way = await CuttingProxy.start(server.address);
    onTestFinished(() => way.close());
    const clock = new ManualClock();
    const store = await openAt(way.address, clock);
    onTestFinished(() => store.close());
    const rig = new Rig(store, clock, await store.registerWorker({ name: "worker" }));
    const holding = way.holdCommit();
    const submitting = rig.submit({ id: BATCH }).catch((error: unknown) => error);
    const held = await holding;
    const number = await readNumber(await connect(server.address));
    await server.restart("immediate");
    expect(await commitUpTo(await connect(server.address), number)).toBe(number);
    held.drop();
    expect(await submitting).toMatchObject({ code: "STORE_UNREACHABLE", retryable: true });
    expect(await store.getBatch(BATCH)).toBeNull();
    // As the engine does after that.
    expect((await rig.submit({ id: BATCH })).id).toBe(BATCH);
  });
});
