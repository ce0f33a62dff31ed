/** Bugs of the ledger: entries that are repeated, missing or wrong, and wrong signatures. */
import type { Bug } from "./bug.ts";

const LEDGER = "src/adapters/memory/ledger.ts";
const LINES = "src/runtime/chunk/ledger-lines.ts";
const SIGNER = "src/runtime/evidence/ledger-signer.ts";

export const ledgerBugs: readonly Bug[] = [
  {
    name: "block-of-a-repeat-written-again",
    what: "A report that is repeated because its answer was lost appends its block once more.",
    file: LEDGER,
    before: "const fresh = blocks.filter(({ number }) => !isKnown(batch, place, number));",
    after: "const fresh = blocks;",
  },
  {
    name: "loss-not-recorded",
    what: "A lost lease leaves no link, and neither do the deaths that it charges to items.",
    file: "src/adapters/memory/sweeping.ts",
    before: 'this.#ledger.write(batch, place, { stored, effect, cause: "lost" });',
    after: "void place;",
  },
  {
    name: "link-without-its-lines",
    what: "A link holds the root of a block that is not stored.",
    file: LEDGER,
    before: "batch.links.push({ seq, body, hash, step, chunk, fence, block });",
    after: "batch.links.push({ seq, body, hash, step, chunk, fence, block: null });",
  },
  {
    name: "redrive-not-recorded",
    what: "Dead letters return to work, and the ledger still has them as failed.",
    file: "src/adapters/memory/batch-lifecycle.ts",
    before: "this.#ledger.writeRedriven(batch, place, chunk.outcomes, effect.outcomes, drive);",
    after: "void place;",
  },
  {
    name: "outcomes-recorded-again",
    what: "Every report of a chunk records all of its outcomes, not only the new ones.",
    file: "src/core/ledger/item-ledger.ts",
    before:
      "getOutcome(effect.outcomes, index) === code && getOutcome(stored.outcomes, index) === PENDING",
    after: "getOutcome(effect.outcomes, index) === code",
  },
  {
    name: "newer-lines-forgotten",
    what: "When the store has answered, the worker also forgets what handlers recorded meanwhile.",
    file: LINES,
    before: "if (blocks.length > 0) this.#blocks = this.#blocks.slice(blocks.length);",
    after: `this.#blocks = [];
    this.#open = null;`,
  },
  {
    name: "blocks-under-one-number",
    what: "All blocks of a lease have the same number, so the store takes the second for a repeat.",
    file: LINES,
    before: "const number = ++this.#blockCount;",
    after: "const number = (this.#blockCount = 1);",
  },
  {
    name: "signed-heads-forked",
    what: "Two nodes that sign at the same time both store their signed head.",
    peers: ["agent-bom#4185", "fak#5876"],
    file: "src/adapters/memory/evidence.ts",
    before: "if ((signedHeads.at(-1)?.size ?? 0) !== afterSize) return false;",
    after: "void afterSize;",
  },
  {
    name: "only-the-first-end-signed",
    what: "Acts on a batch after its end are never signed.",
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
    what: "Erasing details also deletes the records.",
    file: "src/adapters/memory/evidence.ts",
    before: "link.block = { ...link.block, details };",
    after: 'link.block = { ...link.block, lines: "", details };',
  },
];
