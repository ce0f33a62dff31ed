/** How a command is made: small arguments that fast-check can draw, print and shrink. */
import fc from "fast-check";
import type { Pair } from "./scene.ts";
import { type Stage, WORKERS } from "./stage.ts";

const BATCHES_MAX = 6;

export type Command = fc.AsyncCommand<Stage, Pair>;

export function command<Args>(
  name: string,
  args: fc.Arbitrary<Args>,
  run: (stage: Stage, pair: Pair, args: Args) => Promise<void>,
  needs: "batch" | "room" | "nothing" = "batch",
): fc.Arbitrary<Command> {
  return args.map((drawn) => ({
    check: ({ oracle: { batches } }) =>
      needs === "room" ? batches.length < BATCHES_MAX : needs === "nothing" || batches.length > 0,
    run: (stage, pair) => run(stage, pair, drawn),
    toString: () => `${name}(${JSON.stringify(drawn)})`,
  }));
}

/** A batch by its number, modulo the number of batches. */
export const which = fc.nat(BATCHES_MAX - 1);
export const worker = fc.nat(WORKERS - 1);
export const LEASES_MS = [10, 20, 50] as const;
export const leaseMs = fc.constantFrom(...LEASES_MS);
/** True with a low probability. */
export const seldom = fc.nat(7).map((n) => n === 0);

/** By weight. */
export const times = (count: number, ...of: fc.Arbitrary<Command>[]): fc.Arbitrary<Command>[] =>
  Array.from({ length: count }, () => of).flat();
