/** The steps of a batch, by the names that the batch has recorded. */
import { type Counts, NO_ITEMS } from "../core/batch/counts.ts";
import type { BatchSnapshot } from "../ports/store/conductor-store.ts";

export interface StepView extends Counts {
  readonly name: string;
  readonly chunks: number;
  /** Automatic passes over its dead letters. */
  readonly passes: number;
}

/** All steps in order; one that has not begun has no items yet. */
export function viewSteps({ settings, steps }: BatchSnapshot): StepView[] {
  return settings.steps.map(({ name }, at) => {
    const { counts = NO_ITEMS, chunks = 0, passes = 0 } = steps[at] ?? {};
    return { name, ...counts, chunks, passes };
  });
}

export function nameStep({ settings }: BatchSnapshot, step: number): string {
  return settings.steps[step]?.name ?? String(step + 1);
}

export function hasSteps({ settings }: BatchSnapshot): boolean {
  return settings.steps.length > 1;
}

/** "step 2 of 3, pages"; null where there is only one. */
export function describeStepTurn(batch: BatchSnapshot): string | null {
  if (!hasSteps(batch)) return null;
  const { step, settings } = batch;
  return `step ${step + 1} of ${settings.steps.length}, ${nameStep(batch, step)}`;
}

/** The step whose results are shown by default. */
export function getLastStep({ settings }: BatchSnapshot): number {
  return settings.steps.length - 1;
}
