/** Topics: a message exists exactly if its item's outcome does, and a group gets all of them. */
import { expect } from "vitest";
import { nameGroupReader } from "../../src/core/events/reader-name.ts";
import type { Submission } from "../../src/ports/store/conductor-store.ts";
import type { NewUndelivered } from "../../src/ports/store/delivery-store.ts";
import { PAGE_CHARS_MAX, type StoredMessage } from "../../src/ports/store/topic-store.ts";
import { allOf, LEASE_MS, type Rig, type Rule, say, steps } from "./rig.ts";

const MAILER = nameGroupReader("email", "mailer");
const WITH_ERRORS: Partial<Submission> = { settings: steps({ errorsTopic: "errors" }) };
/** An age that everything has, even what was written in this millisecond. */
const ANY_AGE_MS = -1;

async function read(rig: Rig, topic = "email"): Promise<readonly StoredMessage[]> {
  return rig.store.readMessages(topic, 0, 1_000);
}

async function readIds(rig: Rig, topic = "email"): Promise<string[]> {
  return (await read(rig, topic)).map(({ id }) => id);
}

/** A batch whose items have written one message each to `email`. */
async function emitAll(rig: Rig, items: number): Promise<string> {
  const id = await rig.running([items]);
  const lease = await rig.leaseOne({ batch: id });
  const emits = Object.fromEntries(allOf(lease).map((index) => [index, ["email"]]));
  await rig.report(lease, { succeeded: allOf(lease), emits });
  return id;
}

async function prune(rig: Rig, scratchAgeMs: number, dryRun = false): Promise<number> {
  return (await rig.store.prune({ scratchAgeMs, evidenceAgeMs: null, dryRun })).messages;
}

function letterFor(message: StoredMessage, reader = MAILER): NewUndelivered {
  const { position, id: event, batch, topic: type } = message;
  return { reader, position, event, batch, type, attempts: 3, code: "NO", message: "it said no" };
}

export function describeTopics(rule: Rule): void {
  describeEmitting(rule);
  describeErrorsTopic(rule);
  describeGroups(rule);
  describeMessageRetention(rule);
}

function describeEmitting(rule: Rule): void {
  rule("a message is written in the commit of its item's outcome", async ({ rig }) => {
    const id = await rig.running([3]);
    const lease = await rig.leaseOne();
    await rig.report(lease, {
      succeeded: [0],
      skipped: [2],
      emits: { 0: ["email", "sms", "email"], 2: ["email"] },
      intent: "keep",
    });
    const at = rig.clock.wallMs();
    const common = { topic: "email", batch: id, traceparent: null, at };
    expect(await read(rig)).toEqual([
      { ...common, position: 1, id: `${id}/0/0/1/0`, body: '"email 0"' },
      { ...common, position: 3, id: `${id}/0/0/1/2`, body: '"email 2"' },
      { ...common, position: 4, id: `${id}/0/2/1/0`, body: '"email 0"' },
    ]);
    expect(await readIds(rig, "sms")).toEqual([`${id}/0/0/1/1`]);
    expect(await readIds(rig, "unknown")).toEqual([]);
  });

  rule("a message keeps its trace context", async ({ rig }) => {
    await rig.running([1]);
    const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const report = say(await rig.leaseOne(), { succeeded: [0], emits: { 0: ["email", "email"] } });
    const [first, ...rest] = report.messages;
    const messages = [{ ...first, traceparent } as typeof first & object, ...rest];
    await rig.store.work([{ ...report, messages }], null);
    const kept = (await read(rig)).map((message) => message.traceparent);
    expect(kept).toEqual([traceparent, null]);
  });

  rule("messages of an attempt without an outcome are dropped", async ({ rig }) => {
    await rig.running([4]);
    const lease = await rig.leaseOne();
    const emits = { 0: ["email"], 1: ["email"], 2: ["email"], 3: ["email"] };
    await rig.report(lease, { failed: [0], retryInMs: { 1: 10 }, deferInMs: { 2: 10 }, emits });
    expect(await read(rig)).toEqual([]);
  });

  rule("a repeated report writes its messages once", async ({ rig }) => {
    await rig.running([2]);
    const lease = await rig.leaseOne();
    const report = say(lease, { succeeded: [0], emits: { 0: ["email"] }, intent: "keep" });
    await rig.store.work([report], null);
    await rig.store.work([report], null);
    await rig.report(lease, { upon: report.outcomes, succeeded: [1], emits: { 0: ["email"] } });
    expect(await read(rig)).toHaveLength(1);
  });

  rule("a report on a lost lease writes no message", async ({ rig }) => {
    const id = await rig.running([1]);
    const zombie = await rig.leaseOne();
    await rig.lose();
    expect(await rig.report(zombie, { succeeded: [0], emits: { 0: ["email"] } })).toBe("lost");
    expect(await read(rig)).toEqual([]);
    const heir = await rig.leaseOne();
    await rig.report(heir, { starting: [0], intent: "keep" });
    await rig.report(heir, { succeeded: [0], emits: { 0: ["email"] } });
    expect(await readIds(rig)).toEqual([`${id}/0/0/1/0`]);
    await rig.report(zombie, { succeeded: [0], emits: { 0: ["email"] } });
    expect(await read(rig)).toHaveLength(1);
  });

  rule("a message id contains the drive and number of its item", async ({ rig }) => {
    const id = await rig.running([2, 2]);
    await rig.settle(await rig.leaseOne());
    await rig.report(await rig.leaseOne(), { succeeded: [0], failed: [1] });
    await rig.redrive(id);
    await rig.report(await rig.leaseOne(), { succeeded: [1], emits: { 1: ["email", "email"] } });
    expect(await readIds(rig)).toEqual([`${id}/0/3/2/0`, `${id}/0/3/2/1`]);
  });

  rule("messages of a route carry the route's name", async ({ rig }) => {
    const id = await rig.running([1]);
    const report = say(await rig.leaseOne(), { succeeded: [0], emits: { 0: ["email"] } });
    const messages = report.messages.map((message) => ({ ...message, nth: "route" as const }));
    await rig.store.work([{ ...report, messages }], null);
    expect(await readIds(rig)).toEqual([`${id}/0/0/1/route`]);
  });

  rule("any text is stored unchanged", async ({ rig }) => {
    await rig.running([1]);
    const report = say(await rig.leaseOne(), { succeeded: [0], emits: { 0: ["email"] } });
    const body = JSON.stringify({ text: "ünïcode ☃ 😀 \u0000 \n '; --" });
    const messages = report.messages.map((message) => ({ ...message, body }));
    await rig.store.work([{ ...report, messages }], null);
    expect((await read(rig))[0]?.body).toBe(body);
  });
}

function describeErrorsTopic(rule: Rule): void {
  rule("an item that gives up writes one message to its errors topic", async ({ rig }) => {
    const id = await rig.running([2], WITH_ERRORS);
    await rig.report(await rig.leaseOne(), { succeeded: [0], failed: [1], attempts: 4 });
    const [message] = await read(rig, "errors");
    expect(message?.id).toBe(`${id}/0/1/1/error`);
    expect(JSON.parse(message?.body ?? "")).toEqual({
      batch: id,
      step: "import",
      item: 1,
      key: "key-1",
      drive: 1,
      attempts: 4,
      code: "BAD_INPUT",
      class: "permanent",
      message: "item 1 failed",
    });
    expect(await read(rig, "errors")).toHaveLength(1);
  });

  rule(
    "an item that waits for a retry writes no message to the errors topic, nor does a batch without one",
    async ({ rig }) => {
      await rig.running([1], WITH_ERRORS);
      await rig.report(await rig.leaseOne(), { retryInMs: { 0: 0 } });
      expect(await rig.store.listTopics()).toEqual([]);
      await rig.report(await rig.leaseOne(), { failed: [0], upon: new Uint8Array(1) });
      expect(await read(rig, "errors")).toHaveLength(1);
      await rig.running([1]);
      await rig.report(await rig.leaseOne(), { failed: [0] });
      expect(await read(rig, "errors")).toHaveLength(1);
    },
  );

  rule("the sweep that convicts a poison item writes its message", async ({ rig }) => {
    const id = await rig.running([1], WITH_ERRORS);
    await rig.leaseOne();
    for (let death = 0; death < 3; death++) {
      await rig.lose();
      const [lease] = await rig.lease();
      if (lease !== undefined) await rig.report(lease, { starting: [0], intent: "keep" });
    }
    expect(await rig.letters(id)).toMatchObject([{ code: "POISON" }]);
    expect(await readIds(rig, "errors")).toEqual([`${id}/0/0/1/error`]);
  });

  rule("items that the watch gives up write messages in their order", async ({ rig }) => {
    const id = await rig.running([2, 1], WITH_ERRORS);
    await rig.serve();
    const policy = { watchDelays: { steps: [], elseMs: 100, stallMs: 50 }, stallsMax: 0 };
    for (let look = 0; look < 3; look++) {
      rig.clock.advance(100);
      await rig.sweep(policy);
    }
    expect(await rig.letters(id)).toMatchObject([0, 1, 2].map(() => ({ code: "STALLED" })));
    expect(await readIds(rig, "errors")).toEqual(
      [0, 1, 2].map((item) => `${id}/0/${item}/1/error`),
    );
  });

  rule("an item that fails again in another drive writes another message", async ({ rig }) => {
    const id = await rig.running([1], { settings: steps({ errorsTopic: "e", maxRedrives: 1 }) });
    const despair = { failed: [0], errorClass: "transient" } as const;
    await rig.report(await rig.leaseOne(), despair);
    await rig.report(await rig.leaseOne(), despair);
    await rig.redrive(id);
    await rig.report(await rig.leaseOne(), despair);
    expect(await readIds(rig, "e")).toEqual([1, 2, 3].map((drive) => `${id}/0/0/${drive}/error`));
  });

  rule(
    "items that a cancel leaves undone write no message to the errors topic",
    async ({ rig }) => {
      const id = await rig.running([2], WITH_ERRORS);
      const lease = await rig.leaseOne();
      await rig.cancel(id);
      await rig.report(lease, {});
      expect(await rig.state(id)).toBe("cancelled");
      expect(await rig.store.listTopics()).toEqual([]);
    },
  );
}

function describeGroups(rule: Rule): void {
  rule("messages of a topic are read in order, in pages", async ({ rig }) => {
    await emitAll(rig, 5);
    const all = await read(rig);
    const paged: StoredMessage[] = [];
    for (let page = 0; page < 4; page++) {
      paged.push(...(await rig.store.readMessages("email", paged.at(-1)?.position ?? 0, 2)));
    }
    expect(paged).toEqual(all);
    expect(all).toHaveLength(5);
  });

  rule(
    "a page that would be too large ends early and has at least one message",
    async ({ rig }) => {
      await rig.running([3]);
      const report = say(await rig.leaseOne(), { succeeded: [0, 1, 2] });
      const body = `"${"x".repeat(PAGE_CHARS_MAX / 2)}"`;
      const messages = [0, 1, 2].map((index) => ({ index, topic: "email", nth: 0, body }));
      await rig.store.work([{ ...report, messages }], null);
      expect((await read(rig)).map(({ position }) => position)).toEqual([1]);
      expect(await rig.store.readMessages("email", 1, 10)).toHaveLength(1);
    },
  );

  rule(
    "a group begins at the beginning, now, or after a position, and keeps its place",
    async ({ rig }) => {
      await emitAll(rig, 3);
      const { store } = rig;
      expect(await store.startReader(nameGroupReader("email", "a"), "beginning")).toBe(0);
      expect(await store.startReader(nameGroupReader("email", "b"), "now")).toBe(3);
      expect(await store.startReader(nameGroupReader("email", "c"), 2)).toBe(2);
      expect(await store.startReader(nameGroupReader("sms", "b"), "now")).toBe(0);
      expect(await store.startReader(nameGroupReader("email", "c"), "beginning")).toBe(2);
    },
  );

  rule("topics are listed with the number of unread messages of each group", async ({ rig }) => {
    expect(await rig.store.listTopics()).toEqual([]);
    await emitAll(rig, 3);
    await rig.store.savePosition(MAILER, 1);
    await rig.store.startReader(nameGroupReader("email", "archive"), "now");
    await rig.store.startReader(nameGroupReader("sms", "sender"), "beginning");
    await rig.store.startReader("hook", "beginning");
    expect(await rig.store.listTopics()).toEqual([
      {
        topic: "email",
        messages: 3,
        firstPosition: 1,
        lastPosition: 3,
        groups: [
          { group: "archive", position: 3, lag: 0 },
          { group: "mailer", position: 1, lag: 2 },
        ],
      },
      {
        topic: "sms",
        messages: 0,
        firstPosition: 0,
        lastPosition: 0,
        groups: [{ group: "sender", position: 0, lag: 0 }],
      },
    ]);
  });

  rule(
    "an acknowledgement never moves a group back, and a rewind moves only its group",
    async ({ rig }) => {
      await emitAll(rig, 5);
      expect(await rig.store.rewindReader(MAILER, 1)).toBe(false);
      await rig.store.savePosition(MAILER, 4);
      await rig.store.savePosition(MAILER, 2);
      expect(await rig.store.readPosition(MAILER)).toBe(4);
      expect(await rig.store.rewindReader(MAILER, 9)).toBe(true);
      expect(await rig.store.readPosition(MAILER)).toBe(4);
      expect(await rig.store.rewindReader(MAILER, 1)).toBe(true);
      expect(await rig.store.readPosition(MAILER)).toBe(1);
    },
  );

  rule(
    "an acknowledgement of messages read before a rewind does not undo the rewind",
    async ({ rig }) => {
      await emitAll(rig, 5);
      expect(await rig.store.savePosition(MAILER, 4, 0)).toBe(true);
      await rig.store.rewindReader(MAILER, 1);
      expect(await rig.store.savePosition(MAILER, 5, 4)).toBe(false);
      const [, , , , last] = await read(rig);
      await rig.store.keepUndelivered(letterFor(last!), 4);
      expect(await rig.store.readPosition(MAILER)).toBe(1);
      expect(await rig.store.listUndelivered({ afterId: 0, limit: 9 })).toHaveLength(1);
      expect(await rig.store.savePosition(MAILER, 2, 1)).toBe(true);
      // A deleted group was not rewound, so its reader continues where it is.
      await rig.store.forgetReader(MAILER);
      expect(await rig.store.savePosition(MAILER, 5, 2)).toBe(true);
      expect(await rig.store.readPosition(MAILER)).toBe(5);
    },
  );

  rule(
    "a deleted group leaves neither its position nor its undelivered messages",
    async ({ rig }) => {
      await emitAll(rig, 1);
      const [message] = await read(rig);
      await rig.store.keepUndelivered(letterFor(message!));
      expect(await rig.store.forgetReader(MAILER)).toBe(true);
      expect(await rig.store.listUndelivered({ afterId: 0, limit: 9 })).toEqual([]);
      expect(await rig.store.listTopics()).toMatchObject([{ topic: "email", groups: [] }]);
    },
  );

  rule("reading and acknowledging do not change the batch", async ({ rig }) => {
    const id = await emitAll(rig, 1);
    const before = await rig.observe(id);
    await rig.store.startReader(MAILER, "beginning");
    await rig.store.savePosition(MAILER, 1);
    await rig.store.rewindReader(MAILER, 0);
    expect(await rig.observe(id)).toEqual(before);
  });
}

function describeMessageRetention(rule: Rule): void {
  rule(
    "a message is deleted when it is old and every group has acknowledged it",
    async ({ rig }) => {
      await emitAll(rig, 3);
      await rig.store.savePosition(MAILER, 3);
      await rig.store.savePosition(nameGroupReader("email", "archive"), 2);
      await rig.store.startReader(nameGroupReader("sms", "sender"), "beginning");
      expect(await prune(rig, 0)).toBe(0);
      rig.clock.advance(1_000);
      expect(await prune(rig, 1_000)).toBe(0);
      expect(await prune(rig, 999, true)).toBe(2);
      expect(await prune(rig, 999)).toBe(2);
      expect((await read(rig)).map(({ position }) => position)).toEqual([3]);
    },
  );

  rule("messages of a topic without a group are deleted by age alone", async ({ rig }) => {
    await emitAll(rig, 2);
    rig.clock.advance(1_000);
    await emitAll(rig, 1);
    expect(await prune(rig, 500)).toBe(2);
    expect((await read(rig)).map(({ position }) => position)).toEqual([3]);
  });

  rule("the message of an undelivered delivery is kept until that is dropped", async ({ rig }) => {
    await emitAll(rig, 3);
    const [first] = await read(rig);
    await rig.store.keepUndelivered(letterFor(first!));
    await rig.store.savePosition(MAILER, 3);
    expect(await prune(rig, ANY_AGE_MS)).toBe(2);
    expect(await read(rig)).toEqual([first]);
    await rig.store.dropUndelivered(1);
    expect(await prune(rig, ANY_AGE_MS)).toBe(1);
  });

  rule("a position is never used twice, even when its message is deleted", async ({ rig }) => {
    await emitAll(rig, 2);
    await prune(rig, ANY_AGE_MS);
    await emitAll(rig, 1);
    expect((await read(rig)).map(({ position }) => position)).toEqual([3]);
  });

  rule("messages outlive their batch, and a prune of one batch deletes none", async ({ rig }) => {
    const id = await emitAll(rig, 1);
    const ages = { scratchAgeMs: ANY_AGE_MS, evidenceAgeMs: ANY_AGE_MS, dryRun: false };
    await rig.store.startReader(MAILER, "beginning");
    expect(await rig.store.prune({ ...ages, batch: id })).toMatchObject({
      removed: 1,
      messages: 0,
    });
    expect(await readIds(rig)).toEqual([`${id}/0/0/1/0`]);
    expect(await rig.store.prune(ages)).toMatchObject({ messages: 0 });
  });

  rule("a group of a topic does not delay the pruning of batch records", async ({ rig }) => {
    await emitAll(rig, 1);
    await rig.store.startReader(MAILER, "beginning");
    const pruned = { scratchAgeMs: null, evidenceAgeMs: ANY_AGE_MS, dryRun: false };
    expect(await rig.store.prune(pruned)).toMatchObject({ removed: 1, owed: 0 });
  });

  rule("messages come in the order of their commits, over leases and batches", async ({ rig }) => {
    const one = await rig.running([1]);
    const other = await rig.running([1]);
    const first = await rig.leaseOne({ batch: one, leaseMs: LEASE_MS });
    const second = await rig.leaseOne({ batch: other });
    await rig.report(second, { succeeded: [0], emits: { 0: ["email"] } });
    await rig.report(first, { succeeded: [0], emits: { 0: ["email"] } });
    expect((await read(rig)).map(({ batch }) => batch)).toEqual([other, one]);
  });
}
