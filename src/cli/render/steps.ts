/** The steps of a batch with their counts. */
import type { StepView } from "../../views/step.ts";
import type { Screen } from "../output/screen.ts";
import { type Column, renderTable } from "../output/table.ts";

const COUNTS = [
  "planned",
  "succeeded",
  "skipped",
  "failed",
  "cancelled",
  "pending",
  "chunks",
  "passes",
] as const;

/** One line for each step, where there are several. */
export function renderSteps(steps: readonly StepView[], screen: Screen): string[] {
  if (steps.length < 2) return [];
  const columns: Column<StepView>[] = [
    { title: "STEP", value: ({ name }) => name, elastic: true },
    ...COUNTS.map(
      (name): Column<StepView> => ({
        title: name.toUpperCase(),
        value: (step) => step[name],
        align: "right",
      }),
    ),
  ];
  return ["", ...renderTable(columns, steps, screen, { indent: 2 })];
}
