/** Where settings come from, which one wins, and how wrong ones are reported. */
import { existsSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Workspace } from "../../support/command-line.ts";

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
  work.writePipeline();
  work.writeItems(3);
});
afterEach(() => work.remove());

const RUN = ["run", "pipeline.ts", "--input", "items.jsonl"];

test("precedence: options, then variables, then the file, then the default", async () => {
  await work.run(...RUN);
  expect(existsSync(work.at(".sluice/sluice.db"))).toBe(true);
  work.write("sluice.config.ts", `export default { store: "file.db" as string };`);
  await work.run(...RUN);
  expect(existsSync(work.at("file.db"))).toBe(true);
  const env = { SLUICE_STORE: "variable.db" };
  await work.start(RUN, { env }).ended;
  expect(existsSync(work.at("variable.db"))).toBe(true);
  await work.start([...RUN, "--store", "option.db"], { env }).ended;
  expect(existsSync(work.at("option.db"))).toBe(true);
});

test("--config names another file, and its paths are relative to its folder", async () => {
  work.write("settings/sluice.config.mjs", `export default { store: "there.db" };`);
  const { code } = await work.run(...RUN, "--config", "settings/sluice.config.mjs");
  expect(code).toBe(0);
  expect(existsSync(work.at("settings/there.db"))).toBe(true);
});

test("suggested commands repeat the store that --store named", async () => {
  const { stdout } = await work.run(...RUN, "--store", "my jobs.db");
  expect(stdout).toMatch(/sluice status b-\w+ --store 'my jobs\.db'/);
});

test("all problems are reported at once, each with its value and place", async () => {
  work.write(
    "sluice.config.ts",
    `export default { pollMs: "often", flushMss: 5, drainMs: -1, whatever: 1 };`,
  );
  const env = { SLUICE_SYNCHRONOUS: "sometimes", SLUICE_BUSY_MS: "soon", SLUICE_LAESE_MS: "5" };
  const args = [...RUN, "--chunk-size", "many", "--concurrency", "0"];
  const { code, stderr } = await work.start(args, { env }).ended;
  expect(code).toBe(2);
  expect(stderr).toMatch(/^error BAD_CONFIG: the configuration has 9 problems:$/m);
  const problems = [
    'pollMs must be a whole number from 10 to 86400000; it is "often" in sluice.config.ts',
    "flushMss in sluice.config.ts is not a setting. Did you mean flushMs?",
    "drainMs must be a whole number from 0 to 86400000; it is -1 in sluice.config.ts",
    "whatever in sluice.config.ts is not a setting. The settings are store, synchronous, ",
    'synchronous must be full or normal; it is "sometimes" in SLUICE_SYNCHRONOUS',
    'busyMs must be a whole number from 0 to 86400000; it is "soon" in SLUICE_BUSY_MS',
    "SLUICE_LAESE_MS is not a setting. Did you mean SLUICE_LEASE_MS?",
    '--chunk-size must be a whole number from 1 to 100000; it is "many" on the command line',
    '--concurrency must be a whole number from 1 to 10000; it is "0" on the command line',
  ];
  for (const problem of problems) expect(stderr).toContain(`  - ${problem}`);
  expect(existsSync(work.at(".sluice"))).toBe(false);
});

test("settings that contradict each other are reported with the place of each", async () => {
  const { code, stderr } = await work.start(RUN, { env: { SLUICE_STALL_MS: "500" } }).ended;
  expect(code).toBe(2);
  expect(stderr).toContain("pollMs (1000) must be at most stallMs (500)");
  expect(stderr).toContain("pollMs has its default (SLUICE_POLL_MS sets it)");
  expect(stderr).toContain("stallMs is 500 in SLUICE_STALL_MS");
});

test("a derived setting, or one for programs only, cannot be set here", async () => {
  work.write("sluice.config.ts", "export default { renewMs: 5_000, sealWithinMs: 5_000 };");
  const env = { SLUICE_STALE_MS: "5000", SLUICE_RENEW_MS: "5000", SLUICE_POLL_WAIT: "5s" };
  const refused = await work.start(RUN, { env }).ended;
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain("renewMs in sluice.config.ts is not a setting. ");
  expect(refused.stderr).toContain("sealWithinMs in sluice.config.ts is not a setting. ");
  expect(refused.stderr).toContain(
    "SLUICE_STALE_MS is not a setting. Did you mean SLUICE_STALL_MS?",
  );
  work.write("sluice.config.ts", "export default {};");
  const warned = await work.start(RUN, {
    env: { SLUICE_RENEW_MS: "5000", SLUICE_SEAL_WITHIN_MS: "5000", SLUICE_POLL_WAIT: "5s" },
  }).ended;
  expect(warned.code).toBe(0);
  for (const name of ["SLUICE_RENEW_MS", "SLUICE_SEAL_WITHIN_MS", "SLUICE_POLL_WAIT"]) {
    expect(warned.stderr).toContain(`warn: ${name} is not a setting and is ignored`);
  }
});

test("an unknown SLUICE_ variable is a warning, not an error", async () => {
  const { code, stderr } = await work.start(RUN, { env: { SLUICE_GREETING: "hi" } }).ended;
  expect(code).toBe(0);
  expect(stderr).toContain("warn: SLUICE_GREETING is not a setting and is ignored");
});

test("a missing, malformed or duplicate configuration, or one that is not an object, is refused with exit 2", async () => {
  const missing = await work.run(...RUN, "--config", "nowhere.ts");
  expect(missing).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("error FILE_MISSING: there is no configuration file"),
  });
  work.write("sluice.config.ts", "export default { store: };");
  const broken = await work.run(...RUN);
  expect(broken).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("error IMPORT_FAILED: sluice.config.ts, line 1"),
  });
  work.write("sluice.config.ts", "export default 5;");
  const number = await work.run(...RUN);
  expect(number).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("must export an object by default"),
  });
  work.write("sluice.config.js", "export default {};");
  const double = await work.run(...RUN);
  expect(double).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("more than one configuration"),
  });
});
