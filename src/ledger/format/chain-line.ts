/** A line with a record of the chain. */
import { HASH_DIGITS } from "./merkle-tree.ts";
import {
  hasMembers,
  isCount,
  isHex,
  isInstant,
  isJsonObject,
  type JsonObject,
  parseCanonical,
  show,
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
  if (!hasMembers(value, MEMBERS)) return refused("it does not have the members of a record");
  if (value["v"] !== VERSION) return refused(`its version ${show(value["v"])} is not known`);
  const isShaped =
    isCount(value["seq"]) &&
    isHex(value["prev"], HASH_DIGITS) &&
    typeof value["batch"] === "string" &&
    isInstant(value["at"]) &&
    typeof value["type"] === "string" &&
    isJsonObject(value["data"]);
  if (!isShaped) return refused("one of its members is malformed");
  return { kind: "record", record: value as unknown as ChainLine };
}
