/** `sluice keys`: which keys of rates are closed for a while, and closing and opening them. */
import type { Command } from "commander";
import { SluiceError } from "../../../core/base/errors.ts";
import type { ClosedKey } from "../../../runtime/engine/key-closing.ts";
import { Operator } from "../../../runtime/engine/operator.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatDuration } from "../../output/format-duration.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import { parseDuration } from "../../config/parse-duration.ts";
import type { Screen } from "../../output/screen.ts";
import { readSubFlags, refuseExcess } from "../../flags/sub-command.ts";
import { renderTable } from "../../output/table.ts";
import { withStore } from "../../session/with-store.ts";

interface CloseFlags extends CommonFlags {
  readonly for: string;
}

const ABOUT_RATE = "the name of a rate: its pipeline's, unless it says another one";
const ABOUT_KEY = 'one of its keys; "" where it has none';

export function addKeysCommand(program: Command, cli: Cli): void {
  const command = program
    .command("keys")
    .summary("list keys of rates that are closed for a while")
    .description(
      "Lists the keys of which nothing starts for a while: servers asked for it (Retry-After), or " +
        "somebody closed them. Other keys go on.",
    )
    .usage("[options]")
    .allowExcessArguments()
    .action(async () => {
      refuseExcess(command);
      cli.finish(await listKeys(cli, command.optsWithGlobals<CommonFlags>()));
    });
  addExamples(command, [
    ["sluice keys", "a table"],
    ["sluice keys close fetch example.com --for 2m", "leave it alone"],
    ["sluice keys open fetch example.com", "go on with it"],
  ]);
  addCloseCommand(command, cli);
  addOpenCommand(command, cli);
}

function addCloseCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("close")
    .summary("start nothing of a key for a while")
    .description(
      "Nothing of the key starts for so long, in any worker; what runs already is finished. A key that " +
        "is closed for longer stays so.",
    )
    .argument("<rate>", ABOUT_RATE)
    .argument("<key>", ABOUT_KEY)
    .requiredOption("--for <duration>", "for how long, for example 90s, 2m or 1h")
    .action(async (rate: string, key: string) => {
      cli.finish(await close(cli, { rate, key }, readSubFlags<CloseFlags>(command)));
    });
  addExamples(command, [
    ["sluice keys close fetch example.com --for 2m", "one key"],
    ['sluice keys close fetch "" --for 1h', "a rate without keys"],
  ]);
}

function addOpenCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("open")
    .summary("let a closed key start again")
    .description("Lets a key that is closed start again, at its rate.")
    .argument("<rate>", ABOUT_RATE)
    .argument("<key>", ABOUT_KEY)
    .action(async (rate: string, key: string) => {
      cli.finish(await open(cli, { rate, key }, readSubFlags<CommonFlags>(command)));
    });
  addExamples(command, [["sluice keys open fetch example.com", "go on with it"]]);
}

type KeyName = Pick<ClosedKey, "rate" | "key">;

function listKeys(cli: Cli, flags: CommonFlags): Promise<number> {
  return withStore(cli, flags, [], async ({ store }) => {
    const closed = await new Operator(store, cli.clock).closedKeys();
    if (flags.json === true) for (const one of closed) cli.out.line(formatJson(viewKey(one)));
    else if (closed.length === 0) cli.err.line("no key is closed");
    else for (const line of renderKeys(closed, cli.out)) cli.out.line(line);
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
    // Of two closings the longer one counts.
    const isLonger = leftMs > forMs;
    if (flags.json === true) {
      cli.out.line(formatJson({ ...name, closed: true, forMs: Math.ceil(leftMs) }));
      return EXIT.ok;
    }
    cli.out.line(
      isLonger
        ? `${describe(name)} was closed for longer, and stays so: ${formatDuration(leftMs)} to go`
        : `closed ${describe(name)} for ${formatDuration(forMs)}`,
    );
    return EXIT.ok;
  });
}

async function open(cli: Cli, name: KeyName, flags: CommonFlags): Promise<number> {
  checkRate(name);
  return withStore(cli, flags, [], async ({ store }) => {
    const changed = await new Operator(store, cli.clock).openKey(name.rate, name.key);
    if (flags.json === true) cli.out.line(formatJson({ ...name, closed: false, changed }));
    else cli.out.line(changed ? `opened ${describe(name)}` : `${describe(name)} was not closed`);
    return EXIT.ok;
  });
}

function checkRate({ rate }: KeyName): void {
  if (rate.trim() !== "") return;
  throw new SluiceError("USAGE", "which rate?", {
    hint: "A rate has the name of its pipeline, unless it says another one.",
  });
}

function isSame(one: KeyName, other: KeyName): boolean {
  return one.rate === other.rate && one.key === other.key;
}

function describe({ rate, key }: KeyName): string {
  const whole = `rate ${makeInert(rate)}`;
  return key === "" ? whole : `key ${makeInert(key)} of ${whole}`;
}

function viewKey({ rate, key, forMs }: ClosedKey): object {
  return { rate, key, forMs: Math.ceil(forMs) };
}

function renderKeys(closed: readonly ClosedKey[], screen: Screen): string[] {
  const columns = [
    { title: "RATE" },
    { title: "KEY", elastic: true },
    { title: "FOR", paint: screen.colours.yellow },
  ];
  const rows = closed.map(({ rate, key, forMs }) => [
    makeInert(rate),
    key === "" ? "-" : makeInert(key),
    formatDuration(forMs),
  ]);
  return renderTable(columns, rows, screen);
}
