/**
 * Finds where a line stops being JSON, and what was expected there. V8 reports both only sometimes
 * and words it differently in each version; a person who fixes line 81,224 by hand needs the
 * column. Runs only on lines that `JSON.parse` has refused, and does not recurse.
 */
import { unreachable } from "../../core/base/invariant.ts";

export interface JsonFault {
  /** In characters from 0; the text's length when it ends too early. */
  readonly offset: number;
  readonly problem: string;
}

const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const LITERAL = /true|false|null/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const SPACE = 0x20;

/** The first fault, or null when the text is JSON. */
export function findJsonFault(text: string): JsonFault | null {
  return new FaultFinder(text).find();
}

type Expected = "value" | "first element" | "first key" | "key" | "next";

class FaultFinder {
  readonly #text: string;
  /** The brackets that are open. */
  readonly #open: ("{" | "[")[] = [];
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  find(): JsonFault | null {
    let expected: Expected = "value";
    for (;;) {
      this.#skipWhite();
      if (expected === "next" && this.#open.length === 0) {
        return this.#at === this.#text.length ? null : this.#fault("more text after the value");
      }
      const taken = this.#take(expected);
      if (typeof taken === "object") return taken;
      expected = taken;
    }
  }

  #take(expected: Expected): Expected | JsonFault {
    switch (expected) {
      case "value":
      case "first element":
        return this.#takeValue(expected);
      case "key":
      case "first key":
        return this.#takeKey(expected);
      case "next":
        return this.#takeNext();
      default:
        return unreachable(expected);
    }
  }

  #takeValue(expected: "value" | "first element"): Expected | JsonFault {
    const character = this.#text[this.#at];
    if (character === "]" && expected === "first element") return this.#close();
    if (character === "{" || character === "[") {
      this.#at++;
      this.#open.push(character);
      return character === "{" ? "first key" : "first element";
    }
    if (character === '"') return this.#takeString() ?? "next";
    if (this.#skip(NUMBER) || this.#skip(LITERAL)) return "next";
    return this.#fault("a value is expected here");
  }

  #takeKey(expected: "key" | "first key"): Expected | JsonFault {
    const character = this.#text[this.#at];
    if (character === "}" && expected === "first key") return this.#close();
    if (character !== '"') return this.#fault("a key in double quotes is expected here");
    const fault = this.#takeString();
    if (fault !== null) return fault;
    this.#skipWhite();
    if (this.#text[this.#at] !== ":") return this.#fault('":" is expected here');
    this.#at++;
    return "value";
  }

  #takeNext(): Expected | JsonFault {
    const inObject = this.#open.at(-1) === "{";
    const character = this.#text[this.#at];
    if (character === ",") {
      this.#at++;
      return inObject ? "key" : "value";
    }
    if (character === (inObject ? "}" : "]")) return this.#close();
    return this.#fault(`"," or "${inObject ? "}" : "]"}" is expected here`);
  }

  #close(): Expected {
    this.#at++;
    this.#open.pop();
    return "next";
  }

  /**
   * A loop, because a regular expression over a string of megabytes would overflow its engine's
   * stack.
   */
  #takeString(): JsonFault | null {
    this.#at++;
    for (;;) {
      // NaN at the end of the text, which is neither a quote nor >= a space.
      const code = this.#text.charCodeAt(this.#at);
      if (code === BACKSLASH) {
        if (!this.#skip(ESCAPE)) return this.#fault("an escape that JSON does not have");
        continue;
      }
      if (!(code >= SPACE)) return this.#fault("a control character that must be escaped");
      this.#at++;
      if (code === QUOTE) return null;
    }
  }

  #skipWhite(): void {
    while (" \t\r\n".includes(this.#text[this.#at] ?? "end")) this.#at++;
  }

  /** Skips what the pattern matches here; false when it does not match. */
  #skip(pattern: RegExp): boolean {
    pattern.lastIndex = this.#at;
    const from = this.#at;
    if (pattern.test(this.#text)) this.#at = pattern.lastIndex;
    return this.#at > from;
  }

  #fault(problem: string): JsonFault {
    const ended = this.#at >= this.#text.length;
    return { offset: this.#at, problem: ended ? "the line ends too early" : problem };
  }
}
