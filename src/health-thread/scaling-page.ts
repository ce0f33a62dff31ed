/**
 * `/scaling` with a target in its query, for example `/scaling?max=20`. The counts come from the main
 * thread; what they recommend is computed here, so a query costs the main thread nothing.
 */
import {
  fillTarget,
  findTargetProblems,
  type ScalingTarget,
  TARGET_OPTIONS,
} from "../core/fleet/scaling.ts";
import { retargetScaling, type ScalingView } from "../runtime/observing/scaling-view.ts";

export const SCALING_PATH = "/scaling";

/** Either a target, or everything that is wrong with the query. */
export type ScalingQuery =
  | { readonly target: ScalingTarget | null }
  | { readonly error: string; readonly hint: string };

/** The target is null where the query has no parameter. */
export function readScalingQuery(query: string): ScalingQuery {
  const parameters = new URLSearchParams(query);
  const given = new Map<string, unknown>();
  const problems: string[] = [];
  for (const [name, text] of parameters) {
    if (given.has(name)) problems.push(`${name} is given more than once`);
    given.set(name, /^\d+(\.\d+)?$/.test(text) ? Number(text) : text);
  }
  const target = Object.fromEntries(given);
  problems.push(...findTargetProblems(target));
  if (problems.length > 0) {
    const options = TARGET_OPTIONS.join(", ");
    const hint = `The options are ${options}, for example ${SCALING_PATH}?min=1&max=20.`;
    return { error: [...new Set(problems)].join("; "), hint };
  }
  return { target: given.size === 0 ? null : fillTarget(target) };
}

/** The page that the main thread made, for another target. */
export function retargetPage(text: string, target: ScalingTarget): string {
  return `${JSON.stringify(retargetScaling(JSON.parse(text) as ScalingView, target))}\n`;
}
