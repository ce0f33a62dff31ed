/** The table of metrics matches the page of a worker: names, types and labels. */
import { expect, test } from "vitest";
import { createEngine, definePipeline } from "../../src/index.ts";
import { openMemory } from "../../src/memory.ts";
import { readSamples, readTypes } from "../support/metrics-text.ts";
import { readPage } from "./markdown.ts";

const plain = (cell: string): string => cell.replaceAll("`", "");
const ONLY_IN_BUCKETS = "le";

test("observing.md lists exactly the metrics of the code, with types and labels", async () => {
  const table = readPage("docs/operating/observing.md").tables.find(
    ([header]) => header?.[0] === "metric",
  );
  const shown = (table ?? []).slice(1).map(([name = "", type = "", labels = ""]) => ({
    name: plain(name),
    type,
    labels: plain(labels),
  }));
  const engine = await createEngine({ store: openMemory() });
  try {
    const count = definePipeline({ name: "count", process: () => undefined });
    await engine.metrics();
    await (await engine.submit(count, [1, 2, 3])).wait();
    // Rates need two looks, a second apart.
    let text = await engine.metrics();
    while (!text.includes("sluice_arrivals_per_second{")) text = await engine.metrics();
    const samples = readSamples(text);
    const real = [...readTypes(text)].map(([name, type]) => {
      const own = samples.filter((sample) =>
        type === "histogram" ? sample.name.startsWith(`${name}_`) : sample.name === name,
      );
      const labels = new Set(own.flatMap((sample) => Object.keys(sample.labels)));
      labels.delete(ONLY_IN_BUCKETS);
      return { name, type, labels: [...labels].join(", ") };
    });
    expect(shown).toEqual(real);
  } finally {
    await engine.close();
  }
});
