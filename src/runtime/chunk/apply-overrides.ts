/** What somebody put in place of items' own contents. */
import type { SliceItems } from "../../ports/source.ts";
import type { LeasedChunk } from "../../ports/store/worker-store.ts";

export function applyOverrides(items: SliceItems, { overrides }: LeasedChunk): SliceItems {
  const values = new Map(overrides.map(({ index, value }) => [index, value]));
  return {
    count: items.count,
    at: (position) => {
      const value = values.get(position);
      return value === undefined ? items.at(position) : (JSON.parse(value) as unknown);
    },
    release: () => items.release?.(),
  };
}
