/** CPU work with the command: modules beside the pipeline's file, and output without noise. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { CPU_KINDS } from "../../../src/runtime/cpu/cpu-settings.ts";
import { COMMAND, Workspace } from "../../support/command-line.ts";

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

const TASK = `
  interface Line { readonly n: number }
  export default ({ n }: Line): number => {
    process.stdout.write("printed by a task\\n");
    console.log("said by a task");
    return n * 2;
  };
`;

for (const kind of CPU_KINDS) {
  test(`a path is relative to the pipeline's file, and output of a task goes to standard error: ${kind}`, async () => {
    work.write("tasks/double.ts", TASK);
    work.write(
      "pipelines/doubling.ts",
      `import { definePipeline } from "sluice";
       export default definePipeline({
         name: "doubling",
         cpu: { kind: "${kind}" },
         source: () => [{ n: 1 }, { n: 2 }, { n: 3 }],
         process: (line, { cpu }) => cpu("../tasks/double.ts", line),
       });`,
    );
    const { code, stdout, stderr } = await work.run("run", "pipelines/doubling.ts", "--json");
    expect({ code, stderr }).toMatchObject({ code: 0 });
    const lines = stdout.trimEnd().split("\n");
    for (const line of lines) expect(() => JSON.parse(line) as unknown).not.toThrow();
    expect(stdout).not.toContain("by a task");
    expect(stderr).toContain("printed by a task");
    expect(stderr).toContain("said by a task");
    const { batch } = JSON.parse(lines.at(-1) ?? "") as { batch: string };
    const results = await work.run("results", batch, "--json");
    expect(results.stdout.match(/"value":\s*\d+/g)?.map((each) => each.replace(/\D/g, ""))).toEqual(
      ["2", "4", "6"],
    );
  });
}

test("Ctrl-C lets the processes of a pool finish their running tasks", async () => {
  work.write(
    "task.mjs",
    `export default (ms) => { const until = performance.now() + ms; while (performance.now() < until); return ms; };`,
  );
  work.write(
    "pipeline.ts",
    `import { appendFileSync } from "node:fs";
     import { definePipeline } from "sluice";
     export default definePipeline({
       name: "slow",
       cpu: { size: 1 },
       chunkSize: 1,
       source: () => [800, 800, 800],
       process: async (ms: number, { cpu }) => {
         process.stderr.write("begun\\n");
         await cpu("./task.mjs", ms);
         appendFileSync("done.txt", "x");
       },
     });`,
  );
  const args = [COMMAND, "run", "pipeline.ts"];
  const running = work.startProgram(process.execPath, args, {}, { grouped: true });
  await running.waitFor(/begun/);
  running.signal("SIGINT");
  const { stderr } = await running.ended;
  expect(stderr).not.toMatch(/that ran .* \(\d of \d\)/);
  // These items had started and finished within the drain time; the others are left for the next
  // run.
  expect(work.read("done.txt")).toBe("x");
  const again = await work.run("run", "pipeline.ts");
  expect(again.code).toBe(0);
  expect(work.read("done.txt")).toBe("xxx");
});
