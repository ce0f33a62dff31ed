/**
 * Delivers events or messages to a web server: signed, bounded in time, and only to public
 * addresses. Only its receiver gets the secret, the headers and the path of the URL: no error, log
 * or undelivered event contains them.
 */
import { validateHeaderName, validateHeaderValue } from "node:http";
import type { LookupFunction } from "node:net";
import type { RecordType } from "../core/batch/batch.ts";
import { PermanentError, TransientError } from "../core/base/errors.ts";
import { OptionProblems } from "../core/events/option-problems.ts";
import type { RetryPolicy } from "../core/base/retry.ts";
import type { Sink, SinkContext } from "../ports/sink.ts";
import { type Delivered, writeJson } from "./event-json.ts";
import { isClosedHost } from "./public-address.ts";
import {
  DELIVERY_OPTIONS,
  type DeliveryOptions,
  throwIfBad,
  TIMEOUT_MS_MAX,
} from "./sink-options.ts";
import { makeVettedLookup } from "./vetted-lookup.ts";
import { type PostAnswer, post } from "./webhook-request.ts";
import { readSecret, SECRET_BYTES_MIN, signWebhook } from "./webhook-signature.ts";

export interface WebhookSinkOptions extends DeliveryOptions {
  readonly url: string | URL;
  /** Signs each delivery: 24 bytes or more, as text or as `whsec_` and base64. */
  readonly secret: string;
  /** Time limit of a whole delivery; default 10 s. */
  readonly timeoutMs?: number;
  /** Also deliver to addresses of this host and of private networks. Default false. */
  readonly allowPrivate?: boolean;
  /** Additional headers, for example an `authorization`. */
  readonly headers?: Readonly<Record<string, string>>;
}

const NAME = "webhookSink";
const OPTIONS = [...DELIVERY_OPTIONS, "url", "secret", "timeoutMs", "allowPrivate", "headers"];
const TIMEOUT_MS = 10_000;
/** About ten minutes in total: longer than a receiver's restart. */
const RETRY: RetryPolicy = { attempts: 8, baseMs: 5_000, capMs: 300_000 };
/** Headers that only the sink may set. */
const OWN_HEADERS =
  /^(host|connection|content-length|content-type|transfer-encoding|upgrade|te|trailer|expect|webhook-.*)$/i;

/** POSTs each event or message as JSON; delivered when the answer is 2xx. */
export function webhookSink(options: WebhookSinkOptions): Sink {
  const problems = new OptionProblems();
  const given = problems.readOptions(options, OPTIONS);
  const allowPrivate = problems.readFlag("allowPrivate", given["allowPrivate"], false);
  const url = readUrl(given["url"], allowPrivate, problems);
  const key = readSecret(given["secret"]);
  if (key === null) {
    problems.add(
      `secret must have ${SECRET_BYTES_MIN} bytes or more: as text, or as whsec_ and base64`,
    );
  }
  const facts = {
    timeoutMs: problems.readWhole("timeoutMs", given["timeoutMs"], {
      min: 1,
      max: TIMEOUT_MS_MAX,
      fallback: TIMEOUT_MS,
    }),
    headers: readHeaders(given["headers"], problems),
    events: problems.readEvents(given["events"]),
    retry: problems.readRetry(given["attempts"], given["backoff"], RETRY),
    lookup: makeVettedLookup(allowPrivate),
  };
  throwIfBad(problems, NAME);
  return new WebhookSink({ ...facts, url: url as URL, key: key as Buffer });
}

interface WebhookFacts {
  readonly url: URL;
  readonly key: Buffer;
  readonly timeoutMs: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly events: readonly RecordType[] | null;
  readonly retry: RetryPolicy;
  readonly lookup: LookupFunction;
}

class WebhookSink implements Sink {
  readonly kind = "webhook";
  /** Without its path: for many webhooks the path is a secret. */
  readonly target: string;
  readonly events: readonly RecordType[] | null;
  readonly retry: RetryPolicy;
  /** Private, so that printing the sink does not print its secret. */
  readonly #facts: WebhookFacts;

  constructor(facts: WebhookFacts) {
    this.target = facts.url.origin;
    this.events = facts.events;
    this.retry = facts.retry;
    this.#facts = facts;
  }

  async deliver(event: Delivered, context: SinkContext): Promise<void> {
    const { url, key, timeoutMs, headers, lookup } = this.#facts;
    const { id } = event;
    const body = writeJson(event);
    const timestamp = String(Math.floor(context.clock.wallMs() / 1_000));
    const answer = await post(
      {
        url,
        body,
        timeoutMs,
        lookup,
        headers: {
          "user-agent": "sluice",
          ...headers,
          "content-type": "application/json",
          "content-length": String(Buffer.byteLength(body)),
          "webhook-id": id,
          "webhook-timestamp": timestamp,
          "webhook-signature": signWebhook(key, { id, timestamp, body }),
        },
      },
      context,
    );
    throwUnlessDelivered(answer, this.target, context.clock.wallMs());
  }
}

function throwUnlessDelivered(
  { status, retryAfter }: PostAnswer,
  target: string,
  nowMs: number,
): void {
  if (status >= 200 && status < 300) return;
  const code = `HTTP_${status}`;
  const message = `${target} answered ${status}`;
  if (status >= 300 && status < 400) {
    throw new PermanentError(`${message}: redirects are not followed, give the final URL`, {
      code,
    });
  }
  if (status === 408 || status === 425 || status === 429 || status >= 500) {
    const retryAfterMs = readRetryAfter(retryAfter, nowMs);
    throw new TransientError(message, {
      code,
      ...(retryAfterMs === null ? {} : { retryAfterMs }),
    });
  }
  throw new PermanentError(message, { code });
}

/** Seconds, or a date; null for anything else. */
function readRetryAfter(value: string | null, nowMs: number): number | null {
  if (value === null) return null;
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1_000;
  const atMs = Date.parse(value);
  return Number.isNaN(atMs) ? null : Math.max(0, atMs - nowMs);
}

function readUrl(value: unknown, allowPrivate: boolean, problems: OptionProblems): URL | null {
  const url = URL.parse(String(value));
  if (url === null || !/^https?:$/.test(url.protocol)) {
    problems.add("url must be an http or https URL");
    return null;
  }
  if (url.username !== "" || url.password !== "") {
    problems.add("url must not hold a user or a password: send an authorization in headers");
  }
  if (!allowPrivate && isClosedHost(url.hostname)) {
    problems.add(
      `url names ${url.hostname}, which is not a public address: allowPrivate: true allows it`,
    );
  }
  return url;
}

function readHeaders(value: unknown, problems: OptionProblems): Readonly<Record<string, string>> {
  if (value === undefined) return {};
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    problems.add("headers must be an object of texts");
    return {};
  }
  const headers: Record<string, string> = {};
  for (const [name, text] of Object.entries(value)) {
    if (OWN_HEADERS.test(name)) problems.add(`the header ${name} is set by the sink: remove it`);
    else if (!isHeader(name, text)) problems.add(`the header ${JSON.stringify(name)} is not valid`);
    else headers[name.toLowerCase()] = text;
  }
  return headers;
}

function isHeader(name: string, text: unknown): text is string {
  try {
    validateHeaderName(name);
    validateHeaderValue(name, text as string);
    return typeof text === "string";
  } catch {
    return false;
  }
}
