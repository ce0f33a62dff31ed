/**
 * Keeps memory flat in our own processes. V8 lets both of its generations grow over time, because
 * of short-lived survivors and garbage that is not worth a collection yet, so ten million items
 * would cost tens of megabytes more than a hundred thousand, without any benefit.
 */
import { setFlagsFromString } from "node:v8";

export function keepMemoryFlat(): void {
  // After start-up the young generation is large enough: it keeps its size.
  setFlagsFromString("--semi-space-growth-factor=1");
  // The old generation is collected when it is 1.5 times as large as its live content.
  setFlagsFromString("--heap-growing-percent=50");
}
