/**
 * The memory of a process and all its children, measured from outside. Memory that several of them
 * share, such as Node's own program, counts once.
 */
import { readdir, readFile } from "node:fs/promises";

export async function readTreeBytes(pid: number): Promise<number> {
  const parents = new Map<number, number>();
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const text = await readFile(`/proc/${name}/stat`, "utf8").catch(() => "");
    // The name of a program may contain anything, even brackets: the fields after the last one are
    // fixed.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    if (text !== "") parents.set(Number(name), Number(fields[1]));
  }
  let bytes = 0;
  for (const one of parents.keys()) {
    if (!isWithin(one, pid, parents)) continue;
    const text = await readFile(`/proc/${one}/smaps_rollup`, "utf8").catch(() => "");
    bytes += Number(/^Pss: +(\d+) kB$/m.exec(text)?.[1] ?? 0) * 1_024;
  }
  return bytes;
}

function isWithin(one: number, root: number, parents: ReadonlyMap<number, number>): boolean {
  for (let at: number | undefined = one; at !== undefined && at > 1; at = parents.get(at)) {
    if (at === root) return true;
  }
  return false;
}
