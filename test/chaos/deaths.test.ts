/** Items that kill their process, and what is left of their work. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { type BatchLine, readLines, Workspace } from "../support/command-line.ts";

const ITEMS = 10_000;
const POISON = 6_173;
/** One together with others, one among suspects, one alone. */
const DEATHS = 3;

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

interface Letter {
  readonly item: number;
  readonly code: string;
  readonly deaths: number;
}

test("one item in 10,000 that kills its process is a dead letter POISON after exactly 3 deaths, and it is the only one", async () => {
  work.write(
    "pipeline.ts",
    `import { definePipeline, jsonl } from "sluice";
export default definePipeline({
  name: "poison",
  chunkSize: 250,
  source: ({ input }: { input: string }) => jsonl<{ n: number }>(input),
  process: async ({ n }) => {
    if (n === ${POISON}) process.kill(process.pid, "SIGKILL");
    await null;
  },
});
`,
  );
  work.writeItems(ITEMS);
  const run = ["run", "pipeline.ts", "--input", "items.jsonl", "--key", "poison", "--json"];
  let deaths = 0;
  let ending = await work.start(run).ended;
  for (; ending.signal === "SIGKILL" && deaths <= DEATHS; deaths++) {
    ending = await work.start(run).ended;
  }
  expect(deaths, ending.stderr).toBe(DEATHS);
  const view = readLines<BatchLine>(ending.stdout).at(-1);
  expect(view).toMatchObject({
    state: "completed_with_errors",
    planned: ITEMS,
    succeeded: ITEMS - 1,
    failed: 1,
    pending: 0,
  });
  const dead = await work.run("dead", view?.batch ?? "", "--json");
  expect(readLines<Letter>(dead.stdout)).toMatchObject([
    { item: POISON, code: "POISON", deaths: DEATHS },
  ]);
});

test("an item continues after its last checkpoint when its process was killed", async () => {
  work.write(
    "pipeline.ts",
    `import { definePipeline } from "sluice";
import { appendFileSync, existsSync, writeFileSync } from "node:fs";
export default definePipeline({
  name: "staged",
  source: ({ input }: { input: { items: number } }) => Array.from({ length: input.items }).keys(),
  process: async (n: number, { checkpoint, lastCheckpoint }) => {
    const done = (lastCheckpoint?.data as number | undefined) ?? 0;
    for (let stage = done + 1; stage <= 4; stage++) {
      appendFileSync("stages.log", n + "." + stage + "\\n");
      await checkpoint("stage", stage);
      if (n === 1 && stage === 2 && !existsSync("killed")) {
        writeFileSync("killed", "");
        process.kill(process.pid, "SIGKILL");
      }
    }
    return lastCheckpoint;
  },
});
`,
  );
  const run = ["run", "pipeline.ts", "--input-json", '{"items":3}', "--key", "staged", "--json"];
  const killed = await work.start(run).ended;
  expect(killed.signal).toBe("SIGKILL");
  const ending = await work.start(run).ended;
  expect(ending.code, ending.stderr).toBe(0);
  expect(readLines<BatchLine>(ending.stdout).at(-1)).toMatchObject({ succeeded: 3, pending: 0 });
  const stages = work.read("stages.log").trimEnd().split("\n");
  // Recorded stages do not run again; the others may have been on their way to their next
  // checkpoint.
  expect(stages.filter((stage) => stage.startsWith("1."))).toEqual(["1.1", "1.2", "1.3", "1.4"]);
  expect(new Set(stages).size).toBe(12);
});

test("the items of an array for a busy lane survive the death of its submitter", async () => {
  work.write(
    "both.ts",
    `import { createEngine, definePipeline } from "sluice";
import { existsSync } from "node:fs";
const note = definePipeline({ name: "note", process: (n: number) => n * 2 });
const slow = definePipeline({
  name: "slow",
  process: async () => {
    while (!existsSync("go")) await new Promise((resolve) => setTimeout(resolve, 5));
  },
});
const engine = await createEngine({ store: "both.db" });
if (process.argv[2] === "submit") {
  await engine.submit(slow, [1], { lane: "a" });
  const { id } = await engine.submit(note, [1, 2, 3], { lane: "a" });
  process.stdout.write(id + "\\n", () => process.kill(process.pid, "SIGKILL"));
} else {
  engine.work(slow);
  engine.work(note);
  const handle = await engine.get(process.argv[3] ?? "");
  const values = [];
  for await (const { value } of handle.results()) values.push(value);
  console.log(JSON.stringify(values));
  await engine.close();
}
`,
  );
  const submitter = await work.startProgram(process.execPath, ["both.ts", "submit"]).ended;
  expect(submitter.signal).toBe("SIGKILL");
  work.write("go", "");
  const batch = submitter.stdout.trim();
  const worker = await work.startProgram(process.execPath, ["both.ts", "work", batch]).ended;
  expect(worker.stdout.trim(), worker.stderr).toBe("[2,4,6]");
});
