/** The data folder of a command: the demo's data is separate from the user's own. */
import { join } from "node:path";
import { Folders } from "../folders.ts";

export interface DataFlags {
  readonly data: string;
  readonly json: boolean;
  readonly demo?: boolean;
}

export function openFolders({ data, demo = false }: DataFlags): Folders {
  return new Folders(demo ? join(data, "demo") : data);
}
