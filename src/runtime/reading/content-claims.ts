/**
 * Content de-duplication: before a chunk runs, the contents of its items are claimed. An item whose
 * content already succeeded is skipped; one whose content is running elsewhere is retried later.
 */
import { hash } from "node:crypto";
import { describeError } from "../../core/base/errors.ts";
import type { ItemContent } from "../../core/items/report.ts";
import type { Store } from "../../ports/store/store.ts";
import type { ChunkRun } from "../chunk/chunk-run.ts";
import { hashContent } from "./content-hash.ts";
import { checkItem } from "../pipeline/item-check.ts";
import { readKeyOf } from "../pipeline/item-key.ts";
import { recordRepeat, recordSeen } from "../chunk/record-state.ts";
import type { Dedupe, Step } from "../pipeline/step.ts";

/** When an item whose content is running elsewhere is checked again. */
const HELD_RETRY_MS = 250;

/** The chunk may be given back at any moment: answers that arrive after that are ignored. */
export async function claimContents(run: ChunkRun, step: Step, store: Store): Promise<void> {
  if (run.lost || run.finished || step.dedupe === null) return;
  const keys = new Map<number, string | null>();
  const contents = await readContents(run, step, step.dedupe, keys);
  if (contents.length === 0 || run.finished) return;
  const claims = await store.claimContents(run.lease, contents);
  if (claims === null) {
    run.lose();
    run.skipRest();
    return;
  }
  if (run.finished) return;
  for (const [at, { index, content }] of contents.entries()) {
    const claim = claims[at];
    if (claim === "done") {
      recordRepeat(run, index, keys.get(index) ?? null, step.dedupe.state);
      run.skip(index);
    } else if (claim === "held") run.defer(index, null, HELD_RETRY_MS);
    else run.holdContent(index, content);
  }
}

/** Fills `keys` if the caller needs them. */
async function readContents(
  run: ChunkRun,
  step: Step,
  dedupe: Dedupe,
  keys: Map<number, string | null>,
): Promise<ItemContent[]> {
  const contents: ItemContent[] = [];
  for (const index of run.listRunnable()) {
    let item: unknown;
    try {
      const raw = run.items.at(index);
      item = step.itemSchema === null ? raw : await checkItem(step.itemSchema, raw);
    } catch {
      // A bad item has no content: it fails when it runs, with the reason.
      continue;
    }
    try {
      // Awaited only if needed: a chunk has many small ones.
      const hashed = hashContent(dedupe.content(item));
      const content = typeof hashed === "string" ? hashed : await hashed;
      contents.push({ index, content: nameContent(dedupe, item, content) });
      if (dedupe.state !== null || run.isUnseen(index)) keys.set(index, readKeyOf(step, item));
    } catch (error) {
      if (run.finished) return contents;
      // It could run, but it might be a repeat.
      recordSeen(run, index, step, item);
      run.fail(
        index,
        readKeyOf(step, item),
        run.countAttempts(index) + 1,
        describeError(error),
        null,
      );
    }
  }
  return contents;
}

/** Scope, identity and content in one text of fixed length. */
function nameContent(dedupe: Dedupe, item: unknown, content: string): string {
  return hash("sha256", JSON.stringify([dedupe.scope, dedupe.identity(item), content]));
}
