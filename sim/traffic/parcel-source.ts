/**
 * Where parcels come from: a source that any node can read in pieces, and one that can be read
 * once.
 */
import { sleep } from "../../src/ports/clock.ts";
import type { Slice, Source } from "../../src/ports/source.ts";
import type { Node } from "../world.ts";
import type { Parcel } from "./errand.ts";

/** Locators and cursors are item numbers. */
export function makeRangedSource(node: Node, items: readonly Parcel[]): Source<Parcel> {
  return {
    kind: "numbers",
    async *slice({ chunkSize, after }): AsyncGenerator<Slice> {
      for (let start = Number(after ?? 0); start < items.length; start += chunkSize) {
        await sleep(node.clock, 1);
        const end = Math.min(start + chunkSize, items.length);
        yield { items: end - start, locator: `${start}-${end}`, cursor: String(end) };
      }
    },
    async read(locators) {
      await sleep(node.clock, 1);
      return locators.map((locator) => {
        const [start = 0, end = 0] = locator.split("-").map(Number);
        return { count: end - start, at: (position) => items[start + position] };
      });
    },
  };
}

export async function* iterateParcels(
  node: Node,
  items: readonly Parcel[],
): AsyncGenerator<Parcel> {
  for (const item of items) {
    await sleep(node.clock, 1);
    yield item;
  }
}
