import { describe, expect, test } from "vitest";
import { describeUnknownTopic, hasMessages, isTopicName, listMessages } from "./topic.ts";
import { newItem, type TrackedItem } from "../items/tracked-item.ts";

const ORIGIN = { batch: "b-1", step: 2, stepName: "mail", errorsTopic: "errors", start: 100 };
const dead = (index: number, changes: Partial<TrackedItem> = {}): TrackedItem => ({
  ...newItem(index),
  dead: true,
  attempts: 3,
  error: { errorClass: "transient", code: "DOWN", message: "no answer" },
  ...changes,
});

describe("a topic's name", () => {
  test.each(["a", "Email", "a.b_c-d", "0", "-", "..", "x".repeat(100)])("may be %s", (name) => {
    expect(isTopicName(name)).toBe(true);
  });

  test.each(["", " ", "a b", "a/b", "a#b", "ä", "x".repeat(101), 7, null, undefined, ["a"]])(
    "may not be %j",
    (name) => {
      expect(isTopicName(name)).toBe(false);
    },
  );
});

describe("the messages of an effect", () => {
  test("are the emitted ones in order, then those of items that gave up, in item order", () => {
    const messages = [
      { index: 1, topic: "sms", nth: 0, body: "1", drive: 1 },
      { index: 0, topic: "email", nth: "route", body: "{}", drive: 4 },
    ] as const;
    const track = [dead(7, { key: "k" }), newItem(3), dead(2, { drive: 2 })];
    const written = listMessages(ORIGIN, { messages, track });
    expect(written.map(({ topic, id }) => `${topic} ${id}`)).toEqual([
      "sms b-1/2/101/1/0",
      "email b-1/2/100/4/route",
      "errors b-1/2/102/2/error",
      "errors b-1/2/107/1/error",
    ]);
    expect(JSON.parse(written[3]?.body ?? "")).toEqual({
      batch: "b-1",
      step: "mail",
      item: 107,
      key: "k",
      drive: 1,
      attempts: 3,
      code: "DOWN",
      class: "transient",
      message: "no answer",
    });
  });

  test("contain no message for items that gave up without an errors topic", () => {
    const effect = { messages: [], track: [dead(1)] };
    expect(listMessages({ ...ORIGIN, errorsTopic: null }, effect)).toEqual([]);
  });

  test("exist only if an item emitted something or gave up", () => {
    const message = { index: 0, topic: "t", nth: 0, body: "1", drive: 1 };
    expect(hasMessages({ messages: [], track: [] })).toBe(false);
    expect(hasMessages({ messages: [], track: [newItem(0)] })).toBe(false);
    expect(hasMessages({ messages: [], track: [dead(0)] })).toBe(true);
    expect(hasMessages({ messages: [message], track: [] })).toBe(true);
  });
});

test("an unknown topic is reported with a suggestion, or with all declared topics", () => {
  expect(describeUnknownTopic("emial", ["email"])).toContain("Did you mean email?");
  expect(describeUnknownTopic("fax", ["email", "sms"])).toContain("They are email, sms.");
  expect(describeUnknownTopic("fax", [])).toContain('Add topics: { emit: ["fax"] } to it.');
  expect(describeUnknownTopic(7, ["email"])).toContain("number");
  expect(describeUnknownTopic("x".repeat(10_000), [])).toMatch(/^.{1,300}$/);
});
