/** Runs a test in its own world, and makes sure that nothing of the world is left afterwards. */
import { SluiceError } from "../../core/base/errors.ts";
import { describeFault } from "../faults/faults.ts";
import { VirtualWorld } from "./virtual-world.ts";
import type { World, WorldOptions } from "./world.ts";
import { checkWorldOptions } from "./world-options.ts";

/**
 * Calls the function with a world and moves virtual time until it has settled. Then it closes every
 * engine of the world. Throws what the function throws, an error of a process that was not awaited,
 * and an error for a fault that never happened.
 */
export async function inVirtualTime<Result>(
  options: WorldOptions,
  test: (world: World) => Result | PromiseLike<Result>,
): Promise<Result> {
  const world = new VirtualWorld(checkWorldOptions(options, "inVirtualTime"));
  let result: Result;
  let failures: readonly unknown[];
  try {
    result = await world.play((async () => test(world))());
    failures = world.unreportedFailures;
  } finally {
    await world.end();
  }
  for (const failure of failures) throw failure as Error;
  throwUnreached(world);
  return result;
}

function throwUnreached({ faultsLeft, commits }: VirtualWorld): void {
  if (faultsLeft.length === 0) return;
  const list = faultsLeft.map((fault) => `\n  ${describeFault(fault)}`).join("");
  const made = commits.map((what, at) => `\n  ${at + 1} ${what}`).slice(-20);
  throw new SluiceError(
    "FAULT_NOT_REACHED",
    `the test ended without meeting:${list}\nthe last of its ${commits.length} commits:${made.join("")}`,
    { hint: "A test that did not meet its fault proves nothing: choose a point that it reaches." },
  );
}
