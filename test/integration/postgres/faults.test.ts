/** The command on a server that fails: temporarily, or permanently. */
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { makePlace, openRaw, type Place } from "../../conformance/postgres-rig.ts";
import { type BatchLine, readLines, type Running, Workspace } from "../../support/command-line.ts";
import { CuttingProxy } from "../../support/cutting-proxy.ts";

const WAIT_MS = 60_000;
const DEADLOCK = "40P01";
const TRIES_MAX = 20;
/** Longer than any interactive command waits for the server. */
const OUTAGE_MS = 9_000;

let work: Workspace;
let place: Place;
beforeEach(async () => {
  work = new Workspace();
  place = await makePlace();
});
afterEach(() => work.remove());

/** Items are slow, so that some are always running. */
const SLOW = `chunkSize: 5, concurrency: 2, process: async (_item, { attempt }) => {
  appendFileSync("ran.txt", attempt + "\\n");
  await new Promise((resolve) => setTimeout(resolve, 20));
}`;

const countRan = (): number => {
  try {
    return work.read("ran.txt").split("\n").length - 1;
  } catch {
    return 0;
  }
};

/** A worker in the middle of a batch. */
async function startInTheMiddle(store: string, items: number): Promise<Running> {
  work.writePipeline(SLOW);
  work.writeItems(items);
  const args = ["--store", store];
  const { code, stderr } = await work.run(
    "submit",
    "pipeline.ts",
    "--input",
    "items.jsonl",
    ...args,
  );
  expect(code, stderr).toBe(0);
  const env = { SLUICE_LEASE_MS: "3000", SLUICE_POLL_MS: "200" };
  const worker = work.start(["work", "pipeline.ts", "--verbose", ...args], { env });
  await vi.waitUntil(() => countRan() >= 20 || worker.isOver, WAIT_MS);
  return worker;
}

/** The server may find a deadlock between this and a worker's transaction, and end this one. */
async function dropSchema(raw: Awaited<ReturnType<typeof openRaw>>, schema: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await raw.query(`DROP SCHEMA ${schema} CASCADE`);
      return;
    } catch (error) {
      if ((error as { code?: string }).code !== DEADLOCK || tries >= TRIES_MAX) throw error;
    }
  }
}

test("a worker whose schema is dropped exits 70 with a hint", async () => {
  const worker = await startInTheMiddle(place.address, 5_000);
  const raw = await openRaw(place);
  await dropSchema(raw, place.schema);
  const { code, stderr } = await worker.ended;
  expect(code, stderr).toBe(70);
  expect(stderr).toMatch(
    /^error STORE_MISSING: the schema at .* is missing or has another version/m,
  );
  expect(stderr).toContain("hint: Run `sluice migrate` against it");
});

test("a worker that the server refuses exits 70 with a hint", async () => {
  work.writePipeline();
  const url = new URL(place.address);
  url.username = "nobody_of_that_name";
  const { code, stderr } = await work.run("work", "pipeline.ts", "--store", url.href);
  expect(code, stderr).toBe(70);
  expect(stderr).toMatch(/^error STORE_FORBIDDEN: /m);
  expect(stderr).toMatch(/^hint: Correct the user and the password/m);
});

test("a worker waits for a server that is down and continues when it is back", async () => {
  const proxy = await CuttingProxy.start(place.address);
  onTestFinished(() => proxy.close());
  const worker = await startInTheMiddle(proxy.address, 300);
  proxy.refuse();
  proxy.cut();
  await worker.waitFor(/warn: the server .* cannot be reached/);
  await new Promise((resolve) => {
    setTimeout(resolve, OUTAGE_MS);
  });
  expect(worker.isOver, worker.stderr).toBe(false);
  proxy.accept();
  await worker.waitFor(/^b-\w+ {2}letters {2}succeeded {2}300 items, /m);
  worker.signal("SIGTERM");
  const { code, stderr } = await worker.ended;
  expect(code, stderr).toBe(0);
  const { stdout } = await work.run("list", "--json", "--store", place.address);
  expect(readLines<BatchLine>(stdout)).toMatchObject([{ succeeded: 300, failed: 0 }]);
});

test("a run waits for a server that is down and reports how its batch ended", async () => {
  const proxy = await CuttingProxy.start(place.address);
  onTestFinished(() => proxy.close());
  work.writePipeline(SLOW);
  work.writeItems(300);
  const args = ["run", "pipeline.ts", "--input", "items.jsonl", "--json", "--store", proxy.address];
  const run = work.start(args);
  await vi.waitUntil(() => countRan() >= 20 || run.isOver, WAIT_MS);
  proxy.refuse();
  await run.waitFor(/warn: the server .* cannot be reached/);
  await new Promise((resolve) => {
    setTimeout(resolve, OUTAGE_MS);
  });
  expect(run.isOver, run.stderr).toBe(false);
  proxy.accept();
  const { code, stdout, stderr } = await run.ended;
  expect(code, stderr).toBe(0);
  expect(readLines<BatchLine>(stdout)).toMatchObject([{ state: "succeeded", succeeded: 300 }]);
});

test("a run that is stopped while its server is down counts as stopped, not as failed", async () => {
  const proxy = await CuttingProxy.start(place.address);
  onTestFinished(() => proxy.close());
  work.writePipeline(SLOW);
  work.writeItems(5_000);
  const args = ["run", "pipeline.ts", "--input", "items.jsonl", "--store", proxy.address];
  const run = work.start(args, { env: { SLUICE_DRAIN_MS: "100" } });
  await vi.waitUntil(() => countRan() >= 20 || run.isOver, WAIT_MS);
  proxy.refuse();
  await run.waitFor(/warn: the server .* cannot be reached/);
  run.signal("SIGTERM");
  const { code, stderr } = await run.ended;
  expect(code, stderr).toBe(143);
  expect(stderr).toMatch(/^stopped: batch b-\w+ is kept/m);
});

test("a run whose schema is dropped reports a fatal error and does not crash", async () => {
  work.writePipeline(SLOW);
  work.writeItems(5_000);
  const run = work.start([
    "run",
    "pipeline.ts",
    "--input",
    "items.jsonl",
    "--store",
    place.address,
  ]);
  await vi.waitUntil(() => countRan() >= 20 || run.isOver, WAIT_MS);
  const raw = await openRaw(place);
  await dropSchema(raw, place.schema);
  const { code, stderr } = await run.ended;
  expect(code, stderr).toBe(70);
  expect(stderr).toMatch(
    /^error STORE_MISSING: the schema at .* is missing or has another version/m,
  );
});
