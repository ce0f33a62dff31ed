/** The doctor's checks of the machine: versions and clocks. */
import { DatabaseSync } from "node:sqlite";
import { type Clock, sleep } from "../../ports/clock.ts";
import { bad, type Check, good, warn } from "./doctor-check.ts";
import { formatInstantShort } from "../output/format-duration.ts";
import { readPackageVersion } from "../config/package-version.ts";

const CLOCK_LOOK_MS = 100;
/** A scheduling delay shows on both clocks; a jump of the wall clock does not. */
const DRIFT_MS_MAX = 20;
/** An earlier wall clock must be wrong: this version of Sluice did not exist yet. */
const EARLIEST_MS = Date.UTC(2025, 0, 1);

export async function checkMachine(clock: Clock): Promise<Check[]> {
  return [checkSluice(), checkNode(), checkPlatform(), checkSqlite(), await checkClocks(clock)];
}

function checkSluice(): Check {
  return good("sluice", readPackageVersion());
}

function checkNode(): Check {
  // An older Node was refused before this file was loaded.
  return good("node", `${process.versions.node} (22.18 or newer is needed)`);
}

function checkPlatform(): Check {
  const found = `${process.platform} ${process.arch}`;
  if (process.platform === "linux") return good("platform", found);
  return warn(
    "platform",
    `${found}: Sluice is tested on Linux only`,
    "On other systems, chunks of a crashed worker are taken back only when their leases expire.",
  );
}

function checkSqlite(): Check {
  const db = new DatabaseSync(":memory:");
  try {
    const row = db.prepare("SELECT sqlite_version() AS version").get() as { version: string };
    return good("sqlite", `${row.version} (part of Node)`);
  } finally {
    db.close();
  }
}

async function checkClocks(clock: Clock): Promise<Check> {
  const read = (): number => clock.wallMs() - clock.monotonicMs();
  const before = read();
  await sleep(clock, CLOCK_LOOK_MS);
  const driftMs = Math.abs(read() - before);
  const now = `${formatInstantShort(clock.wallMs())} UTC`;
  if (clock.wallMs() < EARLIEST_MS) {
    return bad(
      "clock",
      `the wall clock says ${now}`,
      "Set the clock, for example with an NTP service.",
    );
  }
  if (driftMs > DRIFT_MS_MAX) {
    return warn(
      "clock",
      `the wall clock moved ${Math.round(driftMs)} ms against the monotonic one in ${CLOCK_LOOK_MS} ms`,
      "This affects times in records, but no leases. Check whether a time service is correcting the clock now.",
    );
  }
  return good("clock", `${now}, wall and monotonic clock agree`);
}
