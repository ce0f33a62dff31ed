/**
 * Downloads one document of a site's portal to a file, with limits for bytes, every kind of waiting
 * and redirects, and only from the site's allowed hosts. A server may lie in everything that it
 * declares; nothing here relies on it.
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
  /**
   * The last URL, after redirects. Its query may contain a token, so it must not be in messages.
   */
  readonly url: string;
  /** As declared, which proves nothing. */
  readonly mediaType: string | null;
}

export interface FetcherOptions {
  readonly limits: FetchLimits;
  readonly guard: AddressGuard;
  /** For each origin; further downloads wait. Not below the pipeline's concurrency for a site. */
  readonly connectionsMax?: number;
  /** In PEM: additional trusted authorities, for portals with their own certificates. */
  readonly authorities?: readonly string[];
}

export interface Fetcher {
  /**
   * Writes the document to `target`, a file that is deleted again if anything fails. Throws a
   * `PermanentError` or a `TransientError`, errors of the disk unchanged, or the signal's reason.
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
/**
 * This much of an answer that is not the document is read to keep the connection; otherwise it is
 * closed.
 */
const DISCARDED_BYTES_MAX = 65_536;
const DISCARD_MS_MAX = 1_000;
const MEDIA_TYPE_CHARS_MAX = 200;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const HEADERS = {
  accept: "*/*",
  // The bytes are counted, hashed and stored as they were sent; nothing here unpacks a bomb.
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
      remedy: "if this is not a loop, raise redirectsMax",
    });
  }

  /** Every hop is checked like the first. */
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

  /** Checks of the head of an answer, before a byte of it is written. */
  #refuseAnswer({ statusCode, headers }: Answer, url: URL): Error | null {
    // Other 2xx answers are partial, empty, or not ready.
    if (statusCode !== 200 && statusCode !== 203) return makeStatusError(statusCode, headers, url);
    if (isEncoded(headers["content-encoding"])) {
      return makeBadAnswerError(
        url,
        "it has a content-encoding, although the request asked for none",
      );
    }
    const { bytesMax } = this.#limits;
    const declaredBytes = Number(readHeader(headers, "content-length") ?? 0);
    if (declaredBytes > bytesMax) {
      return makeTooLargeError(describeUrl(url), bytesMax, declaredBytes);
    }
    return null;
  }
}

/** Only errors of the body come from the network; the others come from the disk. */
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

/** An error here does not matter: the head has already decided. */
async function discardBody({ body }: Answer, signal: AbortSignal): Promise<void> {
  body.on("error", ignoreError);
  const discard = withDeadline(signal, DISCARD_MS_MAX, (deadline) =>
    body.dump({ limit: DISCARDED_BYTES_MAX, signal: deadline }),
  );
  await Promise.allSettled([discard]);
  body.destroy();
}

/** An error of a stream without a reader. */
function ignoreError(): void {}

/** The header may come several times, and each may have several values. */
function isEncoded(header: string | string[] | undefined): boolean {
  const names = [header ?? []].flat().join(",").split(",");
  return names.some((name) => !["", "identity"].includes(name.trim().toLowerCase()));
}

/** A list of authorities replaces those of Node, so these are included. */
function listAuthorities(authorities: readonly string[]): string[] {
  return [...getCACertificates("default"), ...authorities];
}
