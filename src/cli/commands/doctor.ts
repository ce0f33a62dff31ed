/** `sluice doctor`: looks for what could go wrong before it does. */
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { addExamples } from "../command-help.ts";
import type { CommonFlags } from "../common-flags.ts";
import { loadConfig } from "../config.ts";
import { renderCheck } from "../doctor-check.ts";
import { checkMachine } from "../doctor-machine.ts";
import { checkStore } from "../doctor-store.ts";
import { checkWorkers } from "../doctor-workers.ts";
import { EXIT } from "../exit-codes.ts";
import { formatJson, makeInert } from "../inert-text.ts";

export function addDoctorCommand(program: Command, cli: Cli): void {
  const command = program
    .command("doctor")
    .summary("check this machine and the store")
    .description(
      "Checks versions, clocks, the store and who works on it, and changes no batch. Exits 1 if something " +
        "is bad.",
    )
    .action(async () => {
      cli.finish(await doctor(cli, command.optsWithGlobals<CommonFlags>()));
    });
  addExamples(command, [["sluice doctor", "before anything else"]]);
}

async function doctor(cli: Cli, flags: CommonFlags): Promise<number> {
  const config = await loadConfig(flags, cli.env);
  for (const message of config.warnings) cli.err.line(`warn: ${makeInert(message)}`);
  const checks = [...(await checkMachine(cli.clock)), ...checkStore(config.store)];
  const canOpen = (name: string): boolean =>
    checks.some((check) => check.name === name && check.level === "ok");
  if (["store", "schema", "lock"].every(canOpen))
    checks.push(await checkWorkers(config, cli.clock));
  for (const check of checks) {
    const inert = { ...check, text: makeInert(check.text) };
    if (flags.json === true) cli.out.line(formatJson(check));
    else for (const line of renderCheck(inert, cli.out)) cli.out.line(line);
  }
  return checks.some(({ level }) => level === "bad") ? EXIT.failed : EXIT.ok;
}
