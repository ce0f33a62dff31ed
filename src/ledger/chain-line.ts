/** A line that is a record of the chain, and the facts of the record that a block hangs on. */
import { ITEMS_RECORDED } from "./block.ts";
import { HASH_DIGITS } from "./merkle-tree.ts";
import {
  hasMembers,
  isCount,
  isHex,
  isInstant,
  isJsonObject,
  type JsonObject,
  parseCanonical,
} from "./strict-json.ts";

const MEMBERS = ["at", "batch", "data", "prev", "seq", "type", "v"];
const VERSION = 1;

export interface ChainLine {
  readonly seq: number;
  readonly prev: string;
  readonly batch: string;
  readonly at: string;
  readonly type: string;
  readonly data: JsonObject;
}

export type ReadChainLine =
  | { readonly kind: "record"; readonly record: ChainLine }
  | { readonly kind: "refused"; readonly why: string };

export function readChainLine(text: string): ReadChainLine {
  const refused = (why: string): ReadChainLine => ({ kind: "refused", why });
  const parsed = parseCanonical(text);
  if (parsed.kind === "refused") return parsed;
  const { value } = parsed;
  if (!hasMembers(value, MEMBERS)) return refused("it has not the members that a record has");
  if (value["v"] !== VERSION) return refused(`its version ${String(value["v"])} is not known`);
  const isShaped =
    isCount(value["seq"]) &&
    isHex(value["prev"], HASH_DIGITS) &&
    typeof value["batch"] === "string" &&
    isInstant(value["at"]) &&
    typeof value["type"] === "string" &&
    isJsonObject(value["data"]);
  if (!isShaped) return refused("one of its members is not as it should be");
  return { kind: "record", record: value as unknown as ChainLine };
}

/** What a chain record says about the block that hangs on it. */
export interface BlockHeader {
  readonly step: number;
  readonly chunk: number;
  readonly fence: number;
  /** Which report under its lease, from 1; 0 when the engine itself gave up on items. */
  readonly block: number;
  readonly count: number;
  readonly root: string;
  /** Null when the engine itself gave up on items. */
  readonly worker: number | null;
}

const HEADER_MEMBERS = ["block", "chunk", "count", "fence", "root", "step", "worker"];

/** Undefined for a record without a block; null for one whose header is malformed. */
export function readBlockHeader({ type, data }: ChainLine): BlockHeader | null | undefined {
  if (type !== ITEMS_RECORDED) return undefined;
  const { worker, count } = data;
  const isShaped =
    hasMembers(data, HEADER_MEMBERS) &&
    ["block", "chunk", "fence", "step"].every((member) => isCount(data[member])) &&
    isCount(count) &&
    count > 0 &&
    isHex(data["root"], HASH_DIGITS) &&
    (worker === null || isCount(worker));
  return isShaped ? (data as unknown as BlockHeader) : null;
}
