/** Portals in a separate process: they serve, they report, and they end with their parent. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { planCorpus } from "./corpus.ts";
import { prepareCorpus } from "./prepare.ts";
import { startPortalProcess } from "./start-portal-process.ts";

const CORPUS = { seed: 7, sites: 2, documents: 4 };
const [document] = planCorpus(CORPUS);

/** Read by all tests and changed by none. */
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "portals-"));
  await prepareCorpus(folder, CORPUS);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const options = () => ({ folder, seed: 1, profile: "calm" as const });

describe.concurrent("a portal process", () => {
  test("serves documents and reports its requests, in times of this process's clock", async ({
    onTestFinished,
  }) => {
    const portals = await startPortalProcess(options());
    onTestFinished(() => portals.close());
    const { site, path } = document!;
    const askedAtMs = performance.now();
    const response = await fetch(`${portals.origins.get(site)}${path}`);
    expect(response.status).toBe(200);
    await response.arrayBuffer();
    const [one, two] = await Promise.all([portals.readLog(), portals.readLog()]);
    expect(one).toEqual(two);
    expect(one).toMatchObject([{ site, path, attempt: 1, status: 200, fault: "none" }]);
    // The origins of two clocks are compared by the wall clock, which may be adjusted a little.
    expect(Math.abs((one[0]?.atMs ?? 0) - askedAtMs)).toBeLessThan(5_000);
  });

  test("reports why it does not start", async () => {
    const wrong = { ...options(), folder: join(folder, "nowhere") };
    await expect(startPortalProcess(wrong)).rejects.toThrow(/did not start: ENOENT/);
  });

  test("ends when it is closed, and later calls fail", async () => {
    const portals = await startPortalProcess(options());
    await portals.close();
    expect(() => process.kill(portals.pid, 0)).toThrow(/ESRCH/);
    await expect(portals.readLog()).rejects.toThrow();
  });

  test("ends with its parent, even if the parent is killed", async () => {
    const parent = startParent();
    const [said] = (await once(parent.stdout, "data")) as [Buffer];
    const origin = said.toString().trim();
    expect((await fetch(`${origin}/nothing`)).status).toBe(404);
    parent.kill("SIGKILL");
    // Both write to the same pipe: it ends when the last of them is gone.
    parent.stdout.resume();
    await once(parent.stdout, "close");
    await expect(fetch(`${origin}/nothing`)).rejects.toThrow();
  });
});

/** Prints the address of the first portal of its child. */
function startParent(): ChildProcessByStdio<null, Readable, null> {
  const module = new URL("./start-portal-process.ts", import.meta.url).href;
  const script = `
    const { startPortalProcess } = await import(${JSON.stringify(module)});
    const { origins } = await startPortalProcess(${JSON.stringify(options())});
    console.log([...origins.values()][0]);
  `;
  return spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
}
