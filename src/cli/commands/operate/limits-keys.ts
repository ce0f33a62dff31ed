/** `sluice limits closed`, `close` and `open`: rate keys that are closed for a while. */
import type { Command } from "commander";
import { SluiceError } from "../../../core/base/errors.ts";
import type { ClosedKey } from "../../../runtime/engine/key-closing.ts";
import { Operator } from "../../../runtime/engine/operator.ts";
import { viewClosedKey, viewKeyClosed, viewKeyOpened } from "../../../views/limit.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { parseDuration } from "../../config/parse-duration.ts";
import { addExamples } from "../../flags/command-help.ts";
import { readSubFlags } from "../../flags/sub-command.ts";
import type { Cli } from "../../output/cli.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatDuration } from "../../output/format-duration.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import { renderClosedKeys } from "../../render/limits.ts";
import { withStore } from "../../session/with-store.ts";

interface CloseFlags extends CommonFlags {
  readonly for: string;
}

const ABOUT_RATE = "name of the rate: the pipeline's name, unless the rate has its own";
const ABOUT_KEY = 'key of the rate; "" for a rate without keys';

export function addClosedCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("closed")
    .summary("list closed rate keys")
    .description(
      "List the keys of rates that are closed: nothing of them starts for a while, because a server " +
        "asked for it (Retry-After) or an operator closed them. Other keys continue.",
    )
    .action(async () => {
      cli.finish(await listKeys(cli, readSubFlags<CommonFlags>(command)));
    });
  addExamples(command, [["sluice limits closed", "a table"]]);
}

export function addCloseCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("close")
    .summary("close a rate key for a while")
    .description(
      "Start nothing of a rate key for a while, in any worker. Running items finish. A key that is closed " +
        "for longer stays closed.",
    )
    .argument("<rate>", ABOUT_RATE)
    .argument("<key>", ABOUT_KEY)
    .requiredOption("--for <duration>", "how long, for example 90s, 2m or 1h")
    .action(async (rate: string, key: string) => {
      cli.finish(await close(cli, { rate, key }, readSubFlags<CloseFlags>(command)));
    });
  addExamples(command, [
    ["sluice limits close fetch example.com --for 2m", "one key"],
    ['sluice limits close fetch "" --for 1h', "a rate without keys"],
  ]);
}

export function addOpenCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("open")
    .summary("open a closed rate key")
    .description("Let a closed rate key start again, at its rate")
    .argument("<rate>", ABOUT_RATE)
    .argument("<key>", ABOUT_KEY)
    .action(async (rate: string, key: string) => {
      cli.finish(await open(cli, { rate, key }, readSubFlags<CommonFlags>(command)));
    });
  addExamples(command, [["sluice limits open fetch example.com", "one key"]]);
}

type KeyName = Pick<ClosedKey, "rate" | "key">;

function listKeys(cli: Cli, flags: CommonFlags): Promise<number> {
  return withStore(cli, flags, [], async ({ store }) => {
    const closed = (await new Operator(store, cli.clock).closedKeys()).map(viewClosedKey);
    if (flags.json === true) for (const one of closed) cli.out.line(formatJson(one));
    else if (closed.length === 0) cli.err.line("no key is closed");
    else for (const line of renderClosedKeys(closed, cli.out)) cli.out.line(line);
    return EXIT.ok;
  });
}

async function close(cli: Cli, name: KeyName, flags: CloseFlags): Promise<number> {
  checkRate(name);
  const forMs = parseDuration("--for", flags.for);
  return withStore(cli, flags, [], async ({ store }) => {
    const operator = new Operator(store, cli.clock);
    await operator.closeKey(name.rate, name.key, { forMs });
    const found = (await operator.closedKeys()).find((one) => isSame(one, name));
    const leftMs = found?.forMs ?? 0;
    if (flags.json === true) {
      cli.out.line(formatJson(viewKeyClosed({ ...name, forMs: leftMs })));
      return EXIT.ok;
    }
    // Of two closings the longer one counts.
    cli.out.line(
      leftMs > forMs
        ? `${describe(name)} stays closed for longer: ${formatDuration(leftMs)} left`
        : `closed ${describe(name)} for ${formatDuration(forMs)}`,
    );
    return EXIT.ok;
  });
}

async function open(cli: Cli, name: KeyName, flags: CommonFlags): Promise<number> {
  checkRate(name);
  return withStore(cli, flags, [], async ({ store }) => {
    const changed = await new Operator(store, cli.clock).openKey(name.rate, name.key);
    if (flags.json === true) cli.out.line(formatJson(viewKeyOpened(name, changed)));
    else cli.out.line(changed ? `opened ${describe(name)}` : `${describe(name)} was not closed`);
    return EXIT.ok;
  });
}

function checkRate({ rate }: KeyName): void {
  if (rate.trim() !== "") return;
  throw new SluiceError("USAGE", "no rate name was given", {
    hint: "A rate has the name of its pipeline, unless the rate names another one.",
  });
}

function isSame(one: KeyName, other: KeyName): boolean {
  return one.rate === other.rate && one.key === other.key;
}

function describe({ rate, key }: KeyName): string {
  const whole = `rate ${makeInert(rate)}`;
  return key === "" ? whole : `key ${makeInert(key)} of ${whole}`;
}
