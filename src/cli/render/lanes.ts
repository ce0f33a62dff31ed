/** Lanes and their queues as people and machines are shown them. */
import type { Why } from "../../core/batch/why.ts";
import type { BatchSnapshot } from "../../ports/store/conducting.ts";
import type { LaneView } from "../../ports/store/reading.ts";
import { describeWho } from "../../views/hold.ts";
import { countRun, viewBatchFully } from "../../views/batch.ts";
import { formatCount, formatPercent } from "../output/format-number.ts";
import { makeInert } from "../output/inert-text.ts";
import type { Screen } from "../output/screen.ts";
import { describeStepTurn } from "../../views/step.ts";
import { type Column, renderTable } from "../output/table.ts";

export interface LaneFacts {
  readonly view: LaneView;
  readonly holder: BatchSnapshot | null;
}

export interface QueuedBatch {
  readonly batch: BatchSnapshot;
  /** How many batches of the lane come first. */
  readonly ahead: number;
  readonly why: Why;
}

export function viewLane({ view, holder }: LaneFacts): object {
  const { lane, policy, pause, waiting, parked } = view;
  const { planned = 0 } = holder?.counts ?? {};
  return {
    lane,
    policy,
    pause,
    holder:
      holder === null
        ? null
        : {
            batch: holder.id,
            pipeline: holder.pipeline,
            state: holder.state,
            done: countRun(holder.counts),
            planned,
          },
    waiting,
    parked,
  };
}

export function viewQueued({ batch, ahead, why }: QueuedBatch, wallMs: number): object {
  return { ...viewBatchFully(batch, wallMs), ahead, why };
}

export function renderLanes(lanes: readonly LaneFacts[], screen: Screen): string[] {
  const isPaused = lanes.some(({ view }) => view.pause !== null);
  const columns: Column[] = [
    { title: "LANE" },
    { title: "HOLDER" },
    { title: "STATE", elastic: true },
    { title: "WAITING", align: "right" },
    { title: "PARKED", align: "right" },
    { title: "POLICY" },
    ...(isPaused ? [{ title: "PAUSED BY", paint: screen.colours.yellow }] : []),
  ];
  const rows = lanes.map(({ view, holder }) => [
    makeInert(view.lane),
    holder?.id ?? "-",
    holder === null ? "-" : makeInert(describeHolder(holder)),
    formatCount(view.waiting),
    formatCount(view.parked),
    view.policy,
    ...(isPaused ? [view.pause === null ? "-" : makeInert(describeWho(view.pause))] : []),
  ]);
  return renderTable(columns, rows, screen);
}

/** "running 34%, step 2 of 3, pages" */
function describeHolder(batch: BatchSnapshot): string {
  const { state, counts, cancel, pause } = batch;
  const share = formatPercent(countRun(counts), counts.planned);
  const word = cancel !== null ? "being cancelled" : pause !== null ? `${state}, paused` : state;
  const step = describeStepTurn(batch);
  return `${word}${counts.planned === 0 ? "" : ` ${share}`}${step === null ? "" : `, ${step}`}`;
}

export function renderQueue(
  { lane, policy, pause }: LaneView,
  queue: readonly QueuedBatch[],
  screen: Screen,
): string[] {
  const { colours } = screen;
  const columns: Column[] = [
    { title: "#", align: "right" },
    { title: "BATCH" },
    { title: "PIPELINE" },
    { title: "STATE", paint: colours.cyan },
    { title: "DONE", align: "right" },
    { title: "WHY", elastic: true },
  ];
  const rows = queue.map(({ batch, ahead, why }) => [
    batch.parked === null ? formatCount(ahead) : "-",
    batch.id,
    makeInert(batch.pipeline),
    batch.parked === null ? batch.state : "parked",
    `${formatCount(countRun(batch.counts))}/${formatCount(batch.counts.planned)}`,
    makeInert(why.message),
  ]);
  return [
    `${colours.bold(`lane ${makeInert(lane)}`)}  policy ${policy}`,
    ...(pause === null ? [] : [colours.yellow(`paused by ${makeInert(describeWho(pause))}`)]),
    "",
    ...renderTable(columns, rows, screen),
  ];
}
