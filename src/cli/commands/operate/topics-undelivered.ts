/** `sluice deliveries`: the events that were given up, and what is done about one of them. */
import { type Command, Option } from "commander";
import { describeError, SluiceError } from "../../../core/base/errors.ts";
import { readGroupName } from "../../../core/events/reader-name.ts";
import type { UndeliveredLetter } from "../../../ports/store/delivering.ts";
import type { Store } from "../../../ports/store/store.ts";
import { Consumer } from "../../../runtime/delivering/consumer.ts";
import { type Recipient, Subscriber } from "../../../runtime/delivering/subscriber.ts";
import {
  findLetter,
  listLetters,
  redeliverLetter,
} from "../../../runtime/delivering/undelivered.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import { confirmAct } from "../../output/confirm.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { type Config, readNumber } from "../../config/config.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import { renderLetters, viewLetter } from "../../render/deliveries.ts";
import { withStore } from "../../session/with-store.ts";

interface DeliveriesFlags extends CommonFlags {
  readonly limit?: string;
  readonly retry?: string;
  readonly discard?: string;
  readonly forget?: string;
  readonly yes?: boolean;
}

const TABLE_LIMIT = 100;
const LIMIT_MAX = 1_000_000_000;

export function addDeliveriesCommand(program: Command, cli: Cli): void {
  const command = program
    .command("deliveries")
    .summary("list events that could not be delivered, retry or discard one")
    .description(
      "Lists the undelivered letters: events that a webhook, a command, a file or a program did not " +
        "take, oldest first. A letter of a sink of the configuration can be tried again.",
    )
    .option("--limit <n>", `at most this many (default: ${TABLE_LIMIT}, with --json all)`)
    .option("--retry <letter>", "deliver this one now; it is dropped when that works")
    .addOption(
      new Option("--discard <letter>", "drop this one for good; asks first").conflicts("retry"),
    )
    .addOption(
      new Option(
        "--forget <subscriber>",
        "forget one that will not come again, with its letters; asks first",
      ).conflicts(["retry", "discard"]),
    )
    .option("--yes", "do not ask")
    .action(async () => {
      cli.finish(await deliveries(cli, command.optsWithGlobals<DeliveriesFlags>()));
    });
  addExamples(command, [
    ["sluice deliveries", "what was given up, and why"],
    ["sluice deliveries --retry 3", "try the letter 3 again"],
    ["sluice deliveries --discard 3 --yes", "nobody needs it any more"],
    ["sluice deliveries --forget ops --yes", "retention owes ops nothing any more"],
  ]);
}

function deliveries(cli: Cli, flags: DeliveriesFlags): Promise<number> {
  const { limit, retry, discard, forget } = flags;
  const numbers = [
    { name: "--limit", given: limit, max: LIMIT_MAX },
    { name: "--retry", given: retry, max: Number.MAX_SAFE_INTEGER },
    { name: "--discard", given: discard, max: Number.MAX_SAFE_INTEGER },
  ];
  return withStore(cli, flags, numbers, async ({ store, config }) => {
    const isJson = flags.json === true;
    if (retry !== undefined) return retryLetter(cli, store, config, Number(retry), isJson);
    if (discard !== undefined) return discardLetter(cli, store, Number(discard), flags);
    if (forget !== undefined) return forgetSubscriber(cli, store, forget, flags);
    if (isJson) await printJson(cli, store, readNumber(limit) ?? Infinity);
    else await printTable(cli, store, readNumber(limit) ?? TABLE_LIMIT);
    return EXIT.ok;
  });
}

async function printJson(cli: Cli, store: Store, limit: number): Promise<void> {
  let shown = 0;
  for await (const letter of listLetters(store)) {
    if (cli.out.closed || shown++ >= limit) return;
    await cli.out.write(`${formatJson(viewLetter(letter))}\n`);
  }
}

async function printTable(cli: Cli, store: Store, limit: number): Promise<void> {
  // One more, to know whether there are more.
  const letters = await store.listUndelivered({ afterId: 0, limit: limit + 1 });
  if (letters.length === 0) {
    cli.err.line("no undelivered letters");
    return;
  }
  const lines = renderLetters(letters.slice(0, limit), cli.clock.wallMs(), cli.out);
  for (const line of lines) cli.out.line(line);
  if (letters.length > limit) cli.err.line("there are more: --limit <n> or --json shows them");
}

async function retryLetter(
  cli: Cli,
  store: Store,
  config: Config,
  id: number,
  isJson: boolean,
): Promise<number> {
  const letter = await findLetter(store, id);
  const recipient = findRecipient(config, letter.reader);
  if (recipient === null) {
    throw new SluiceError(
      "NO_SUBSCRIBER",
      `the letter ${id} is for ${letter.reader}, which is not in notify of the configuration`,
      { hint: `A program that subscribes ${letter.reader} can call engine.redeliver(${id}).` },
    );
  }
  const { signal } = new AbortController();
  try {
    await redeliverLetter(letter, recipient, { store, clock: cli.clock, signal });
  } catch (error) {
    const { code, message } = describeError(error);
    throw new SluiceError("REDELIVERY_FAILED", `the letter ${id} is kept: ${message} (${code})`, {
      hint: "Mend what it says and retry, or drop it with --discard.",
      cause: error,
    });
  }
  report(cli, letter, "delivered", isJson);
  return EXIT.ok;
}

/** The sink of the configuration that a letter is for. */
function findRecipient({ notify, consume }: Config, reader: string): Recipient | null {
  const sink = notify.get(reader);
  if (sink !== undefined) return new Subscriber(reader, sink);
  const name = readGroupName(reader);
  const consumed = consume.find((one) => one.topic === name?.topic && one.group === name.group);
  if (consumed === undefined) return null;
  return new Consumer(consumed.topic, consumed.group, consumed.sink);
}

async function discardLetter(
  cli: Cli,
  store: Store,
  id: number,
  flags: DeliveriesFlags,
): Promise<number> {
  const letter = await findLetter(store, id);
  const { type, event, reader } = letter;
  await confirmAct(cli, flags, `Drop the ${type} ${event} for ${reader} for good?`);
  await store.dropUndelivered(id);
  report(cli, letter, "discarded", flags.json === true);
  return EXIT.ok;
}

async function forgetSubscriber(
  cli: Cli,
  store: Store,
  reader: string,
  flags: DeliveriesFlags,
): Promise<number> {
  await confirmAct(cli, flags, `Forget the subscriber ${reader} with all of its letters?`);
  if (!(await store.forgetReader(reader))) {
    throw new SluiceError("NO_SUBSCRIBER", `this store knows no subscriber ${reader}`, {
      hint: "A subscriber is called as in notify of the configuration, or as in engine.subscribe.",
    });
  }
  if (flags.json === true) cli.out.line(formatJson({ reader, done: "forgotten" }));
  else cli.out.line(`forgotten  ${makeInert(reader)}`);
  return EXIT.ok;
}

function report(
  cli: Cli,
  letter: UndeliveredLetter,
  done: "delivered" | "discarded",
  isJson: boolean,
): void {
  const { id, event, reader } = letter;
  if (isJson) cli.out.line(formatJson({ letter: id, event, reader, done }));
  else cli.out.line(`${done}  ${makeInert(event)}  ${makeInert(reader)}`);
}
