/** Checks the options of a world; reports all problems at once. */
import { SluiceError } from "../../core/base/errors.ts";
import { OptionProblems } from "../../core/events/option-problems.ts";
import type { SharedEngineOptions } from "../../runtime/engine/engine-options.ts";
import { type Fault, isFault } from "../faults/faults.ts";
import type { WorldOptions } from "./world.ts";

export interface CheckedWorld {
  readonly seed: number;
  readonly faults: readonly Fault[];
  readonly engine: SharedEngineOptions;
  readonly hangAfterRealMs: number;
  readonly virtualMsMax: number;
}

export const WORLD_OPTIONS = ["seed", "faults", "engine", "hangAfterRealMs", "virtualMsMax"];

const DAY_MS = 86_400_000;
const SEED_MAX = 2 ** 32 - 1;
const DEFAULT_HANG_REAL_MS = 2_000;
const ENGINE_OWN = ["clock", "random", "ownsStore"];

/** Reads the options that every world has; the caller reads its own ones. */
export function readWorldOptions(
  given: { readonly [name: string]: unknown },
  problems: OptionProblems,
): CheckedWorld {
  const { faults = [], engine = {} } = given;
  const whole = (name: string, min: number, max: number, fallback: number): number =>
    problems.readWhole(name, given[name], { min, max, fallback });
  if (!Array.isArray(faults) || !faults.every(isFault)) {
    problems.add('faults must be a list of faults, for example [crash.after("settle", 3)]');
  }
  if (typeof engine !== "object" || engine === null) {
    problems.add("engine must be an object with the options of an engine");
  } else {
    for (const name of ENGINE_OWN.filter((own) => own in engine)) {
      problems.add(`engine.${name} is the world's own`);
    }
  }
  return {
    seed: whole("seed", 0, SEED_MAX, 1),
    faults: faults as readonly Fault[],
    engine: engine as SharedEngineOptions,
    hangAfterRealMs: whole("hangAfterRealMs", 1, DAY_MS, DEFAULT_HANG_REAL_MS),
    virtualMsMax: whole("virtualMsMax", 1, 36_500 * DAY_MS, DAY_MS),
  };
}

/** Throws the problems. */
export function throwProblems(problems: OptionProblems, call: string): void {
  const problem = problems.describe(call);
  if (problem === null) return;
  throw new SluiceError("BAD_OPTION", problem, { field: "world", hint: `Fix this in ${call}().` });
}

export function checkWorldOptions(options: WorldOptions, call: string): CheckedWorld {
  const problems = new OptionProblems();
  const checked = readWorldOptions(problems.readOptions(options, WORLD_OPTIONS), problems);
  throwProblems(problems, call);
  return checked;
}
