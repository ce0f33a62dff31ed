/** What a new user meets first: help, version, starter, doctor, copy, completion. */
import { existsSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { COMMAND, readLines, Workspace } from "../../support/command-line.ts";

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

/** Commands that have subcommands. */
const SUB_COMMANDS = [
  ["dead", "show"],
  ["dead", "edit"],
  ["dead", "discard"],
  ["lanes", "show"],
  ["lanes", "policy"],
  ["lanes", "move"],
  ["limits", "set"],
  ["limits", "clear"],
  ["limits", "history"],
  ["limits", "closed"],
  ["limits", "close"],
  ["limits", "open"],
  ["topics", "read"],
  ["topics", "rewind"],
  ["topics", "forget"],
  ["topics", "undelivered"],
  ["topics", "retry"],
  ["topics", "discard"],
  ["ledger", "pack"],
];

const COMMANDS = [
  "run",
  "submit",
  "work",
  "list",
  "status",
  "why",
  "results",
  "dead",
  "redrive",
  "cancel",
  "pause",
  "resume",
  "lanes",
  "limits",
  "topics",
  "ledger",
  "prune",
  "migrate",
  "copy",
  "doctor",
  "completion",
  "init",
];

describe("help", () => {
  test("lists every command, with examples and exit codes", async () => {
    const { code, stdout } = await work.run("--help");
    expect(code).toBe(0);
    for (const name of COMMANDS) expect(stdout).toMatch(new RegExp(`^  ${name}\\b`, "m"));
    expect(stdout).toMatch(/^Examples:$/m);
    expect(stdout).toMatch(/^Exit codes:$/m);
  });

  test("of each command has examples, exit codes and the common options, in 80 columns", async () => {
    for (const words of [...COMMANDS.map((name) => [name]), ...SUB_COMMANDS]) {
      const { code, stdout } = await work.run(...words, "--help");
      expect(code).toBe(0);
      for (const word of [
        "Examples:",
        "Exit codes:",
        "--json",
        "--store",
        "--config",
        "--no-color",
      ]) {
        expect(stdout).toContain(word);
      }
      expect(stdout.split("\n").filter((line) => line.length > 80)).toEqual([]);
    }
  });

  test("is suggested for an unknown command, with a similar one and exit 2", async () => {
    const command = await work.run("staus", "b-123");
    expect(command.code).toBe(2);
    expect(command.stderr).toBe(
      "error USAGE: unknown command 'staus'\nhint: Did you mean status?\n",
    );
    const option = await work.run("list", "--limt", "3");
    expect(option).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("Did you mean --limit?"),
    });
    expect(await work.run("run")).toMatchObject({ code: 2 });
    expect(await work.run()).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("sluice --help"),
    });
  });

  test("--version prints the package's version", async () => {
    const { stdout } = await work.run("--version");
    const { version } = JSON.parse(work.read("node_modules/sluice/package.json")) as {
      version: string;
    };
    expect(stdout).toBe(`${version}\n`);
  });
});

test("a Node that is too old is refused with the required version and exit 2", async (context) => {
  const old = await findOldNode();
  if (old === null) return context.skip("this machine has no old Node");
  const { code, stderr } = await work.start(["list"], { node: old }).ended;
  expect(code).toBe(2);
  expect(stderr).toMatch(/^error OLD_NODE: Sluice needs Node 22\.18 or newer, this is \d+/);
  expect(stderr).toContain("nvm install");
});

async function findOldNode(): Promise<string | null> {
  for (const path of ["/usr/bin/node", "/usr/local/bin/node"]) {
    if (!existsSync(path)) continue;
    const { stdout } = await work.startProgram(path, ["-p", "process.versions.node"]).ended;
    const [major = 0, minor = 0] = stdout.split(".").map(Number);
    if (major < 22 || (major === 22 && minor < 18)) return path;
  }
  return null;
}

describe("init", () => {
  test("writes a starter that runs unchanged, with one bad item", async () => {
    const { code, stdout, stderr } = await work.run("init");
    expect([code, stdout]).toEqual([0, "pipeline.ts\nitems.jsonl\n"]);
    expect(stderr).toContain("npx sluice run pipeline.ts --input items.jsonl");
    const run = await work.runJson("run", "pipeline.ts", "--input", "items.jsonl");
    expect(run).toMatchObject({ code: 3, view: { planned: 5, succeeded: 4, failed: 1 } });
    const dead = await work.run("dead", run.view.batch);
    expect(dead.stdout).toContain("BAD_EMAIL");
  });

  test("writes a starter that compiles", async () => {
    await work.run("init");
    work.write("package.json", '{ "type": "module" }');
    const tsc = new URL("../../../node_modules/typescript/bin/tsc", import.meta.url).pathname;
    const options = [
      "--noEmit",
      "--strict",
      "--module",
      "nodenext",
      "--target",
      "es2024",
      "--skipLibCheck",
    ];
    const { code, stdout } = await work.startProgram(process.execPath, [
      tsc,
      ...options,
      "pipeline.ts",
    ]).ended;
    expect([code, stdout]).toEqual([0, ""]);
  });

  test("overwrites nothing", async () => {
    work.write("mine/items.jsonl", "mine");
    const { code, stderr } = await work.run("init", "mine");
    expect(code).toBe(2);
    expect(stderr).toMatch(/^error FILE_EXISTS: mine\/items\.jsonl already exists$/m);
    expect(work.read("mine/items.jsonl")).toBe("mine");
    expect(existsSync(work.at("mine/pipeline.ts"))).toBe(false);
  });
});

describe("doctor", () => {
  test("reports a healthy machine and store as ok and exits 0", async () => {
    expect(await work.run("doctor")).toMatchObject({ code: 0 });
    expect(existsSync(work.at(".sluice"))).toBe(false);
    work.writePipeline();
    await work.run("run", "pipeline.ts", "--input", work.writeItems(3));
    const { code, stdout } = await work.run("doctor", "--json");
    expect(code).toBe(0);
    const checks = readLines<{ name: string; level: string }>(stdout);
    expect(checks.filter(({ level }) => level === "bad")).toEqual([]);
    expect(checks.map(({ name }) => name)).toEqual([
      "sluice",
      "node",
      "platform",
      "sqlite",
      "clock",
      "store",
      "disk",
      "space",
      "schema",
      "integrity",
      "lock",
      "leases",
      "workers",
    ]);
  });

  test("reports problems with their fixes and exits 1", async () => {
    work.write("other.db", "no database at all, but long enough to be read as one".repeat(20));
    const { code, stdout } = await work.run("doctor", "--store", "other.db");
    expect(code).toBe(1);
    expect(stdout).toMatch(/^bad +schema +STORE_CORRUPT: /m);
    expect(stdout).toContain("Restore it from a backup");
  });

  test("sees leases of processes that died", async () => {
    work.writePipeline(`process: () => { process.kill(process.pid, "SIGKILL"); }`);
    await work.run("run", "pipeline.ts", "--input", work.writeItems(3));
    const { code, stdout } = await work.run("doctor");
    expect(code).toBe(0);
    expect(stdout).toMatch(/^warn +leases +1 chunk leased by processes that are dead$/m);
  });
});

describe("copy to a file", () => {
  test("copies a store that works like the first, and replaces nothing", async () => {
    work.writePipeline();
    const { view } = await work.runJson("run", "pipeline.ts", "--input", work.writeItems(3));
    const { code, stdout } = await work.run("copy", "copy.db");
    expect(code).toBe(0);
    expect(stdout).toMatch(/^copy\.db {2}\d/);
    const looked = await work.runJson("status", view.batch, "--store", "copy.db");
    expect(looked.view).toMatchObject({ batch: view.batch, state: "succeeded" });
    const again = await work.run("copy", "copy.db");
    expect(again).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("error FILE_EXISTS: copy.db"),
    });
  });

  test("fails for a missing folder and leaves nothing behind", async () => {
    work.writePipeline();
    await work.run("run", "pipeline.ts", "--input", work.writeItems(3));
    const { code, stderr } = await work.run("copy", "nowhere/copy.db");
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error STORE_UNREACHABLE: .*nowhere/);
    expect(existsSync(work.at("nowhere"))).toBe(false);
  });
});

describe("completion", () => {
  for (const shell of ["bash", "zsh", "fish"]) {
    test(`the script for ${shell} parses, and knows every command`, async (context) => {
      const { code, stdout } = await work.run("completion", shell);
      expect(code).toBe(0);
      for (const name of COMMANDS) expect(stdout).toContain(name);
      expect(stdout).toContain("--chunk-size".slice(shell === "fish" ? 2 : 0));
      work.write("script", stdout);
      const parsed = await work
        .startProgram(shell, ["-n", "script"])
        .ended.catch(() => context.skip(`this machine has no ${shell}`));
      expect(parsed).toMatchObject({ code: 0, stderr: "" });
    });
  }

  test("in bash completes commands, options and batch ids", async () => {
    work.writePipeline();
    const { view } = await work.runJson("run", "pipeline.ts", "--input", work.writeItems(1));
    work.write("script", (await work.run("completion", "bash")).stdout);
    work.write("bin/sluice", `#!/bin/sh\nexec "${process.execPath}" "${COMMAND}" "$@"\n`);
    const complete = async (...words: string[]): Promise<string[]> => {
      const lines = `chmod +x bin/sluice; PATH="$PWD/bin:$PATH"; source ./script
        COMP_WORDS=(sluice ${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length}
        _sluice; printf '%s\\n' "\${COMPREPLY[@]}"`;
      const { stdout } = await work.startProgram("bash", ["-c", lines]).ended;
      return stdout.trim().split("\n");
    };
    expect(await complete("st")).toEqual(["status"]);
    expect(await complete("run", "--chunk")).toEqual(["--chunk-size"]);
    expect(await complete("status", "b-")).toEqual([view.batch]);
    expect(await complete("list", "--state", "succ")).toEqual(["succeeded"]);
    expect(await complete("completion", "f")).toEqual(["fish"]);
    expect(await complete("run", "pipe")).toEqual(["pipeline.ts"]);
    for (const command of ["cancel", "pause", "resume", "redrive", "why"]) {
      expect(await complete(command, "b-")).toEqual([view.batch]);
    }
    expect(await complete("cancel", "--lane", "")).toEqual(["letters"]);
    expect(await complete("pause", "--pipeline", "")).toEqual(["letters"]);
    expect(await complete("prune", "b-")).toEqual([view.batch]);
    expect(await complete("dead", "b-")).toEqual([view.batch]);
    expect(await complete("dead", "di")).toEqual(["discard"]);
    expect(await complete("dead", "show", "b-")).toEqual([view.batch]);
    expect(await complete("dead", "show", "--st")).toEqual(["--step", "--store"]);
    expect(await complete("topics", "re")).toEqual(["read", "rewind", "retry"]);
    expect(await complete("topics", "read", "--g")).toEqual(["--group"]);
    expect(await complete("lanes", "policy", "let")).toEqual(["letters"]);
    expect(await complete("lanes", "policy", "letters", "s")).toEqual(["skip"]);
    expect(await complete("lanes", "move", view.batch, "--before", "b-")).toEqual([view.batch]);
    expect(await complete("limits", "cl")).toEqual(["clear", "closed", "close"]);
    expect(await complete("limits", "close", "letters", "site", "--f")).toEqual(["--for"]);
  });

  test("for another shell is refused", async () => {
    expect(await work.run("completion", "tcsh")).toMatchObject({ code: 2 });
  });
});
