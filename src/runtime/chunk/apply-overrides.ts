/** Replaces items' contents by the ones that operators wrote when they edited dead letters. */
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
