/** A list of batches, newest first. */
import type { FullBatchView } from "../../views/batch.ts";
import { countRun } from "../../views/batch.ts";
import { formatAge } from "../output/format-duration.ts";
import { formatCount } from "../output/format-number.ts";
import type { Screen } from "../output/screen.ts";
import { type Column, renderTable } from "../output/table.ts";
import { paintState } from "./batch-words.ts";

export interface ListedBatch {
  readonly view: FullBatchView;
  /** What is worth a word about it. */
  readonly note: string | null;
}

export function renderBatches(
  batches: readonly ListedBatch[],
  wallMs: number,
  screen: Screen,
): string[] {
  const hasNotes = batches.some(({ note }) => note !== null);
  // A lane is the pipeline's name unless one was chosen.
  const hasLanes = batches.some(({ view }) => view.lane !== view.pipeline);
  const { dim, red } = screen.colours;
  const columns: Column<ListedBatch>[] = [
    { title: "BATCH", value: ({ view }) => view.batch },
    { title: "PIPELINE", value: ({ view }) => view.pipeline, elastic: !hasNotes },
    {
      title: "LANE",
      value: ({ view }) => (hasLanes ? view.lane : null),
      optional: true,
    },
    {
      title: "STATE",
      value: ({ view }) => view.state,
      paint: (cell, { view }) => paintState(view.state, screen)(cell),
    },
    { title: "DONE", value: ({ view }) => describeDone(view), align: "right" },
    {
      title: "FAILED",
      value: ({ view }) => view.failed,
      align: "right",
      paint: (cell, { view }) => (view.failed > 0 ? red(cell) : cell),
    },
    {
      title: "SUBMITTED",
      value: ({ view }) => formatAge(Math.max(0, wallMs - Date.parse(view.submittedAt))),
      align: "right",
      paint: dim,
    },
    { title: "NOTE", value: ({ note }) => note, optional: true, elastic: true },
  ];
  return renderTable(columns, batches, screen);
}

function describeDone(view: FullBatchView): string {
  const done = countRun(view);
  const { planned } = view;
  return done === planned ? formatCount(done) : `${formatCount(done)}/${formatCount(planned)}`;
}
