/** Handlers that emit and consumers are typed; checked by `npm run types`. */
import {
  createEngine,
  definePipeline,
  defineStep,
  jsonlSink,
  succeeded,
  type TopicMessage,
  verifyWebhook,
} from "sluice";
import { expectTypeOf } from "vitest";
import { z } from "zod";

const engine = await createEngine({ store: ":memory:" });

definePipeline({
  name: "mails",
  topics: {
    emit: ["email"],
    errors: "errors",
    unsent: null,
    route: (item: { to: string }, result) => {
      expectTypeOf(item.to).toEqualTypeOf<string>();
      expectTypeOf(result).toEqualTypeOf<unknown>();
      return item.to === "" ? null : "email";
    },
  },
  process: ({ to }: { to: string }, { emit }) => emit("email", { to }),
});

const mail = z.object({ to: z.string() });
definePipeline({
  name: "checked mails",
  item: mail,
  topics: {
    emit: ["email"],
    route: (item) => {
      expectTypeOf(item).toEqualTypeOf<{ to: string }>();
      return "email";
    },
  },
  process: ({ to }, { emit }) => emit("email", { to }),
});

defineStep({
  name: "wait",
  waitFor: { count: () => 0 },
  topics: { errors: "errors" },
});

const process = (_n: number): void => undefined;
// @ts-expect-error a topic has a name
definePipeline({ name: "mails", topics: [1], process });
// @ts-expect-error a topic has a name
definePipeline({ name: "mails", topics: { emit: [1] }, process });
// @ts-expect-error one topic is a list of one
definePipeline({ name: "mails", topics: "email", process });
// @ts-expect-error a route answers a topic
definePipeline({ name: "mails", topics: { emit: ["email"], route: () => 1 }, process });
// @ts-expect-error a member that there is none of
definePipeline({ name: "mails", topics: { emit: ["email"], error: "errors" }, process });
// @ts-expect-error it is a member of topics
definePipeline({ name: "mails", topics: ["email"], route: () => "email", process });
// @ts-expect-error it has no items to emit for
defineStep({ name: "wait", waitFor: { count: () => 0 }, topics: ["email"] });

definePipeline({
  name: "chunks",
  topics: ["email"],
  processChunk: (items: readonly { item: number; index: number }[], { emit }) =>
    items.map((given) => {
      // @ts-expect-error an item comes first
      emit("email", given.item);
      return succeeded();
    }),
});

engine.consume("email", "one", (message, { signal }) => {
  expectTypeOf(message).toEqualTypeOf<TopicMessage>();
  expectTypeOf(signal).toEqualTypeOf<AbortSignal>();
});
engine.consume(
  "email",
  "many",
  (messages) => {
    expectTypeOf(messages).toEqualTypeOf<readonly TopicMessage[]>();
  },
  { batch: 100 },
);
engine.consume("email", "files", jsonlSink({ folder: "out" }), { batch: 100 });
engine.consume("email", "files", jsonlSink({ folder: "out" }));
// @ts-expect-error a topic's messages come to a group
engine.consume("email", () => undefined);

expectTypeOf(await engine.topic("email").read({ group: "g" })).toEqualTypeOf<TopicMessage[]>();
const delivery = { secret: "", headers: {}, body: "", nowMs: 0 };
expectTypeOf(verifyWebhook<TopicMessage>(delivery)).toEqualTypeOf<TopicMessage>();
