/** `sluice topics undelivered`, `retry` and `discard`: events and messages that were given up. */
import type { Command } from "commander";
import { describeError, SluiceError } from "../../../core/base/errors.ts";
import { readGroupName } from "../../../core/events/reader-name.ts";
import type { Store } from "../../../ports/store/store.ts";
import { Consumer } from "../../../runtime/delivering/consumer.ts";
import { type Reader, Subscriber } from "../../../runtime/delivering/subscriber.ts";
import {
  findUndelivered,
  listUndelivered,
  redeliverAgain,
} from "../../../runtime/delivering/undelivered.ts";
import { type DeliveryDoneView, viewDelivery, viewDeliveryDone } from "../../../views/delivery.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { type Config, type NumberFlag, readNumber } from "../../config/config.ts";
import { addYesFlag } from "../../flags/act-flags.ts";
import { addExamples } from "../../flags/command-help.ts";
import { addLimitFlag, readLimitFlag, TABLE_LIMIT } from "../../flags/limit-flag.ts";
import { readSubFlags } from "../../flags/sub-command.ts";
import type { Cli } from "../../output/cli.ts";
import { confirmAct } from "../../output/confirm.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import { renderDeliveries } from "../../render/deliveries.ts";
import { withStore } from "../../session/with-store.ts";

interface UndeliveredFlags extends CommonFlags {
  readonly limit?: string;
}

interface DiscardFlags extends CommonFlags {
  readonly yes?: boolean;
}

const ABOUT_DELIVERY = "number of the delivery, see `topics undelivered`";

export function addUndeliveredCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("undelivered")
    .summary("list events and messages that were not delivered")
    .description(
      "List the events and messages that a sink or a program did not accept, oldest first. The engine " +
        "does not retry them any more.",
    );
  addLimitFlag(command, "deliveries", `${TABLE_LIMIT}, with --json all`).action(async () => {
    cli.finish(await list(cli, readSubFlags<UndeliveredFlags>(command)));
  });
  addExamples(command, [
    ["sluice topics undelivered", "what was given up, and why"],
    ["sluice topics retry 3", "deliver number 3 again"],
  ]);
}

export function addRetryCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("retry")
    .summary("deliver an undelivered event or message again")
    .description(
      "Deliver one event or message again, to the sink of the configuration (notify or consume) that it " +
        "was for. It leaves the list when the sink accepts it.",
    )
    .argument("<delivery>", ABOUT_DELIVERY)
    .action(async (text: string) => {
      cli.finish(await retry(cli, text, readSubFlags<CommonFlags>(command)));
    });
  addExamples(command, [["sluice topics retry 3", "deliver number 3 again"]]);
}

export function addDiscardCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("discard")
    .summary("drop an undelivered event or message for good")
    .description("Drop one undelivered event or message for good. Asks for confirmation.")
    .argument("<delivery>", ABOUT_DELIVERY);
  addYesFlag(command).action(async (text: string) => {
    cli.finish(await discard(cli, text, readSubFlags<DiscardFlags>(command)));
  });
  addExamples(command, [["sluice topics discard 3 --yes", "drop number 3"]]);
}

function list(cli: Cli, flags: UndeliveredFlags): Promise<number> {
  return withStore(cli, flags, [readLimitFlag(flags.limit)], async ({ store }) => {
    const limit = readNumber(flags.limit);
    if (flags.json === true) await printJson(cli, store, limit ?? Infinity);
    else await printTable(cli, store, limit ?? TABLE_LIMIT);
    return EXIT.ok;
  });
}

async function printJson(cli: Cli, store: Store, limit: number): Promise<void> {
  let shown = 0;
  for await (const undelivered of listUndelivered(store)) {
    if (cli.out.closed || shown++ >= limit) return;
    await cli.out.write(`${formatJson(viewDelivery(undelivered))}\n`);
  }
}

async function printTable(cli: Cli, store: Store, limit: number): Promise<void> {
  // One more, to know whether there are more.
  const events = await store.listUndelivered({ afterId: 0, limit: limit + 1 });
  if (events.length === 0) {
    cli.err.line("no undelivered events or messages");
    return;
  }
  const shown = events.slice(0, limit).map(viewDelivery);
  for (const line of renderDeliveries(shown, cli.clock.wallMs(), cli.out)) cli.out.line(line);
  if (events.length > limit) cli.err.line("there are more: --limit <n> or --json shows them");
}

function readDelivery(given: string): NumberFlag {
  return { name: "<delivery>", given, max: Number.MAX_SAFE_INTEGER };
}

function retry(cli: Cli, text: string, flags: CommonFlags): Promise<number> {
  return withStore(cli, flags, [readDelivery(text)], async ({ store, config }) => {
    const id = Number(text);
    const undelivered = await findUndelivered(store, id);
    const recipient = findRecipient(config, undelivered.reader);
    if (recipient === null) {
      throw new SluiceError(
        "NOT_FOUND",
        `delivery ${id} is for ${undelivered.reader}, which is not in notify or consume of the configuration`,
        {
          kind: "subscriber",
          hint: `A program that subscribes ${undelivered.reader} can call engine.redeliver(${id}).`,
        },
      );
    }
    const { signal } = new AbortController();
    try {
      await redeliverAgain(undelivered, recipient, { store, clock: cli.clock, signal });
    } catch (error) {
      const { code, message } = describeError(error);
      throw new SluiceError(
        "REDELIVERY_FAILED",
        `delivery ${id} failed again and stays undelivered: ${message} (${code})`,
        {
          hint: `Fix the cause and retry, or drop it: sluice topics discard ${id}.`,
          cause: error,
        },
      );
    }
    report(cli, viewDeliveryDone(undelivered, "delivered"), flags);
    return EXIT.ok;
  });
}

/** The sink of the configuration that a delivery is for. */
function findRecipient({ notify, consume }: Config, reader: string): Reader | null {
  const sink = notify.get(reader);
  if (sink !== undefined) return new Subscriber(reader, sink);
  const name = readGroupName(reader);
  const consumed = consume.find((one) => one.topic === name?.topic && one.group === name.group);
  if (consumed === undefined) return null;
  return new Consumer(consumed.topic, consumed.group, consumed.sink);
}

function discard(cli: Cli, text: string, flags: DiscardFlags): Promise<number> {
  return withStore(cli, flags, [readDelivery(text)], async ({ store }) => {
    const id = Number(text);
    const undelivered = await findUndelivered(store, id);
    const { type, event, reader } = undelivered;
    await confirmAct(cli, flags, `Drop the ${type} ${event} for ${reader} for good?`);
    await store.dropUndelivered(id);
    report(cli, viewDeliveryDone(undelivered, "discarded"), flags);
    return EXIT.ok;
  });
}

function report({ out }: Cli, view: DeliveryDoneView, { json }: CommonFlags): void {
  if (json === true) out.line(formatJson(view));
  else out.line(`${view.done}  ${makeInert(view.event)}  ${makeInert(view.reader)}`);
}
