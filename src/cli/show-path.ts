/** A path as short as it can be said from the working directory. */
import { relative, resolve, sep } from "node:path";

export function showPath(path: string): string {
  const short = relative(".", path);
  return short === "" || short.startsWith(`..${sep}..`) ? resolve(path) : short;
}
