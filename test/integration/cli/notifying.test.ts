/**
 * Sinks of the configuration: which events they get, and what happens to events that they refuse.
 */
import { existsSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { readLines, Workspace } from "../../support/command-line.ts";
import { ok, startWebServer, status, type WebServer } from "../engine/web-server.ts";

interface LetterLine {
  readonly delivery: number;
  readonly reader: string;
  readonly event: string;
  readonly type: string;
  readonly batch: string;
  readonly attempts: number;
  readonly code: string;
  readonly message: string;
  readonly givenUpAt: string;
}

let work: Workspace;
const servers: WebServer[] = [];
beforeEach(() => {
  work = new Workspace();
  work.writePipeline();
  work.writeItems(3);
});
afterEach(async () => {
  work.remove();
  for (const server of servers.splice(0)) await server.close();
});

const RUN = ["run", "pipeline.ts", "--input", "items.jsonl"];

async function serve(...answers: Parameters<typeof startWebServer>): Promise<WebServer> {
  const server = await startWebServer(...answers);
  servers.push(server);
  return server;
}

function writeConfig(notify: string, more = ""): void {
  work.write(
    "sluice.config.ts",
    `import { webhookSink, commandSink, fileSink } from "sluice";
     void [webhookSink, commandSink, fileSink];
     export default { ${more} notify: { ${notify} } };`,
  );
}

function writeHook({ url }: WebServer, options = "", name = "ops"): string {
  return `${name}: webhookSink({
    url: "${url}", secret: "a secret of more than 24 bytes", allowPrivate: true, ${options} }),`;
}

function readEvents(file: string): { readonly id: string; readonly type: string }[] {
  return readLines(work.read(file));
}

describe("run", () => {
  test("has delivered all events of the batch to its sinks when it exits", async () => {
    const server = await serve(ok);
    writeConfig(
      `${writeHook(server, `events: ["batch.ended"]`)} log: fileSink({ path: "e.jsonl" })`,
    );
    const { code, view } = await work.runJson(...RUN);
    expect(code).toBe(0);
    expect(server.hits.map(({ event }) => event.id)).toEqual([`${view.batch}/7`]);
    expect(readEvents("e.jsonl").map(({ type }) => type)).toEqual([
      "batch.submitted",
      "batch.started",
      "slicing.started",
      "slicing.finished",
      "step.ended",
      "batch.drained",
      "batch.ended",
      "batch.released",
    ]);
  });

  test("does not deliver events from before a sink existed", async () => {
    await work.run(...RUN);
    writeConfig(`log: fileSink({ path: "e.jsonl" })`);
    const { view } = await work.runJson(...RUN);
    const batches = new Set(readEvents("e.jsonl").map(({ id }) => id.split("/")[0]));
    expect([...batches]).toEqual([view.batch]);
  });

  test("that is stopped during a hanging delivery leaves the event to the next run", async () => {
    const server = await serve(() => undefined);
    writeConfig(writeHook(server, `events: ["batch.ended"]`), "drainMs: 50,");
    const running = work.start(RUN);
    await running.waitFor(/succeeded {2}letters/);
    running.signal("SIGINT");
    const { code, stderr } = await running.ended;
    expect(code).toBe(0);
    expect(stderr).toContain("not all events are delivered yet");
    const healthy = await serve(ok);
    writeConfig(writeHook(healthy, `events: ["batch.ended"]`));
    await work.run(...RUN);
    const ids = healthy.hits.map(({ event }) => event.id);
    expect(ids).toHaveLength(2);
    expect(ids[0]).toBe(server.hits[0]?.event.id);
  });

  test("succeeds with its batch even if its sinks fail", async () => {
    const server = await serve(status(500));
    writeConfig(writeHook(server, "attempts: 1"));
    const { code, stderr } = await work.run(...RUN);
    expect(code).toBe(0);
    expect(stderr).toMatch(/^error: subscriber ops gave up on b-\w+\/7 \(batch\.ended\)/m);
  });
});

test("a worker delivers its events, and those of an earlier submit, to its sinks", async () => {
  writeConfig(`log: fileSink({ path: "e.jsonl" })`);
  const { stdout } = await work.run("submit", "pipeline.ts", "--input", "items.jsonl");
  expect(existsSync(work.at("e.jsonl"))).toBe(false);
  await work.run("work", "pipeline.ts", "--until-idle");
  const events = readEvents("e.jsonl");
  expect(events.map(({ id }) => id)).toEqual(
    [1, 2, 3, 4, 5, 6, 7, 8].map((seq) => `${stdout.trim()}/${seq}`),
  );
});

describe("undelivered events", () => {
  test("says so when everything was delivered", async () => {
    await work.run(...RUN);
    const { code, stdout, stderr } = await work.run("topics", "undelivered");
    expect([code, stdout, stderr]).toEqual([0, "", "no undelivered events or messages\n"]);
  });

  test("lists given-up events as a table and as JSON", async () => {
    const server = await serve(status(404));
    writeConfig(writeHook(server, `events: ["batch.submitted", "batch.ended"]`));
    const { view } = await work.runJson(...RUN);
    const { stdout } = await work.run("topics", "undelivered");
    const [titles, first, second] = stdout.split("\n");
    expect(titles).toMatch(/^DELIVERY +READER +EVENT +TYPE +CODE +ATTEMPTS +GIVEN UP +MESSAGE$/);
    expect(first).toMatch(
      new RegExp(`^ +1 +ops +${view.batch}/1 +batch\\.submitted +HTTP_404 +1 .*answered 404$`),
    );
    expect(second).toMatch(new RegExp(`^ +2 +ops +${view.batch}/7 +batch\\.ended`));
    const lines = readLines<LetterLine>((await work.run("topics", "undelivered", "--json")).stdout);
    expect(lines[1]).toEqual({
      delivery: 2,
      reader: "ops",
      event: `${view.batch}/7`,
      type: "batch.ended",
      batch: view.batch,
      attempts: 1,
      code: "HTTP_404",
      message: `http://127.0.0.1:${server.port} answered 404`,
      givenUpAt: expect.stringMatching(/^\d{4}-.*Z$/) as string,
    });
    const limited = await work.run("topics", "undelivered", "--limit", "1");
    expect(limited.stdout.trimEnd().split("\n")).toHaveLength(2);
    expect(limited.stderr).toContain("there are more");
  });

  test("retry delivers an event and drops it, or leaves it undelivered and says why", async () => {
    let isDown = true;
    const server = await serve((hit, response) =>
      isDown ? status(404)(hit, response) : ok(hit, response),
    );
    writeConfig(writeHook(server, `events: ["batch.ended"]`));
    const { view } = await work.runJson(...RUN);
    const failed = await work.run("topics", "retry", "1");
    expect(failed.code).toBe(1);
    expect(failed.stderr).toMatch(
      /^error REDELIVERY_FAILED: delivery 1 failed again and stays undelivered: .* answered 404 \(HTTP_404\)$/m,
    );
    const [kept] = readLines<LetterLine>(
      (await work.run("topics", "undelivered", "--json")).stdout,
    );
    expect(kept).toMatchObject({ delivery: 1, attempts: 2 });
    isDown = false;
    const retried = await work.run("topics", "retry", "1");
    expect(retried).toMatchObject({ code: 0, stdout: `delivered  ${view.batch}/7  ops\n` });
    expect(server.hits.map(({ event }) => event.id)).toEqual(
      Array.from({ length: 3 }, () => `${view.batch}/7`),
    );
    expect((await work.run("topics", "undelivered")).stderr).toBe(
      "no undelivered events or messages\n",
    );
    expect(await work.run("topics", "retry", "1")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("error NOT_FOUND: there is no undelivered event") as string,
    });
  });

  test("retry without the sink in the configuration says which program can deliver it", async () => {
    const server = await serve(status(404));
    writeConfig(writeHook(server, `events: ["batch.ended"]`));
    await work.run(...RUN);
    writeConfig("");
    const { code, stderr } = await work.run("topics", "retry", "1");
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /^error NOT_FOUND: delivery 1 is for ops, which is not in notify or consume/m,
    );
    expect(stderr).toContain("engine.redeliver(1)");
  });

  test("discard drops an event, and needs --yes without a terminal", async () => {
    const server = await serve(status(404));
    writeConfig(writeHook(server, `events: ["batch.ended"]`));
    await work.run(...RUN);
    const unsure = await work.run("topics", "discard", "1");
    expect(unsure.code).toBe(2);
    expect(unsure.stderr).toContain("Repeat with --yes");
    const sure = await work.run("topics", "discard", "1", "--yes", "--json");
    expect(JSON.parse(sure.stdout)).toMatchObject({
      delivery: 1,
      reader: "ops",
      done: "discarded",
    });
    expect((await work.run("topics", "undelivered")).stderr).toBe(
      "no undelivered events or messages\n",
    );
  });

  test("forget drops a subscriber with its undelivered events, and refuses an unknown one", async () => {
    const server = await serve(status(404));
    writeConfig(writeHook(server, `events: ["batch.ended"]`));
    await work.run(...RUN);
    expect((await work.run("topics", "forget", "ops")).code).toBe(2);
    const sure = await work.run("topics", "forget", "ops", "--yes", "--json");
    expect(JSON.parse(sure.stdout)).toEqual({
      reader: "ops",
      topic: null,
      group: null,
      done: "forgotten",
    });
    expect((await work.run("topics", "undelivered")).stderr).toBe(
      "no undelivered events or messages\n",
    );
    const again = await work.run("topics", "forget", "ops", "--yes");
    expect(again.code).toBe(2);
    expect(again.stderr).toContain("error NOT_FOUND: this store has no subscriber ops");
  });

  test("refuses an invalid number with exit 2", async () => {
    await work.run(...RUN);
    expect(await work.run("topics", "retry", "first")).toMatchObject({ code: 2 });
    expect(await work.run("topics", "discard", "0")).toMatchObject({ code: 2 });
  });
});

describe("notify in the configuration", () => {
  test("with mistakes is reported together with all other problems, and shows no secret", async () => {
    writeConfig(`"my ops": fileSink({ path: "x" }), mail: "me@example.com"`, "pollMs: 1,");
    const { code, stderr } = await work.run(...RUN);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^error BAD_CONFIG: the configuration has 3 problems:$/m);
    expect(stderr).toContain("notify.my ops in sluice.config.ts must have a name of letters");
    expect(stderr).toContain("notify.mail in sluice.config.ts must be a webhookSink, a");
    work.write("sluice.config.ts", "export default { notify: [] };");
    expect((await work.run(...RUN)).stderr).toContain("must be an object of sinks by their names");
  });

  test("with an invalid sink is refused with its line and the sink's own message, with exit 2", async () => {
    writeConfig(`ops: webhookSink({ url: "http://10.0.0.1/", secret: "hunter2" })`);
    const { code, stderr } = await work.run(...RUN);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^error BAD_OPTION: webhookSink has 2 problems:$/m);
    expect(stderr).toMatch(/It is in sluice\.config\.ts, line 3,/);
    expect(stderr).toContain("10.0.0.1, which is not a public address");
    expect(stderr).not.toContain("hunter2");
  });

  test("cannot be set by a variable", async () => {
    const { stderr } = await work.start(RUN, { env: { SLUICE_NOTIFY: "x" } }).ended;
    expect(stderr).toContain("SLUICE_NOTIFY is not a setting and is ignored");
  });

  test("a command of a sink may call sluice with its own variables", async () => {
    const env = { SLUICE_EVENT: "batch.ended", SLUICE_BATCH: "b-1", SLUICE_EVENT_ID: "b-1/6" };
    const { code, stderr } = await work.start(["doctor"], { env }).ended;
    expect([code, stderr]).toEqual([0, ""]);
  });
});
