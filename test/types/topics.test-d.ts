/** Handlers that emit and consumers are typed; checked by `npm run types`. */
import {
  createEngine,
  definePipeline,
  jsonlSink,
  succeeded,
  type TopicMessage,
  verifyWebhook,
} from "sluice";
import { expectTypeOf } from "vitest";

const engine = await createEngine({ store: ":memory:" });

definePipeline({
  name: "mails",
  topics: ["email"],
  errorsTopic: "errors",
  route: (item: { to: string }) => {
    expectTypeOf(item.to).toEqualTypeOf<string>();
    return item.to === "" ? null : "email";
  },
  process: ({ to }: { to: string }, { emit }) => emit("email", { to }),
});

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
