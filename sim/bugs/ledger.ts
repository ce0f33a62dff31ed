/** Bugs of the ledger: what it tells twice, not at all, or of something else; what is signed wrongly. */
import type { Bug } from "./bug.ts";

const LEDGER = "src/adapters/memory/ledger.ts";
const LINES = "src/runtime/chunk/ledger-lines.ts";
const SIGNER = "src/runtime/evidence/ledger-signer.ts";

export const ledgerBugs: readonly Bug[] = [
  {
    name: "block-of-a-repeat-written-again",
    what: "A report that is repeated, as its answer was lost, appends its block once more.",
    file: LEDGER,
    before: "const fresh = blocks.filter(({ number }) => !isKnown(batch, place, number));",
    after: "const fresh = blocks;",
  },
  {
    name: "loss-untold",
    what: "A lease that ran out leaves no link, and neither does what its items are charged with.",
    file: "src/adapters/memory/sweeping.ts",
    before: 'this.#ledger.write(batch, place, { stored, effect, cause: "lost" });',
    after: "void place;",
  },
  {
    name: "link-without-its-lines",
    what: "A link holds the root of a block, and the block itself is not kept.",
    file: LEDGER,
    before: "batch.links.push({ seq, body, hash, step, chunk, fence, block });",
    after: "batch.links.push({ seq, body, hash, step, chunk, fence, block: null });",
  },
  {
    name: "redrive-untold",
    what: "Dead letters go back to work, and the ledger still calls them failed.",
    file: "src/adapters/memory/batch-lifecycle.ts",
    before: "this.#ledger.writeRedriven(batch, place, chunk.outcomes, effect.outcomes, drive);",
    after: "void place;",
  },
  {
    name: "outcomes-told-again",
    what: "Every report of a chunk tells all of its outcomes, and not only those that are new.",
    file: "src/core/ledger/item-ledger.ts",
    before:
      "getOutcome(effect.outcomes, index) === code && getOutcome(stored.outcomes, index) === PENDING",
    after: "getOutcome(effect.outcomes, index) === code",
  },
  {
    name: "newer-lines-forgotten",
    what: "When the store has answered, also what handlers recorded meanwhile is forgotten.",
    file: LINES,
    before: "if (blocks.length > 0) this.#blocks = this.#blocks.slice(blocks.length);",
    after: `this.#blocks = [];
    this.#open = null;`,
  },
  {
    name: "blocks-under-one-number",
    what: "All blocks of a lease have the same number, so that the store takes the second for a repeat.",
    file: LINES,
    before: "const number = ++this.#blockCount;",
    after: "const number = (this.#blockCount = 1);",
  },
  {
    name: "signed-heads-forked",
    what: "Two signing jobs that sign at the same time both have their signed head kept.",
    peers: ["agent-bom#4185", "fak#5876"],
    file: "src/adapters/memory/evidence.ts",
    before: "if ((signedHeads.at(-1)?.size ?? 0) !== afterSize) return false;",
    after: "void afterSize;",
  },
  {
    name: "only-the-first-end-signed",
    what: "What is done to a batch after its end is never signed.",
    file: "src/runtime/evidence/ledger-signing-job.ts",
    before: "if (seq <= (this.#signed.get(batch) ?? 0)) return;",
    after: "if (this.#signed.has(batch)) return;",
  },
  {
    name: "signed-head-names-no-predecessor",
    what: "A signed head that continues another one does not name it.",
    file: SIGNER,
    before: "previous: last?.body ?? null",
    after: "previous: null",
  },
  {
    name: "erased-with-its-lines",
    what: "Erasing details takes the records with them.",
    file: "src/adapters/memory/evidence.ts",
    before: "link.block = { ...link.block, details };",
    after: 'link.block = { ...link.block, lines: "", details };',
  },
];
