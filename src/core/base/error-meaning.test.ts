import { createServer } from "node:net";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { classifyPortError, describeError, type ErrorClass, SluiceError } from "./errors.ts";

const named = (name: string, rest: object = {}): Error =>
  Object.assign(new Error("x"), { name, ...rest });
const coded = (code: string, rest: object = {}): Error =>
  Object.assign(new Error("x"), { code, ...rest });
/** The shape that redis-errors gives them; ioredis and BullMQ use redis-errors. */
const replied = (message: string): Error =>
  Object.assign(new Error(message), { name: "ReplyError", command: { name: "get", args: [] } });
/** The shape that node-redis gives them: only the class tells them apart. */
class SimpleError extends Error {}
/** The shape that AWS clients give them. */
const aws = (name: string, httpStatusCode: number): Error =>
  named(name, { $fault: "client", $metadata: { httpStatusCode, attempts: 1 } });

/** The class in a handler, and in one of the engine's own ports. */
type Row = readonly [what: string, error: unknown, handler: ErrorClass, port: ErrorClass];

const PASSING = ["transient", "transient"] as const;
const REFUSED = ["permanent", "fatal"] as const;
const BAD = ["permanent", "unexpected"] as const;
const UNKNOWN = ["unexpected", "unexpected"] as const;

const ROWS: readonly Row[] = [
  ["a reset connection", coded("ECONNRESET"), ...PASSING],
  ["a name that cannot be resolved now", coded("EAI_AGAIN"), ...PASSING],
  ["no file handles left", coded("EMFILE"), ...PASSING],
  ["a full disk", coded("ENOSPC"), ...PASSING],
  ["a file that may not be read", coded("EACCES"), ...REFUSED],
  ["a file that is not there", coded("ENOENT"), ...UNKNOWN],
  ["an expired certificate", coded("CERT_HAS_EXPIRED"), ...REFUSED],
  ["a bad address", coded("ERR_INVALID_URL"), ...BAD],
  ["headers that do not come", coded("UND_ERR_HEADERS_TIMEOUT"), ...PASSING],
  ["a status that undici throws", coded("UND_ERR_RESPONSE", { statusCode: 503 }), ...PASSING],
  [
    "a status that axios throws",
    coded("ERR_BAD_REQUEST", { response: { status: 404 } }),
    ...REFUSED,
  ],
  ["401", { status: 401 }, ...REFUSED],
  ["403", { status: 403 }, ...REFUSED],
  ["422", { status: 422 }, ...BAD],
  ["429", { status: 429 }, ...PASSING],
  ["502", { status: 502 }, ...PASSING],
  ["PostgreSQL: serialization failure", coded("40001"), ...PASSING],
  ["PostgreSQL: it shuts down", coded("57P01"), ...PASSING],
  ["PostgreSQL: it is a standby", coded("25006"), ...PASSING],
  ["PostgreSQL: connection failure", coded("08006"), ...PASSING],
  ["PostgreSQL: protocol violation", coded("08P01"), ...BAD],
  ["PostgreSQL: wrong password", coded("28P01"), ...REFUSED],
  ["PostgreSQL: no right", coded("42501"), ...REFUSED],
  ["PostgreSQL: no such database", coded("3D000"), ...REFUSED],
  ["PostgreSQL: no such table", coded("42P01"), ...REFUSED],
  ["PostgreSQL: not null", coded("23502"), ...BAD],
  ["PostgreSQL: syntax", coded("42601"), ...BAD],
  ["PostgreSQL: an error that a function raised", coded("P0001"), ...UNKNOWN],
  ["a state of MySQL", named("Error", { sqlState: "40001" }), ...PASSING],
  ["Redis: it loads its data", replied("LOADING Redis is loading the dataset"), ...PASSING],
  ["Redis: it is a replica", replied("READONLY You can't write against a read only"), ...PASSING],
  ["Redis: no password", replied("NOAUTH Authentication required."), ...REFUSED],
  ["Redis: wrong password", new SimpleError("WRONGPASS invalid username-password"), ...REFUSED],
  ["Redis: no right", replied("NOPERM this user has no permissions"), ...REFUSED],
  ["Redis: another kind of key", replied("WRONGTYPE Operation against a key"), ...BAD],
  ["Redis: anything else", replied("ERR unknown command"), ...UNKNOWN],
  ["ioredis: tried too often", named("MaxRetriesPerRequestError"), ...PASSING],
  ["SQS: no such queue", aws("QueueDoesNotExist", 400), ...REFUSED],
  [
    "SQS: the same, under its old name",
    coded("AWS.SimpleQueueService.NonExistentQueue"),
    ...REFUSED,
  ],
  ["SQS: the same, with a namespace", aws("com.amazonaws.sqs#QueueDoesNotExist", 400), ...REFUSED],
  ["SQS: deleted a moment ago", aws("QueueDeletedRecently", 400), ...PASSING],
  ["SQS: too many in flight", aws("OverLimit", 403), ...PASSING],
  ["AWS: throttled", aws("ThrottlingException", 400), ...PASSING],
  ["AWS: slow down", aws("SlowDown", 503), ...PASSING],
  ["AWS: a service that is away", aws("ServiceUnavailable", 503), ...PASSING],
  ["AWS: access denied", aws("AccessDeniedException", 400), ...REFUSED],
  ["AWS: signature", aws("SignatureDoesNotMatch", 403), ...REFUSED],
  ["AWS: key", aws("InvalidAccessKeyId", 403), ...REFUSED],
  ["AWS: token", aws("ExpiredTokenException", 400), ...REFUSED],
  ["AWS: a token that is no token", aws("InvalidClientTokenId", 403), ...REFUSED],
  ["AWS: no credentials at all", named("CredentialsProviderError"), ...REFUSED],
  ["KMS: disabled", aws("KmsDisabled", 400), ...REFUSED],
  ["KMS: under its old name", aws("KMS.InvalidStateException", 400), ...REFUSED],
  ["KMS: of SNS", aws("KMSAccessDeniedException", 400), ...REFUSED],
  ["KMS: throttled", aws("KmsThrottled", 400), ...PASSING],
  ["KMS: a fault of its own", aws("KMSInternalException", 500), ...PASSING],
  ["AWS: a request that took too long to arrive", aws("RequestExpired", 403), ...PASSING],
  ["AWS: an identity that is no identity", aws("InvalidIdentityToken", 400), ...REFUSED],
  ["AWS: a status alone", aws("SomethingNew", 500), ...PASSING],
  ["AWS: it may be retried", named("Odd", { $retryable: { throttling: false } }), ...PASSING],
  ["an error without any sign", new Error("ECONNRESET 503"), ...UNKNOWN],
  ["a bug", new TypeError("undefined is not a function"), ...UNKNOWN],
];

describe("what an error means", () => {
  test.each(ROWS)("%s", (_what, error, handler, port) => {
    expect(describeError(error).errorClass).toBe(handler);
    expect(classifyPortError(error)).toBe(port);
    // The same error as the cause of other errors.
    const wrapped = new Error("failed", { cause: new Error("again", { cause: error }) });
    expect(describeError(wrapped).errorClass).toBe(handler);
    expect(classifyPortError(wrapped)).toBe(port);
    expect(classifyPortError(new AggregateError([error], "all failed"))).toBe(port);
  });

  test("the outermost error with a known meaning decides", () => {
    const error = Object.assign(new Error("no page", { cause: coded("ECONNRESET") }), {
      status: 404,
    });
    expect(describeError(error).errorClass).toBe("permanent");
  });

  test("its code is the word that gave its meaning", () => {
    expect(describeError(aws("QueueDoesNotExist", 400)).code).toBe("QueueDoesNotExist");
    expect(describeError(replied("NOAUTH Authentication required.")).code).toBe("NOAUTH");
    expect(describeError(new DOMException("late", "TimeoutError")).code).toBe("TimeoutError");
  });

  test("a throttling error is marked as throttled", () => {
    expect(describeError(aws("ThrottlingException", 400)).isThrottled).toBe(true);
    expect(describeError(aws("ServiceUnavailable", 503)).isThrottled).toBe(false);
  });

  test("a SluiceError from a port is fatal, unless it is retryable", () => {
    expect(classifyPortError(new SluiceError("STORE_CORRUPT", "damaged"))).toBe("fatal");
    const busy = new SluiceError("STORE_BUSY", "locked", { retryable: true });
    expect([classifyPortError(busy), describeError(busy).errorClass]).toEqual([...PASSING]);
  });
});

describe("errors of real calls", () => {
  const catchFrom = async (call: () => unknown): Promise<unknown> => {
    try {
      await call();
    } catch (error) {
      return error;
    }
    throw new Error("nothing was thrown");
  };

  test("fetch of a port without a listener, and of a server that hangs up", async () => {
    const server = createServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const address = `http://127.0.0.1:${port}/`;
    const hungUp = await catchFrom(() => fetch(address));
    server.close();
    await once(server, "close");
    const refused = await catchFrom(() => fetch(address));
    expect(describeError(refused)).toMatchObject({ errorClass: "transient", code: "ECONNREFUSED" });
    expect(describeError(hungUp)).toMatchObject({
      errorClass: "transient",
      code: "UND_ERR_SOCKET",
    });
  });

  test("a signal that timed out", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const signal = AbortSignal.timeout(20);
    const late = await catchFrom(() => fetch(`http://127.0.0.1:${port}/`, { signal }));
    server.close();
    expect(describeError(late).errorClass).toBe("transient");
  });

  test("an invalid address", async () => {
    expect(describeError(await catchFrom(() => fetch("http://"))).errorClass).toBe("permanent");
  });

  test("reading a folder as a file has no known meaning", async () => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-meaning-"));
    const error = await catchFrom(() => writeFileSync(folder, "x"));
    rmSync(folder, { recursive: true });
    expect(describeError(error)).toMatchObject({ errorClass: "unexpected", code: "EISDIR" });
  });
});
