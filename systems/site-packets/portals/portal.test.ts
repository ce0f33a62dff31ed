/** What a client sees of a portal, over real sockets. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type DocumentKind, type PlannedDocument, planCorpus } from "./corpus.ts";
import { locateFile } from "./corpus-folder.ts";
import type { Fault } from "./faults.ts";
import { type PortalOptions, type PortalParts, type Portals, startPortals } from "./portal.ts";
import { DOWNLOAD_BYTES_MAX, prepareCorpus } from "./prepare.ts";

const CORPUS = { seed: 6, sites: 3, documents: 30 };
const plan = planCorpus(CORPUS);

const ofKind = (kind: DocumentKind) => plan.find((document) => document.kind === kind)!;
const text = ofKind("text");

/** Read by all tests and changed by none. */
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "portals-"));
  await prepareCorpus(folder, CORPUS);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function start(
  options: Partial<PortalOptions> = {},
  parts: PortalParts = {},
): Promise<Portals> {
  const portals = await startPortals({ folder, seed: 1, profile: "calm", ...options }, parts);
  onTestFinished(() => portals.close());
  return portals;
}

const startWith = (fault: Fault) => start({}, { decideFault: () => fault });

const ask = (
  portals: Portals,
  { site, path }: Pick<PlannedDocument, "site" | "path">,
  options: RequestInit = {},
) => fetch(`${portals.origins.get(site)}${path}`, options);

const readBytes = async (response: Response) => Buffer.from(await response.arrayBuffer());

describe("a portal", () => {
  test("serves the files of its site, including copies", async () => {
    const portals = await start();
    for (const document of [text, ofKind("same-again"), ofKind("scan"), ofKind("empty")]) {
      const response = await ask(portals, document);
      expect(response.status).toBe(200);
      expect(response.headers.get("content-type")).toBe("application/pdf");
      const bytes = await readBytes(response);
      expect(bytes.equals(await readFile(locateFile(folder, document)))).toBe(true);
    }
  });

  test("exists for every site, each at its own address", async () => {
    const { origins } = await start();
    expect([...origins.keys()].toSorted()).toEqual(["site-01", "site-02", "site-03"]);
    expect(new Set(origins.values()).size).toBe(3);
  });

  test("exists for a site without documents, and for one of a given plan", async () => {
    const few = await mkdtemp(join(tmpdir(), "portals-"));
    onTestFinished(() => rm(few, { recursive: true, force: true }));
    await prepareCorpus(few, { seed: 6, sites: 3, documents: 1 });
    expect((await start({ folder: few })).origins.size).toBe(3);
    expect([...(await start({}, { plan: [text] })).origins.keys()]).toEqual([text.site]);
  });

  test("does not serve paths of other sites or outside the plan", async () => {
    const portals = await start();
    const other = plan.find(({ site }) => site !== text.site)!;
    for (const path of [other.path, "/", "/log", "/documents/../corpus.json", "/moved/"]) {
      expect((await ask(portals, { site: text.site, path })).status).toBe(404);
    }
  });

  test("only answers GET", async () => {
    const response = await ask(await start(), text, { method: "POST", body: "x" });
    expect(response.status).toBe(405);
  });

  test("redirects from a document's former place, and nowhere else", async () => {
    const portals = await start();
    const site = text.site;
    const moved = await ask(portals, { site, path: `/moved${text.path}` }, { redirect: "manual" });
    expect(moved.status).toBe(302);
    expect(moved.headers.get("location")).toBe(text.path);
    const followed = await ask(portals, { site, path: `/moved${text.path}` });
    expect(followed.status).toBe(200);
    const elsewhere = await ask(portals, { site, path: "/moved//example.org/" });
    expect(elsewhere.status).toBe(404);
  });

  test("sends one byte more than the download limit, without declaring it", async () => {
    const response = await ask(await start(), ofKind("too-large"));
    expect(response.headers.get("content-length")).toBe(null);
    let receivedBytes = 0;
    for await (const piece of response.body!) receivedBytes += (piece as Uint8Array).length;
    expect(receivedBytes).toBe(DOWNLOAD_BYTES_MAX + 1);
  });
});

describe("a portal's limit", () => {
  test("refuses requests above it with 429 and Retry-After", async () => {
    let nowMs = 0;
    const portals = await start({ perSecond: 1, burst: 2 }, { nowMs: () => nowMs });
    const statuses = [];
    for (let request = 0; request < 3; request++) statuses.push((await ask(portals, text)).status);
    expect(statuses).toEqual([200, 200, 429]);
    const refused = await ask(portals, text);
    expect(refused.headers.get("retry-after")).toBe("1");
    nowMs = 1_000;
    expect((await ask(portals, text)).status).toBe(200);
  });

  test("is separate for each site, and a site can have another", async () => {
    const [one, two] = ["site-01", "site-02"].map(
      (name) => plan.find(({ site }) => site === name)!,
    );
    const portals = await start(
      { perSecond: 1, burst: 1, siteRates: { "site-02": { perSecond: 1, burst: 2 } } },
      { nowMs: () => 0 },
    );
    const statuses = [];
    for (const document of [one!, one!, two!, two!, two!]) {
      statuses.push((await ask(portals, document)).status);
    }
    expect(statuses).toEqual([200, 429, 200, 200, 429]);
  });

  test("does not count a refused request as an attempt, but logs it", async () => {
    let nowMs = 0;
    const portals = await start({ perSecond: 1, burst: 1 }, { nowMs: () => nowMs });
    await ask(portals, text);
    await ask(portals, text);
    nowMs = 1_000;
    await ask(portals, text);
    const { site, path } = text;
    expect(portals.requests()).toEqual([
      { site, path, attempt: 1, atMs: 0, status: 200, fault: "none" },
      { site, path, attempt: 0, atMs: 0, status: 429, fault: "none" },
      { site, path, attempt: 2, atMs: 1_000, status: 200, fault: "none" },
    ]);
  });
});

describe("a fault", () => {
  test("depends on the document and the number of the attempt", async () => {
    const portals = await start(
      {},
      {
        decideFault: ({ path }, attempt) =>
          path === text.path && attempt < 3
            ? { kind: "status", status: attempt === 1 ? 500 : 503 }
            : { kind: "none" },
      },
    );
    const statuses = [];
    for (let attempt = 1; attempt <= 3; attempt++) {
      statuses.push((await ask(portals, text)).status);
    }
    expect(statuses).toEqual([500, 503, 200]);
    expect(portals.requests().map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
  });

  test("of latency answers correctly, but late", async () => {
    const portals = await startWith({ kind: "latency", latencyMs: 50 });
    const startedAtMs = performance.now();
    const response = await ask(portals, text);
    // Timers may be a millisecond early.
    expect(performance.now() - startedAtMs).toBeGreaterThan(48);
    const bytes = await readBytes(response);
    expect(bytes.equals(await readFile(locateFile(folder, text)))).toBe(true);
  });

  test("of a reset cuts the connection in the middle of the body", async () => {
    const portals = await startWith({ kind: "reset", share: 0.5 });
    const response = await ask(portals, text);
    expect(response.status).toBe(200);
    const whole = Number(response.headers.get("content-length"));
    let receivedBytes = 0;
    const reading = (async () => {
      for await (const piece of response.body!) receivedBytes += (piece as Uint8Array).length;
    })();
    await expect(reading).rejects.toThrow();
    expect(receivedBytes).toBeLessThan(whole);
  });

  test("of a reset gives no answer if there is no body", async () => {
    const portals = await startWith({ kind: "reset", share: 0.5 });
    await expect(ask(portals, ofKind("empty"))).rejects.toThrow();
  });

  test("of a hang never answers, while other requests are served", async () => {
    const reached = Promise.withResolvers<void>();
    const portals = await start(
      {},
      {
        decideFault: (_, attempt) => {
          if (attempt > 1) return { kind: "none" };
          reached.resolve();
          return { kind: "hang" };
        },
      },
    );
    let answered = false;
    const hanging = ask(portals, text).finally(() => {
      answered = true;
    });
    const ended = expect(hanging).rejects.toThrow();
    await reached.promise;
    await readBytes(await ask(portals, text));
    expect(answered).toBe(false);
    expect(portals.requests().map(({ status }) => status)).toEqual([null, 200]);
    await portals.close();
    await ended;
  });

  test("of a drip sends a few bytes at a time", async () => {
    const portals = await startWith({ kind: "drip", bytesPerSecond: 8 });
    const response = await ask(portals, text);
    const reader = response.body!.getReader();
    const drops = [await reader.read(), await reader.read()];
    const bytes = drops.reduce((sum, { value }) => sum + (value as Uint8Array).length, 0);
    // A slow reader may get several drops at once.
    expect(bytes).toBeGreaterThanOrEqual(8);
    expect(bytes).toBeLessThan(Number(response.headers.get("content-length")) / 2);
    await reader.cancel();
  });
});

test("closing cuts open connections and stops every portal", async () => {
  const portals = await startWith({ kind: "drip", bytesPerSecond: 8 });
  const reader = (await ask(portals, text)).body!.getReader();
  await reader.read();
  await portals.close();
  await expect(reader.read()).rejects.toThrow();
  await expect(ask(portals, text)).rejects.toThrow();
});
