/** Events that were given up: stored as undelivered, retried, or discarded. */
import { expect } from "vitest";
import { PermanentError } from "../../../src/core/base/errors.ts";
import type { UndeliveredEvent } from "../../../src/ports/store/delivery-store.ts";
import type { Store } from "../../../src/ports/store/store.ts";
import type { Engine } from "../../../src/runtime/engine/engine.ts";
import { routeEvents } from "../../../src/runtime/delivering/event-router.ts";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { collect, describeOnStores, makeSignal, numbers, until } from "./engine-rig.ts";

const pipeline = definePipeline({ name: "told", chunkSize: 2, process: () => undefined });
const AT_ONCE = { baseMs: 0, capMs: 0 };

async function runBatch(engine: Engine): Promise<string> {
  const batch = await engine.submit(pipeline, numbers(3));
  await batch.wait();
  return batch.id;
}

async function catchUp(engine: Engine): Promise<void> {
  expect(await engine.waitForSubscribers({ withinMs: 20_000 })).toBe(true);
}

function listLetters(engine: Engine): Promise<UndeliveredEvent[]> {
  return collect(engine.undelivered());
}

/** A subscriber that fails on batch.ended while `isDown`. */
function makeMail() {
  const mail = {
    isDown: true,
    heard: [] as string[],
    handle: ({ id, type }: { readonly id: string; readonly type: string }): void => {
      if (type !== "batch.ended") return;
      mail.heard.push(id);
      if (mail.isDown) throw new Error("no mail today");
    },
  };
  return mail;
}

describeOnStores("undelivered events", (test) => {
  test("a subscriber with a number of attempts is given up after exactly that number", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const mail = makeMail();
    engine.subscribe("mail", mail.handle, { attempts: 3, backoff: AT_ONCE });
    const first = await runBatch(engine);
    const second = await runBatch(engine);
    await catchUp(engine);
    expect(mail.heard).toEqual(
      [first, first, first, second, second, second].map((id) => `${id}/7`),
    );
    expect(await listLetters(engine)).toMatchObject([
      { reader: "mail", batch: first, attempts: 3, code: "UNEXPECTED", message: "no mail today" },
      { reader: "mail", batch: second, attempts: 3, type: "batch.ended" },
    ]);
  });

  test("a permanent error is given up at once, even by a subscriber without a limit", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const heard: string[] = [];
    engine.subscribe("mail", ({ type }) => {
      heard.push(type);
      if (type === "slicing.started") throw new PermanentError("not for me", { code: "NO_MAIL" });
    });
    await runBatch(engine);
    await catchUp(engine);
    expect(heard).toHaveLength(8);
    expect(await listLetters(engine)).toMatchObject([{ code: "NO_MAIL", attempts: 1 }]);
  });

  test("a retried event is dropped when it was delivered", async ({ rig }) => {
    const engine = await rig.start();
    const mail = makeMail();
    engine.subscribe("mail", mail.handle, { attempts: 1 });
    const batch = await runBatch(engine);
    await catchUp(engine);
    const [letter] = await listLetters(engine);
    mail.isDown = false;
    await engine.redeliver(letter!.id);
    expect(mail.heard).toEqual([`${batch}/7`, `${batch}/7`]);
    expect(await listLetters(engine)).toEqual([]);
    await expect(engine.redeliver(letter!.id)).rejects.toMatchObject({
      code: "NOT_FOUND",
      kind: "undelivered",
    });
  });

  test("a retried event that fails again is kept, with one attempt more and the newer cause", async ({
    rig,
  }) => {
    const engine = await rig.start();
    let why = "first";
    engine.subscribe(
      "mail",
      ({ type }) => {
        if (type === "batch.ended") throw new Error(why);
      },
      { attempts: 2, backoff: AT_ONCE },
    );
    await runBatch(engine);
    await catchUp(engine);
    const [letter] = await listLetters(engine);
    expect(letter).toMatchObject({ attempts: 2, message: "first" });
    why = "second";
    await expect(engine.redeliver(letter!.id)).rejects.toThrow("second");
    const [after] = await listLetters(engine);
    expect(after).toMatchObject({ id: letter!.id, attempts: 3, message: "second" });
  });

  test("an event of a subscriber that the engine does not have cannot be retried", async ({
    rig,
  }) => {
    const first = await rig.start();
    const mail = makeMail();
    first.subscribe("mail", mail.handle, { attempts: 1 });
    await runBatch(first);
    await catchUp(first);
    const [letter] = await listLetters(first);
    const second = await rig.startBeside();
    await expect(second.redeliver(letter!.id)).rejects.toMatchObject({
      code: "NOT_FOUND",
      kind: "subscriber",
      message: `the undelivered event ${letter!.id} is for the subscriber mail, which this engine does not have`,
    });
    expect(await listLetters(second)).toHaveLength(1);
  });

  test("a discarded event is deleted, and an unknown one cannot be discarded", async ({ rig }) => {
    const engine = await rig.start();
    engine.subscribe("mail", makeMail().handle, { attempts: 1 });
    await runBatch(engine);
    await catchUp(engine);
    const [letter] = await listLetters(engine);
    await engine.discardUndelivered(letter!.id);
    expect(await listLetters(engine)).toEqual([]);
    for (const id of [letter!.id, 999, -1, 0.5, Number.NaN]) {
      await expect(engine.discardUndelivered(id)).rejects.toMatchObject({
        code: "NOT_FOUND",
        kind: "undelivered",
      });
    }
  });

  test("a router refuses an event of a newer version, which becomes undelivered, and the next event arrives", async ({
    rig,
  }) => {
    const newer: Store = {
      ...rig.store,
      readRecords: async (...args) =>
        (await rig.store.readRecords(...args)).map((record) =>
          record.seq === 2 ? { ...record, type: "batch.blessed" as never } : record,
        ),
    };
    const engine = await rig.start({}, newer);
    const ended: string[] = [];
    engine.subscribe(
      "mail",
      routeEvents({ "batch.ended": ({ data }) => void ended.push(data.state) }),
    );
    const batch = await runBatch(engine);
    await catchUp(engine);
    expect(ended).toEqual(["succeeded"]);
    expect(await listLetters(engine)).toMatchObject([
      { event: `${batch}/2`, type: "batch.blessed", code: "UNKNOWN_EVENT", attempts: 1 },
    ]);
  });

  test("a program that knows the type delivers an event that was unknown before", async ({
    rig,
  }) => {
    let isOld = true;
    const store: Store = {
      ...rig.store,
      readRecords: async (...args) =>
        (await rig.store.readRecords(...args)).map((record) =>
          isOld && record.seq === 7 ? { ...record, type: "batch.blessed" as never } : record,
        ),
    };
    const engine = await rig.start({}, store);
    const ended: string[] = [];
    engine.subscribe("mail", routeEvents({ "batch.ended": ({ id }) => void ended.push(id) }));
    const batch = await runBatch(engine);
    await catchUp(engine);
    isOld = false;
    const [letter] = await listLetters(engine);
    await engine.redeliver(letter!.id);
    expect(ended).toEqual([`${batch}/7`]);
  });
});

describeOnStores("subscribers", (test) => {
  test("a subscriber with a filter gets no other events, and its position moves past them", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const heard: string[] = [];
    engine.subscribe("mail", ({ type }) => void heard.push(type), {
      events: ["batch.ended", "batch.submitted"],
    });
    await runBatch(engine);
    await runBatch(engine);
    await catchUp(engine);
    expect(heard).toEqual(["batch.submitted", "batch.ended", "batch.submitted", "batch.ended"]);
    const newest = (await rig.store.readRecords(null, 0, 100)).at(-1)?.position;
    expect(await rig.store.readPosition("mail")).toBe(newest);
  });

  test("a new subscriber that begins now gets no earlier events and every later one", async ({
    rig,
  }) => {
    const first = await rig.start();
    await runBatch(first);
    const heard: string[] = [];
    const listen = ({ batch }: { readonly batch: string }): void => void heard.push(batch);
    first.subscribe("mail", listen, { since: "now" });
    await catchUp(first);
    expect(heard).toEqual([]);
    await first.close();
    // While no subscriber is registered.
    const deaf = await rig.startBeside();
    const second = await runBatch(deaf);
    deaf.subscribe("mail", listen, { since: "now" });
    await until(() => heard.length === 8);
    expect(new Set(heard)).toEqual(new Set([second]));
  });

  test("a name belongs to one subscriber in an engine", async ({ rig }) => {
    const engine = await rig.start();
    engine.subscribe("mail", () => undefined);
    expect(() => engine.subscribe("mail", () => undefined)).toThrow(
      expect.objectContaining({ code: "SUBSCRIBER_TAKEN" }) as Error,
    );
  });

  test("a subscriber that does not want the last events is up to date", async ({ rig }) => {
    const engine = await rig.start();
    const heard: string[] = [];
    engine.subscribe("mail", ({ type }) => void heard.push(type), { events: ["batch.submitted"] });
    await runBatch(engine);
    await catchUp(engine);
    expect(heard).toEqual(["batch.submitted"]);
    const newest = (await rig.store.readRecords(null, 0, 100)).at(-1)?.position;
    expect(await rig.store.readPosition("mail")).toBe(newest);
  });

  test("waiting for subscribers ignores a look that began earlier", async ({ rig }) => {
    const [looked, gate] = [makeSignal(), makeSignal()];
    let isHeld = false;
    const slow: Store = {
      ...rig.store,
      readRecords: async (...args) => {
        const records = await rig.store.readRecords(...args);
        if (isHeld) return records;
        isHeld = true;
        looked.give();
        await gate.wait;
        return records;
      },
    };
    const engine = await rig.start({}, slow);
    const heard: string[] = [];
    engine.subscribe("mail", ({ type }) => void heard.push(type));
    await looked.wait;
    await runBatch(engine);
    const caughtUp = engine.waitForSubscribers({ withinMs: 20_000 });
    gate.give();
    expect(await caughtUp).toBe(true);
    expect(heard).toContain("batch.ended");
  });

  test("waiting for subscribers ends after the timeout, with a subscriber that does not take its event", async ({
    rig,
  }) => {
    const engine = await rig.start();
    engine.subscribe("mail", () => {
      throw new Error("never");
    });
    await runBatch(engine);
    expect(await engine.waitForSubscribers({ withinMs: 30 })).toBe(false);
  });

  test("waiting ends at once without subscribers", async ({ rig }) => {
    const engine = await rig.start();
    expect(await engine.waitForSubscribers({ withinMs: 3_600_000 })).toBe(true);
  });
});
