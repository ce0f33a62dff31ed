/** `sluice topics`: messages that items left, and how far each group of consumers has come. */
import { type Command, Option } from "commander";
import { SluiceError } from "../../../core/base/errors.ts";
import { nameGroupReader } from "../../../core/events/reader-name.ts";
import { askDidYouMean, findSimilar } from "../../../core/base/similar-words.ts";
import type { Store } from "../../../ports/store/store.ts";
import type { TopicView } from "../../../ports/store/topics.ts";
import { readMessage } from "../../../runtime/delivering/stream.ts";
import { describeUnknownGroup } from "../../../runtime/delivering/topic.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { readNumber } from "../../config/config.ts";
import { confirmAct } from "../../output/confirm.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import { readSubFlags, refuseExcess } from "../../flags/sub-command.ts";
import { renderMessages, renderTopics } from "../../render/topics.ts";
import { withStore } from "../../session/with-store.ts";

interface ReadFlags extends CommonFlags {
  readonly group?: string;
  readonly from?: string;
  readonly limit?: string;
}

interface RewindFlags extends CommonFlags {
  readonly to?: string;
  readonly yes?: boolean;
}

interface ForgetFlags extends CommonFlags {
  readonly yes?: boolean;
}

const TABLE_LIMIT = 100;
const LIMIT_MAX = 1_000_000_000;
const PAGE = 1_000;

export function addTopicsCommand(program: Command, cli: Cli): void {
  const command = program
    .command("topics")
    .summary("list topics: their messages, groups and lag")
    .description(
      "Lists the topics that have messages or groups of consumers: how many messages are kept, how " +
        "far each group has come, and how many it has before it.",
    )
    .usage("[options]")
    .allowExcessArguments()
    .action(async () => {
      refuseExcess(command);
      cli.finish(await topics(cli, command.optsWithGlobals<CommonFlags>()));
    });
  addExamples(command, [
    ["sluice topics", "a table"],
    ["sluice topics read email --limit 10", "the oldest messages that are kept"],
    ["sluice topics read email --group mailer", "what a group has before it"],
    ["sluice topics rewind email mailer --to 1", "hand it everything once more"],
  ]);
  addReadCommand(command, cli);
  addRewindCommand(command, cli);
  addForgetCommand(command, cli);
}

function addReadCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("read")
    .summary("the messages of a topic, oldest first")
    .description("Shows messages of a topic. Nothing is acknowledged by looking.")
    .argument("<topic>", "the name of a topic")
    .option("--group <group>", "what this group has before it")
    .addOption(new Option("--from <position>", "from this position on").conflicts("group"))
    .option("--limit <n>", `at most this many (default: ${TABLE_LIMIT}, with --json all)`)
    .action(async (topic: string) => {
      cli.finish(await read(cli, topic, readSubFlags<ReadFlags>(command)));
    });
  addExamples(command, [
    ["sluice topics read email --json", "one JSON object a line"],
    ["sluice topics read email --from 12 --limit 5", "a few from the middle"],
  ]);
}

function addRewindCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("rewind")
    .summary("hand a group messages once more")
    .description(
      "Moves a group back, so that everything from a position on is handed over once more, with the " +
        "same ids.",
    )
    .argument("<topic>", "the name of a topic")
    .argument("<group>", "the name of a group")
    .requiredOption("--to <position>", "the first message to come again; 1 for all that are kept")
    .option("--yes", "do not ask")
    .action(async (topic: string, group: string) => {
      cli.finish(await rewind(cli, topic, group, readSubFlags<RewindFlags>(command)));
    });
  addExamples(command, [["sluice topics rewind email mailer --to 1200", "from there on"]]);
}

function addForgetCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("forget")
    .summary("forget a group that will not come again")
    .description(
      "Forgets how far a group has come, with its undelivered letters: retention owes it nothing any " +
        "more.",
    )
    .argument("<topic>", "the name of a topic")
    .argument("<group>", "the name of a group")
    .option("--yes", "do not ask")
    .action(async (topic: string, group: string) => {
      cli.finish(await forget(cli, topic, group, readSubFlags<ForgetFlags>(command)));
    });
  addExamples(command, [["sluice topics forget email mailer --yes", "it will not come again"]]);
}

function topics(cli: Cli, flags: CommonFlags): Promise<number> {
  return withStore(cli, flags, [], async ({ store }) => {
    const found = await store.listTopics();
    if (flags.json === true) for (const view of found) cli.out.line(formatJson(view));
    else if (found.length === 0) cli.err.line("no topic has messages or groups");
    else for (const line of renderTopics(found, cli.out)) cli.out.line(line);
    return EXIT.ok;
  });
}

function read(cli: Cli, topic: string, flags: ReadFlags): Promise<number> {
  const numbers = [
    { name: "--from", given: flags.from, max: Number.MAX_SAFE_INTEGER },
    { name: "--limit", given: flags.limit, max: LIMIT_MAX },
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

/** The position behind which it is read. */
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
  const numbers = [{ name: "--to", given: flags.to, max: Number.MAX_SAFE_INTEGER }];
  return withStore(cli, flags, numbers, async ({ store }) => {
    findGroup(await findTopic(store, topic), group);
    const to = readNumber(flags.to) ?? 1;
    await confirmAct(cli, flags, `Hand ${group} the messages of ${topic} from ${to} on once more?`);
    await store.rewindReader(nameGroupReader(topic, group), Math.max(0, to - 1));
    const { position, lag } = findGroup(await findTopic(store, topic), group);
    if (flags.json === true) cli.out.line(formatJson({ topic, group, position, lag }));
    else cli.out.line(`rewound  ${makeInert(group)} of ${makeInert(topic)}: ${lag} before it`);
    return EXIT.ok;
  });
}

function forget(cli: Cli, topic: string, group: string, flags: ForgetFlags): Promise<number> {
  return withStore(cli, flags, [], async ({ store }) => {
    findGroup(await findTopic(store, topic), group);
    await confirmAct(cli, flags, `Forget the group ${group} of ${topic} with all of its letters?`);
    await store.forgetReader(nameGroupReader(topic, group));
    if (flags.json === true) cli.out.line(formatJson({ topic, group, done: "forgotten" }));
    else cli.out.line(`forgotten  ${makeInert(group)} of ${makeInert(topic)}`);
    return EXIT.ok;
  });
}

async function findTopic(store: Store, name: string): Promise<TopicView> {
  const all = await store.listTopics();
  const view = all.find(({ topic }) => topic === name);
  if (view !== undefined) return view;
  const names = all.map(({ topic }) => topic);
  throw new SluiceError("UNKNOWN_TOPIC", `this store has no topic ${name}`, {
    hint: askDidYouMean(findSimilar(name, names)) || "`sluice topics` lists those that there are.",
  });
}

function findGroup({ topic, groups }: TopicView, name: string): TopicView["groups"][number] {
  const found = groups.find(({ group }) => group === name);
  if (found === undefined) throw describeUnknownGroup(topic, name);
  return found;
}
