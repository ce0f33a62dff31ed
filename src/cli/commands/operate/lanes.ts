/** `sluice lanes`: who has its turn in which lane, who waits, and what the lane does when stuck. */
import { Argument, type Command, Option } from "commander";
import { BATCH_STATES, isEnded } from "../../../core/batch/batch.ts";
import { SluiceError } from "../../../core/base/errors.ts";
import { LANE_POLICIES, type LanePolicy } from "../../../core/batch/lane.ts";
import { explainBatch } from "../../../core/batch/why.ts";
import type { BatchSnapshot } from "../../../ports/store/conductor-store.ts";
import type { LaneMove } from "../../../ports/store/operator-store.ts";
import type { Store } from "../../../ports/store/store.ts";
import { Operator } from "../../../runtime/engine/operator.ts";
import { type ActFlags, addActFlags, readActOptions } from "../../flags/act-flags.ts";
import { ABOUT_BATCH, findBatch } from "../../flags/batch-id.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { countNoun, formatPercent } from "../../output/format-number.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import { countRun } from "../../../views/batch.ts";
import { viewMoved } from "../../../views/act.ts";
import { type QueuedView, viewLane, viewQueued } from "../../../views/lane.ts";
import { describeStepTurn } from "../../../views/step.ts";
import { type ListedLane, renderLanes, renderQueue } from "../../render/lanes.ts";
import { readSubFlags, refuseExcess } from "../../flags/sub-command.ts";
import { withStore } from "../../session/with-store.ts";

interface MoveFlags extends ActFlags {
  readonly front?: boolean;
  readonly back?: boolean;
  readonly before?: string;
}

const UNFINISHED = BATCH_STATES.filter((state) => !isEnded(state));
/** The most batches of a lane that are shown in order. */
const QUEUE_MAX = 10_000;
const QUEUE_SHOWN_MAX = 100;

export function addLanesCommand(program: Command, cli: Cli): void {
  const command = program
    .command("lanes")
    .summary("list lanes, show and reorder their queues")
    .description(
      "List the lanes that have unfinished batches. Batches of one lane run one at a time, in order.",
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
    ["sluice lanes policy case-7 skip", "let other batches pass a stuck one"],
    ["sluice lanes move b-k3x --front", "run it next"],
  ]);
  addShowCommand(command, cli);
  addPolicyCommand(command, cli);
  addMoveCommand(command, cli);
}

function addShowCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("show")
    .summary("show the queue of a lane, in order")
    .description("Show the batches of a lane in their order, and what each waits for")
    .argument("<lane>", "name of the lane")
    .action(async (lane: string) => {
      cli.finish(await show(cli, lane, readSubFlags<CommonFlags>(command)));
    });
  addExamples(command, [
    ["sluice lanes show case-7", "a table"],
    ["sluice lanes show case-7 --json", "one JSON object per line"],
  ]);
}

function addPolicyCommand(parent: Command, cli: Cli): void {
  const policies = new Argument("<policy>", "what the lane does with a stuck batch")
    .choices(LANE_POLICIES)
    // Checked by the operator, which can suggest a similar name; a list of choices cannot.
    .argParser((value) => value);
  const command = parent
    .command("policy")
    .summary("set what a lane does with a stuck batch")
    .description(
      "Set what a lane does when its active batch cannot continue: block the others, skip it until it " +
        "can continue, or park it until an operator resumes it",
    )
    .argument("<lane>", "name of the lane")
    .addArgument(policies)
    .action(async (lane: string, policy: string) => {
      cli.finish(await setPolicy(cli, lane, policy, readSubFlags<CommonFlags>(command)));
    });
  addExamples(command, [["sluice lanes policy case-7 skip", "let other batches pass a stuck one"]]);
}

function addMoveCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("move")
    .summary("move a batch within the queue of its lane")
    .description("Move a waiting batch within the queue of its lane. The active batch stays.")
    .argument("<batch>", ABOUT_BATCH)
    .addOption(new Option("--front", "to the front of the queue").conflicts(["back", "before"]))
    .addOption(new Option("--back", "to the end of the queue").conflicts("before"))
    .option("--before <batch>", "just before this batch");
  addActFlags(command).action(async (id: string) => {
    cli.finish(await move(cli, id, readSubFlags<MoveFlags>(command)));
  });
  addExamples(command, [
    ["sluice lanes move b-k3x --front", "run it next"],
    ["sluice lanes move b-k3x --before b-9fq", "just before another batch"],
  ]);
}

function lanes(cli: Cli, flags: CommonFlags): Promise<number> {
  return withStore(cli, flags, [], async ({ store }) => {
    const listed: ListedLane[] = [];
    for (const facts of await store.listLanes()) {
      const holder = facts.holder === null ? null : await store.getBatch(facts.holder);
      const progress = holder === null ? null : describeHolder(holder);
      listed.push({ view: viewLane(facts, holder), progress });
    }
    if (flags.json === true) for (const { view } of listed) cli.out.line(formatJson(view));
    else if (listed.length === 0) cli.err.line("no lane has an unfinished batch");
    else for (const line of renderLanes(listed, cli.out)) cli.out.line(line);
    return EXIT.ok;
  });
}

/** "running 34%, step 2 of 3, pages" */
function describeHolder(batch: BatchSnapshot): string {
  const { state, counts, cancel, pause } = batch;
  const share = formatPercent(countRun(counts), counts.planned);
  const word = cancel !== null ? "being cancelled" : pause !== null ? `${state}, paused` : state;
  const step = describeStepTurn(batch);
  return `${word}${counts.planned === 0 ? "" : ` ${share}`}${step === null ? "" : `, ${step}`}`;
}

function show(cli: Cli, lane: string, flags: CommonFlags): Promise<number> {
  return withStore(cli, flags, [], async ({ store }) => {
    await new Operator(store, cli.clock).checkTarget({ lane });
    const queue = await readQueue(store, lane, cli.clock.wallMs());
    const facts = (await store.listLanes()).find((one) => one.lane === lane);
    if (flags.json === true) {
      for (const one of queue) cli.out.line(formatJson(one));
      return EXIT.ok;
    }
    if (facts === undefined || queue.length === 0) {
      cli.err.line(`lane ${makeInert(lane)} has no unfinished batch`);
      return EXIT.ok;
    }
    const shown = queue.slice(0, QUEUE_SHOWN_MAX);
    for (const line of renderQueue(facts, shown, cli.out)) cli.out.line(line);
    const more = queue.length - shown.length;
    if (more > 0)
      cli.err.line(`and ${countNoun(more, "batch", "batches")} more: --json shows them`);
    return EXIT.ok;
  });
}

/** The holder, then waiting batches in order, then parked batches. */
async function readQueue(
  store: Store,
  lane: string,
  wallMs: number,
): Promise<readonly QueuedView[]> {
  const batches = await store.listBatches({ lane, states: UNFINISHED, limit: QUEUE_MAX });
  const queue: QueuedView[] = [];
  for (const batch of batches) {
    const facts = (await store.readWaiting(batch.id, 0))?.batch;
    if (facts === undefined || isEnded(facts.state)) continue;
    queue.push(viewQueued(batch, facts.ahead, explainBatch(facts), wallMs));
  }
  return queue.toSorted((a, b) => rank(a) - rank(b) || a.ahead - b.ahead);
}

function rank({ active, parked }: QueuedView): number {
  if (active) return 0;
  return parked === null ? 1 : 2;
}

function setPolicy(cli: Cli, lane: string, policy: string, flags: CommonFlags): Promise<number> {
  return withStore(cli, flags, [], async ({ store }) => {
    // Checked by the operator, which can suggest a similar name.
    await new Operator(store, cli.clock).setLanePolicy(lane, policy as LanePolicy);
    if (flags.json === true) cli.out.line(formatJson({ lane, policy }));
    else cli.out.line(`lane ${makeInert(lane)}: ${DEEDS[policy as LanePolicy]}`);
    return EXIT.ok;
  });
}

const DEEDS: { readonly [Policy in LanePolicy]: string } = {
  block: "a stuck batch blocks the others",
  skip: "a stuck batch is skipped until it can continue",
  park: "a stuck batch is parked until an operator resumes it",
};

async function move(cli: Cli, id: string, flags: MoveFlags): Promise<number> {
  const { front, back, before } = flags;
  if (front === undefined && back === undefined && before === undefined) {
    throw new SluiceError("USAGE", "no position was given", {
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
