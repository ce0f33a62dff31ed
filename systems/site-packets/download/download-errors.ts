/**
 * The errors of a failed download: the class decides whether it is retried. No message contains a
 * query, because queries contain tokens.
 */
import { describeError, PermanentError, TransientError } from "sluice";
import { RefusedAddressError } from "./address-guard.ts";
import { describeUrl } from "./allowed-url.ts";
import { makeRefusalError } from "./refusal.ts";

const FAILED = { code: "DOWNLOAD_FAILED" } as const;

/** `declaredBytes`: null when more arrived than was declared, or nothing was declared. */
export function makeTooLargeError(
  place: string,
  bytesMax: number,
  declaredBytes: number | null,
): PermanentError {
  const found = declaredBytes === null ? "it has more than" : `it has ${declaredBytes} bytes, over`;
  return new PermanentError(`${place}: ${found} the limit of ${bytesMax} bytes; raise bytesMax`, {
    code: "TOO_LARGE",
  });
}

/** The error of a request or a body. The disk's errors never come here. */
export function makeNetworkError(cause: unknown, url: URL): PermanentError | TransientError {
  const place = describeUrl(url);
  if (cause instanceof RefusedAddressError) return makeRefusalError(cause.refusal, place);
  const { errorClass, code, message } = describeError(cause);
  const told = `${place}: ${code === "UNEXPECTED" ? message : `${code}: ${message}`}`;
  // A certificate that does not prove the identity, for example, will not do so in a minute.
  return errorClass === "permanent"
    ? new PermanentError(told, { ...FAILED, cause })
    : new TransientError(told, { ...FAILED, cause });
}

type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** Too early or too often, overloaded, broken, or not ready yet (202). */
const isPassing = (status: number): boolean =>
  status === 202 || status === 408 || status === 425 || status === 429 || status >= 500;
/** With these, `Retry-After` asks for a delay: Sluice closes the site's key for that long. */
const isClosing = (status: number): boolean => status === 429 || status === 503;

/** For an answer that is neither the document nor a redirect. */
export function makeStatusError(
  status: number,
  headers: AnswerHeaders,
  url: URL,
): PermanentError | TransientError {
  const told = `${describeUrl(url)}: the server answered ${status}`;
  if (!isPassing(status)) return Object.assign(new PermanentError(told, FAILED), { status });
  const error = Object.assign(new TransientError(told, FAILED), { status });
  if (!isClosing(status)) return error;
  // A date is relative to the server's own clock. No other header: cookies must not be in an error.
  const asked = {
    "retry-after": readHeader(headers, "retry-after"),
    date: readHeader(headers, "date"),
  };
  return Object.assign(error, { headers: asked });
}

/** The first, if a server sends several. */
export function readHeader(headers: AnswerHeaders, name: string): string | null {
  const value = headers[name];
  return (Array.isArray(value) ? value[0] : value) ?? null;
}

/** For a complete answer that cannot be the document. */
export function makeBadAnswerError(url: URL, what: string): PermanentError {
  return new PermanentError(`${describeUrl(url)}: ${what}`, FAILED);
}
