/** Groups of topics: started, acknowledging, rewound, giving up, deleted. */
import fc from "fast-check";
import { readGroupName } from "../../../src/core/events/reader-name.ts";
import { command, GROUPS } from "./stage.ts";

const group = fc.constantFrom(...GROUPS);

/** An act of a group on one of the existing messages. */
const consume = command(
  "consume",
  fc.record({
    group,
    does: fc.constantFrom(
      "start",
      "start now",
      "start at",
      "save",
      "save from",
      "rewind",
      "forget",
    ),
    nth: fc.nat(20),
    from: fc.nat(10),
  }),
  (stage, { group: name, does, nth, from }) => {
    const { lineup } = stage;
    const { messages } = lineup.reference.state;
    const position = messages[nth % Math.max(1, messages.length)]?.position ?? 0;
    switch (does) {
      case "start":
        return lineup.call("startReader", name, "beginning");
      case "start now":
        return lineup.call("startReader", name, "now");
      case "start at":
        return lineup.call("startReader", name, position);
      case "save":
        return lineup.call("savePosition", name, position);
      case "save from":
        return lineup.call("savePosition", name, position, from);
      case "rewind":
        return lineup.call("rewindReader", name, position);
      case "forget":
        return lineup.call("forgetReader", name);
    }
  },
);

/** A group gives up a message of its topic, maybe after a rewind. */
const refuse = command(
  "refuse",
  fc.record({ group, nth: fc.nat(20), from: fc.option(fc.nat(10), { nil: undefined }) }),
  async (stage, { group: name, nth, from }) => {
    const { topic } = readGroupName(name)!;
    const messages = stage.lineup.reference.state.messages.filter((one) => one.topic === topic);
    const message = messages[nth % Math.max(1, messages.length)];
    if (message === undefined) return;
    const { position, id: event, batch } = message;
    const cause = { attempts: 1, code: "E", message: "no" };
    const letter = { reader: name, position, event, batch, type: topic, ...cause };
    await stage.lineup.call("keepUndelivered", letter, from);
  },
);

const readTopic = command(
  "readTopic",
  fc.record({ topic: fc.constantFrom("t1", "t2", "none"), after: fc.nat(20), limit: fc.nat(4) }),
  (stage, { topic, after, limit }) => stage.lineup.call("readMessages", topic, after, limit + 1),
);

/** All existing messages, acknowledged by all groups: retention may delete them. */
const catchUp = command("catchUp", fc.record({ group }), async (stage, { group: name }) => {
  const { messagesKept } = stage.lineup.reference.state;
  await stage.lineup.call("savePosition", name, messagesKept);
});

export const topics = { consume, refuse, readTopic, catchUp };
