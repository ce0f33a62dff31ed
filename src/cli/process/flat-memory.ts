/**
 * Keeps memory flat in a process of our own. V8 lets both of its generations grow over time, by what
 * survives for a moment and by garbage that is not worth a collection yet, so ten million items
 * would cost tens of megabytes more than a hundred thousand, with nothing to show for it.
 */
import { setFlagsFromString } from "node:v8";

export function keepMemoryFlat(): void {
  // After start-up the young generation is large enough: it keeps its size.
  setFlagsFromString("--semi-space-growth-factor=1");
  // The old one is collected when it is half as large again as what lives in it.
  setFlagsFromString("--heap-growing-percent=50");
}
