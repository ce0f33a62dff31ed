/**
 * Shutdown: one ingest is stopped by SIGTERM during its run, the next one is killed, and a third
 * one finishes. Every document reaches its planned state, once.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { EXIT } from "../cli/exit-codes.ts";
import type { SiteSummary } from "../summary.ts";
import { type DrillReport, type DrillSize, listSome } from "./drill.ts";
import { compareWithPlan } from "./planned-states.ts";
import { Stage } from "./stage.ts";
import { exportLedgers } from "./told-records.ts";

const COMMAND = fileURLToPath(new URL("../main.ts", import.meta.url));
const LOOK_EVERY_MS = 50;
/** After the start: while it loads, begins its run, submits and slices. */
const EARLY_MS = [150, 300, 400, 500, 600];
/** For each interruption: running documents are repeated, and so is work since the last commit. */
const REPEATED_MAX = 24;

export async function drillShutdown(size: DrillSize): Promise<DrillReport> {
  const stage = await Stage.open({ ...size, profile: "calm" });
  try {
    await writeFile(join(stage.folder, "config.json"), JSON.stringify(stage.config));
    let interruptions = 2;
    for (const afterMs of EARLY_MS) if (await killEarly(stage, afterMs)) interruptions++;
    const stopped = await interrupt(stage, "SIGTERM", Math.ceil(size.documents * 0.2));
    const killed = await interrupt(stage, "SIGKILL", Math.ceil(size.documents * 0.6));
    const last = start(stage);
    let output = "";
    last.stdout?.on("data", (data: Buffer) => (output += data.toString()));
    const [code] = (await once(last, "close")) as [number | null];
    const sites = readSummaries(output);
    const ledgers = await exportLedgers(stage.folders, sites);
    const files = await readdir(stage.folders.archive, { recursive: true });
    const archived = sites.reduce((sum, site) => sum + site.archived, 0);
    const requests = (await stage.portals.readLog()).length;
    const again = requests - size.documents;
    const known = files.filter((name) => name.endsWith(".json")).length;
    return {
      seen: [
        `SIGTERM after ${stopped.requests} requests: exit ${stopped.code}; SIGKILL after ${killed.requests}; then exit ${code}`,
        `${requests} requests for ${size.documents} documents: ${again} repeated after ${interruptions} interruptions`,
        `${archived} archived, ${files.filter((name) => name.endsWith(".pdf")).length} contents`,
      ],
      faults: [
        ...(stopped.code === EXIT.terminated ? [] : [`SIGTERM: exit ${stopped.code}`]),
        ...(killed.signal === "SIGKILL" ? [] : [`SIGKILL came too late: exit ${killed.code}`]),
        ...(code === EXIT.withErrors ? [] : [`the last one: exit ${code}`]),
        ...(again <= interruptions * REPEATED_MAX ? [] : [`${again} requests too many`]),
        ...(known === archived ? [] : [`${known} documents in the archive, ${archived} archived`]),
        ...listSome(
          "left behind",
          files.filter((name) => name.endsWith(".part")),
        ),
        ...(await compareWithPlan(stage.plan, "calm", ledgers)),
      ],
    };
  } finally {
    await stage.close();
  }
}

function start({ folder, folders, manifest }: Stage): ChildProcess {
  const config = join(folder, "config.json");
  const args = ["--json", "--data", folders.root, "ingest", manifest, "--config", config];
  return spawn(process.execPath, [COMMAND, ...args], { stdio: ["ignore", "pipe", "ignore"] });
}

/**
 * Whatever it was doing, the next one continues. Returns whether it had sent a request to a portal.
 */
async function killEarly(stage: Stage, afterMs: number): Promise<boolean> {
  const before = (await stage.portals.readLog()).length;
  const child = start(stage);
  const gone = once(child, "close");
  await sleep(afterMs);
  child.kill("SIGKILL");
  await gone;
  return (await stage.portals.readLog()).length > before;
}

/**
 * Sends a signal when the portals have had this number of requests, one of them by the process to
 * stop.
 */
async function interrupt(
  stage: Stage,
  signal: "SIGTERM" | "SIGKILL",
  requestsMin: number,
): Promise<{
  readonly code: number | null;
  readonly signal: string | null;
  readonly requests: number;
}> {
  const before = (await stage.portals.readLog()).length;
  const child = start(stage);
  const gone = once(child, "close") as Promise<[number | null, string | null]>;
  let requests = before;
  while ((requests < requestsMin || requests === before) && child.exitCode === null) {
    requests = (await stage.portals.readLog()).length;
    await sleep(LOOK_EVERY_MS);
  }
  child.kill(signal);
  const [code, by] = await gone;
  return { code, signal: by, requests };
}

function readSummaries(output: string): SiteSummary[] {
  return output
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as SiteSummary);
}
