/** Carries out, at drawn moments, what happens to nodes and to the store. */
import type { Node, World } from "../world.ts";
import type { HappeningName, HappeningPlot } from "./plot.ts";

export interface HappeningParts {
  readonly world: World;
  /** Closes a node in good order and restarts it, with new code or with the same. */
  readonly restart: (node: Node, deploys: boolean) => void;
  readonly onHappening: (what: HappeningName, forMs: number) => void;
}

/** The largest extra delay of a call to a slow store. */
const SLOW_MAX_MS = 3_000;

export function schedule(plots: readonly HappeningPlot[], parts: HappeningParts): void {
  for (const plot of plots) {
    parts.world.time.after(plot.atMs, () => happen(plot, parts));
  }
}

function happen({ what, node: name, forMs, byMs }: HappeningPlot, parts: HappeningParts): void {
  const { world } = parts;
  const node = world.living.find((one) => one.name === name);
  const isStore = what === "outage" || what === "slow_store" || what === "store_clock_jump";
  if (node === undefined && !isStore) return;
  const how = forMs > 0 ? ` for ${forMs} ms` : byMs !== 0 ? ` by ${byMs} ms` : "";
  world.trace.add(world.time.elapsedMs, "fault", `${isStore ? "the store" : name}: ${what}${how}`);
  parts.onHappening(what, forMs);
  // A happening that lasts can cost leases when it begins and when it ends.
  const trouble = (): void => {
    for (const listener of world.listeners) listener.onTrouble?.(isStore ? null : (node ?? null));
  };
  trouble();
  if (forMs > 0) world.time.after(forMs, trouble);
  const untilMs = world.time.nowMs + forMs;
  switch (what) {
    case "kill":
      if (node !== undefined) world.crash(node);
      return;
    case "freeze":
      node?.clock.freeze(forMs);
      return;
    case "stop":
    case "deploy":
      if (node !== undefined) parts.restart(node, what === "deploy");
      return;
    case "partition":
      world.weather.push({ node: name, untilMs, delayMaxMs: null });
      return;
    case "outage":
      world.weather.push({ node: null, untilMs, delayMaxMs: null });
      return;
    case "slow_store":
      world.weather.push({ node: null, untilMs, delayMaxMs: SLOW_MAX_MS });
      return;
    case "clock_jump":
      node?.clock.jump(byMs);
      return;
    case "store_clock_jump":
      world.storeClock.jump(byMs);
      return;
    default:
      throw new Error(`unknown happening ${String(what)}`);
  }
}
