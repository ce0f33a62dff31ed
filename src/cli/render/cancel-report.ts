/** What came of a cancel: what ran, what was cancelled, and what did not let go in time. */
import { isEnded } from "../../core/batch/batch.ts";
import type { BatchSnapshot } from "../../ports/store/conducting.ts";
import type { Store } from "../../ports/store/store.ts";
import { readEvent } from "../../runtime/delivering/batch-event.ts";
import { describeWho } from "../../views/hold.ts";
import { renderHeading } from "./batch-summary.ts";
import { type BatchView, type CancelView, countRun, viewBatch, viewCancel } from "../../views/batch.ts";
import { countNoun, formatCount } from "../output/format-number.ts";
import { makeInert } from "../output/inert-text.ts";
import type { Screen } from "../output/screen.ts";
import { nameStep } from "../../views/step.ts";

/** A chunk that was still in a worker's hands when its batch ended. */
export interface AbandonedChunk {
  readonly step: string;
  readonly chunk: number;
  /** The items whose handlers ignored the stop; null when their worker was lost with them. */
  readonly items: readonly number[] | null;
}

export interface CancelledView extends BatchView {
  /** It had ended before anybody wanted it cancelled: nothing changed. */
  readonly endedBefore: boolean;
  /** Nothing of it starts any more. */
  readonly acknowledged: boolean;
  readonly cancel: CancelView | null;
  /** How many chunks were abandoned; `abandoned` names the first of them. */
  readonly abandonedChunks: number;
  readonly abandoned: readonly AbandonedChunk[];
}

const RECORDS_PER_READ = 1_000;

export async function viewCancelled(
  store: Store,
  batch: BatchSnapshot,
  endedBefore: boolean,
  wallMs: number,
): Promise<CancelledView> {
  const abandoned = isEnded(batch.state) ? await readAbandoned(store, batch) : NOTHING;
  return {
    ...viewBatch(batch, wallMs),
    endedBefore,
    acknowledged: isEnded(batch.state),
    cancel: viewCancel(batch),
    ...abandoned,
  };
}

export type AbandonedFacts = Pick<CancelledView, "abandonedChunks" | "abandoned">;

const NOTHING: AbandonedFacts = { abandonedChunks: 0, abandoned: [] };

/** As the batch's last ending has recorded it. */
export async function readAbandoned(store: Store, batch: BatchSnapshot): Promise<AbandonedFacts> {
  let found = NOTHING;
  for (let position = 0, more = true; more; ) {
    const records = await store.readRecords(batch.id, position, RECORDS_PER_READ);
    for (const record of records) {
      position = record.position;
      if (record.type === "batch.ended") found = describeAbandoned(batch, readEvent(record).data);
    }
    more = records.length === RECORDS_PER_READ;
  }
  return found;
}

export function describeAbandoned(
  batch: BatchSnapshot,
  data: { readonly [key: string]: unknown },
): AbandonedFacts {
  const { abandonedChunks, abandoned } = data;
  if (typeof abandonedChunks !== "number" || !Array.isArray(abandoned)) return NOTHING;
  const rows = abandoned as { step: number; chunk: number; items: number[] | null }[];
  return {
    abandonedChunks,
    abandoned: rows.map(({ step, chunk, items }) => ({
      step: nameStep(batch, step),
      chunk,
      items,
    })),
  };
}

const ABANDONED_SHOWN_MAX = 5;
const LABEL_COLUMNS = 11;

export function renderCancelled(
  view: CancelledView,
  batch: BatchSnapshot,
  screen: Screen,
): string[] {
  const { colours } = screen;
  const label = (name: string, text: string): string =>
    `  ${colours.dim(name.padEnd(LABEL_COLUMNS))}${text}`;
  const { succeeded, skipped, failed, cancelled } = view;
  const parts = [
    `${formatCount(succeeded)} succeeded`,
    ...(skipped > 0 ? [`${formatCount(skipped)} skipped`] : []),
    ...(failed > 0 ? [`${formatCount(failed)} failed`] : []),
  ];
  return [
    renderHeading(batch, screen),
    label("ran", `${countNoun(countRun(batch.counts), "item")}: ${parts.join(", ")}`),
    label(
      view.acknowledged ? "cancelled" : "left",
      describeRest(view.acknowledged, batch, cancelled),
    ),
    ...(batch.cancel === null ? [] : [label("by", makeInert(describeWho(batch.cancel)))]),
    ...renderAbandoned(view, label).map((line) => colours.yellow(line)),
  ];
}

function describeRest(acknowledged: boolean, batch: BatchSnapshot, cancelled: number): string {
  if (acknowledged) return `${countNoun(cancelled, "item")} that had not run`;
  return `${countNoun(batch.counts.pending, "item")}, as workers have not let go yet`;
}

export function renderAbandoned(
  { abandonedChunks, abandoned }: AbandonedFacts,
  label: (name: string, text: string) => string,
): string[] {
  if (abandonedChunks === 0) return [];
  const shown = abandoned.slice(0, ABANDONED_SHOWN_MAX).map(({ step, chunk, items }) => {
    const what =
      items === null
        ? "its worker was lost"
        : `${items.length === 1 ? "item" : "items"} ${items.join(", ")} did not stop in time`;
    return label("", `step ${makeInert(step)}, chunk ${chunk}: ${what}`);
  });
  const more = abandonedChunks - shown.length;
  return [
    label("abandoned", `${countNoun(abandonedChunks, "chunk")}; what they do now is not recorded`),
    ...shown,
    ...(more > 0 ? [label("", `and ${formatCount(more)} more`)] : []),
  ];
}
