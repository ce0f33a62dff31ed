/** The producer of open batches: it adds a few items at a time, and continues after a crash. */
import { SluiceError } from "../../src/core/base/errors.ts";
import { sleep } from "../../src/ports/clock.ts";
import type { Engine } from "../../src/runtime/engine/engine.ts";
import type { OpenBatch } from "../../src/runtime/engine/open-batch.ts";
import type { Pipeline } from "../../src/runtime/pipeline/pipeline.ts";
import type { Node } from "../world.ts";
import type { Errand, Parcel } from "./errand.ts";

const ADDED_AT_ONCE = 3;
const ADDS_EVERY_MS = 40;

/** Resolves when the batch has all its items and is sealed, or accepts no more. */
export async function fillOpenBatch(
  node: Node,
  engine: Engine,
  pipeline: Pipeline<Parcel, string>,
  { key, lane, neverSealed }: Errand,
  items: readonly Parcel[],
  onOpened: () => void,
): Promise<void> {
  try {
    const batch = await engine.open(pipeline, { key, lane });
    onOpened();
    // Items are added in order, so the number of items shows how far an earlier life came.
    for (;;) {
      const { planned: after } = (await batch.progress()).counts;
      if (after >= items.length) break;
      await sleep(node.clock, ADDS_EVERY_MS);
      await addNext(batch, items.slice(after, after + ADDED_AT_ONCE), after);
    }
    if (!neverSealed) await batch.seal();
  } catch (error) {
    // An operator cancelled it, or its seal came too late.
    if (!(error instanceof SluiceError && error.code === "WRONG_STATE")) throw error;
  }
}

/**
 * The last call of an earlier life may arrive late: then the batch has more items than this life
 * counted.
 */
async function addNext(
  batch: OpenBatch<Parcel>,
  items: readonly Parcel[],
  after: number,
): Promise<void> {
  try {
    await batch.add(items, { after });
  } catch (error) {
    if (!(error instanceof SluiceError && error.code === "NOT_NEXT")) throw error;
  }
}
