import { describe, expect, test } from "vitest";
import { z } from "zod";
import { toWords } from "../../../test/support/outcome-words.ts";
import { createOutcomeMap } from "../../core/items/outcome-map.ts";
import type { ItemContent } from "../../core/items/report.ts";
import type { Store } from "../../ports/store/store.ts";
import type { ContentClaim, ItemHistory, LeaseRef } from "../../ports/store/worker-store.ts";
import { ChunkRun } from "../chunk/chunk-run.ts";
import { claimContents } from "./content-claims.ts";
import { definePipeline } from "../pipeline/pipeline.ts";
import type { Step } from "../pipeline/step.ts";

interface Item {
  readonly id: string;
  readonly text: string;
}

const define = definePipeline as unknown as (options: object) => { steps: [Step, ...Step[]] };
const byId = { identity: (item: Item) => item.id };

function makeStep(dedupe: object | undefined = byId, changes: object = {}): Step {
  return define({ name: "p", process: () => undefined, dedupe, ...changes }).steps[0];
}

function makeRun(items: readonly unknown[], histories: readonly ItemHistory[] = []): ChunkRun {
  const outcomes = createOutcomeMap(items.length);
  const lease = {
    batch: "b-1",
    step: 0,
    chunk: 3,
    fence: 7,
    start: 0,
    end: items.length,
    locator: null,
    outcomes,
    histories,
    overrides: [],
    guarded: false,
    final: false,
  };
  const run = new ChunkRun(lease, { leaseUntil: 15_000, now: 0 });
  run.receive("lane", { count: items.length, at: (position) => items[position] });
  return run;
}

/** Returns the same answer for every content, or what the test sets. */
function makeStore(answer: (contents: readonly ItemContent[]) => readonly ContentClaim[] | null) {
  const asked: { readonly lease: LeaseRef; readonly contents: readonly ItemContent[] }[] = [];
  const claim = async (lease: LeaseRef, contents: readonly ItemContent[]) => {
    asked.push({ lease, contents });
    return answer(contents);
  };
  return { asked, store: { claimContents: claim } as unknown as Store };
}

const all =
  (claim: ContentClaim) =>
  (contents: readonly ItemContent[]): ContentClaim[] =>
    contents.map(() => claim);

function takeAll(run: ChunkRun): number[] {
  const taken: number[] = [];
  for (let index = run.takeNext(); index !== -1; index = run.takeNext()) taken.push(index);
  return taken;
}

async function nameContents(items: readonly unknown[], step: Step): Promise<string[]> {
  const { asked, store } = makeStore(all("claimed"));
  await claimContents(makeRun(items), step, store);
  return asked[0]?.contents.map(({ content }) => content) ?? [];
}

const item = (id: string, text: string): Item => ({ id, text });

describe("claiming contents", () => {
  test("runs claimed items, skips done ones, and defers held ones", async () => {
    const run = makeRun([item("a", "1"), item("b", "2"), item("c", "3")]);
    const { asked, store } = makeStore(() => ["claimed", "done", "held"]);
    await claimContents(run, makeStep(), store);
    expect(takeAll(run)).toEqual([0]);
    run.succeed(0);
    const report = run.makeReport("yield");
    expect(toWords(report.outcomes, 3)).toEqual(["succeeded", "skipped", "pending"]);
    expect(report.deferrals).toEqual([{ index: 2, key: null, inMs: 250 }]);
    expect(report.contents).toEqual([asked[0]?.contents[0]]);
    expect(asked[0]?.lease).toBe(run.lease);
  });

  test("answers about a chunk that was given back meanwhile do not change its report", async () => {
    const words = (run: ChunkRun): string[] => toWords(run.makeReport("yield").outcomes, 2);
    const asked = makeRun([item("a", "1"), item("b", "2")]);
    const { store } = makeStore((contents) => {
      asked.skipRest();
      return all("done")(contents);
    });
    await claimContents(asked, makeStep(), store);
    expect(words(asked)).toEqual(["pending", "pending"]);
    const read = makeRun([item("a", "1"), item("b", "2")]);
    const schema = z.object({ id: z.string() }).refine(async () => {
      read.skipRest();
      return true;
    });
    const identity = (): string => {
      throw new TypeError("no identity");
    };
    const other = makeStore(all("done"));
    await claimContents(read, makeStep({ identity }, { item: schema }), other.store);
    expect(words(read)).toEqual(["pending", "pending"]);
    expect(other.asked).toEqual([]);
  });

  test("claims only items that may run now", async () => {
    const waiting = { index: 1, attempts: 1, deaths: 0, dueInMs: 500, checkpoint: null, drive: 1 };
    const { asked, store } = makeStore(all("claimed"));
    await claimContents(makeRun([item("a", "1"), item("b", "2")], [waiting]), makeStep(), store);
    expect(asked[0]?.contents.map(({ index }) => index)).toEqual([0]);
  });

  test("drops a chunk whose lease is lost", async () => {
    const run = makeRun([item("a", "1")]);
    await claimContents(run, makeStep(), makeStore(() => null).store);
    expect([run.lost, run.finished]).toEqual([true, true]);
  });

  test("claims nothing for a chunk that is not ours, has ended, or needs no comparison", async () => {
    const { asked, store } = makeStore(all("claimed"));
    const lost = makeRun([item("a", "1")]);
    lost.lose();
    await claimContents(lost, makeStep(), store);
    const given = makeRun([item("a", "1")]);
    given.skipRest();
    await claimContents(given, makeStep(), store);
    await claimContents(
      makeRun([item("a", "1")]),
      makeStep(undefined, { dedupe: undefined }),
      store,
    );
    await claimContents(makeRun([]), makeStep(), store);
    expect(asked).toEqual([]);
  });

  test("an item that cannot be read or does not fit has no content, and fails when it runs", async () => {
    const schema = z.object({ id: z.string() });
    const step = makeStep(byId, { item: schema });
    const run = makeRun([{ id: 5 }, { id: "b" }]);
    const { asked, store } = makeStore(all("claimed"));
    await claimContents(run, step, store);
    expect(asked[0]?.contents.map(({ index }) => index)).toEqual([1]);
    expect(takeAll(run)).toEqual([0, 1]);
  });

  test("an item without a readable identity fails: it could be a repeat", async () => {
    const identity = (given: Item): string => {
      if (given.id === "bad") throw new TypeError("no identity");
      return given.id === "none" ? (undefined as unknown as string) : given.id;
    };
    const run = makeRun([item("bad", "1"), item("good", "2"), item("none", "3")]);
    const { asked, store } = makeStore(all("claimed"));
    await claimContents(run, makeStep({ identity }), store);
    expect(asked[0]?.contents.map(({ index }) => index)).toEqual([1]);
    expect(takeAll(run)).toEqual([1]);
    const { failures } = run.makeReport("yield");
    expect(failures).toMatchObject([
      { index: 0, attempts: 1, message: "no identity", retryInMs: null },
      { index: 2, code: "BAD_FUNCTION_RESULT", retryInMs: null },
    ]);
  });
});

describe("what makes two contents the same", () => {
  test("the same scope, the same identity and the same content", async () => {
    const items = [item("a", "1"), item("a", "1"), item("a", "2"), item("b", "1")];
    const [first, same, otherText, otherId] = await nameContents(items, makeStep());
    expect(same).toBe(first);
    expect(new Set([first, otherText, otherId]).size).toBe(3);
    const elsewhere = await nameContents(items, makeStep({ ...byId, scope: "other" }));
    expect(elsewhere[0]).not.toBe(first);
    const named = await nameContents(items, makeStep({ ...byId, scope: "p" }));
    expect(named[0]).toBe(first);
  });

  test("the content that counts may be a part of the item, or bytes", async () => {
    const text = makeStep({ ...byId, content: (given: Item) => given.text });
    const bytes = makeStep({
      ...byId,
      content: (given: Item) => new TextEncoder().encode(given.text),
    });
    const [fromText] = await nameContents([item("a", "1")], text);
    const [fromBytes] = await nameContents([{ ...item("a", "1"), seen: 5 }], bytes);
    expect(fromBytes).toBe(fromText);
  });

  test("no combination of texts makes two different contents equal", async () => {
    const scoped = (scope: string, id: string): Promise<string[]> =>
      nameContents([item(id, "x")], makeStep({ ...byId, scope, content: () => "x" }));
    expect(await scoped("a", "b-c")).not.toEqual(await scoped("a-b", "c"));
  });

  test("an item is compared as its schema returns it", async () => {
    const schema = z.object({ id: z.string(), text: z.string().trim() });
    const step = makeStep(byId, { item: schema });
    const [loose, tight] = await nameContents([item("a", " 1 "), item("a", "1")], step);
    expect(loose).toBe(tight);
  });
});
