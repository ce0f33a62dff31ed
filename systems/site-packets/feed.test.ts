/** A feed of entries on standard input, with a real portal and the real command. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { writeTextPdf } from "./portals/text-pdf.ts";

const COMMAND = fileURLToPath(new URL("./main.ts", import.meta.url));
const CONTENT = writeTextPdf(["Informed consent was obtained from everybody who took part."]);

let folder = "";
let portal: Server;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "site-packets-feed-"));
  portal = createServer((_request, response) => response.end(CONTENT)).listen(0, "127.0.0.1");
  await once(portal, "listening");
  const { port } = portal.address() as AddressInfo;
  const config = {
    sites: { north: { origin: `http://127.0.0.1:${port}` } },
    allowPrivate: ["127.0.0.0/8"],
    rate: { perSecond: 1_000, burst: 1_000 },
    feed: { aheadMax: 3, batchMax: 4 },
  };
  writeFileSync(join(folder, "site-packets.json"), JSON.stringify(config));
});

afterEach(() => {
  portal.close();
  portal.closeAllConnections();
  rmSync(folder, { recursive: true, force: true });
});

const write = (document: string, more: object = {}): string =>
  `${JSON.stringify({ site: "north", document, type: "cv", schemaVersion: "v2.0", url: `/${document}`, ...more })}\n`;

/** The input and output of one command; its lines may come later. */
function startFeed(site: string) {
  const args = ["--json", "--data", "data", "feed", "--site", site];
  const child = spawn(process.execPath, [COMMAND, ...args], { cwd: folder });
  let out = "";
  let err = "";
  child.stdout.on("data", (data: Buffer) => (out += data.toString()));
  child.stderr.on("data", (data: Buffer) => (err += data.toString()));
  child.stdin.on("error", () => {});
  const ended = once(child, "close").then(([code]) => ({
    code: code as number | null,
    err,
    batches: out
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as { archived: number; deduped: number }),
  }));
  return { child, ended };
}

function feed(site: string, lines: readonly string[]) {
  const { child, ended } = startFeed(site);
  child.stdin.end(lines.join(""));
  return ended;
}

test("entries go into batches of the configured size, one after the other", async () => {
  const documents = ["a", "b", "c", "d", "e", "f", "a"];
  const { code, batches } = await feed(
    "north",
    documents.map((name) => write(name)),
  );
  expect(code).toBe(0);
  expect(batches.map(({ archived, deduped }) => [archived, deduped])).toEqual([
    [4, 0],
    [2, 1],
  ]);
});

test("a bad line ends the feed with its number, and the entries before it are ingested", async () => {
  const lines = [write("a"), write("b"), "{not json\n", write("c")];
  const { code, err, batches } = await feed("north", lines);
  expect(code).toBe(2);
  expect(err).toContain("line 3: it is not valid JSON");
  expect(batches.map(({ archived }) => archived)).toEqual([2]);
});

test("a feed of an unknown site, or with entries of another site, is refused", async () => {
  const unknown = await feed("south", []);
  expect(unknown.code).toBe(2);
  expect(unknown.err).toContain("there is no site south");
  expect((await feed("constructor", [])).code).toBe(2);
  const other = await feed("north", [write("a", { site: "south" })]);
  expect(other.code).toBe(2);
  expect(other.err).toContain('line 1: site: there is no site "south"');
});

test("a killed feed leaves nothing behind that blocks the next feed", async () => {
  const { child, ended } = startFeed("north");
  const asked = once(portal, "request");
  for (const document of ["a", "b", "c"]) child.stdin.write(write(document));
  await asked;
  child.kill("SIGKILL");
  await ended;
  const { code, batches } = await feed("north", [write("d")]);
  expect(code).toBe(0);
  expect(batches.map(({ archived }) => archived)).toEqual([1]);
  // The killed feed's entries were done before: batches of a lane run in order.
  const again = await feed(
    "north",
    ["a", "b", "c", "d"].map((name) => write(name)),
  );
  expect(again.batches.map(({ archived, deduped }) => [archived, deduped])).toEqual([[0, 4]]);
});

test("two feeds of one site at once both continue and lose nothing", async () => {
  const first = startFeed("north");
  const asked = once(portal, "request");
  for (const document of ["a", "b", "c"]) first.child.stdin.write(write(document));
  await asked;
  // It seals the open batch of the first feed, which it cannot distinguish from an abandoned one.
  const second = await feed("north", [write("d")]);
  expect(second.code).toBe(0);
  expect(second.batches.map(({ archived }) => archived)).toEqual([1]);
  first.child.stdin.end(["e", "f"].map((name) => write(name)).join(""));
  const { code, batches } = await first.ended;
  expect(code).toBe(0);
  expect(batches.map(({ archived }) => archived)).toEqual([3, 2]);
});
