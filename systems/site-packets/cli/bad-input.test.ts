/**
 * The command itself, with every mistake that a user can make: a clear error with its place and a
 * hint, its exit code, nothing half done, and no control characters in the output.
 */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SearchIndex } from "../search-index.ts";
import { EXIT } from "./exit-codes.ts";

const MAIN = fileURLToPath(new URL("../main.ts", import.meta.url));
const entry = { site: "a", document: "d-1", type: "cv", schemaVersion: "v2.0", url: "/1.pdf" };
const ODD = "\u001B[2J\u009B31m\u202Etxt";

interface Ended {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-bad-input-"));
  await writeFile(join(folder, "c.json"), '{"sites":{"a":{"origin":"https://a.example"}}}');
});
afterAll(() => rm(folder, { recursive: true }));

/** In the folder of the test, with its own data folder. */
function run(data: string, ...args: readonly string[]): Promise<Ended> {
  const command = [MAIN, "--data", join(folder, data), ...args];
  const env = { ...process.env, NO_COLOR: "1" };
  return new Promise((resolve) => {
    execFile(process.execPath, command, { cwd: folder, env }, (error, out, err) => {
      resolve({ code: error === null ? 0 : (error.code as number), out, err });
    });
  });
}

/** The error output, with line ends as its only control characters; nothing was begun. */
async function refuse(data: string, ...args: readonly string[]): Promise<string> {
  const { code, out, err } = await run(data, ...args);
  expect(err).not.toMatch(/[^\P{C}\n]/u);
  expect(err).not.toContain("    at ");
  expect({ code, out }).toEqual({ code: EXIT.badUsage, out: "" });
  expect(existsSync(join(folder, data, "site-packets.db"))).toBe(false);
  const begun = await readdir(join(folder, data, "runs")).catch(() => []);
  expect(begun).toEqual([]);
  return err;
}

async function refuseManifest(name: string, content: string): Promise<string> {
  await writeFile(join(folder, name), content);
  const err = await refuse(`${name}-data`, "ingest", name, "--config", "c.json");
  expect(err).toMatch(/^error BAD_MANIFEST: the manifest .* cannot be used; nothing was ingested:/);
  expect(err).toMatch(/\nhint: Fix these lines/);
  return err;
}

describe.concurrent("a manifest", () => {
  test("with bad lines is refused with all of them, in escaped form", async () => {
    const lines = [
      JSON.stringify(entry),
      `{"site":"${ODD}`,
      JSON.stringify({ ...entry, document: ODD }),
      JSON.stringify({ ...entry, site: "../x" }),
      JSON.stringify({ ...entry, site: "b", [ODD]: 1 }),
      JSON.stringify({ ...entry, site: "b" }),
    ];
    const err = await refuseManifest("bad.jsonl", lines.join("\n"));
    expect(err).toMatch(/line 2: it is not valid JSON/);
    expect(err).toMatch(/line 3: document: must not hold control characters/);
    expect(err).toMatch(/line 4: site: must be 1 to 63 letters/);
    expect(err).toMatch(/line 5: Unrecognized key: .*\\u\{1b\}/);
    expect(err).toMatch(/line 6: site: there is no site "b"/);
    expect(err).not.toContain("line 1:");
  });

  test("in CSV with bad lines is refused in the same way", async () => {
    const header = "site,document,type,schemaVersion,url";
    const err = await refuseManifest("bad.csv", `${header}\na,d,cv,v2.0,/\na,"${ODD}",cv\n`);
    expect(err).toMatch(/line 3: Invalid Record Length/);
  });

  test("that is missing, or has a --site, is a usage error", async () => {
    const err = await refuse("gone", "ingest", `gone-${ODD}.jsonl`);
    expect(err).toMatch(/error NO_SOURCE: there is no manifest or folder gone-\\u\{1b\}.*\nhint: /);
    await writeFile(join(folder, "good.jsonl"), JSON.stringify(entry));
    expect(await refuse("sited", "ingest", "good.jsonl", "--site", "a")).toContain(
      "--site is for a folder",
    );
  });

  test("is not read without a valid configuration", async () => {
    await writeFile(join(folder, "any.jsonl"), JSON.stringify(entry));
    expect(await refuse("no-config", "ingest", "any.jsonl")).toMatch(
      /error BAD_CONFIG: the configuration site-packets.json cannot be read: ENOENT.*\nhint: .*--config/,
    );
    await writeFile(join(folder, "odd.json"), `{"sites":{"${ODD}`);
    const err = await refuse("odd-config", "ingest", "any.jsonl", "--config", "odd.json");
    expect(err).toMatch(/error BAD_CONFIG: the configuration odd.json is not valid JSON.*\nhint: /);
  });
});

describe.concurrent("a folder", () => {
  test("without a site, or with an invalid site name, is a usage error", async () => {
    expect(await refuse("folder", "ingest", folder)).toMatch(/BAD_USAGE: .*\nhint: .*--site local/);
    for (const site of ["../x", "__proto__"]) {
      expect(await refuse("folder", "ingest", folder, "--site", site)).toContain(
        `BAD_USAGE: --site ${site} is not a valid site name`,
      );
    }
  });

  test("without a PDF, or with an invalid file name, is refused", async () => {
    await mkdir(join(folder, "none"));
    expect(await refuse("none-data", "ingest", "none", "--site", "a")).toMatch(
      /error NO_DOCUMENTS: there is no PDF in the folder .*\nhint: .*\.pdf/,
    );
    await mkdir(join(folder, "odd"));
    await writeFile(join(folder, "odd", `${ODD}.pdf`), "");
    const err = await refuse("odd-data", "ingest", "odd", "--site", "a");
    expect(err).toMatch(
      /error BAD_NAME: the file "\\u001b.* cannot be used: document: .*\nhint: Ren/,
    );
  });
});

describe.concurrent("a search", () => {
  test("without words, or with a bad limit, is a usage error", async () => {
    expect(await refuse("empty", "search", "consent")).toMatch(/error NO_INDEX: .*\nhint: Ingest/);
    expect(await refuse("empty", "search", '"*"')).toContain("the search has no words");
    for (const limit of ["0", "1.5"]) {
      const err = await refuse("empty", "search", "x", `--limit=${limit}`);
      expect(err).toContain("Give a whole number, 1 or more");
    }
  });

  test("treats operators and quotes as words, and prints hits in escaped form", async () => {
    await mkdir(join(folder, "found"));
    const index = new SearchIndex(join(folder, "found", "search.db"));
    const named = { sha256: "0".repeat(64), site: "a", document: `d\u202E`, type: "cv" };
    index.add(named, `see [7]\u001B[2J: informed\n\u009B consent and so on`);
    index.close();
    const { code, out } = await run("found", "search", 'informed" (consent AND');
    expect(code).toBe(EXIT.ok);
    expect(out).toContain("d\\u{202e}");
    expect(out).toContain("see [7]\\u{1b}[2J: [informed");
    expect(out).toContain("1 of 1 documents");
    expect(out).not.toMatch(/[^\P{C}\n]/u);
    const json = await run("found", "--json", "search", "informed");
    expect(json.out).not.toMatch(/[^\P{C}\n]/u);
    expect(JSON.parse(json.out)).toMatchObject(named);
  });
});

describe.concurrent("a timeline", () => {
  test("of an unknown site, or of a document that never came, is a usage error", async () => {
    expect(await refuse("none", "timeline", "../x", "d")).toContain(
      "../x is not a valid site name",
    );
    expect(await refuse("none", "timeline", "a", "d")).toMatch(/error NO_LEDGER: .*\nhint: /);
  });
});

test.concurrent("an unknown option is a usage error, and help is not", async () => {
  expect(await refuse("any", "search", "x", "--nothing")).toContain("unknown option");
  expect(await run("any", "--help")).toMatchObject({ code: EXIT.ok, err: "" });
});
