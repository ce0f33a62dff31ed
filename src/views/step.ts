/** Steps by their names, as a batch has recorded them. */
import { SluiceError } from "../core/base/errors.ts";
import { askDidYouMean, findSimilar } from "../core/base/similar-words.ts";
import type { BatchSnapshot } from "../ports/store/conducting.ts";

export function findStep({ id, settings }: BatchSnapshot, name: string): number {
  const names = settings.steps.map((step) => step.name);
  const number = names.indexOf(name);
  if (number !== -1) return number;
  const meant = askDidYouMean(findSimilar(name, names));
  throw new SluiceError("UNKNOWN_STEP", `batch ${id} has no step ${JSON.stringify(name)}`, {
    hint: `${meant} Its ${names.length === 1 ? "step is" : "steps are"} ${names.join(", ")}.`.trim(),
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
