/**
 * What a store holds, without what depends on the order of transactions that do not meet: the order
 * of batches that were submitted at once, and the positions of records of different batches.
 */

/** Lists without an order of their own. */
const SORTED = new Set(["listed", "unfinished", "ended", "unsliced"]);
/**
 * Positions are given in the order of commits. After retention the last one that is left depends on
 * whose records came last.
 */
const DROPPED = new Set(["position", "lastPosition"]);
/** Records of all batches; those of each batch are compared in their order. */
const COUNTED = new Set(["records"]);

export function withoutOrder(value: unknown): unknown {
  return strip(value, []);
}

function strip(value: unknown, path: readonly string[]): unknown {
  if (Array.isArray(value)) {
    if (path.length === 1 && COUNTED.has(path[0] ?? "")) return value.length;
    const stripped = value.map((entry) => strip(entry, path));
    return SORTED.has(path[0] ?? "") ? stripped.toSorted(compare) : stripped;
  }
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => !DROPPED.has(name))
      .map(([name, part]) => [name, strip(part, [...path, name])]),
  );
}

function compare(one: unknown, other: unknown): number {
  return JSON.stringify(one) < JSON.stringify(other) ? -1 : 1;
}
