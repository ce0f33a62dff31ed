/** One POST with bounded time, answer and addresses. Redirects are never followed. */
import http from "node:http";
import https from "node:https";
import type { LookupFunction } from "node:net";
import { describeError, PermanentError, TransientError } from "../core/base/errors.ts";
import type { SinkContext } from "../ports/sink.ts";

export interface PostRequest {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** For the whole request: name, connection, headers and body. */
  readonly timeoutMs: number;
  readonly lookup: LookupFunction;
}

export interface PostAnswer {
  readonly status: number;
  readonly retryAfter: string | null;
}

/** How much of an answer is read; its content is ignored. */
const ANSWER_BYTES_MAX = 65_536;

/** The answer's head, once its body has arrived or was cut off; throws without an answer. */
export function post(
  { url, headers, body, timeoutMs, lookup }: PostRequest,
  { clock, signal }: SinkContext,
): Promise<PostAnswer> {
  return new Promise((resolve, reject) => {
    let answer: PostAnswer | null = null;
    const send = url.protocol === "https:" ? https.request : http.request;
    // A separate connection, so that none outlives the check of its address.
    const request = send(url, { method: "POST", headers, lookup, agent: false });
    const finish = (failure: Error): void => {
      cancel();
      signal.removeEventListener("abort", abandon);
      if (answer === null) reject(failure);
      else resolve(answer);
      request.destroy();
    };
    const cancel = clock.after(timeoutMs, () => finish(describeTimeout(url, timeoutMs)));
    const abandon = (): void => finish(describeFailure(url, "STOPPED"));
    signal.addEventListener("abort", abandon);
    request.on("error", (error) => finish(wrapError(url, error)));
    request.on("close", () => finish(describeFailure(url, "ECONNRESET")));
    request.on("response", (response) => {
      const { statusCode = 0, headers: given } = response;
      answer = { status: statusCode, retryAfter: given["retry-after"] ?? null };
      let bytes = 0;
      response.on("data", (part: Buffer) => {
        bytes += part.length;
        if (bytes > ANSWER_BYTES_MAX) finish(describeFailure(url, "TOO_LONG"));
      });
      response.on("error", (error) => finish(wrapError(url, error)));
      response.on("end", () => finish(describeFailure(url, "ECONNRESET")));
    });
    request.end(body);
    if (signal.aborted) abandon();
  });
}

/** Only its code: a network error's message may quote what was sent. */
function wrapError(url: URL, error: unknown): Error {
  if (error instanceof PermanentError) return error;
  return describeFailure(url, describeError(error).code);
}

function describeFailure({ origin }: URL, code: string): TransientError {
  return new TransientError(`${origin} could not be reached (${code})`, { code });
}

function describeTimeout({ origin }: URL, timeoutMs: number): TransientError {
  return new TransientError(`${origin} did not answer within ${timeoutMs} ms`, {
    code: "TIME_LIMIT",
  });
}
