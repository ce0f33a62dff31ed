/** Finds the step of a batch that an option names. */
import { SluiceError } from "../../core/base/errors.ts";
import { formatDidYouMean, findSimilar } from "../../core/base/similar-words.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";

export function findStep({ id, settings }: BatchSnapshot, name: string): number {
  const names = settings.steps.map((step) => step.name);
  const number = names.indexOf(name);
  if (number !== -1) return number;
  const meant = formatDidYouMean(findSimilar(name, names));
  throw new SluiceError("NOT_FOUND", `batch ${id} has no step ${JSON.stringify(name)}`, {
    kind: "step",
    hint: `${meant} Its ${names.length === 1 ? "step is" : "steps are"} ${names.join(", ")}.`.trim(),
  });
}
