import { Command } from "commander";
import { expect, test } from "vitest";
import type { Cli } from "./output/cli.ts";
import { listNeeded, loadCommands } from "./command-loaders.ts";

const all = listNeeded([]);

test("every command is loaded under its own name", async () => {
  const program = new Command();
  for (const add of await loadCommands([])) add(program, {} as Cli);
  expect(program.commands.map((command) => command.name())).toEqual(all);
  expect(all.length).toBeGreaterThan(20);
  // It loads the whole command line, which a busy machine does slowly.
}, 30_000);

test("a command is loaded alone", () => {
  expect(listNeeded(["status", "b-k3x"])).toEqual(["status"]);
  expect(listNeeded(["--json", "status", "b-k3x"])).toEqual(["status"]);
});

test("a command is loaded even if its name may be an option's value", () => {
  expect(listNeeded(["--store", "run", "status"])).toEqual(["run", "status"]);
  expect(listNeeded(["cancel", "b-k3x", "--why", "list"])).toEqual(["list", "cancel"]);
});

test("an unknown word, help and completion load all commands", () => {
  for (const argv of [["--help"], ["help", "status"], ["statsu", "run"], ["completion", "bash"]]) {
    expect(listNeeded(argv)).toEqual(all);
  }
  expect(listNeeded(["--store", "x.db", "status"])).toEqual(all);
});
