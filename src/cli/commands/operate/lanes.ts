/** `sluice lanes`: who has its turn in which lane, who waits, and what the lane does when stuck. */
import { Argument, type Command, Option } from "commander";
import { BATCH_STATES, isEnded } from "../../../core/batch/batch.ts";
import { SluiceError } from "../../../core/base/errors.ts";
import { LANE_POLICIES, type LanePolicy } from "../../../core/batch/lane.ts";
import { explainBatch } from "../../../core/batch/why.ts";
import type { BatchSnapshot } from "../../../ports/store/conducting.ts";
import type { LaneMove } from "../../../ports/store/operating.ts";
import type { LaneView } from "../../../ports/store/reading.ts";
import type { Store } from "../../../ports/store/store.ts";
import { Operator } from "../../../runtime/engine/operator.ts";
import { type ActFlags, addActFlags, readActOptions } from "../../flags/act-flags.ts";
import { findBatch } from "../../flags/batch-id.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { countNoun } from "../../output/format-number.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import {
  type LaneFacts,
  type QueuedBatch,
  renderLanes,
  renderQueue,
  viewLane,
  viewQueued,
} from "../../render/lanes.ts";
import { readSubFlags, refuseExcess } from "../../flags/sub-command.ts";
import { withStore } from "../../session/with-store.ts";

interface MoveFlags extends ActFlags {
  readonly front?: boolean;
  readonly back?: boolean;
  readonly before?: string;
}

const UNFINISHED = BATCH_STATES.filter((state) => !isEnded(state));
/** Batches of a lane that are put in order. */
const QUEUE_MAX = 10_000;
const QUEUE_SHOWN_MAX = 100;

export function addLanesCommand(program: Command, cli: Cli): void {
  const command = program
    .command("lanes")
    .summary("list lanes: whose turn it is, and who waits")
    .description(
      "Lists the lanes that have unfinished batches. Batches of one lane run one at a time, in order.",
    )
    .usage("[options]")
    .allowExcessArguments()
    .action(async () => {
      refuseExcess(command);
      cli.finish(await lanes(cli, command.optsWithGlobals<CommonFlags>()));
    });
  addExamples(command, [
    ["sluice lanes", "a table"],
    ["sluice lanes show case-7", "the queue of one lane"],
    ["sluice lanes policy case-7 skip", "let others pass a stuck batch"],
    ["sluice lanes move b-k3x --front", "the next one"],
  ]);
  addShowCommand(command, cli);
  addPolicyCommand(command, cli);
  addMoveCommand(command, cli);
}

function addShowCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("show")
    .summary("the queue of a lane, in order")
    .description("Shows the batches of a lane in their order, and what each waits for.")
    .argument("<lane>", "the name of a lane")
    .action(async (lane: string) => {
      cli.finish(await show(cli, lane, readSubFlags<CommonFlags>(command)));
    });
  addExamples(command, [
    ["sluice lanes show case-7", "a table"],
    ["sluice lanes show case-7 --json", "one JSON object a line"],
  ]);
}

function addPolicyCommand(parent: Command, cli: Cli): void {
  const policies = new Argument("<policy>", "what it does then")
    .choices(LANE_POLICIES)
    // The operator knows what was meant, which a list of choices does not.
    .argParser((value) => value);
  const command = parent
    .command("policy")
    .summary("what a lane does with a batch that cannot go on")
    .description(
      "Says what a lane does with a head that cannot go on: block until it can, skip it until it can, " +
        "or park it until somebody resumes it.",
    )
    .argument("<lane>", "the name of a lane")
    .addArgument(policies)
    .action(async (lane: string, policy: string) => {
      cli.finish(await setPolicy(cli, lane, policy, readSubFlags<CommonFlags>(command)));
    });
  addExamples(command, [["sluice lanes policy case-7 skip", "others pass a stuck batch"]]);
}

function addMoveCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("move")
    .summary("move a batch within the queue of its lane")
    .description("Moves a batch that waits within the queue of its lane. The running one stays.")
    .argument("<batch>", "a batch's id, or its first characters")
    .addOption(new Option("--front", "it is the next one").conflicts(["back", "before"]))
    .addOption(new Option("--back", "it is the last one").conflicts("before"))
    .option("--before <batch>", "it comes just before that one");
  addActFlags(command).action(async (id: string) => {
    cli.finish(await move(cli, id, readSubFlags<MoveFlags>(command)));
  });
  addExamples(command, [
    ["sluice lanes move b-k3x --front", "the next one"],
    ["sluice lanes move b-k3x --before b-9fq", "just before another one"],
  ]);
}

function lanes(cli: Cli, flags: CommonFlags): Promise<number> {
  return withStore(cli, flags, [], async ({ store }) => {
    const found: LaneFacts[] = [];
    for (const view of await store.listLanes()) found.push(await readLane(store, view));
    if (flags.json === true) for (const one of found) cli.out.line(formatJson(viewLane(one)));
    else if (found.length === 0) cli.err.line("no lane has an unfinished batch");
    else for (const line of renderLanes(found, cli.out)) cli.out.line(line);
    return EXIT.ok;
  });
}

async function readLane(store: Store, view: LaneView): Promise<LaneFacts> {
  return { view, holder: view.holder === null ? null : await store.getBatch(view.holder) };
}

function show(cli: Cli, lane: string, flags: CommonFlags): Promise<number> {
  return withStore(cli, flags, [], async ({ store }) => {
    await new Operator(store, cli.clock).checkTarget({ lane });
    const queue = await readQueue(store, lane);
    const view = (await store.listLanes()).find((one) => one.lane === lane);
    if (flags.json === true) {
      for (const one of queue) cli.out.line(formatJson(viewQueued(one, cli.clock.wallMs())));
      return EXIT.ok;
    }
    if (view === undefined || queue.length === 0) {
      cli.err.line(`no batch of lane ${makeInert(lane)} is unfinished`);
      return EXIT.ok;
    }
    const shown = queue.slice(0, QUEUE_SHOWN_MAX);
    for (const line of renderQueue(view, shown, cli.out)) cli.out.line(line);
    const more = queue.length - shown.length;
    if (more > 0)
      cli.err.line(`and ${countNoun(more, "batch", "batches")} more: --json shows them`);
    return EXIT.ok;
  });
}

/** The holder, then those that wait in their order, then those that were taken out. */
async function readQueue(store: Store, lane: string): Promise<readonly QueuedBatch[]> {
  const batches = await store.listBatches({ lane, states: UNFINISHED, limit: QUEUE_MAX });
  const queue: QueuedBatch[] = [];
  for (const batch of batches) {
    const facts = (await store.readWaiting(batch.id, 0))?.batch;
    if (facts === undefined || isEnded(facts.state)) continue;
    queue.push({ batch, ahead: facts.ahead, why: explainBatch(facts) });
  }
  return queue.toSorted((a, b) => rank(a) - rank(b) || a.ahead - b.ahead);
}

function rank({ batch }: QueuedBatch): number {
  if (batch.active) return 0;
  return batch.parked === null ? 1 : 2;
}

function setPolicy(cli: Cli, lane: string, policy: string, flags: CommonFlags): Promise<number> {
  return withStore(cli, flags, [], async ({ store }) => {
    // Checked by the operator, which says what was meant.
    await new Operator(store, cli.clock).setLanePolicy(lane, policy as LanePolicy);
    if (flags.json === true) cli.out.line(formatJson({ lane, policy }));
    else cli.out.line(`lane ${makeInert(lane)}: ${DEEDS[policy as LanePolicy]}`);
    return EXIT.ok;
  });
}

const DEEDS: { readonly [Policy in LanePolicy]: string } = {
  block: "a batch that cannot go on blocks the others",
  skip: "a batch that cannot go on is skipped until it can",
  park: "a batch that cannot go on is parked until somebody resumes it",
};

async function move(cli: Cli, id: string, flags: MoveFlags): Promise<number> {
  const { front, back, before } = flags;
  if (front === undefined && back === undefined && before === undefined) {
    throw new SluiceError("USAGE", "where to?", {
      hint: "Give one of --front, --back and --before <batch>.",
    });
  }
  return withStore(cli, flags, [], async ({ store }) => {
    const batch = await findBatch(store, id);
    const other = before === undefined ? null : await findBatch(store, before);
    const to = front === true ? "front" : "back";
    const order: LaneMove = other === null ? { to } : { before: other.id };
    await new Operator(store, cli.clock).move(batch.id, order, readActOptions(flags));
    const ahead = (await store.readWaiting(batch.id, 0))?.batch.ahead ?? 0;
    if (flags.json === true) cli.out.line(formatJson(viewMoved(batch, ahead)));
    else
      cli.out.line(`moved batch ${batch.id} in lane ${makeInert(batch.lane)}: ${ahead} before it`);
    return EXIT.ok;
  });
}

function viewMoved({ id, lane }: BatchSnapshot, ahead: number): object {
  return { batch: id, lane, ahead };
}
