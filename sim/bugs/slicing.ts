/** Bugs of slicing: items that are planned twice, or never. */
import type { Bug } from "./bug.ts";

const PLANNING = "src/adapters/memory/planning.ts";

/** No bug: the plan of a million chunks has many parts, those of these worlds would have one. */
const SMALL_PARTS = {
  file: "src/runtime/conducting/slicer.ts",
  before: "const CHUNKS_PER_PART_MAX = 1_000;",
  after: "const CHUNKS_PER_PART_MAX = 1;",
};

export const slicingBugs: readonly Bug[] = [
  {
    name: "plan-part-appended-twice",
    what: "A part of a plan whose answer was lost is appended again.",
    peers: ["laravel#38804"],
    file: PLANNING,
    before: "const fits = part.step === batch.step && step.chunks.length === part.afterChunks;",
    after: "const fits = part.step === batch.step;",
    rare: true,
  },
  {
    name: "gap-after-a-resumed-slicing",
    what: "A slicer that continues an interrupted slicing drops what was planned, and continues after it.",
    peers: ["temporal#459"],
    file: PLANNING,
    before: "} else if (afresh) {",
    after: "} else {",
    also: [
      {
        file: PLANNING,
        before: "  step.keys.clear();\n  step.sliceCursor = null;\n",
        after: "  step.keys.clear();\n",
      },
      SMALL_PARTS,
    ],
    rare: true,
  },
  {
    name: "finish-ignores-fence",
    what: "A late message that one step is sliced finishes the slicing of the next.",
    peers: ["oban#1488"],
    file: PLANNING,
    before: 'const slices = batch.state === "slicing" && step.sliceFence === fence;',
    after: 'const slices = batch.state === "slicing";',
    rare: true,
  },
  {
    name: "late-slicer-drops-a-running-plan",
    what: "A slicer that comes too late starts again with a batch that already runs.",
    peers: ["temporal#9118"],
    file: PLANNING,
    before: `    } else if (batch.state !== "slicing") {
      return this.#movedOn(batch);
    } else if (afresh) {`,
    after: `    } else if (isEnded(batch.state)) {
      return this.#movedOn(batch);
    } else if (afresh) {`,
  },
  {
    name: "last-item-not-planned",
    what: "A last chunk of one item is not planned.",
    peers: ["laravel#39562"],
    file: "src/runtime/conducting/freeze.ts",
    before: "if (lines.length > 0) yield pack();",
    after: "if (lines.length > 1) yield pack();",
  },
  {
    name: "chunk-one-too-large",
    what: "Chunks of frozen items have one item more than their maximum.",
    file: "src/runtime/conducting/freeze.ts",
    before: "lines.length >= chunkSize ||",
    after: "lines.length > chunkSize ||",
  },
  {
    name: "refused-part-taken-for-planned",
    what: "A part of a plan that the store refused temporarily counts as planned.",
    peers: ["celery#2952", "plines#44"],
    file: "src/runtime/conducting/slicer.ts",
    before: "const result = await store.plan(this.#describePart(chunks, cursor));",
    after: `const after = this.#chunks + chunks.length;
    const result = await store
      .plan(this.#describePart(chunks, cursor))
      .catch(() => ({ kind: "planned" as const, chunks: after }));`,
    also: [
      {
        file: "src/runtime/system/retrying-store.ts",
        before: '  "draw",\n]',
        after: '  "draw",\n  "plan",\n]',
      },
      {
        file: PLANNING,
        before: "if (!slices || step.chunks.length !== chunks) return this.#movedOn(batch);",
        after: "if (!slices) return this.#movedOn(batch);",
      },
    ],
    rare: true,
  },
];
