import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  describeError,
  ERROR_CLASSES,
  FatalError,
  PermanentError,
  SluiceError,
  TransientError,
} from "./errors.ts";

const classOf = (thrown: unknown): string => describeError(thrown).errorClass;
const withCode = (code: unknown): Error => Object.assign(new Error("x"), { code });
const withStatus = (status: unknown): Error => Object.assign(new Error("x"), { status });

describe("the class of an error", () => {
  test("is the one that the thrown error declares", () => {
    expect(classOf(new PermanentError("x"))).toBe("permanent");
    expect(classOf(new TransientError("x"))).toBe("transient");
    expect(classOf(new FatalError("x"))).toBe("fatal");
  });

  test("is transient for broken connections and timeouts, found also as the cause", () => {
    for (const code of ["ECONNRESET", "ETIMEDOUT", "EAI_AGAIN", "UND_ERR_SOCKET", "EPIPE"]) {
      expect(classOf(withCode(code))).toBe("transient");
      expect(classOf(new TypeError("fetch failed", { cause: withCode(code) }))).toBe("transient");
    }
    expect(classOf(new DOMException("late", "TimeoutError"))).toBe("transient");
  });

  test("follows the status of a response", () => {
    for (const status of [408, 425, 429, 500, 502, 503, 504, 599]) {
      expect(classOf(withStatus(status))).toBe("transient");
    }
    for (const status of [400, 401, 403, 404, 409, 410, 422]) {
      expect(classOf(withStatus(status))).toBe("permanent");
    }
    for (const status of [200, 302, 99, 600, 404.5, "404", Number.NaN, null]) {
      expect(classOf(withStatus(status))).toBe("unexpected");
    }
    expect(classOf(Object.assign(new Error("x"), { statusCode: 503 }))).toBe("transient");
  });

  test("is never taken from the text of a message", () => {
    expect(classOf(new Error("ECONNRESET 503 timeout"))).toBe("unexpected");
  });

  test("a declared class wins over a status and a code", () => {
    const declared = Object.assign(new PermanentError("x"), { status: 503 });
    expect(classOf(declared)).toBe("permanent");
    expect(classOf(new TransientError("x", { cause: withStatus(404) }))).toBe("transient");
  });
});

describe("the code of an error", () => {
  test("is its own, then its cause's, then the status, then UNEXPECTED", () => {
    expect(describeError(new PermanentError("x", { code: "SCHEMA" })).code).toBe("SCHEMA");
    expect(describeError(new PermanentError("x")).code).toBe("PERMANENT");
    expect(describeError(new Error("x", { cause: withCode("ENOENT") })).code).toBe("ENOENT");
    expect(describeError(withStatus(503)).code).toBe("HTTP_503");
    expect(describeError(new Error("x")).code).toBe("UNEXPECTED");
    for (const odd of ["", 7, null, {}])
      expect(describeError(withCode(odd)).code).toBe("UNEXPECTED");
  });

  test("is cut to a length that lists can show", () => {
    expect(describeError(withCode("C".repeat(5_000))).code).toHaveLength(100);
  });
});

describe("Retry-After", () => {
  const retryOf = (retryAfterMs: unknown): number | null =>
    describeError(Object.assign(new Error("x"), { retryAfterMs })).retryAfterMs;

  test("is taken from the error or its cause", () => {
    expect(describeError(new TransientError("x", { retryAfterMs: 250 })).retryAfterMs).toBe(250);
    const cause = new TransientError("x", { retryAfterMs: 70 });
    expect(describeError(new Error("y", { cause })).retryAfterMs).toBe(70);
    expect(describeError(new TransientError("x")).retryAfterMs).toBeNull();
  });

  test("is ignored when it is not a duration", () => {
    for (const odd of [-1, Number.NaN, Number.POSITIVE_INFINITY, "5", null, {}]) {
      expect(retryOf(odd)).toBeNull();
    }
  });

  test("is a whole number that every store can hold, however long the server asks to wait", () => {
    for (const odd of [0.25, 1_500.5, 1e18, Number.MAX_VALUE]) {
      expect(Number.isSafeInteger(retryOf(odd))).toBe(true);
    }
    expect(retryOf(1_500.5)).toBe(1_501);
  });
});

describe("the message of an error", () => {
  test("is the error's message, else its name, else a description of the thrown value", () => {
    const messageOf = (thrown: unknown): string => describeError(thrown).message;
    expect(messageOf(new Error("broken"))).toBe("broken");
    expect(messageOf(new TypeError(""))).toBe("TypeError");
    expect(messageOf("just text")).toBe("just text");
    expect(messageOf({})).toBe("an object without a message was thrown");
    expect(messageOf(null)).toBe("object was thrown: null");
    expect(messageOf(undefined)).toBe("undefined was thrown: undefined");
    expect(messageOf(42n)).toBe("bigint was thrown: 42");
    expect(messageOf(Symbol("s"))).toBe("symbol was thrown: Symbol(s)");
  });

  test("is cut to a maximum length", () => {
    const { message } = describeError(new Error("m".repeat(1_000_000)));
    expect(message.length).toBeLessThanOrEqual(2_000);
    expect(message.endsWith("…")).toBe(true);
  });

  test("is well-formed text wherever it was cut: records refuse anything else", () => {
    for (const text of ["\ud800", "a\udc00b", "🚚".repeat(2_000), `x${"🚚".repeat(2_000)}`]) {
      expect(describeError(new Error(text)).message.isWellFormed()).toBe(true);
      expect(describeError(text).message.isWellFormed()).toBe(true);
      expect(describeError(withCode(text)).code.isWellFormed()).toBe(true);
    }
  });
});

describe("whatever is thrown", () => {
  const hostile = (): never => {
    throw new Error("a getter that throws");
  };
  const cyclic = new Error("cyclic");
  cyclic.cause = cyclic;
  const revoked = Proxy.revocable({}, {});
  revoked.revoke();
  const revokedFunction = Proxy.revocable(() => undefined, {});
  revokedFunction.revoke();
  const unprintable = Object.assign(() => undefined, { toString: hostile });
  const shapes: Readonly<Record<string, unknown>> = {
    "every getter throws": Object.defineProperties(
      {},
      Object.fromEntries(
        ["message", "name", "code", "status", "statusCode", "cause", "errorClass"].map((name) => [
          name,
          { get: hostile },
        ]),
      ),
    ),
    "a proxy whose traps all throw": new Proxy(
      {},
      { get: hostile, has: hostile, getPrototypeOf: hostile, ownKeys: hostile },
    ),
    "a revoked proxy": revoked.proxy,
    "a revoked proxy of a function": revokedFunction.proxy,
    "its own cause": cyclic,
    "a chain of a thousand causes": Array.from({ length: 1_000 }).reduce(
      (cause) => new Error("deep", { cause }),
      withCode("ECONNRESET"),
    ),
    "no prototype": Object.create(null),
    "a function that cannot be printed": unprintable,
    "a class": SluiceError,
    "an array": [1, 2],
    "an object with an object for a message": { message: { toString: hostile } },
    "an object with a symbol for a code": { code: Symbol("code") },
  };

  for (const [shape, thrown] of Object.entries(shapes)) {
    test(`${shape} is described and nothing is thrown`, () => {
      const facts = describeError(thrown);
      expect(ERROR_CLASSES).toContain(facts.errorClass);
      expect(typeof facts.message).toBe("string");
      expect(typeof facts.code).toBe("string");
    });
  }

  test("any value is described with text that can be stored", () => {
    fc.assert(
      fc.property(fc.anything({ withNullPrototype: true, withBigInt: true }), (thrown) => {
        const { message, code } = describeError(thrown);
        expect(message.isWellFormed() && code.isWellFormed()).toBe(true);
      }),
    );
  });
});

describe("an error of the engine", () => {
  test("carries a code, a hint, whether it may be tried again, and its cause", () => {
    const cause = new Error("below");
    const error = new SluiceError("STORE_BUSY", "locked", { hint: "wait", retryable: true, cause });
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject({ name: "SluiceError", code: "STORE_BUSY", hint: "wait" });
    expect([error.retryable, error.cause]).toEqual([true, cause]);
    const bare = new SluiceError("X", "y");
    expect([bare.retryable, bare.hint, "cause" in bare]).toEqual([false, undefined, false]);
  });
});

describe("a server that sends Retry-After", () => {
  const after = (headers: unknown): number | null =>
    describeError({ message: "m", status: 429, headers }).retryAfterMs;

  test("in seconds, in every form of headers that clients use", () => {
    expect(after({ "retry-after": "2" })).toBe(2_000);
    expect(after({ "Retry-After": 3 })).toBe(3_000);
    expect(after(new Map([["retry-after", "4"]]))).toBe(4_000);
    const response = { headers: { "retry-after": "5" } };
    expect(describeError({ message: "m", response }).retryAfterMs).toBe(5_000);
    expect(describeError({ message: "m", cause: { response } }).retryAfterMs).toBe(5_000);
  });

  test("as a date, relative to the server's own date", () => {
    const date = "Wed, 04 Mar 2026 12:00:00 GMT";
    expect(after({ "retry-after": "Wed, 04 Mar 2026 12:00:07 GMT", date })).toBe(7_000);
    expect(after({ "retry-after": "Wed, 04 Mar 2026 11:00:00 GMT", date })).toBe(0);
    expect(after({ "retry-after": "Wed, 04 Mar 2026 12:00:07 GMT" })).toBeNull();
  });

  test("nonsense is ignored", () => {
    for (const value of ["soon", "-1", "1e9", "", "99999999999", Number.NaN, {}, null]) {
      expect(after({ "retry-after": value })).toBeNull();
    }
    const hostile = {
      get: () => {
        throw new Error("no");
      },
    };
    expect(after(hostile)).toBeNull();
    expect(after("retry-after: 2")).toBeNull();
  });
});
