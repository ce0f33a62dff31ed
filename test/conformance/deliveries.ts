/**
 * Readers and undelivered events: an event that is given up is neither lost nor retried for ever.
 */
import { expect } from "vitest";
import type { NewUndelivered, UndeliveredEvent } from "../../src/ports/store/delivery-store.ts";
import type { Rig, Rule } from "./rig.ts";

function draft(changes: Partial<NewUndelivered> = {}): NewUndelivered {
  const position = changes.position ?? 1;
  return {
    reader: "hook",
    position,
    event: `batch-1/${position}`,
    batch: "batch-1",
    type: "batch.ended",
    attempts: 8,
    code: "HTTP_500",
    message: "it answered 500",
    ...changes,
  };
}

async function listAll(rig: Rig, reader?: string): Promise<readonly UndeliveredEvent[]> {
  const page = { afterId: 0, limit: 1_000 };
  return rig.store.listUndelivered(reader === undefined ? page : { ...page, reader });
}

export function describeDeliveries(rule: Rule): void {
  rule("a new reader begins at the first record, or after the newest one", async ({ rig }) => {
    const empty = await rig.store.startReader("early", "now");
    await rig.running([]);
    const newest = (await rig.store.readRecords(null, 0, 100)).at(-1)?.position;
    expect(empty).toBe(0);
    expect(await rig.store.startReader("late", "now")).toBe(newest);
    expect(await rig.store.startReader("whole", "beginning")).toBe(0);
    expect(await rig.store.readPosition("late")).toBe(newest);
    expect(await rig.store.readPosition("whole")).toBe(0);
  });

  rule("forgetting a reader deletes its position and its undelivered events", async ({ rig }) => {
    await rig.store.keepUndelivered(draft({ reader: "gone", position: 2 }));
    await rig.store.keepUndelivered(draft({ reader: "stays", position: 3 }));
    expect(await rig.store.forgetReader("gone")).toBe(true);
    expect(await rig.store.readPosition("gone")).toBe(0);
    expect((await listAll(rig)).map(({ reader }) => reader)).toEqual(["stays"]);
    expect(await rig.store.readPosition("stays")).toBe(3);
    expect(await rig.store.forgetReader("gone")).toBe(false);
  });

  rule("registering a known reader does not move it, even at the first record", async ({ rig }) => {
    await rig.store.startReader("hook", "now");
    await rig.running([]);
    expect(await rig.store.startReader("hook", "now")).toBe(0);
    await rig.store.savePosition("hook", 4);
    expect(await rig.store.startReader("hook", "now")).toBe(4);
    expect(await rig.store.startReader("hook", "beginning")).toBe(4);
  });

  rule("an undelivered event is kept with all its details", async ({ rig }) => {
    const letter = draft({ type: "batch.from_the_future", message: "ünïcode \u2603" });
    await rig.store.keepUndelivered(letter);
    expect(await listAll(rig)).toEqual([
      { ...letter, id: expect.any(Number) as number, givenUpAt: rig.clock.wallMs() },
    ]);
  });

  rule(
    "keeping an undelivered event moves its reader past the record, and no other reader",
    async ({ rig }) => {
      await rig.store.keepUndelivered(draft({ position: 5 }));
      expect(await rig.store.readPosition("hook")).toBe(5);
      expect(await rig.store.readPosition("other")).toBe(0);
    },
  );

  rule("keeping an undelivered event never moves its reader backwards", async ({ rig }) => {
    await rig.store.savePosition("hook", 9);
    await rig.store.keepUndelivered(draft({ position: 5 }));
    expect(await rig.store.readPosition("hook")).toBe(9);
  });

  rule("a delivery that is given up twice is kept once, with the newer cause", async ({ rig }) => {
    await rig.store.keepUndelivered(draft());
    const [first] = await listAll(rig);
    rig.clock.advance(1_000);
    await rig.store.keepUndelivered(draft({ attempts: 9, code: "TIME_LIMIT", message: "slow" }));
    expect(await listAll(rig)).toEqual([
      {
        ...first,
        attempts: 9,
        code: "TIME_LIMIT",
        message: "slow",
        givenUpAt: rig.clock.wallMs(),
      },
    ]);
  });

  rule("a record that two readers give up is kept twice", async ({ rig }) => {
    await rig.store.keepUndelivered(draft());
    await rig.store.keepUndelivered(draft({ reader: "other" }));
    expect((await listAll(rig)).map(({ reader }) => reader)).toEqual(["hook", "other"]);
    expect((await listAll(rig, "other")).map(({ reader }) => reader)).toEqual(["other"]);
    expect(await listAll(rig, "unknown")).toEqual([]);
  });

  rule("undelivered events are listed oldest first, in pages", async ({ rig }) => {
    for (let position = 1; position <= 7; position++) {
      await rig.store.keepUndelivered(draft({ position, reader: position % 2 ? "odd" : "even" }));
    }
    const all = await listAll(rig);
    expect(all.map(({ position }) => position)).toEqual([1, 2, 3, 4, 5, 6, 7]);
    const paged: UndeliveredEvent[] = [];
    for (let page = 0; page < 10; page++) {
      const afterId = paged.at(-1)?.id ?? 0;
      paged.push(...(await rig.store.listUndelivered({ afterId, limit: 3 })));
    }
    expect(paged).toEqual(all);
    const odd = await rig.store.listUndelivered({
      reader: "odd",
      afterId: all[0]?.id ?? 0,
      limit: 2,
    });
    expect(odd.map(({ position }) => position)).toEqual([3, 5]);
  });

  rule("dropping an undelivered event deletes it and can be repeated", async ({ rig }) => {
    await rig.store.keepUndelivered(draft({ position: 1 }));
    await rig.store.keepUndelivered(draft({ position: 2 }));
    const [first, second] = await listAll(rig);
    await rig.store.dropUndelivered(first!.id);
    await rig.store.dropUndelivered(first!.id);
    expect(await listAll(rig)).toEqual([second]);
    expect(await rig.store.readPosition("hook")).toBe(2);
  });

  rule("the id of a dropped undelivered event is not used again", async ({ rig }) => {
    await rig.store.keepUndelivered(draft({ position: 1 }));
    const [first] = await listAll(rig);
    await rig.store.dropUndelivered(first!.id);
    await rig.store.keepUndelivered(draft({ position: 2 }));
    await rig.store.keepUndelivered(draft({ position: 1 }));
    const ids = (await listAll(rig)).map(({ id }) => id);
    expect(ids).toHaveLength(2);
    expect(ids).not.toContain(first!.id);
  });

  rule("a delivery that is given up twice uses one id", async ({ rig }) => {
    await rig.store.keepUndelivered(draft({ position: 1 }));
    await rig.store.keepUndelivered(draft({ position: 1 }));
    await rig.store.keepUndelivered(draft({ position: 2 }));
    const [first, second] = await listAll(rig);
    expect(second!.id).toBe(first!.id + 1);
  });

  rule("undelivered events do not change a batch and write no record", async ({ rig }) => {
    const id = await rig.running([1]);
    const before = await rig.observe(id);
    await rig.store.startReader("hook", "now");
    await rig.store.keepUndelivered(draft({ batch: id }));
    await rig.store.dropUndelivered(1);
    expect(await rig.observe(id)).toEqual(before);
  });
}
