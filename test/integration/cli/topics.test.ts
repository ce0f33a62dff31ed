/** `sluice topics`: their messages, the position of each group, and delivering them again. */
import { readdirSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readLines, Workspace } from "../../support/command-line.ts";
import { runLines } from "./scenes.ts";

let work: Workspace;
let batch = "";
const EMITS = `topics: { emit: ["email", "sms"], errors: "errors" }, process: (item, { emit }) => {
  if (item.n === 2) throw new PermanentError("no", { code: "NO" });
  emit("email", { n: item.n });
}`;
const RUN = ["run", "pipeline.ts", "--input", "items.jsonl"];

beforeEach(async () => {
  work = new Workspace();
  work.writePipeline(`concurrency: 1, ${EMITS}`);
  work.writeItems(4);
});
afterEach(() => work.remove());

function writeConfig(consume: string): void {
  work.write(
    "sluice.config.ts",
    `import { jsonlSink, commandSink, webhookSink } from "sluice";
     void [jsonlSink, commandSink, webhookSink];
     export default { consume: ${consume} };`,
  );
}

async function run(): Promise<void> {
  const { code, view, stderr } = await work.runJson(...RUN);
  expect(code, stderr).toBe(3);
  ({ batch } = view);
}

interface Message {
  readonly id: string;
  readonly position: number;
  readonly data: unknown;
}

test("topics are listed with their messages and the position of each group", async () => {
  writeConfig('{ email: { archive: jsonlSink({ folder: "out" }) } }');
  await run();
  const { code, stdout } = await work.run("topics");
  expect(code).toBe(0);
  expect(stdout.split("\n")[0]).toMatch(/^TOPIC +MESSAGES +LAST +GROUP +POSITION +LAG$/);
  expect(stdout).toMatch(/^email +3 +\d +archive +\d +0$/m);
  expect(stdout).toMatch(/^errors +1 +\d +- +- +-$/m);
  expect(await runLines(work, "topics")).toMatchObject([
    { topic: "email", messages: 3, groups: [{ group: "archive", lag: 0 }] },
    { topic: "errors", messages: 1, groups: [] },
  ]);
});

test("no topics are listed when there are none", async () => {
  work.writePipeline();
  await work.run(...RUN);
  const ending = { code: 0, stdout: "", stderr: "no topic has messages or groups\n" };
  expect(await work.run("topics")).toMatchObject(ending);
  const { code, stderr } = await work.run("topics", "read", "email");
  expect(code).toBe(2);
  expect(stderr).toMatch(/^error NOT_FOUND: this store has no topic email/);
});

test("read prints messages, from a position, for a group, up to a limit", async () => {
  await run();
  const all = await runLines<Message>(work, "topics", "read", "email");
  expect(all.map(({ id, data }) => ({ id, data }))).toEqual(
    [0, 1, 3].map((n) => ({ id: `${batch}/0/${n}/1/0`, data: { n } })),
  );
  const second = all[1]!;
  const read = (...args: string[]): Promise<Message[]> =>
    runLines<Message>(work, "topics", "read", "email", ...args);
  expect(await read("--from", String(second.position))).toEqual(all.slice(1));
  expect(await read("--limit", "1")).toEqual(all.slice(0, 1));
  const table = await work.run("topics", "read", "email", "--limit", "2");
  expect(table.stdout).toMatch(/^POSITION +ID +AT +DATA$/m);
  expect(table.stdout).toContain('{"n":1}');
  expect(table.stderr).toBe("there are more: --limit <n> or --json shows them\n");
  expect(await work.run("topics", "read", "emial")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("Did you mean email?") as string,
  });
  expect(await work.run("topics", "read", "email", "--group", "unknown")).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^error NOT_FOUND: the topic .* has no group/) as string,
  });
  expect((await work.run("topics", "read", "email", "--from", "x")).code).toBe(2);
  expect((await work.run("topics", "raed", "email")).stderr).toContain("Did you mean read?");
});

test("rewind returns a group to earlier messages, and forget lets them be pruned", async () => {
  writeConfig('{ email: { archive: jsonlSink({ folder: "out" }) } }');
  await run();
  const rewind = ["topics", "rewind", "email", "archive", "--from", "1"];
  expect(await work.run(...rewind)).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^error NOT_CONFIRMED/) as string,
  });
  expect((await work.runJson(...rewind, "--yes")).view).toEqual({
    topic: "email",
    group: "archive",
    position: 0,
    lag: 3,
  });
  expect(await runLines(work, "topics", "read", "email", "--group", "archive")).toHaveLength(3);
  // The next command with the configuration delivers them again.
  await work.run("work", "pipeline.ts", "--until-idle");
  const [file = ""] = readdirSync(work.at("out"));
  const ids = readLines<Message>(work.read(`out/${file}`)).map(({ id }) => id);
  expect(ids).toHaveLength(6);
  expect(ids.slice(3)).toEqual(ids.slice(0, 3));
  expect((await work.run("topics", "forget", "email", "archive", "--yes")).stdout).toBe(
    "forgotten  group archive of email\n",
  );
  expect(await runLines(work, "topics")).toMatchObject([{ groups: [] }, {}]);
});

test("a message that a configured sink gave up is listed and can be retried", async () => {
  const script = (body: string): string =>
    `{ email: { mailer: commandSink({ run: ["sh", "-c", ${JSON.stringify(body)}], attempts: 1 }) } }`;
  writeConfig(script("echo $SLUICE_TOPIC $SLUICE_MESSAGE_ID >> heard.txt; exit 1"));
  await run();
  expect(work.read("heard.txt").split("\n")[0]).toBe(`email ${batch}/0/0/1/0`);
  const deliveries = await runLines<{ delivery: number; reader: string }>(
    work,
    "topics",
    "undelivered",
  );
  expect(deliveries.map(({ reader }) => reader)).toEqual(Array(3).fill("email#mailer"));
  writeConfig(script("cat > last.json"));
  const retried = await work.run("topics", "retry", String(deliveries[0]?.delivery));
  expect(retried).toMatchObject({ code: 0 });
  expect(readLines<Message>(work.read("last.json"))).toMatchObject([{ data: { n: 0 } }]);
});

test("an invalid consume in the configuration is refused with its place", async () => {
  writeConfig('{ email: { "": jsonlSink({ folder: "out" }), b: 1 }, sms: 2 }');
  const { code, stderr } = await work.run("topics");
  expect(code).toBe(2);
  expect(stderr).toContain("consume.email. in sluice.config.ts must have names of letters");
  expect(stderr).toContain("consume.email.b in sluice.config.ts must be a jsonlSink");
  expect(stderr).toContain("consume.sms in sluice.config.ts must be an object of sinks");
});

test("prune deletes messages that every group has acknowledged", async () => {
  writeConfig('{ email: { archive: jsonlSink({ folder: "out" }) } }');
  await run();
  const { view } = await work.runJson<{ messages: number }>("prune", "--keep", "0s", "--yes");
  expect(view.messages).toBe(4);
  expect(await runLines(work, "topics")).toMatchObject([{ topic: "email", messages: 0 }]);
});
