/** One life of a process: from its start to its death, or to the end of its world. */
import type { Random } from "../../ports/random.ts";
import type { Engine } from "../../runtime/engine/engine.ts";
import type { MortalClock } from "./virtual-clock.ts";

export interface Life {
  /** The name of its process. */
  readonly process: string;
  /** 1 for the first start. */
  readonly number: number;
  readonly clock: MortalClock;
  readonly random: Random;
  alive: boolean;
  /** Null until it has started. */
  engine: Engine | null;
}

export function describeLife({ process, number }: Life): string {
  return `${process}.${number}`;
}
