/**
 * Keys that can change the prototypes of a program that copies an item carelessly: `__proto__`, and
 * `constructor` with a `prototype` in it. Clean data costs two quick searches over a whole slice;
 * only an item with suspicious text is walked.
 */

/** In both `__proto__` and `prototype`. */
const KEY_PART = "proto";
/** How a letter or underscore of them could be hidden in an escape: \u005f, \u0060 to \u007f. */
const ESCAPED_LETTER = /\\u00(?:5f|[67][0-9a-f])/i;
const ESCAPE_START = "\\u00";

/**
 * True when the bytes need a closer check: a part of such a key, or an escape that may hide one.
 */
export function mayHoldForbiddenKey(bytes: Buffer): boolean {
  if (bytes.includes(KEY_PART, 0, "latin1")) return true;
  return bytes.includes(ESCAPE_START, 0, "latin1") && ESCAPED_LETTER.test(bytes.toString("latin1"));
}

/** The same for the text of one item. */
export function looksForbidden(text: string): boolean {
  return text.includes(KEY_PART) || ESCAPED_LETTER.test(text);
}

/** The first forbidden key in a parsed item, or null. Does not recurse, however deep the item. */
export function findForbiddenKey(item: unknown): string | null {
  const rest: unknown[] = [item];
  while (rest.length > 0) {
    const value = rest.pop();
    if (typeof value !== "object" || value === null) continue;
    if (Array.isArray(value)) {
      for (const element of value) rest.push(element);
      continue;
    }
    for (const [key, member] of Object.entries(value)) {
      if (key === "__proto__") return key;
      if (key === "constructor" && holdsPrototype(member)) return "constructor.prototype";
      rest.push(member);
    }
  }
  return null;
}

function holdsPrototype(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.hasOwn(value, "prototype");
}
