/**
 * Downloads one document of a site's portal to a file: bounded in bytes, in every kind of waiting and
 * in redirects, and only from where the site's documents may come from. A server may lie about
 * everything that it says; nothing here trusts it but for the document's bytes.
 */
import { getCACertificates } from "node:tls";
import { Agent, type Dispatcher } from "undici";
import type { AddressGuard } from "./address-guard.ts";
import { decideUrl, describeUrl, type SiteOrigins } from "./allowed-url.ts";
import {
  makeBadAnswerError,
  makeNetworkError,
  makeStatusError,
  makeTooLargeError,
  readHeader,
} from "./download-errors.ts";
import { raceAbort, withDeadline } from "./fetch-deadline.ts";
import { checkLimits, type FetchLimits } from "./fetch-limits.ts";
import { makeRefusalError } from "./refusal.ts";
import { type WriteBound, writeBounded } from "./write-bounded.ts";

export type { FetchLimits } from "./fetch-limits.ts";

export interface FetchedDocument {
  readonly bytes: number;
  /** The last one, after redirects. With its query, so it may hold a token: not for messages. */
  readonly url: string;
  /** As declared, which proves nothing. */
  readonly mediaType: string | null;
}

export interface FetcherOptions {
  readonly limits: FetchLimits;
  readonly guard: AddressGuard;
  /** For each origin; further downloads wait. Not below what the pipeline runs at once for a site. */
  readonly connectionsMax?: number;
  /** In PEM: authorities to trust beside those of Node, for portals with certificates of their own. */
  readonly authorities?: readonly string[];
}

export interface Fetcher {
  /**
   * Writes the document to `target`, a file that is removed again if anything fails. Throws a
   * `PermanentError` or a `TransientError`, errors of the disk as they are, or the signal's reason.
   */
  fetch(
    url: string,
    site: SiteOrigins,
    target: string,
    options: { readonly signal: AbortSignal },
  ): Promise<FetchedDocument>;
  /** Ends all running downloads: a portal that hangs must not delay a stop. */
  close(): Promise<void>;
}

const CONNECTIONS_MAX = 8;
/** Whatever a server proposes. */
const KEEP_ALIVE_MS_MAX = 30_000;
/** Of an answer that is not the document, so much is read to keep the connection; else it is closed. */
const DISCARDED_BYTES_MAX = 65_536;
const DISCARD_MS_MAX = 1_000;
const MEDIA_TYPE_CHARS_MAX = 200;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const HEADERS = {
  accept: "*/*",
  // What is counted, hashed and kept is what was sent; a bomb has nothing to unpack it.
  "accept-encoding": "identity",
  "user-agent": "sluice-site-packets",
} as const;

export function makeFetcher(options: FetcherOptions): Fetcher {
  checkLimits(options.limits);
  return new DocumentFetcher(options);
}

/** What stays the same over the hops of one download. */
interface Download {
  readonly site: SiteOrigins;
  readonly target: string;
  readonly signal: AbortSignal;
}

type Answer = Dispatcher.ResponseData;

class DocumentFetcher implements Fetcher {
  readonly #limits: FetchLimits;
  readonly #guard: AddressGuard;
  readonly #agent: Agent;

  constructor({ limits, guard, connectionsMax, authorities }: FetcherOptions) {
    this.#limits = limits;
    this.#guard = guard;
    this.#agent = new Agent({
      connections: connectionsMax ?? CONNECTIONS_MAX,
      keepAliveMaxTimeout: KEEP_ALIVE_MS_MAX,
      headersTimeout: limits.headersMs,
      bodyTimeout: limits.idleMs,
      connect: {
        lookup: guard.lookup,
        timeout: limits.connectMs,
        ...(authorities === undefined ? {} : { ca: listAuthorities(authorities) }),
      },
    });
  }

  fetch(
    url: string,
    site: SiteOrigins,
    target: string,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<FetchedDocument> {
    return withDeadline(signal, this.#limits.totalMs, (deadline) =>
      this.#follow(url, { site, target, signal: deadline }),
    );
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #follow(link: string, download: Download): Promise<FetchedDocument> {
    const { redirectsMax } = this.#limits;
    let url = this.#decideHop(link, download.site, null);
    for (let redirects = 0; redirects <= redirectsMax; redirects++) {
      const answer = await this.#request(url, download.signal);
      if (!REDIRECTS.has(answer.statusCode)) return this.#receive(answer, url, download);
      const next = readHeader(answer.headers, "location");
      await discardBody(answer, download.signal);
      if (next === null) throw makeBadAnswerError(url, "it redirects without a location");
      url = this.#decideHop(next, download.site, url);
    }
    throw makeRefusalError({
      code: "FORBIDDEN_URL",
      why: `${describeUrl(url)} comes after more than ${redirectsMax} redirects`,
      remedy: "if that is no loop, raise redirectsMax",
    });
  }

  /** Every hop is judged as the first was. */
  #decideHop(link: string, site: SiteOrigins, from: URL | null): URL {
    const url = decideUrl(link, site, this.#guard, from ?? new URL(site.origin));
    if (url instanceof URL) return url;
    const place =
      from === null ? `a link of ${new URL(site.origin).origin}` : `${describeUrl(from)} redirects`;
    throw makeRefusalError(url, place);
  }

  async #request(url: URL, signal: AbortSignal): Promise<Answer> {
    const { origin, pathname, search } = url;
    const path = `${pathname}${search}`;
    const asked = this.#agent.request({ origin, path, method: "GET", headers: HEADERS, signal });
    try {
      return await raceAbort(asked, signal);
    } catch (error) {
      throw makeNetworkError(error, url);
    }
  }

  async #receive(answer: Answer, url: URL, { target, signal }: Download): Promise<FetchedDocument> {
    const { headers, body } = answer;
    const refusal = this.#refuseAnswer(answer, url);
    if (refusal !== null) {
      await discardBody(answer, signal);
      throw refusal;
    }
    const { bytesMax } = this.#limits;
    const makeTooLarge = (): Error => makeTooLargeError(describeUrl(url), bytesMax, null);
    const bytes = await writeDocument(body, url, target, { bytesMax, makeTooLarge });
    const mediaType = readHeader(headers, "content-type")?.slice(0, MEDIA_TYPE_CHARS_MAX) ?? null;
    return { bytes, url: url.href, mediaType };
  }

  /** What can be told from the head of an answer, before a byte of it is written. */
  #refuseAnswer({ statusCode, headers }: Answer, url: URL): Error | null {
    // Others of 2xx are a part of it, nothing, or a promise.
    if (statusCode !== 200 && statusCode !== 203) return makeStatusError(statusCode, headers, url);
    if (isEncoded(headers["content-encoding"])) {
      return makeBadAnswerError(url, "it is encoded, though it was asked for as it is");
    }
    const { bytesMax } = this.#limits;
    const declaredBytes = Number(readHeader(headers, "content-length") ?? 0);
    if (declaredBytes > bytesMax) {
      return makeTooLargeError(describeUrl(url), bytesMax, declaredBytes);
    }
    return null;
  }
}

/** Only what comes out of the body is the network's fault; the rest is the disk's. */
async function writeDocument(
  body: Answer["body"],
  url: URL,
  target: string,
  bound: WriteBound,
): Promise<number> {
  try {
    return await writeBounded(readBody(body, url), target, bound);
  } finally {
    // If it was not read to its end, this closes the connection.
    body.on("error", ignoreError).destroy();
  }
}

async function* readBody(body: Answer["body"], url: URL): AsyncGenerator<Uint8Array, void> {
  try {
    yield* body as AsyncIterable<Uint8Array>;
  } catch (error) {
    throw makeNetworkError(error, url);
  }
}

/** That it cannot be read does not matter: what counts is known from the head. */
async function discardBody({ body }: Answer, signal: AbortSignal): Promise<void> {
  body.on("error", ignoreError);
  const discard = withDeadline(signal, DISCARD_MS_MAX, (deadline) =>
    body.dump({ limit: DISCARDED_BYTES_MAX, signal: deadline }),
  );
  await Promise.allSettled([discard]);
  body.destroy();
}

/** Of a stream without a reader. */
function ignoreError(): void {}

/** The header may come several times, and each may name several. */
function isEncoded(header: string | string[] | undefined): boolean {
  const names = [header ?? []].flat().join(",").split(",");
  return names.some((name) => !["", "identity"].includes(name.trim().toLowerCase()));
}

/** Naming some alone would take the place of those of Node. */
function listAuthorities(authorities: readonly string[]): string[] {
  return [...getCACertificates("default"), ...authorities];
}
