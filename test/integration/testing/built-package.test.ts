/** The test kit as a user's project has it: from the built package, in a process that exits. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
/** Far more than it takes: a process that something keeps alive never exits. */
const ENDS_WITHIN_MS = 60_000;

let project = "";

beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), "sluice-kit-"));
  await mkdir(join(project, "node_modules"));
  await symlink(ROOT, join(project, "node_modules/sluice"));
  await writeFile(join(project, "package.json"), '{ "type": "module" }');
});

afterAll(() => rm(project, { recursive: true, force: true }));

async function runScript(text: string): Promise<{ code: unknown; output: string }> {
  const path = join(project, "script.ts");
  await writeFile(path, text);
  const child = spawn(process.execPath, [path], {
    cwd: project,
    env: { ...process.env, NODE_NO_WARNINGS: "1" },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: ENDS_WITHIN_MS,
    killSignal: "SIGKILL",
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (part: string) => (output += part));
  child.stderr.setEncoding("utf8").on("data", (part: string) => (output += part));
  const [code] = (await once(child, "close")) as [unknown];
  return { code, output };
}

test("a process exits when its worlds are over, whatever they left undone", async () => {
  const { code, output } = await runScript(`
    import { definePipeline } from "sluice";
    import { crash, inVirtualTime, killAtEveryCommit } from "sluice/testing";

    const makeNap = (sleep: (ms: number) => Promise<void>) =>
      definePipeline({ name: "nap", chunkSize: 1, process: (ms: number) => sleep(ms) });

    await inVirtualTime({ faults: [crash.after("lease", 1)], hangAfterRealMs: 20 }, async (world) => {
      // One that is never awaited, one that hangs, one that sleeps when its world ends.
      const hang = definePipeline({ name: "hang", process: (_n: number) => Promise.withResolvers<void>().promise });
      world.start("helper", async (engine) => { engine.work(hang); await engine.submit(hang, [1]); });
      const main = world.start("main", async (engine) => {
        const nap = makeNap((ms) => world.sleep(ms));
        await engine.submit(nap, [86_400_000], { key: "long", lane: "long" });
        const batch = await engine.submit(nap, [10, 20], { key: "short", lane: "short" });
        return (await batch.wait()).state;
      });
      console.log(await main.done);
    });

    const report = await killAtEveryCommit({
      setUp: (world) => world,
      batch: (world) => ({ pipeline: makeNap((ms) => world.sleep(ms)), input: [5, 500, 50_000] }),
      processes: 2,
      lostAnswers: true,
    });
    console.log(report.state, report.missed.length, report.runs === 1 + 3 * report.commits.length);

    await inVirtualTime({ hangAfterRealMs: 20, faults: [] }, () => Promise.withResolvers().promise)
      .catch((error: { code: string }) => console.log(error.code));
  `);
  expect({ code, output }).toEqual({
    code: 0,
    output: "succeeded\nsucceeded 0 true\nWORLD_STUCK\n",
  });
});

test("a fault that breaks a handler ends the process with the reason", async () => {
  const { code, output } = await runScript(`
    import { definePipeline } from "sluice";
    import { killAtEveryCommit } from "sluice/testing";

    await killAtEveryCommit({
      setUp: () => [] as number[],
      batch: (sent) => ({
        pipeline: definePipeline({ name: "mail", process: (n: number) => void sent.push(n) }),
        input: [1],
      }),
      check: (sent) => { if (sent.length > 1) throw new Error("sent twice"); },
    });
  `);
  expect(code).toBe(1);
  expect(output).toMatch(/SluiceError: killed before commit \d+ \(settle \+ end\): sent twice/);
});
