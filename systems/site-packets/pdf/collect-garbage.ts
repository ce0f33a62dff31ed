/**
 * Collects what was just thrown away. By itself V8 lets buffers lie about until there are 64 MiB of
 * them, which is a fourth of what a process of the pool holds; to collect the young ones takes about
 * a millisecond.
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as (options: { readonly type: "minor" }) => void;

export function collectGarbage(): void {
  collect({ type: "minor" });
}
