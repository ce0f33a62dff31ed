/**
 * With a real PgBouncer in transaction mode each transaction may use another connection to the
 * server. So there are no notifications, and a prepared statement may be missing or may already
 * exist.
 */
import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createEngine, definePipeline, type Engine, PermanentError } from "../../../src/index.ts";
import { Workspace } from "../../support/command-line.ts";
import { type PgBouncer, startPgBouncer } from "../../support/pgbouncer.ts";
import { askForPostgres } from "../../support/postgres-setup.ts";

const NAME_BYTES = 6;
/** Fewer than the number of clients, so that they share them. */
const CONNECTIONS = 3;
const POLL_MS = 200;
const ITEMS = 1_000;

let bouncer: PgBouncer;
let address = "";

beforeEach(async () => {
  bouncer = await startPgBouncer(await askForPostgres(), CONNECTIONS);
  const url = new URL(bouncer.address);
  url.searchParams.set("schema", `pooled_${randomBytes(NAME_BYTES).toString("hex")}`);
  address = url.href;
});
afterEach(() => bouncer.stop());

const start = (work: boolean): Promise<Engine> =>
  createEngine({ store: address, work, pollMs: POLL_MS });

test("batches of several processes run, fail, are redriven, cancelled and counted correctly", async () => {
  const fixed = new Set<number>();
  const count = definePipeline({
    name: "count",
    chunkSize: 10,
    maxRedrives: 0,
    process: (n: number, context) => {
      if (n % 100 === 0 && !fixed.has(n)) throw new PermanentError("not yet");
      context.emit("counted", { n });
      return n;
    },
    topics: ["counted"],
  });
  const hang = definePipeline({
    name: "hang",
    process: (_n: number, { signal }) =>
      new Promise<void>((_resolve, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason as Error));
      }),
  });
  const [submitter, ...workers] = await Promise.all([start(false), start(true), start(true)]);
  try {
    for (const worker of workers) {
      worker.work(count);
      worker.work(hang);
    }
    const numbers = Array.from({ length: ITEMS }, (_, n) => n);
    const [counted, hung] = await Promise.all([
      submitter.submit(count, numbers),
      submitter.submit(hang, numbers.slice(0, 50)),
    ]);
    const first = await counted.wait();
    expect(first).toMatchObject({
      state: "completed_with_errors",
      counts: { succeeded: 990, failed: 10 },
    });
    for (const n of numbers) fixed.add(n);
    await counted.redrive();
    expect(await counted.wait()).toMatchObject({
      state: "succeeded",
      counts: { succeeded: ITEMS },
    });
    await hung.cancel();
    expect(await hung.wait()).toMatchObject({ state: "cancelled", counts: { cancelled: 50 } });
    const messages = await submitter.topic("counted").read({ limit: 2 * ITEMS });
    expect(messages).toHaveLength(ITEMS);
  } finally {
    await Promise.all([submitter, ...workers].map((engine) => engine.close()));
  }
});

test("the doctor reports the pooler and the missing notifications", async () => {
  const folder = new Workspace();
  try {
    await (await start(false)).close();
    const { stdout } = await folder.run("doctor", "--store", address);
    expect(stdout).toMatch(
      /^warn {2}pooler {6}one in transaction mode: notifications do not arrive$/m,
    );
  } finally {
    folder.remove();
  }
});
