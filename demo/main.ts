/**
 * `npm run demo`: a batch of 100,000 items on the embedded store, with live progress. One of them
 * kills its process; the same command is then run again, as a person or a supervisor would, until
 * the batch has ended and every item is accounted for.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, mkdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const ITEMS = 100_000;
/** One death in bulk, one together with others, one alone: then the poison is known. */
const RUNS_MAX = 4;

// Paths in what follows are short and can be copied, wherever the demo was started from.
process.chdir(fileURLToPath(new URL("..", import.meta.url)));
const folder = ".sluice/demo";
const parcels = `${folder}/parcels.jsonl`;
const store = `${folder}/demo.db`;

await writeParcels();
for (let run = 1; run <= RUNS_MAX; run++) {
  const exit = await sluice("run", "demo/pipeline.ts", "--input", parcels, "--store", store);
  if (exit.signal === null) {
    tellWhereToLook();
    // 3 means that the batch completed with errors, as this one must.
    process.exitCode = exit.code === 3 ? 0 : 1;
    break;
  }
  say(
    `\nThe process was killed (${exit.signal}) by one of the items. Running the same command again.\n`,
  );
  if (run === RUNS_MAX) process.exitCode = 1;
}

/** The same parcels every time: one in 1,000 is bad, one in 500 busy, one in 2,000 empty. */
async function writeParcels(): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const file = createWriteStream(parcels);
  for (let n = 0; n < ITEMS; n++) {
    const id = `parcel-${String(n).padStart(6, "0")}`;
    const line = JSON.stringify({ id, grams: (n * 7_919) % 50_000, trouble: findTrouble(n) });
    if (!file.write(`${line}\n`)) await once(file, "drain");
  }
  file.end();
  await once(file, "close");
  say(`Made ${ITEMS.toLocaleString("en")} parcels in ${parcels}\n`);
}

function findTrouble(n: number): string {
  if (n === 61_803) return "poison";
  if (n % 1_000 === 17) return "address";
  if (n % 500 === 250) return "busy";
  if (n % 2_000 === 999) return "empty";
  return "none";
}

async function sluice(...args: string[]): Promise<{ code: number | null; signal: string | null }> {
  const child = spawn(process.execPath, ["dist/cli/main.js", ...args], { stdio: "inherit" });
  const [code, signal] = (await once(child, "exit")) as [number | null, string | null];
  return { code, signal };
}

function tellWhereToLook(): void {
  say(`
Every parcel has one outcome: the bad addresses and the poison are dead letters with their cause,
and nothing was lost with the processes that died. Look around:

  npx sluice list --store ${store}
  npx sluice --help
`);
}

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}
