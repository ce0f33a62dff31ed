/**
 * What a failed download is told as: whose fault it is decides whether it is tried again. No message
 * holds a query, as those hold tokens.
 */
import { describeError, PermanentError, TransientError } from "sluice";
import { RefusedAddressError } from "./address-guard.ts";
import { describeUrl } from "./allowed-url.ts";
import { makeRefusalError } from "./refusal.ts";

const FAILED = { code: "DOWNLOAD_FAILED" } as const;

/** `declaredBytes`: null when more came than was declared, or nothing was. */
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

/** What a request or a body failed with. The disk's errors never come here. */
export function makeNetworkError(cause: unknown, url: URL): PermanentError | TransientError {
  const place = describeUrl(url);
  if (cause instanceof RefusedAddressError) return makeRefusalError(cause.refusal, place);
  const { errorClass, code, message } = describeError(cause);
  const told = `${place}: ${code === "UNEXPECTED" ? message : `${code}: ${message}`}`;
  // A certificate that proves nothing, for example, will not prove more in a minute.
  return errorClass === "permanent"
    ? new PermanentError(told, { ...FAILED, cause })
    : new TransientError(told, { ...FAILED, cause });
}

type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** Too early or too often, overloaded, broken, or still being made (202). */
const isPassing = (status: number): boolean =>
  status === 202 || status === 408 || status === 425 || status === 429 || status >= 500;
/** With these, `Retry-After` asks to be left alone: Sluice closes the site's key for that long. */
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
  // A date counts from the server's own. No other header: cookies have no place in an error.
  const asked = {
    "retry-after": readHeader(headers, "retry-after"),
    date: readHeader(headers, "date"),
  };
  return Object.assign(error, { headers: asked });
}

/** The first, where a server sends one several times. */
export function readHeader(headers: AnswerHeaders, name: string): string | null {
  const value = headers[name];
  return (Array.isArray(value) ? value[0] : value) ?? null;
}

/** For a whole answer that cannot be taken for the document. */
export function makeBadAnswerError(url: URL, what: string): PermanentError {
  return new PermanentError(`${describeUrl(url)}: ${what}`, FAILED);
}
