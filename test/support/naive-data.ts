/** The allowed data of records, as the second verifier reads it; not whether it is true. */
import { type Fields, isHexOf, isWhole, must, only } from "./naive-json.ts";

export const COUNT_NAMES = [
  "cancelled",
  "failed",
  "pending",
  "planned",
  "skipped",
  "succeeded",
] as const;
const OUTCOMES = ["failed", "retried", "skipped", "succeeded"];

/** Of a chunk's items. */
export function checkChange(data: Fields): void {
  only(data, "chunk fence step", `block cause drive redriven worker ${OUTCOMES.join(" ")}`);
  for (const name of ["chunk", "fence", "step"]) must(isWhole(data[name]), name);
  const { worker, cause, drive, block, redriven } = data;
  must(worker === undefined || isWhole(worker), "no worker");
  must(cause === undefined || cause === "lost" || cause === "stalled", "no cause");
  for (const name of ["failed", "retried"]) checkTries(data[name]);
  for (const name of ["succeeded", "skipped", "redriven"]) rangesOf(data[name]);
  if (block !== undefined) {
    must(worker !== undefined && cause === undefined, "a block without a worker");
    must(typeof block === "object" && block !== null && !Array.isArray(block), "no block");
    only(block as Fields, "count number root");
    const { number, count, root } = block as Fields;
    must(isWhole(number) && isWhole(count) && number > 0 && count > 0, "an invalid block");
    must(count <= 10_000 && isHexOf(root, 64), "an invalid block");
  }
  const named = ["succeeded", "skipped", "redriven"].flatMap((name) => rangesOf(data[name]));
  for (const name of ["failed", "retried"]) {
    for (const one of (data[name] ?? []) as Fields[]) named.push(Number(one["item"]));
  }
  const sorted = named.toSorted((a, b) => a - b);
  must((sorted.at(-1) ?? 0) - (sorted[0] ?? 0) < 1_000_000, "more than a chunk");
  const says = [...OUTCOMES, "cause", "block"].some((name) => data[name] !== undefined);
  if (redriven === undefined) must(drive === undefined && says, "a link without content");
  else must(isWhole(drive) && !says, "an invalid redrive");
}

function checkTries(tries: unknown): void {
  if (tries === undefined) return;
  must(Array.isArray(tries) && tries.length > 0, "no list");
  for (const one of tries as Fields[]) {
    must(typeof one === "object" && one !== null && !Array.isArray(one), "no try");
    only(one, "attempts class code item key", "deaths drive");
    must(isWhole(one["item"]) && isWhole(one["attempts"]), "an invalid attempt");
    const { deaths = 1, drive = 2 } = one;
    must(isWhole(deaths) && deaths > 0 && isWhole(drive) && drive > 1, "an invalid attempt");
    for (const name of ["class", "code", "key"]) {
      must(one[name] === null || typeof one[name] === "string", name);
    }
  }
}

/** `0-3,5`: rising, and ranges do not touch. */
export function rangesOf(text: unknown): number[] {
  if (text === undefined) return [];
  must(typeof text === "string", "no ranges");
  const items: number[] = [];
  for (const part of text.split(",")) {
    const [from = "", to = from, more] = part.split("-");
    const [first, last] = [Number(from), Number(to)];
    must(String(first) === from && String(last) === to && more === undefined, "no range");
    must(isWhole(first) && isWhole(last) && last - first < 1_000_000, "no range");
    must(part === from || last > first, "no range");
    must(items.length === 0 || first > items.at(-1)! + 1, "ranges out of order");
    for (let item = first; item <= last; item++) items.push(item);
    must(items.length <= 1_000_000, "more than a chunk has");
  }
  return items;
}

export function countsOf(value: unknown): Record<string, number> {
  only(value as Fields, COUNT_NAMES.join(" "));
  const counts = value as Record<string, number>;
  for (const name of COUNT_NAMES) must(isWhole(counts[name]), name);
  const { planned, succeeded, skipped, failed, cancelled, pending } = counts;
  must(planned === succeeded! + skipped! + failed! + cancelled!, "not conserved");
  must(pending === 0, "something is pending");
  return counts;
}
