/** `sluice topics`: messages that items emitted, and the position of each consumer group. */
import { type Command, Option } from "commander";
import { SluiceError } from "../../../core/base/errors.ts";
import { nameGroupReader } from "../../../core/events/reader-name.ts";
import { formatDidYouMean, findSimilar } from "../../../core/base/similar-words.ts";
import type { Store } from "../../../ports/store/store.ts";
import type { TopicView } from "../../../ports/store/topic-store.ts";
import { readMessage } from "../../../runtime/delivering/stream.ts";
import { describeUnknownGroup } from "../../../runtime/delivering/topic.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { readNumber } from "../../config/config.ts";
import { confirmAct } from "../../output/confirm.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import { addYesFlag } from "../../flags/act-flags.ts";
import { addLimitFlag, readLimitFlag, TABLE_LIMIT } from "../../flags/limit-flag.ts";
import { readSubFlags, refuseExcess } from "../../flags/sub-command.ts";
import { viewForgotten } from "../../../views/delivery.ts";
import { viewRewound, viewTopic } from "../../../views/topic.ts";
import { addDiscardCommand, addRetryCommand, addUndeliveredCommand } from "./topics-undelivered.ts";
import { renderMessages, renderTopics } from "../../render/topics.ts";
import { withStore } from "../../session/with-store.ts";

interface ReadFlags extends CommonFlags {
  readonly group?: string;
  readonly from?: string;
  readonly limit?: string;
}

interface RewindFlags extends CommonFlags {
  readonly from?: string;
  readonly yes?: boolean;
}

interface ForgetFlags extends CommonFlags {
  readonly yes?: boolean;
}

const ABOUT_FROM = "position of the first message";
const PAGE = 1_000;

export function addTopicsCommand(program: Command, cli: Cli): void {
  const command = program
    .command("topics")
    .summary("list topics, read messages, retry undelivered events")
    .description(
      "List the topics that have messages or groups of consumers: the number of messages kept, and " +
        "each group's position and lag",
    )
    .usage("[options]")
    .allowExcessArguments()
    .action(async () => {
      refuseExcess(command);
      cli.finish(await topics(cli, command.optsWithGlobals<CommonFlags>()));
    });
  addExamples(command, [
    ["sluice topics", "a table"],
    ["sluice topics read email --limit 10", "the oldest messages"],
    ["sluice topics read email --group mailer", "messages that a group has not acknowledged"],
    ["sluice topics rewind email mailer --from 1", "deliver all messages again"],
    ["sluice topics undelivered", "events and messages that were given up"],
  ]);
  addReadCommand(command, cli);
  addRewindCommand(command, cli);
  addForgetCommand(command, cli);
  addUndeliveredCommand(command, cli);
  addRetryCommand(command, cli);
  addDiscardCommand(command, cli);
}

function addReadCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("read")
    .summary("show the messages of a topic, oldest first")
    .description("Show the messages of a topic, oldest first. Acknowledges nothing.")
    .argument("<topic>", "name of the topic")
    .option("--group <group>", "only messages that this group has not acknowledged")
    .addOption(new Option("--from <position>", ABOUT_FROM).conflicts("group"));
  addLimitFlag(command, "messages", `${TABLE_LIMIT}, with --json all`).action(
    async (topic: string) => {
      cli.finish(await read(cli, topic, readSubFlags<ReadFlags>(command)));
    },
  );
  addExamples(command, [
    ["sluice topics read email --json", "one JSON object per line"],
    ["sluice topics read email --from 12 --limit 5", "five messages"],
  ]);
}

function addRewindCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("rewind")
    .summary("deliver messages to a group again")
    .description(
      "Move a group back: it gets all messages from a position again, with the same ids. Asks for " +
        "confirmation.",
    )
    .argument("<topic>", "name of the topic")
    .argument("<group>", "name of the group")
    .requiredOption("--from <position>", `${ABOUT_FROM}; 1 for all`);
  addYesFlag(command).action(async (topic: string, group: string) => {
    cli.finish(await rewind(cli, topic, group, readSubFlags<RewindFlags>(command)));
  });
  addExamples(command, [
    ["sluice topics rewind email mailer --from 1200", "messages from position 1200"],
  ]);
}

function addForgetCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("forget")
    .summary("forget a group or a subscriber that is not used any more")
    .description(
      "Forget a group of a topic, or without <group> a subscriber of events: its position and its " +
        "undelivered messages. Retention keeps nothing for it any more. Asks for confirmation.",
    )
    .argument("<name>", "name of the topic, or of the subscriber")
    .argument("[group]", "name of the group");
  addYesFlag(command).action(async (name: string, group: string | undefined) => {
    cli.finish(await forget(cli, name, group, readSubFlags<ForgetFlags>(command)));
  });
  addExamples(command, [
    ["sluice topics forget email mailer --yes", "a group"],
    ["sluice topics forget ops --yes", "a subscriber"],
  ]);
}

function topics(cli: Cli, flags: CommonFlags): Promise<number> {
  return withStore(cli, flags, [], async ({ store }) => {
    const found = (await store.listTopics()).map(viewTopic);
    if (flags.json === true) for (const view of found) cli.out.line(formatJson(view));
    else if (found.length === 0) cli.err.line("no topic has messages or groups");
    else for (const line of renderTopics(found, cli.out)) cli.out.line(line);
    return EXIT.ok;
  });
}

function read(cli: Cli, topic: string, flags: ReadFlags): Promise<number> {
  const numbers = [
    { name: "--from", given: flags.from, max: Number.MAX_SAFE_INTEGER },
    readLimitFlag(flags.limit),
  ];
  return withStore(cli, flags, numbers, async ({ store }) => {
    const view = await findTopic(store, topic);
    const after = findStart(view, flags);
    if (flags.json === true) {
      await printJson(cli, store, topic, after, readNumber(flags.limit) ?? Infinity);
    } else {
      await printTable(cli, store, topic, after, readNumber(flags.limit) ?? TABLE_LIMIT);
    }
    return EXIT.ok;
  });
}

/** Messages after this position are read. */
function findStart(view: TopicView, { group, from }: ReadFlags): number {
  if (group === undefined) return Math.max(0, (readNumber(from) ?? 1) - 1);
  return findGroup(view, group).position;
}

async function printJson(
  cli: Cli,
  store: Store,
  topic: string,
  after: number,
  limit: number,
): Promise<void> {
  let shown = 0;
  for (let position = after; ; ) {
    const page = await store.readMessages(topic, position, PAGE);
    for (const message of page) {
      if (cli.out.closed || shown++ >= limit) return;
      await cli.out.write(`${formatJson(readMessage(message))}\n`);
    }
    const last = page.at(-1);
    if (last === undefined) return;
    position = last.position;
  }
}

async function printTable(
  cli: Cli,
  store: Store,
  topic: string,
  after: number,
  limit: number,
): Promise<void> {
  // One more, to know whether there are more.
  const messages = (await store.readMessages(topic, after, limit + 1)).map(readMessage);
  if (messages.length === 0) {
    cli.err.line("no messages");
    return;
  }
  for (const line of renderMessages(messages.slice(0, limit), cli.out)) cli.out.line(line);
  if (messages.length > limit) cli.err.line("there are more: --limit <n> or --json shows them");
}

function rewind(cli: Cli, topic: string, group: string, flags: RewindFlags): Promise<number> {
  const numbers = [{ name: "--from", given: flags.from, max: Number.MAX_SAFE_INTEGER }];
  return withStore(cli, flags, numbers, async ({ store }) => {
    findGroup(await findTopic(store, topic), group);
    const from = readNumber(flags.from) ?? 1;
    await confirmAct(
      cli,
      flags,
      `Deliver the messages of ${topic} from position ${from} to ${group} again?`,
    );
    await store.rewindReader(nameGroupReader(topic, group), Math.max(0, from - 1));
    const view = viewRewound(topic, findGroup(await findTopic(store, topic), group));
    if (flags.json === true) cli.out.line(formatJson(view));
    else cli.out.line(`rewound  ${makeInert(group)} of ${makeInert(topic)}, lag ${view.lag}`);
    return EXIT.ok;
  });
}

function forget(
  cli: Cli,
  name: string,
  group: string | undefined,
  flags: ForgetFlags,
): Promise<number> {
  return withStore(cli, flags, [], async ({ store }) => {
    if (group !== undefined) findGroup(await findTopic(store, name), group);
    const what = group === undefined ? `subscriber ${name}` : `group ${group} of ${name}`;
    await confirmAct(cli, flags, `Forget the ${what} and all it has not received?`);
    const reader = group === undefined ? name : nameGroupReader(name, group);
    if (!(await store.forgetReader(reader)) && group === undefined) {
      throw new SluiceError("NOT_FOUND", `this store has no subscriber ${name}`, {
        kind: "subscriber",
        hint: "A subscriber has its name in notify of the configuration, or in engine.subscribe.",
      });
    }
    if (flags.json === true) cli.out.line(formatJson(viewForgotten(reader)));
    else cli.out.line(`forgotten  ${makeInert(what)}`);
    return EXIT.ok;
  });
}

async function findTopic(store: Store, name: string): Promise<TopicView> {
  const all = await store.listTopics();
  const view = all.find(({ topic }) => topic === name);
  if (view !== undefined) return view;
  const names = all.map(({ topic }) => topic);
  throw new SluiceError("NOT_FOUND", `this store has no topic ${name}`, {
    kind: "topic",
    hint: formatDidYouMean(findSimilar(name, names)) || "`sluice topics` lists all topics.",
  });
}

function findGroup({ topic, groups }: TopicView, name: string): TopicView["groups"][number] {
  const found = groups.find(({ group }) => group === name);
  if (found === undefined) throw describeUnknownGroup(topic, name);
  return found;
}
