/** Closes the engines of a world at the end of its play. */
import type { Engine } from "../src/runtime/engine/engine.ts";
import type { Node, World } from "./world.ts";

const CLOSE_LIMIT_MS = 10_000;

/**
 * Closes every node that is alive, in bounded time. Returns what went wrong, such as a timer that a
 * node left behind.
 */
export async function closeEngines(
  world: World,
  engines: Iterable<readonly [Node, Engine]>,
): Promise<string[]> {
  const open = [...engines].filter(([node]) => node.alive);
  const closed = new Set<Node>();
  const failures: string[] = [];
  for (const [node, engine] of open) {
    void engine.close().then(
      () => closed.add(node),
      (error: unknown) => failures.push(`${node.name} fails to close: ${String(error)}`),
    );
  }
  await world.run(() => closed.size === open.length, CLOSE_LIMIT_MS);
  await world.run(() => false, CLOSE_LIMIT_MS);
  for (const [node] of open.filter(([{ alive }]) => alive)) {
    if (!closed.has(node)) failures.push(`${node.name} does not close`);
    const { waiting } = node.clock;
    if (closed.has(node) && waiting > 0) failures.push(`${node.name} left ${waiting} timers`);
  }
  return failures;
}
