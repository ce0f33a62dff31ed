/**
 * Secrets without a recognisable form: values under a secret name in an item, a message or a
 * client's error, and values that the program named. None of them may be in a log entry, a dead
 * letter, a record or a reason, however an error quotes it.
 */
import { inspect } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import {
  createEngine,
  definePipeline,
  type Engine,
  FatalError,
  PermanentError,
  type Store,
} from "../../../src/index.ts";
import { openMemory } from "../../../src/memory.ts";
import type { LogEntry } from "../../../src/runtime/system/log.ts";
import { collect } from "./engine-rig.ts";

const OF_ITEM = "xylophone-of-an-item";
const OF_OTHER = "marimba-of-another-item";
const NAMED = "glockenspiel-that-was-named";
const SECRETS = [OF_ITEM, OF_OTHER, NAMED];

interface Login {
  readonly id: string;
  readonly password: string;
}
const ITEM: Login = { id: "first", password: OF_ITEM };
const OTHER: Login = { id: "second", password: OF_OTHER };

interface Heard {
  readonly engine: Engine;
  readonly store: Store;
  readonly logs: LogEntry[];
}

async function start(): Promise<Heard> {
  const store = openMemory();
  const logs: LogEntry[] = [];
  const log = (entry: LogEntry): void => void logs.push(entry);
  const engine = await createEngine({ store, log, redact: [NAMED] });
  onTestFinished(() => engine.close());
  return { engine, store, logs };
}

/** As a logger would write it, with all properties of an error. */
const writeOut = (value: unknown): string => inspect(value, { depth: 20, showHidden: true });

async function expectNone({ store, logs }: Heard): Promise<void> {
  const records = await store.readRecords(null, 0, 1_000);
  const letters = await store.listUndelivered({ afterId: 0, limit: 100 });
  const all = writeOut({ logs, records, letters });
  expect(SECRETS.filter((secret) => all.includes(secret))).toEqual([]);
}

/** Each is thrown for an item, and must become a dead letter without the secret. */
const THROWN: Record<string, (item: Login) => unknown> = {
  "its message": ({ password }) => new Error(`cannot log in with ${password}`),
  "its cause": ({ password }) =>
    new Error("cannot log in", { cause: new Error(`sent ${password}`) }),
  "one error of several": ({ password }) =>
    new AggregateError([new Error("no"), new Error(`sent ${password}`)], "all failed"),
  "the headers in its properties": ({ password }) =>
    Object.assign(new Error("refused"), { config: { headers: { Authorization: password } } }),
  "an address in its properties": ({ password }) =>
    Object.assign(new Error("refused"), { request: { url: `https://me:${password}@portal.test` } }),
  "its code": ({ password }) => Object.assign(new Error("refused"), { code: `NO ${password}` }),
  "an object that is not an error": ({ password }) => ({
    message: `with ${password}`,
    token: password,
  }),
  "a text": ({ password }) => `with ${password}`,
  "a value that was named as a secret": () =>
    new Error(`signed with ${NAMED}`, { cause: { hint: NAMED } }),
};

test.each(Object.entries(THROWN))(
  "an error with a secret is redacted in %s",
  async (_where, make) => {
    const heard = await start();
    const pipeline = definePipeline({
      name: "quoting",
      maxRedrives: 0,
      retry: { attempts: 1 },
      process: (item: Login) => {
        throw make(item);
      },
    });
    const batch = await heard.engine.submit(pipeline, [ITEM]);
    await batch.wait();
    const letters = await collect(batch.deadLetters());
    expect(letters).toHaveLength(1);
    expect(SECRETS.filter((secret) => writeOut(letters).includes(secret))).toEqual([]);
    expect(heard.logs.map(({ event }) => event)).toContain("item.unexpected_error");
    await expectNone(heard);
  },
);

test("an error of a call with several items contains none of their secrets", async () => {
  const heard = await start();
  const pipeline = definePipeline({
    name: "several",
    maxRedrives: 0,
    processChunk: (items: readonly { readonly item: Login }[]) => {
      throw new PermanentError(`rows: ${items.map(({ item }) => item.password).join(" ")}`);
    },
  });
  const batch = await heard.engine.submit(pipeline, [ITEM, OTHER]);
  await batch.wait();
  const letters = await collect(batch.deadLetters());
  expect(letters.map(({ message }) => message)).toEqual(
    Array.from({ length: 2 }, () => "rows: [redacted] [redacted]"),
  );
  await expectNone(heard);
});

test("a fatal error is reported without the secret of its item and stays fatal", async () => {
  const heard = await start();
  const pipeline = definePipeline({
    name: "fatal",
    process: ({ password }: Login) => {
      throw new FatalError(`access denied for ${password} or ${NAMED}`, { code: "NO_ACCESS" });
    },
  });
  const batch = await heard.engine.submit(pipeline, [ITEM]);
  const failure: unknown = await batch.wait().catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(FatalError);
  expect(failure).toMatchObject({
    name: "FatalError",
    errorClass: "fatal",
    code: "NO_ACCESS",
    message: "access denied for [redacted] or [redacted]",
  });
  expect(SECRETS.filter((secret) => writeOut(failure).includes(secret))).toEqual([]);
  await expectNone(heard);
});

test("a consumer's error is logged and stored without the secret of its message", async () => {
  const heard = await start();
  const { engine } = heard;
  const pipeline = definePipeline({
    name: "sending",
    topics: ["logins"],
    process: (item: Login, { emit }) => emit("logins", item),
  });
  engine.consume(
    "logins",
    "portal",
    ({ data }) => {
      const { password } = data as unknown as Login;
      throw new PermanentError(`refused ${password} and ${NAMED}`, { cause: new Error(password) });
    },
    { attempts: 1 },
  );
  await (await engine.submit(pipeline, [ITEM])).wait();
  expect(await engine.waitForSubscribers({ withinMs: 20_000 })).toBe(true);
  const letters = await collect(engine.undelivered());
  expect(letters).toMatchObject([{ message: "refused [redacted] and [redacted]" }]);
  await expectNone(heard);
});

test("reasons of operators and errors of a submitter's items are stored without named secrets", async () => {
  const heard = await start();
  const { engine } = heard;
  const pipeline = definePipeline({ name: "acts", process: () => undefined });
  const batch = await engine.open(pipeline);
  await batch.pause({ by: NAMED, why: `rotates ${NAMED}` });
  await batch.resume({ why: `rotated ${NAMED}` });
  await batch.cancel({ why: `leaked ${NAMED}` });
  const broken = (function* (): Generator<number> {
    yield 1;
    throw new Error(`cannot read with ${NAMED}`);
  })();
  await engine.submit(pipeline, broken).catch(() => undefined);
  const records = writeOut(await heard.store.readRecords(null, 0, 1_000));
  expect(records).toContain("leaked [redacted]");
  expect(records).toContain("cannot read with [redacted]");
  await expectNone(heard);
});
