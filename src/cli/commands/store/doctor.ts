/** `sluice doctor`: checks the machine and the store for problems. */
import type { Command } from "commander";
import { isAddress } from "../../../adapters/postgres/connection/address.ts";
import type { Clock } from "../../../ports/clock.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { viewCheck } from "../../../views/store.ts";
import { loadConfig } from "../../config/config.ts";
import { renderCheck } from "../../doctor/doctor-check.ts";
import { checkMachine } from "../../doctor/doctor-machine.ts";
import { checkServer, type ServerChecks } from "../../doctor/doctor-server.ts";
import { checkStore } from "../../doctor/doctor-store.ts";
import { checkWorkers } from "../../doctor/doctor-workers.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";

export function addDoctorCommand(program: Command, cli: Cli): void {
  const command = program
    .command("doctor")
    .summary("check this machine and the store")
    .description(
      "Check versions, clocks, the store and its workers, without changing anything. Exits with 1 if a " +
        "check is bad.",
    )
    .action(async () => {
      cli.finish(await doctor(cli, command.optsWithGlobals<CommonFlags>()));
    });
  addExamples(command, [["sluice doctor", "all checks"]]);
}

async function doctor(cli: Cli, flags: CommonFlags): Promise<number> {
  const config = await loadConfig(flags, cli.env);
  for (const message of config.warnings) cli.err.line(`warn: ${makeInert(message)}`);
  const store = await inspectStore(config.store, cli.clock);
  const checks = [...(await checkMachine(cli.clock)), ...store.checks];
  if (store.canOpen) checks.push(await checkWorkers(config, cli.clock));
  for (const check of checks) {
    const inert = { ...check, text: makeInert(check.text) };
    if (flags.json === true) cli.out.line(formatJson(viewCheck(check)));
    else for (const line of renderCheck(inert, cli.out)) cli.out.line(line);
  }
  return checks.some(({ level }) => level === "bad") ? EXIT.failed : EXIT.ok;
}

/** Checking must neither create nor upgrade a store. */
async function inspectStore(store: string, clock: Clock): Promise<ServerChecks> {
  if (isAddress(store)) return checkServer(store, clock);
  const checks = checkStore(store);
  const isGood = (name: string): boolean =>
    checks.some((check) => check.name === name && check.level === "ok");
  return { checks, canOpen: ["store", "schema", "lock"].every(isGood) };
}
