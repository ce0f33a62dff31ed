/**
 * Collects garbage at once. By default V8 keeps buffers until there are 64 MiB of them, a fourth of
 * what a process of the pool holds; collecting the young ones takes about a millisecond.
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as (options: { readonly type: "minor" }) => void;

export function collectGarbage(): void {
  collect({ type: "minor" });
}
