/** What `sluice work` serves to Prometheus and to autoscalers, beside its health. */
import { spawnSync } from "node:child_process";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Workspace } from "../../support/command-line.ts";
import { installProgram } from "../../support/installed-program.ts";
import { findValue } from "../../support/metrics-text.ts";

interface Scaling {
  readonly recommendedWorkers: number;
  readonly pipelines: readonly { readonly workers: number }[];
}

const ITEMS = 20;
const WAIT = { timeout: 20_000, interval: 100 };

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

test("a worker serves metrics that promtool accepts, and the recommended number of workers", async () => {
  installProgram("promtool", "prometheus");
  work.writePipeline();
  work.writeItems(ITEMS);
  await work.run("submit", "pipeline.ts", "--input", "items.jsonl");
  const worker = work.start(["work", "pipeline.ts", "--health-port", "0"]);
  await worker.waitFor(/health at http:\S+/);
  const base = /health at (http:\S+)\/health/.exec(worker.stderr)?.[1] ?? "";
  const read = async (page: string): Promise<Response> => {
    const response = await fetch(`${base}${page}`);
    expect(response.status, page).toBe(200);
    return response;
  };
  await vi.waitUntil(async () => {
    const text = await (await read("/metrics")).text();
    return findValue(text, "sluice_items_total", { outcome: "succeeded" }) === ITEMS;
  }, WAIT);
  const metrics = await read("/metrics");
  expect(metrics.headers.get("content-type")).toMatch(/^text\/plain; version=0\.0\.4/);
  const input = await metrics.text();
  const checked = spawnSync("promtool", ["check", "metrics"], { input, encoding: "utf8" });
  expect(checked).toMatchObject({ status: 0, stderr: "" });
  const scaling = await read("/scaling");
  expect(scaling.headers.get("content-type")).toMatch(/^application\/json/);
  const view = (await scaling.json()) as Scaling;
  expect(view.pipelines).toMatchObject([{ workers: 1 }]);
  expect(view.recommendedWorkers).toBeGreaterThanOrEqual(0);
  worker.signal("SIGTERM");
  expect(await worker.ended).toMatchObject({ code: 0 });
});
