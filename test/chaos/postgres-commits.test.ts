/**
 * Connections that break around a COMMIT. What the server has committed is answered as if nothing had
 * happened; what never reached it has not happened, and says so; and nothing is done twice.
 */
import pg from "pg";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { makePlace, openAt, openStore, type Place } from "../conformance/postgres-rig.ts";
import { manifests, Rig, say, steps } from "../conformance/rig.ts";
import { CuttingProxy } from "../support/cutting-proxy.ts";
import { BehindProxy } from "./behind-proxy.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { startOwnPostgres } from "../support/postgres-server.ts";

/** Called for every act; answers what the act has answered. */
type Around = <T>(verb: string, act: () => Promise<T>) => Promise<T>;

const BATCH = "batch-1";

let place: Place;
let proxy: CuttingProxy;
let behind: BehindProxy;
beforeEach(async () => {
  behind = await BehindProxy.start();
  ({ place, proxy } = behind);
});

/** The life of a batch in all its verbs; answers what each of them answered. */
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
  await act("edit", () => rig.edit(BATCH, 1, '"mended"'));
  await act("redrive", () => rig.redrive(BATCH, { ceiling: 1 }));
  await act("cancel", () => rig.cancel(BATCH));
  return answers;
}

/** How it is when nothing breaks, in a place of its own. */
async function liveUndisturbed(): Promise<{ answers: unknown[]; seen: unknown }> {
  const clock = new ManualClock();
  const store = await openStore(await makePlace(), clock);
  const rig = new Rig(store, clock, await store.registerWorker({ name: "worker" }));
  const answers = await live(rig, (_verb, act) => act());
  return { answers, seen: await rig.observe(BATCH) };
}

/** By another way: null before there is anything to see. */
async function observeFromElsewhere({ clock, worker }: Rig): Promise<unknown> {
  const store = await openAt(place.address, clock);
  try {
    const isThere = (await store.getBatch(BATCH)) !== null;
    return isThere ? await new Rig(store, clock, worker).observe(BATCH) : null;
  } finally {
    await store.close();
  }
}

describe("the answer to a COMMIT is lost", () => {
  for (const connectionsMax of [8, 1]) {
    test(`every verb answers what it would have answered, and is done once: ${connectionsMax} connections`, async () => {
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

describe("a COMMIT does not reach the server", () => {
  test("every verb says that it failed for the moment, has changed nothing, and can be done again", async () => {
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

describe("the connection breaks at any statement", () => {
  /** More statements than any call has. */
  const STATEMENTS_MAX = 200;

  /** Breaks it at the first one, the second one and so on, until the call gets through. */
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

  test("every verb has changed nothing until it gets through, and then answers as if nothing had been", async () => {
    const expected = await liveUndisturbed();
    const rig = await behind.open();
    const answers = await live(rig, breakEverywhere);
    expect(answers).toEqual(expected.answers);
    expect(await observeFromElsewhere(rig)).toEqual(expected.seen);
  });

  test("a lease of several batches with items that were tried before is granted once, and a sweep goes through", async () => {
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
 * The server forgets a number that it has given out when it crashes before anything under that number
 * is on its disk, and gives it to somebody else afterwards.
 */
describe("the server crashes with a COMMIT on its way, and gives its number to another transaction", () => {
  const FORGETFUL = { wal_writer_delay: "10s", bgwriter_delay: "10s", autovacuum: "off" };

  async function readNumber(raw: pg.Client): Promise<bigint> {
    const { rows } = await raw.query<{ id: string }>(
      "SELECT max(backend_xid::text::bigint)::text AS id FROM pg_stat_activity WHERE application_name = 'sluice'",
    );
    return BigInt(rows[0]?.id ?? 0);
  }

  /** Transactions of somebody else, up to the one with this number. */
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

  test("what was not committed is not taken for the other one's commit", async () => {
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
