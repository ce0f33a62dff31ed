/** The shortest form of a path, relative to the working directory or absolute. */
import { relative, resolve, sep } from "node:path";
import { isAddress } from "../../adapters/postgres/connection/address.ts";
import { nameStore } from "../../stores/open-store.ts";

export function showPath(path: string): string {
  const short = relative(".", path);
  return short === "" || short.startsWith(`..${sep}..`) ? resolve(path) : short;
}

/** A server's address without its password, or a path. */
export function showStore(store: string): string {
  return isAddress(store) ? nameStore(store) : showPath(store);
}
