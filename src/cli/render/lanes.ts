/** Lanes, and the queue of one lane. */
import type { LaneView, QueuedView } from "../../views/lane.ts";
import { countRun } from "../../views/batch.ts";
import { describeWho } from "../../views/hold.ts";
import { formatCount } from "../output/format-number.ts";
import { makeInert } from "../output/inert-text.ts";
import type { Screen } from "../output/screen.ts";
import { type Column, renderTable } from "../output/table.ts";

export interface ListedLane {
  readonly view: LaneView;
  /** How far its holder is, in words. */
  readonly progress: string | null;
}

export function renderLanes(lanes: readonly ListedLane[], screen: Screen): string[] {
  const columns: Column<ListedLane>[] = [
    { title: "LANE", value: ({ view }) => view.lane },
    { title: "HOLDER", value: ({ view }) => view.holder?.batch ?? null },
    { title: "STATE", value: ({ progress }) => progress, elastic: true },
    { title: "WAITING", value: ({ view }) => view.waiting, align: "right" },
    { title: "PARKED", value: ({ view }) => view.parked, align: "right" },
    { title: "POLICY", value: ({ view }) => view.policy },
    {
      title: "PAUSED BY",
      value: ({ view: { pause } }) => (pause === null ? null : describeWho(pause)),
      optional: true,
      paint: screen.colours.yellow,
    },
  ];
  return renderTable(columns, lanes, screen);
}

export function renderQueue(
  { lane, policy, pause }: Pick<LaneView, "lane" | "policy" | "pause">,
  queue: readonly QueuedView[],
  screen: Screen,
): string[] {
  const { bold, yellow, cyan } = screen.colours;
  const columns: Column<QueuedView>[] = [
    {
      title: "#",
      value: ({ parked, ahead }) => (parked === null ? ahead : null),
      align: "right",
    },
    { title: "BATCH", value: ({ batch }) => batch },
    { title: "PIPELINE", value: ({ pipeline }) => pipeline },
    {
      title: "STATE",
      value: ({ parked, state }) => (parked === null ? state : "parked"),
      paint: cyan,
    },
    {
      title: "DONE",
      value: (view) => `${formatCount(countRun(view))}/${formatCount(view.planned)}`,
      align: "right",
    },
    { title: "WHY", value: ({ why }) => why.message, elastic: true },
  ];
  return [
    `${bold(`lane ${makeInert(lane)}`)}  policy ${policy}`,
    ...(pause === null ? [] : [yellow(`paused by ${makeInert(describeWho(pause))}`)]),
    "",
    ...renderTable(columns, queue, screen),
  ];
}
