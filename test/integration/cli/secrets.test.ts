/**
 * Canary secrets: a program has secrets everywhere it may have them, and real processes fail in
 * every way. Afterwards nothing printed, counted or stored, except the items themselves, may
 * contain one.
 */
import { randomBytes } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import pg from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Ending, readLines, type Running, Workspace } from "../../support/command-line.ts";
import { askForPostgres } from "../../support/postgres-setup.ts";
import { startWebServer, status, type WebServer } from "../engine/web-server.ts";

const NAME_BYTES = 6;
const nonce = (): string => randomBytes(NAME_BYTES).toString("hex");

/** Each place has its own secret, so that a leak shows where it came from. */
function makeCanaries() {
  return {
    environment: `canary-env-${nonce()}`,
    config: `canary-config-${nonce()}`,
    store: `canary-store-${nonce()}`,
    webhook: `canary-hook-${nonce()}-of-more-than-24-bytes`,
    hookToken: `canary-hooktoken-${nonce()}`,
    item: `canary-item-${nonce()}`,
    itemAddress: `canary-itemurl-${nonce()}`,
    bearer: `canary-bearer-${nonce()}`,
    source: `canary-source-${nonce()}`,
    crash: `canary-crash-${nonce()}`,
    why: `canary-why-${nonce()}`,
    input: `canary-input-${nonce()}`,
    fatal: `canary-fatal-${nonce()}`,
  };
}

let work: Workspace;
let server: WebServer;
let canaries: ReturnType<typeof makeCanaries>;
beforeEach(async () => {
  work = new Workspace();
  server = await startWebServer(status(400));
  canaries = makeCanaries();
});
afterEach(async () => {
  work.remove();
  await server.close();
});

/** Where the items themselves are stored, as the user gave them. */
const ITEMS_OWN = ["manifest", "override", "result", "message", "item_key"];
/** The items' keys, as the user gave them. */
const INPUTS = /"input":"(?:[^"\\]|\\.)*"/g;

interface Place {
  readonly address: string;
  /** Every row of every table except the items themselves, as text. */
  readonly dump: () => Promise<string>;
}

const PLACES = {
  SQLite: async (): Promise<Place> => {
    const address = work.at("jobs.db");
    return {
      address,
      dump: async () => {
        const database = new DatabaseSync(address, { readOnly: true });
        const tables = database
          .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
          .all()
          .map(({ name }) => String(name))
          .filter((name) => !ITEMS_OWN.includes(name));
        const rows = tables.map((name) => database.prepare(`SELECT * FROM "${name}"`).all());
        database.close();
        return JSON.stringify(rows);
      },
    };
  },
  PostgreSQL: async (): Promise<Place> => {
    const server = await askForPostgres();
    const url = new URL(server);
    const schema = `secrets_${nonce()}`;
    url.searchParams.set("schema", schema);
    // No test requests it, but it is part of the address.
    url.password = canaries.store;
    return {
      address: url.href,
      dump: async () => {
        const client = new pg.Client(server);
        await client.connect();
        try {
          const found = await client.query<{ tablename: string }>(
            "SELECT tablename FROM pg_tables WHERE schemaname = $1",
            [schema],
          );
          const rows: unknown[] = [];
          for (const { tablename } of found.rows) {
            if (ITEMS_OWN.includes(tablename)) continue;
            rows.push((await client.query(`SELECT * FROM ${schema}.${tablename}`)).rows);
          }
          return JSON.stringify(rows);
        } finally {
          await client.end();
        }
      },
    };
  },
};

const PIPELINE = `
import { definePipeline, jsonl, PermanentError, TransientError } from "sluice";
const key = process.env.PORTAL_API_KEY;
export default definePipeline({
  name: "portal",
  source: ({ input }: { input: string }) => jsonl<any>(input),
  key: (item: any) => item.id,
  chunkSize: 2,
  maxRedrives: 0,
  retry: { attempts: 2, baseMs: 1, capMs: 1 },
  topics: { emit: ["out"], errors: "failures" },
  process: async (item: any, context) => {
    switch (item.id) {
      case "named": throw new Error("the portal refuses " + key);
      case "quoted": throw new PermanentError("cannot log in with " + item.login.password);
      case "address": throw new TransientError("GET " + item.url + " answered 503");
      case "header": throw new Error("sent authorization: Bearer " + item.bearer, {
        cause: new Error("socket to https://u:" + item.bearer + "@portal.test closed"),
      });
      case "config": throw new Error("signed with " + item.signed);
      case "object": throw { message: "x-api-key: " + key, code: "ODD" };
      case "stack": throw new Error("cannot log in with " + item.login.password, {
        cause: new Error("sent " + item.login.password),
      });
      case "client": throw Object.assign(new Error("401"), {
        config: { headers: { Authorization: item.login.password } },
      });
      default: context.emit("out", { id: item.id }); return item.id;
    }
  },
});
`;

function writeFiles(): void {
  work.write("portal.ts", PIPELINE);
  work.write(
    "broken.ts",
    `import { definePipeline } from "sluice";
     export default definePipeline({
       name: "broken",
       source: async function* () { throw new Error("connect postgres://reader:${canaries.source}@db.test/rows failed"); },
       process: () => undefined,
     });`,
  );
  work.write(
    "fatal.ts",
    `import { definePipeline, FatalError } from "sluice";
     export default definePipeline({
       name: "fatal",
       source: ({ input }: { input: { password: string } }) => [input],
       process: (item) => { throw new FatalError("access denied for " + item.password); },
     });`,
  );
  work.write(
    "crash.ts",
    `import { definePipeline, jsonl } from "sluice";
     export default definePipeline({
       name: "crash",
       source: ({ input }: { input: string }) => jsonl<any>(input),
       process: () => new Promise(() => {
         setTimeout(() => { throw new Error("token=${canaries.crash}, ${canaries.config}"); }, 1);
       }),
     });`,
  );
  work.write(
    "sluice.config.ts",
    `import { webhookSink } from "sluice";
     export default {
       redact: ["${canaries.config}"],
       notify: { ops: webhookSink({
         url: "${server.url}?token=${canaries.hookToken}",
         secret: "${canaries.webhook}", allowPrivate: true }) },
     };`,
  );
  const items = [
    { id: "good" },
    { id: "named" },
    { id: "quoted", login: { user: "u", password: canaries.item } },
    { id: "address", url: `https://reader:${canaries.itemAddress}@portal.test/d?page=1` },
    { id: "header", bearer: canaries.bearer },
    { id: "config", signed: canaries.config },
    { id: "object" },
    { id: "stack", login: { password: canaries.item } },
    { id: "client", login: { password: canaries.item } },
  ];
  work.write("items.jsonl", items.map((item) => `${JSON.stringify(item)}\n`).join(""));
}

/** The pages that a worker serves over HTTP. */
async function readPages(env: Readonly<Record<string, string>>): Promise<string[]> {
  const worker = work.start(["work", "portal.ts", "--health-port", "0"], { env });
  await worker.waitFor(/health at http:\S+[^]*working on/);
  const base = /health at (http:\S+)\/health/.exec(worker.stderr)?.[1] ?? "";
  const paths = ["/health", "/ready", "/metrics", "/scaling", "/none"];
  const shown = await Promise.all(
    paths.map(async (path) => (await fetch(`${base}${path}`)).text()),
  );
  worker.signal("SIGTERM");
  return [...shown, (await worker.ended).stderr];
}

/** Runs commands one after the other in one process, which is quicker than a process for each. */
const SEVERAL = `
import { setMaxListeners } from "node:events";
import { runProgram } from "./node_modules/sluice/dist/cli/program.js";
setMaxListeners(0, process.stdout, process.stderr, process);
for (const words of JSON.parse(process.argv[2])) {
  await runProgram(words, process.exit);
}
process.exit(0);
`;

const INPUT = ["--input", "items.jsonl"];
/** Every kind of failure. */
const RUNS = [
  ["run", "portal.ts", ...INPUT, "--json"],
  ["run", "portal.ts", ...INPUT, "--log-format", "json", "--key", "two"],
  ["run", "portal.ts", ...INPUT, "--verbose", "--key", "three"],
  ["run", "broken.ts", "--verbose"],
  ["run", "broken.ts", "--log-format", "json", "--key", "again"],
  ["submit", "portal.ts", ...INPUT, "--key", "four", "--json"],
  ["work", "portal.ts", "--until-idle", "--log-format=json"],
];

/** Every command that reads, on a failed batch and on a waiting one. */
function listLooks(failed: string, waiting: string, store: string): string[][] {
  const ofBatch = [["status"], ["why"], ["dead"], ["status", "--watch"]].flatMap((words) => [
    [...words, failed],
    [...words, failed, "--json"],
  ]);
  const ofAll = [
    ["list"],
    ["lanes"],
    ["topics"],
    ["topics", "undelivered"],
    ["limits"],
    ["limits", "closed"],
    ["doctor"],
  ].flatMap((words) => [words, [...words, "--json"]]);
  return [
    ...ofBatch,
    ...ofAll,
    ["status", waiting],
    ["status", waiting, "--json"],
    ["why", waiting, "--json"],
    ["list", "--store", store],
    ["topics", "read", "failures", "--json"],
    ["status", "b-unknown", "--verbose"],
  ];
}

describe.each(Object.entries(PLACES))("on %s", (_name, open) => {
  test("no secret is printed, logged, counted or kept in the ledger", async () => {
    const { address, dump } = await open();
    writeFiles();
    work.write("several.mjs", SEVERAL);
    const said: string[] = [];
    const env = { PORTAL_API_KEY: canaries.environment, SLUICE_STORE: address };
    const hear = async ({ ended }: Running): Promise<Ending> => {
      const ending = await ended;
      said.push(ending.stdout, ending.stderr);
      return ending;
    };
    const run = (...args: readonly string[]): Promise<Ending> => hear(work.start(args, { env }));
    const runAll = (all: readonly (readonly string[])[]): Promise<Ending> =>
      hear(
        work.startProgram(process.execPath, ["several.mjs", JSON.stringify(all)], {
          ...env,
          SLUICE_HEALTH_PORT: "off",
        }),
      );
    const listed = `https://me:${canaries.input}@portal.test/list`;
    const input = JSON.stringify({ url: listed, password: canaries.fatal });
    const submit = ["submit", "fatal.ts", "--input-json", input, "--key", "five"];
    expect((await runAll([...RUNS, submit])).stdout).toContain(`"failed":8`);
    expect((await run("run", "crash.ts", ...INPUT)).stderr).toContain("CRASHED");
    expect((await run("work", "fatal.ts", "--verbose")).code).toBe(70);
    expect((await run("work", "fatal.ts", "--log-format=json", "--json")).code).toBe(70);
    said.push(...(await readPages(env)));
    const batches = readLines<{ batch: string; pipeline: string }>(
      (await run("list", "--json")).stdout,
    );
    const idOf = (name: string): string =>
      batches.find(({ pipeline }) => pipeline === name)?.batch ?? "";
    const why = `rotate password=${canaries.why} and ${canaries.environment}`;
    const pause = ["pause", "--lane", "portal", "--why", why, "--by", canaries.environment];
    await runAll([pause, ...listLooks(idOf("portal"), idOf("fatal"), address)]);
    // The sinks were really called, and refused the delivery.
    expect(server.hits.length).toBeGreaterThan(0);
    const kept = (await dump()).replaceAll(INPUTS, "");
    expect(kept).toContain("the portal refuses [redacted]");
    expect(kept).toContain("https://reader:[redacted]@portal.test");
    expect(said.join("\n")).toContain("https://me:[redacted]@portal.test");
    const leaks = Object.entries(canaries).flatMap(([name, canary]) => [
      ...findAround(`${name} was printed`, said.join("\n"), canary),
      ...findAround(`${name} was kept`, kept, canary),
    ]);
    expect(leaks).toEqual([]);
  });
});

/** The text around a leak, to see where it came from. */
function findAround(what: string, text: string, canary: string): string[] {
  const at = text.indexOf(canary);
  return at === -1 ? [] : [`${what}: ${text.slice(Math.max(0, at - 60), at + canary.length + 20)}`];
}

test("JSON logs contain the ids of the batch, chunk, item and worker", async () => {
  writeFiles();
  const { stderr, code } = await work.start(["run", "portal.ts", "--input", "items.jsonl"], {
    env: { SLUICE_LOG: "json", SLUICE_STORE: work.at("jobs.db") },
  }).ended;
  expect(code).not.toBe(2);
  const lines = readLines<Record<string, unknown>>(stderr);
  for (const line of lines) {
    expect(line).toMatchObject({ time: expect.any(String), level: expect.any(String) });
  }
  const gaveUp = lines.filter(({ event }) => event === "item.gave_up");
  expect(gaveUp).toHaveLength(8);
  for (const line of gaveUp) {
    expect(line).toMatchObject({
      level: "warn",
      pipeline: "portal",
      step: "portal",
      batch: expect.stringMatching(/^b-/),
      chunk: expect.any(Number),
      item: expect.any(Number),
      worker: expect.any(Number),
    });
  }
  const unexpected = lines.find(({ event }) => event === "item.unexpected_error");
  expect(unexpected?.["error"]).toMatchObject({ name: "Error", stack: expect.any(String) });
  expect(lines.map(({ event }) => event)).toContain("batch.ended");
});

test("an unknown log format is refused", async () => {
  const asked = await work.run("list", "--log-format", "xml");
  expect(asked.code).toBe(2);
  const { code, stderr } = await work.start(["list"], { env: { SLUICE_LOG: "xml" } }).ended;
  expect(code).toBe(2);
  expect(stderr).toContain('SLUICE_LOG is "xml"');
});
