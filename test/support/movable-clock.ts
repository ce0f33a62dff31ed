/**
 * A wall clock that a test can move under running processes, with libfaketime. The monotonic clock
 * stays: the kernel has one for all processes of a host, and a SQLite file is for one host, so a
 * different one cannot occur.
 */
import { existsSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { installProgram } from "./installed-program.ts";

const LIBRARY = "faketime/libfaketimeMT.so.1";
const FOLDERS = ["/usr/lib", "/usr/lib64", "/usr/local/lib"];

/** As libfaketime writes them: the offset from the real time. */
export type Jump = "+0" | "+1h" | "-1h" | "+10y";

export class MovableClock {
  readonly #file: string;
  /** For the processes that use this clock. */
  readonly env: Readonly<Record<string, string>>;

  constructor(file: string) {
    this.#file = file;
    this.env = {
      LD_PRELOAD: findLibrary(),
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: "1",
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
      // Files keep the kernel's timestamps.
      NO_FAKE_STAT: "1",
    };
    this.jump("+0");
  }

  /** Takes effect at once, with the next question for the time. */
  jump(to: Jump): void {
    const next = `${this.#file}.next`;
    writeFileSync(next, `${to}\n`);
    renameSync(next, this.#file);
  }
}

function findLibrary(): string {
  installProgram("libfaketime", "faketime", () => lookForLibrary() !== null);
  return lookForLibrary() ?? "";
}

/** Debian has it in a folder for the machine's architecture. */
function lookForLibrary(): string | null {
  for (const folder of FOLDERS.filter((path) => existsSync(path))) {
    const inside = readdirSync(folder).map((name) => join(folder, name));
    for (const path of [folder, ...inside]) {
      if (existsSync(join(path, LIBRARY))) return join(path, LIBRARY);
    }
  }
  return null;
}
