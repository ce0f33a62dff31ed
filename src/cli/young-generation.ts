/**
 * Keeps memory flat in a process of our own. V8 lets its young generation grow by what survives in
 * it over time, so ten million items would cost tens of megabytes more than a hundred thousand,
 * with nothing to show for it. After start-up it is large enough; from here on it keeps its size.
 */
import { setFlagsFromString } from "node:v8";

export function keepYoungGeneration(): void {
  setFlagsFromString("--semi-space-growth-factor=1");
}
