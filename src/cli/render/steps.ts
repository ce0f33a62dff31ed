/** The steps of a batch with their counts. */
import type { BatchSnapshot } from "../../ports/store/conducting.ts";
import { viewSteps } from "../../views/batch.ts";
import { formatCount } from "../output/format-number.ts";
import { makeInert } from "../output/inert-text.ts";
import type { Screen } from "../output/screen.ts";
import { hasSteps } from "../../views/step.ts";
import { type Column, renderTable } from "../output/table.ts";

/** One line for each step, where there are several. */
export function renderSteps(batch: BatchSnapshot, out: Screen): string[] {
  if (!hasSteps(batch)) return [];
  const columns: Column[] = [
    { title: "STEP", elastic: true },
    ...[
      "PLANNED",
      "SUCCEEDED",
      "SKIPPED",
      "FAILED",
      "CANCELLED",
      "PENDING",
      "CHUNKS",
      "PASSES",
    ].map((title) => ({ title, align: "right" as const })),
  ];
  const rows = viewSteps(batch).map((step) => {
    const { planned, succeeded, skipped, failed, cancelled, pending, chunks, passes } = step;
    const counts = [planned, succeeded, skipped, failed, cancelled, pending, chunks, passes];
    return [makeInert(step.name), ...counts.map(formatCount)];
  });
  return ["", ...renderTable(columns, rows, out).map((line) => `  ${line}`)];
}
