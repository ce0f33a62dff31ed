/**
 * What only a store with many concurrent writers must prove: message positions and shared buckets.
 */
import type pg from "pg";
import { describe, expect, test } from "vitest";
import { ManualClock } from "../support/manual-clock.ts";
import { listStarts } from "../support/list-starts.ts";
import { makePlace, makeRig, openRaw, openStore } from "./postgres-rig.ts";
import type { Rig } from "./rig.ts";

/** Writes a message in a transaction that stays open. */
async function emit(raw: pg.Client, id: string): Promise<void> {
  await raw.query(
    "INSERT INTO message (topic, id, batch, body, at) VALUES ('news', $1, 'b', '1', 0)",
    [id],
  );
}

async function readIds(rig: Rig, after = 0): Promise<{ ids: string[]; last: number }> {
  const messages = await rig.store.readMessages("news", after, 100);
  return { ids: messages.map(({ id }) => id), last: messages.at(-1)?.position ?? after };
}

describe("positions of the PostgreSQL store", () => {
  test("a message that commits late comes after those read before it, and readers do not miss it", async () => {
    const rig = await makeRig();
    const [slow, quick] = [await openRaw(rig.place), await openRaw(rig.place)];
    await slow.query("BEGIN");
    await emit(slow, "slow");
    await emit(quick, "quick");
    const first = await readIds(rig);
    expect(first.ids).toEqual(["quick"]);
    await emit(quick, "later");
    await slow.query("COMMIT");
    const { ids } = await readIds(rig, first.last);
    expect(ids).toEqual(["slow", "later"]);
  });

  test("concurrent readers give each message one position, in the order of writing", async () => {
    const rig = await makeRig();
    const raw = await openRaw(rig.place);
    const other = await openStore(rig.place, rig.clock);
    await raw.query(
      `INSERT INTO message (topic, id, batch, body, at)
       SELECT 'news', s.i::text, 'b', '1', 0 FROM generate_series(1, 12000) AS s(i) ORDER BY s.i`,
    );
    const pages = await Promise.all(
      [rig.store, other, rig.store, other].map((store) => store.readMessages("news", 0, 20_000)),
    );
    for (const page of pages) {
      expect(page.map(({ id }) => id)).toEqual(page.map((_message, at) => String(at + 1)));
      expect(page.map(({ position }) => position)).toEqual(page.map((_message, at) => at + 1));
      expect(page).toHaveLength(12_000);
    }
  });

  test("a new reader starts after all committed messages, numbered or not", async () => {
    const rig = await makeRig();
    const raw = await openRaw(rig.place);
    await emit(raw, "before");
    const start = await rig.store.startReader("news#group", "now");
    await emit(raw, "after");
    expect((await readIds(rig, start)).ids).toEqual(["after"]);
  });

  test("records of batches with many writers stay in the order of their chains", async () => {
    const rig = await makeRig({ connectionsMax: 8 });
    const other = await openStore(rig.place, rig.clock);
    const ids = Array.from({ length: 12 }, (_none, n) => `many-${n}`);
    let after = 0;
    const seen: { batch: string; seq: number }[] = [];
    const follow = async (): Promise<void> => {
      for (const record of await other.readRecords(null, after, 1_000)) {
        seen.push(record);
        after = record.position;
      }
    };
    const writing = Promise.all(
      ids.map(async (id) => {
        await rig.store.submit({ ...rig.draft(), id, lane: id });
        await rig.slice(id, [1]);
        await rig.cancel(id);
      }),
    );
    for (let rounds = 0; rounds < 20; rounds++) await follow();
    await writing;
    await follow();
    for (const id of ids) {
      const mine = seen.filter(({ batch }) => batch === id).map(({ seq }) => seq);
      expect(mine).toEqual((await rig.records(id)).map(({ seq }) => seq));
      expect(mine).toEqual(mine.map((_seq, at) => at + 1));
    }
  });
});

describe("buckets of the PostgreSQL store", () => {
  test("a row that exists only for its lock does not stay", async () => {
    const rig = await makeRig();
    const raw = await openRaw(rig.place);
    const countRows = async (): Promise<number> =>
      (await raw.query("SELECT 1 FROM bucket")).rowCount ?? 0;
    const always = { from: "00:00", to: "24:00", timeZone: "UTC" };
    const pace = { kind: "pace", items: 3, everyMs: 1_000, smooth: false } as const;
    const draw = { bucket: "pace/b", key: "", cost: 1, count: 1 };
    const [refused] = await rig.store.draw([{ ...draw, spec: { ...pace, quiet: [always] } }], 0);
    expect(refused?.waitReason).toBe("quiet");
    expect(await countRows()).toBe(0);
    await rig.store.draw([{ ...draw, spec: { ...pace, quiet: [] } }], 0);
    expect(await countRows()).toBe(1);
  });

  test("workers that take from the same keys in any order get no more than the limit", async () => {
    const place = await makePlace();
    const clock = new ManualClock();
    const stores = [await openStore(place, clock), await openStore(place, clock)];
    const spec = { kind: "rate", perSecond: 10, burst: 5 } as const;
    const keys = ["a", "b", "c", "d"];
    const draws = Array.from({ length: 40 }, (_none, n) =>
      keys.map((_key, at) => ({
        bucket: "rate/x",
        key: keys[(at + n) % keys.length] as string,
        spec,
        cost: 1,
        count: 1,
      })),
    );
    const granted = new Map<string, number>();
    await Promise.all(
      draws.map(async (draw, n) => {
        const grants = await (stores[n % 2] as (typeof stores)[0]).draw(draw, 0);
        for (const [at, grant] of grants.entries()) {
          const { key } = draw[at] as { key: string };
          granted.set(key, (granted.get(key) ?? 0) + listStarts(grant).length);
        }
      }),
    );
    const alone = await (stores[0] as (typeof stores)[0]).draw(
      [{ bucket: "rate/x", key: "fresh", spec, cost: 1, count: 99 }],
      0,
    );
    const most = listStarts(alone[0] ?? { atOnce: 0, inMs: [] }).length;
    for (const key of keys) expect(granted.get(key)).toBe(most);
  });
});
