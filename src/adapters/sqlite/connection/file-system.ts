/**
 * Whether a file system can hold a SQLite database: WAL needs shared memory, which network mounts
 * lack.
 */
import { existsSync, mkdirSync, statfsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { SluiceError } from "../../../core/base/errors.ts";

/** Magic numbers of Linux's statfs(2). */
const NETWORK_FILE_SYSTEMS: ReadonlyMap<number, string> = new Map([
  [0x6969, "NFS"],
  [0x517b, "SMB"],
  [0xff534d42, "CIFS"],
  [0xfe534d42, "SMB2"],
  [0x5346414f, "AFS"],
  [0x01021997, "9p"],
  [0x00c36400, "Ceph"],
  [0x0bd00bd0, "Lustre"],
  [0x47504653, "GPFS"],
]);

export function nameNetworkFileSystem(type: number): string | null {
  return NETWORK_FILE_SYSTEMS.get(type >>> 0) ?? null;
}

/** Creates the database's folder, and refuses places where a database would be damaged. */
export function prepareFolder(path: string): void {
  const folder = dirname(resolve(path));
  try {
    makeFolder(folder);
  } catch (error) {
    throw new SluiceError("STORE_UNREACHABLE", `the folder ${folder} cannot be created`, {
      hint: "Choose a --store in a folder that this user may write.",
      cause: error,
    });
  }
  const network = nameNetworkFileSystem(statfsSync(folder).type);
  if (network !== null) {
    throw new SluiceError(
      "STORE_ON_NETWORK",
      `${folder} is on a network file system (${network}), where SQLite is not safe`,
      { hint: "Choose a --store on a local disk." },
    );
  }
}

/**
 * Level by level: Node's recursive mkdir never returns where a folder cannot exist, as in /proc.
 */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  makeFolder(dirname(folder));
  try {
    mkdirSync(folder);
  } catch (error) {
    // Another process may have been faster.
    if (!existsSync(folder)) throw error;
  }
}
