/** Bugs of content de-duplication. */
import type { Bug } from "./bug.ts";

const SETTLING = "src/adapters/memory/settling.ts";

export const dedupeBugs: readonly Bug[] = [
  {
    name: "claim-ignores-fence",
    what: "A worker that lost its lease claims contents for items that another worker holds.",
    file: SETTLING,
    before: "    const held = this.#findHeld(lease);\n    if (held === null) return null;\n",
    after: `    const { batch, step, chunk } = lease;
    const current = this.#state.batches.get(batch)?.steps[step]?.chunks[chunk]?.fence ?? 0;
    const held = this.#findHeld({ ...lease, fence: current });
    if (held === null) return null;
`,
    rare: true,
  },
  {
    name: "claim-is-final",
    what: "A content counts as done as soon as an item with it has started.",
    file: SETTLING,
    before: "{ ...lease, item, final: false }",
    after: "{ ...lease, item, final: true }",
  },
  {
    name: "claim-never-final",
    what: "A content whose item succeeded may run again.",
    file: SETTLING,
    before: "if (mine && getOutcome(chunk.outcomes, index) === SUCCEEDED) row.final = true;",
    after: "void mine;",
  },
  {
    name: "claim-final-on-any-report",
    what: "A claim becomes final with the first report, even with a failure.",
    file: SETTLING,
    before: "if (mine && getOutcome(chunk.outcomes, index) === SUCCEEDED) row.final = true;",
    after: "if (mine) row.final = true;",
    also: [
      {
        file: "src/runtime/chunk/chunk-run.ts",
        before: "    this.#contents.set(index, content);\n",
        after:
          "    this.#contents.set(index, content);\n    this.#note().addContent({ index, content });\n",
      },
    ],
  },
  {
    name: "held-content-claimed-too",
    what: "Two items with the same content run at the same time.",
    file: SETTLING,
    before: 'this.#isUnderWay(row)) return "held";',
    after: 'this.#isUnderWay(row)) return "claimed";',
  },
];
