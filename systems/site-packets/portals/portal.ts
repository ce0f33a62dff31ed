/**
 * The portals of a corpus: one HTTP server for each site, with its own limit, that serves the files
 * of the corpus with the faults of `faults.ts`. In this process; see `start-portal-process.ts` for
 * portals that do not share the event loop of their client.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { locateFile, readCorpusOptions } from "./corpus-folder.ts";
import { decideFault, type Fault, type FaultPlace, type FaultProfile } from "./faults.ts";
import { listSites, planCorpus } from "./plan-corpus.ts";
import type { PlannedDocument } from "./planned-document.ts";
import { type PortalRate, RequestBucket } from "./request-bucket.ts";
import { type PortalRequest, RequestLog } from "./request-log.ts";
import { sendDocument } from "./send-document.ts";

export interface PortalOptions {
  /** Of a prepared corpus. */
  readonly folder: string;
  /** Of the faults. */
  readonly seed: number;
  readonly profile: FaultProfile;
  /** The limit of each site: 5 a second and 10 at once unless told otherwise. */
  readonly perSecond?: number;
  readonly burst?: number;
  /** Limits of single sites. */
  readonly siteRates?: Readonly<Record<string, PortalRate>>;
}

/** What a test may replace: randomness, time and the plan of the folder. */
export interface PortalParts {
  readonly plan?: readonly PlannedDocument[];
  readonly decideFault?: (place: FaultPlace, attempt: number) => Fault;
  readonly nowMs?: () => number;
}

export interface Portals {
  /** `http://127.0.0.1:<port>` of each site. */
  readonly origins: ReadonlyMap<string, string>;
  /** The latest REQUESTS_LOGGED_MAX of each site, in order of arrival. */
  requests(): readonly PortalRequest[];
  /** Cuts all connections. */
  close(): Promise<void>;
}

const PER_SECOND = 5;
const BURST = 10;
/** Of one site: far more than a polite client opens. */
const CONNECTIONS_MAX = 512;
/** Longer than a client keeps an idle connection: otherwise a request may meet a closing one. */
const KEEP_ALIVE_MS = 120_000;
const RETRY_AFTER_SECONDS = 1;
const MOVED_PREFIX = "/moved";

export async function startPortals(
  options: PortalOptions,
  parts: PortalParts = {},
): Promise<Portals> {
  const sites = await groupBySite(options.folder, parts.plan);
  const portals = [...sites].map(
    ([site, documents]) => new Portal(site, documents, options, parts),
  );
  const started = await Promise.allSettled(portals.map((portal) => portal.listen()));
  const close = async () => {
    await Promise.all(portals.map((portal) => portal.close()));
  };
  const failed = started.find((result) => result.status === "rejected");
  if (failed !== undefined) {
    await close();
    throw failed.reason;
  }
  return {
    origins: new Map(portals.map((portal) => [portal.site, portal.origin])),
    requests: () =>
      portals.flatMap((portal) => portal.log.list()).sort((one, two) => one.atMs - two.atMs),
    close,
  };
}

/**
 * The documents of each site. Of a corpus on disk every site has a portal, even one without
 * documents.
 */
async function groupBySite(
  folder: string,
  given: readonly PlannedDocument[] | undefined,
): Promise<ReadonlyMap<string, readonly PlannedDocument[]>> {
  if (given !== undefined) return Map.groupBy(given, ({ site }) => site);
  const corpus = await readCorpusOptions(folder);
  const offered = Map.groupBy(planCorpus(corpus), ({ site }) => site);
  return new Map(listSites(corpus.sites).map((site) => [site, offered.get(site) ?? []]));
}

/** The answer to a request, before anything is sent. */
interface Answer {
  readonly attempt: number;
  readonly status: number | null;
  readonly fault: Fault;
  readonly send: (response: ServerResponse) => void;
}

const NO_FAULT: Fault = { kind: "none" };

class Portal {
  readonly site: string;
  readonly log = new RequestLog();
  readonly #folder: string;
  readonly #documents: ReadonlyMap<string, PlannedDocument>;
  readonly #unsized: ReadonlySet<string>;
  readonly #attempts = new Map<string, number>();
  readonly #bucket: RequestBucket;
  readonly #decideFault: (place: FaultPlace, attempt: number) => Fault;
  readonly #nowMs: () => number;
  readonly #server: Server;

  constructor(
    site: string,
    documents: readonly PlannedDocument[],
    { folder, seed, profile, perSecond, burst, siteRates }: PortalOptions,
    parts: PortalParts,
  ) {
    this.site = site;
    this.#folder = folder;
    this.#documents = new Map(documents.map((document) => [document.path, document]));
    this.#unsized = new Set(pickUnsized(documents));
    this.#nowMs = parts.nowMs ?? (() => performance.now());
    this.#decideFault =
      parts.decideFault ?? ((place, attempt) => decideFault(seed, place, attempt, profile));
    const rate = siteRates?.[site] ?? { perSecond: perSecond ?? PER_SECOND, burst: burst ?? BURST };
    this.#bucket = new RequestBucket(rate, this.#nowMs());
    this.#server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) =>
      this.#handle(request, response),
    );
    this.#server.maxConnections = CONNECTIONS_MAX;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async listen(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#server.once("error", reject).listen(0, "127.0.0.1", resolve);
    await promise;
  }

  async close(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    // An error means that it was not listening, which is fine.
    this.#server.close(() => resolve());
    this.#server.closeAllConnections();
    await promise;
  }

  #handle(request: IncomingMessage, response: ServerResponse): void {
    const path = new URL(request.url ?? "/", "http://portal").pathname;
    const atMs = this.#nowMs();
    const { attempt, status, fault, send } = this.#answer(request.method ?? "", path, atMs);
    this.log.add({ site: this.site, path, attempt, atMs, status, fault: fault.kind });
    send(response);
  }

  #answer(method: string, path: string, atMs: number): Answer {
    if (!this.#bucket.takeToken(atMs)) {
      return answerStatus(429, { "retry-after": String(RETRY_AFTER_SECONDS) });
    }
    if (method !== "GET") return answerStatus(405, { allow: "GET" });
    const moved = path.startsWith(`${MOVED_PREFIX}/`) ? path.slice(MOVED_PREFIX.length) : null;
    // Only to our own paths: a portal that redirects anywhere would be dangerous.
    if (moved !== null && this.#documents.has(moved)) {
      return answerStatus(302, { location: moved });
    }
    const document = this.#documents.get(path);
    return document === undefined ? answerStatus(404) : this.#answerDocument(document);
  }

  #answerDocument(document: PlannedDocument): Answer {
    const attempt = (this.#attempts.get(document.path) ?? 0) + 1;
    this.#attempts.set(document.path, attempt);
    const fault = this.#decideFault(document, attempt);
    if (fault.kind === "status") return { ...answerStatus(fault.status), attempt, fault };
    const file = locateFile(this.#folder, document);
    const sized = !this.#unsized.has(document.path);
    return {
      attempt,
      status: fault.kind === "hang" ? null : 200,
      fault,
      send: (response) => sendDocument(response, { file, sized, fault }),
    };
  }
}

/**
 * Every second one of the documents that are too large comes without its length, beginning with the
 * first: a client must count the bytes itself.
 */
function pickUnsized(documents: readonly PlannedDocument[]): string[] {
  return documents
    .filter(({ kind }) => kind === "too-large")
    .filter((_, index) => index % 2 === 0)
    .map(({ path }) => path);
}

function answerStatus(status: number, headers: Readonly<Record<string, string>> = {}): Answer {
  return {
    attempt: 0,
    status,
    fault: NO_FAULT,
    send: (response) => {
      response.writeHead(status, { "content-length": "0", ...headers }).end();
    },
  };
}
