/** The engine and the command on a real PostgreSQL server. */
import { randomBytes } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createEngine, csv, definePipeline, jsonl, skipped } from "../../../src/index.ts";
import { openPostgres } from "../../../src/postgres.ts";
import { askForPostgres } from "../../support/postgres-setup.ts";
import { Workspace } from "../../support/command-line.ts";

const NAME_BYTES = 6;

let address = "";
let folder: Workspace;

beforeEach(async () => {
  const url = new URL(await askForPostgres());
  url.searchParams.set("schema", `engine_${randomBytes(NAME_BYTES).toString("hex")}`);
  address = url.href;
  folder = new Workspace();
});
afterEach(() => folder.remove());

test("batches run, and workers are notified of those of other processes", async () => {
  const double = definePipeline({
    name: "double",
    chunkSize: 7,
    process: (n: number) => (n % 10 === 0 ? skipped("round") : n * 2),
  });
  const submitter = await createEngine({ store: address, work: false });
  const worker = await createEngine({ store: address });
  try {
    worker.work(double);
    const numbers = Array.from({ length: 500 }, (_, n) => n);
    const batch = await submitter.submit(double, numbers);
    const { state, counts } = await batch.wait();
    expect(state).toBe("succeeded");
    expect(counts).toMatchObject({ planned: 500, succeeded: 450, skipped: 50 });
    const results: unknown[] = [];
    for await (const { value } of batch.results()) results.push(value);
    expect(results).toHaveLength(450);
  } finally {
    await worker.close();
    await submitter.close();
  }
});

test("a local file is frozen for workers on other hosts, and an unreadable line fails alone", async () => {
  const file = join(tmpdir(), `rows-${randomBytes(NAME_BYTES).toString("hex")}.jsonl`);
  await writeFile(file, '{"n":1}\nnonsense\n{"n":3}\n');
  const seen: number[] = [];
  const pipeline = definePipeline({
    name: "rows",
    chunkSize: 2,
    source: ({ input }: { input: string }) => jsonl<{ n: number }>(input),
    process: ({ n }) => void seen.push(n),
  });
  const submitter = await createEngine({ store: address, work: false });
  const worker = await createEngine({ store: address });
  try {
    const batch = await submitter.submit(pipeline, file);
    for await (const { type } of batch.events()) if (type === "slicing.finished") break;
    // As on a host that never had the file.
    await rm(file);
    worker.work(pipeline);
    expect(await batch.wait()).toMatchObject({
      state: "completed_with_errors",
      counts: { succeeded: 2, failed: 1 },
    });
    expect(seen.toSorted((a, b) => a - b)).toEqual([1, 3]);
    const letters: unknown[] = [];
    for await (const { item, code } of batch.deadLetters()) letters.push([item, code]);
    expect(letters).toEqual([[1, "MALFORMED_LINE"]]);
  } finally {
    await worker.close();
    await submitter.close();
  }
});

test("a file that every host has is not frozen", () => {
  expect(jsonl("rows.jsonl", { shared: true }).isLocal).toBe(false);
  expect(csv("rows.csv").isLocal).toBe(true);
});

test("the command runs on a server, shows no password, and reading commands create no store", async () => {
  folder.writePipeline();
  folder.writeItems(20);
  const url = new URL(address);
  url.password = "hush";
  const missing = await folder.run("list", "--store", url.href);
  expect(missing.code).toBe(2);
  expect(missing.stderr).toMatch(/^error STORE_MISSING: there is no store postgres:/m);
  const ran = await folder.run("run", "pipeline.ts", "--input", "items.jsonl", "--store", url.href);
  expect(ran.code, ran.stderr).toBe(0);
  const doctor = await folder.run("doctor", "--store", url.href);
  expect(doctor.stdout).toMatch(/^ok {4}schema {6}version 1$/m);
  const listed = await folder.run("list", "--store", url.href);
  expect(listed.stdout).toMatch(/succeeded +20/);
  for (const { stdout, stderr } of [missing, ran, doctor, listed]) {
    expect(stdout + stderr).not.toContain("hush");
  }
});

test("an invalid address is reported with a hint", async () => {
  const { code, stderr } = await folder.run(
    "list",
    "--store",
    "postgres://a:b@c/d?sslmode=require",
  );
  expect(code).not.toBe(0);
  expect(stderr).toContain('sslmode "require" is unknown');
  expect(stderr).not.toContain("a:b");
  const unreachable = await folder.run("list", "--store", "postgres://127.0.0.1:1/none");
  expect(unreachable.code).toBe(1);
  expect(unreachable.stderr).toMatch(/^error STORE_UNREACHABLE: .*127\.0\.0\.1:1/m);
});

test("a closed store says so", async () => {
  const store = await openPostgres(address);
  await store.close();
  await expect(store.listLanes()).rejects.toMatchObject({ code: "STOPPED" });
});
