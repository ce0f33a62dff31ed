/**
 * Checks an item record in the simple way. The verifier's scanner (item-scanner.ts) accepts exactly
 * the same lines without making an object of each; this one can explain what is wrong.
 */
import { HASH_DIGITS } from "./merkle-tree.ts";
import { hasMembers, isCount, isHex, isInstant, parseCanonical } from "./strict-json.ts";

export interface ItemLine {
  readonly at: string;
  readonly attempt: number;
  readonly batch: string;
  readonly content?: string;
  readonly details?: string;
  readonly drive?: number;
  readonly item: number;
  readonly key?: string;
  readonly lane: string;
  readonly state: string;
  readonly step: number;
  readonly worker: number;
}

export type ReadItemLine =
  | { readonly kind: "item"; readonly line: ItemLine }
  | { readonly kind: "refused"; readonly why: string };

const MEMBERS = [
  "at",
  "attempt",
  "batch",
  "content?",
  "details?",
  "drive?",
  "item",
  "key?",
  "lane",
  "state",
  "step",
  "v",
  "worker",
];

const CHECKS: { readonly [member: string]: (value: unknown) => boolean } = {
  at: isInstant,
  attempt: isCount,
  batch: isText,
  content: (value) => isHex(value, HASH_DIGITS),
  details: (value) => isHex(value, HASH_DIGITS),
  drive: (value) => isCount(value) && value > 1,
  item: isCount,
  key: isText,
  lane: isText,
  state: (value) => isText(value) && value !== "",
  step: isCount,
  v: (value) => value === 1,
  worker: isCount,
};

export function readItemLine(text: string): ReadItemLine {
  const refused = (why: string): ReadItemLine => ({ kind: "refused", why });
  const parsed = parseCanonical(text);
  if (parsed.kind === "refused") return parsed;
  const { value } = parsed;
  if (!hasMembers(value, MEMBERS)) {
    return refused("it does not have the members of a record of an item");
  }
  for (const [member, one] of Object.entries(value)) {
    if (CHECKS[member]?.(one) !== true) return refused(`its "${member}" is malformed`);
  }
  return { kind: "item", line: value as unknown as ItemLine };
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}
