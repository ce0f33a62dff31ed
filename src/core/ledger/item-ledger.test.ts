import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type ChunkPlace,
  describeChange,
  describeRedriven,
  type ItemsLink,
  type LedgerBlock,
  measureLink,
  readRanges,
  TRIES_PER_LINK,
} from "./item-ledger.ts";
import { NOTHING_NOTED } from "../../runtime/chunk/chunk-notes.ts";
import { decideLoss, failPending, STALLED } from "../items/loss.ts";
import {
  createOutcomeMap,
  FAILED,
  type OutcomeCode,
  PENDING,
  setOutcome,
  SUCCEEDED,
} from "../items/outcome-map.ts";
import { decideReport, type ReportFacts } from "../items/report.ts";
import { newItem, type StoredChunk, type TrackedItem } from "../items/tracked-item.ts";

const PLACE: ChunkPlace = { step: 1, chunk: 4, start: 100, fence: 2, worker: 7 };
const COMMON = { step: 1, chunk: 4, fence: 2, worker: 7 };

function mapOf(codes: readonly OutcomeCode[]): Uint8Array {
  const map = createOutcomeMap(codes.length);
  for (const [index, code] of codes.entries()) setOutcome(map, index, code);
  return map;
}

function store(codes: readonly OutcomeCode[], tracked: readonly TrackedItem[] = []): StoredChunk {
  return { items: codes.length, outcomes: mapOf(codes), tracked, losses: 0 };
}

function report(
  codes: readonly OutcomeCode[],
  failures: ReportFacts["failures"] = [],
): ReportFacts {
  return {
    outcomes: mapOf(codes),
    ...NOTHING_NOTED,
    failures,
    limitWait: null,
    starting: [],
    intent: "keep",
  };
}

function failure(index: number, retryInMs: number | null): ReportFacts["failures"][number] {
  const error = { errorClass: "transient", code: "ECONNRESET", message: "secret" } as const;
  return { index, key: `k${index}`, attempts: 1, retryInMs, ...error };
}

function makeBlock(number: number): LedgerBlock {
  return { number, count: 2, root: "ab".repeat(32), lines: "{}\n{}\n", details: null };
}

function change(stored: StoredChunk, said: ReportFacts, blocks: LedgerBlock[] = []): ItemsLink[] {
  return describeChange(PLACE, stored, decideReport(stored, said, 0), "reported", blocks);
}

function dataOf(links: readonly ItemsLink[]): unknown[] {
  return links.map(({ record }) => JSON.parse(JSON.stringify(record.data)) as unknown);
}

describe("a change of a chunk", () => {
  test("is one link: outcomes as ranges, failed attempts one by one, no message", () => {
    const links = change(
      store([0, 0, 0, 0, 0, 0]),
      report([1, 1, 2, 3, 0, 1], [failure(3, null), failure(4, 50)]),
    );
    const tried = { attempts: 1, code: "ECONNRESET", class: "transient" };
    expect(dataOf(links)).toEqual([
      {
        ...COMMON,
        succeeded: "100-101,105",
        skipped: "102",
        failed: [{ item: 103, key: "k3", ...tried }],
        retried: [{ item: 104, key: "k4", ...tried }],
      },
    ]);
    expect(links[0]?.record.type).toBe("items.recorded");
  });

  test("lists failed attempts by position, in whatever order they are held or reported", () => {
    const held = [2, 0].map((index) => newItem(index));
    const said = report(
      [FAILED, FAILED, FAILED],
      [2, 1, 0].map((index) => failure(index, null)),
    );
    const [data] = dataOf(change(store([PENDING, PENDING, PENDING], held), said));
    expect(data).toMatchObject({ failed: [{ item: 100 }, { item: 101 }, { item: 102 }] });
  });

  test("without effect has no link, however often it is reported", () => {
    const stored = store([1, 3, 0], [{ ...newItem(1), dead: true, attempts: 1 }]);
    expect(change(stored, report([1, 3, 0], [failure(1, null)]))).toEqual([]);
    expect(change(store([0]), report([0]))).toEqual([]);
  });

  test("contains nothing that an earlier lease finished", () => {
    const links = change(store([1, 0]), report([3, 1], [failure(0, null)]));
    expect(dataOf(links)).toEqual([{ ...COMMON, succeeded: "101" }]);
  });

  test("contains the newest block; older ones come before it, each in its own link", () => {
    const links = change(store([0]), report([1]), [makeBlock(2), makeBlock(3)]);
    const [root, count] = ["ab".repeat(32), 2];
    expect(dataOf(links)).toEqual([
      { ...COMMON, block: { number: 2, count, root } },
      { ...COMMON, succeeded: "100", block: { number: 3, count, root } },
    ]);
    expect(links.map(({ block }) => block?.number)).toEqual([2, 3]);
    expect(change(store([1]), report([1]), [makeBlock(1)])).toHaveLength(1);
  });

  test("with very many failures is split into several links, each readable as a line", () => {
    const items = 2 * TRIES_PER_LINK + 500;
    const codes = Array.from({ length: items }, (): OutcomeCode => FAILED);
    codes[0] = SUCCEEDED;
    const stored = store(codes.map(() => PENDING));
    const failures = codes.flatMap((code, index) =>
      code === FAILED ? [failure(index, null)] : [],
    );
    const block = makeBlock(1);
    const links = change(stored, report(codes, failures), [block]);
    const said = links.map(({ record }) => record.data as { failed: { item: number }[] });
    expect(said.map(({ failed }) => failed.length)).toEqual([1_000, 1_000, 499]);
    expect(said.flatMap(({ failed }) => failed.map(({ item }) => item))).toEqual(
      failures.map(({ index }) => PLACE.start + index),
    );
    expect(links.map((link) => link.block)).toEqual([block, null, null]);
    expect(said[0]).toMatchObject({ ...COMMON, succeeded: "100" });
    expect(said[2]).toEqual({ ...COMMON, failed: said[2]?.failed });
    const lost = describeChange(PLACE, stored, failPending(stored, STALLED), "stalled");
    expect(lost.map(({ record }) => record.data["cause"])).toEqual(Array(3).fill("stalled"));
  });

  test("includes the drive of an item from its second one on", () => {
    const stored = store([0], [{ ...newItem(0), drive: 3 }]);
    const [data] = dataOf(change(stored, report([3], [failure(0, null)])));
    expect(data).toMatchObject({ failed: [{ item: 100, drive: 3 }] });
  });
});

describe("a change that the store itself decides", () => {
  test("a lost lease is a link, also when no item is charged with it", () => {
    const stored = store([1, 0]);
    const links = describeChange(PLACE, stored, decideLoss(stored, 0), "lost");
    expect(dataOf(links)).toEqual([{ ...COMMON, cause: "lost" }]);
  });

  test("an item that dies with its worker does not repeat the error of an earlier attempt", () => {
    const error = { errorClass: "transient", code: "EARLIER", message: "" } as const;
    const started = { ...newItem(0), started: true, attempts: 1, error };
    const stored = store([0, 0], [started]);
    const links = describeChange(PLACE, stored, decideLoss(stored, 0), "lost");
    const died = { item: 100, key: null, attempts: 2, deaths: 2, code: null, class: null };
    expect(dataOf(links)).toEqual([{ ...COMMON, retried: [died], cause: "lost" }]);
  });

  test("a convicted item has failed, with the code of its conviction", () => {
    const stored = store([0], [{ ...newItem(0), started: true, attempts: 2, deaths: 2 }]);
    const [data] = dataOf(describeChange(PLACE, stored, decideLoss(stored, 0), "lost"));
    expect(data).toMatchObject({ failed: [{ item: 100, code: "POISON" }], cause: "lost" });
  });

  test("a link about a chunk without a worker names none", () => {
    const stored = store([0, 1]);
    const place = { ...PLACE, worker: null };
    const [data] = dataOf(describeChange(place, stored, failPending(stored, STALLED), "stalled"));
    expect(data).toMatchObject({ failed: [{ item: 100, code: "STALLED" }], cause: "stalled" });
    expect(data).not.toHaveProperty("worker");
  });

  test("a redrive lists its items", () => {
    const link = describeRedriven(PLACE, mapOf([3, 1, 3, 3, 0]), mapOf([0, 1, 0, 3, 0]), 2);
    expect(dataOf([link])).toEqual([{ ...COMMON, redriven: "100,102", drive: 2 }]);
  });
});

test("ranges list exactly the items that got an outcome", () => {
  const codes = fc.array(fc.constantFrom<OutcomeCode>(0, 1, 2), { minLength: 1, maxLength: 60 });
  fc.assert(
    fc.property(codes, fc.nat(10 ** 9), fc.func(fc.boolean()), (after, start, keep) => {
      const before = after.map((code, at) => (keep(at) ? code : 0));
      const links = describeChange(
        { ...PLACE, start },
        store(before),
        decideReport(store(before), report(after), 0),
        "reported",
      );
      const { succeeded, skipped } = (links[0]?.record.data ?? {}) as Record<string, string>;
      const list = (code: OutcomeCode): number[] =>
        after.flatMap((one, at) => (one === code && before[at] === 0 ? [start + at] : []));
      expect(readItems(succeeded)).toEqual(list(1));
      expect(readItems(skipped)).toEqual(list(2));
    }),
  );
});

function readItems(text: string | undefined): number[] {
  if (text === undefined) return [];
  return [...readRanges(text)].flatMap(([first, last]) =>
    Array.from({ length: last - first + 1 }, (_, nth) => first + nth),
  );
}

test("a link counts as its body and its block in a page", () => {
  expect(measureLink("abc", null)).toBe(3);
  expect(measureLink("abc", { lines: "1234", details: null })).toBe(7);
  expect(measureLink("abc", { lines: "1234", details: "12" })).toBe(9);
});
