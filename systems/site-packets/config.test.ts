/** What a configuration may contain; all mistakes are reported at once, each with its place. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SluiceError } from "sluice";
import { describe, expect, onTestFinished, test } from "vitest";
import { checkConfig, loadConfig } from "./config.ts";

const origin = "https://portal.example";

function refuse(value: unknown): string {
  try {
    checkConfig(value, "c.json");
  } catch (error) {
    expect(error).toBeInstanceOf(SluiceError);
    expect(error).toMatchObject({ code: "BAD_CONFIG" });
    return (error as Error).message;
  }
  throw new Error("the configuration was expected to be refused");
}

async function load(text: string): Promise<unknown> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-config-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, "c.json"), text);
  return loadConfig(join(folder, "c.json"));
}

test("every missing value has a default", () => {
  const config = checkConfig({ sites: { a: { origin } } }, "c.json");
  expect(config.sites).toEqual({ a: { origin, hosts: [] } });
  expect(config.concurrency).toEqual({ all: 16, site: 4 });
  expect(config.rate).toEqual({ perSecond: 5, burst: 10 });
  expect(config.download.attempts).toBe(4);
  expect(config.document.types).toContain("protocol");
  expect(config.pool.size).toBeUndefined();
});

test("a value of a group does not change the rest of the group", () => {
  const config = checkConfig({ sites: {}, download: { attempts: 7 } }, "c.json");
  expect(config.download).toMatchObject({ attempts: 7, redirectsMax: 5 });
});

test("a site is a portal or a folder", () => {
  const sites = {
    a: { origin: `${origin}/`, hosts: ["cdn.example:8443"] },
    b: { folder: "/data" },
  };
  expect(checkConfig({ sites }, "c.json").sites).toEqual(sites);
});

describe("a problem names its place", () => {
  test.for<[unknown, string]>([
    [[], "expected object, received array"],
    [{}, "sites: Invalid input"],
    [{ sites: {}, more: 1 }, 'Unrecognized key: "more"'],
    [{ sites: { "../x": { origin } } }, "sites.../x: must be 1 to 63 letters"],
    [
      { sites: { a: { orign: origin } } },
      'sites.a: origin: Invalid input: expected string, received undefined; Unrecognized key: "orign"',
    ],
    [{ sites: { a: { origin, burst: 1.5 } } }, "sites.a: burst: must be a whole number from 1 to"],
    [{ sites: { a: { origin: `${origin}/path` } } }, "sites.a.origin: must be an origin"],
    [{ sites: { a: { origin: "https://me:secret@portal.example" } } }, "must be an origin"],
    [{ sites: { a: { origin: "ftp://portal.example" } } }, "must be an origin"],
    [{ sites: { a: { origin, hosts: ["https://b.example/x"] } } }, "must be a host"],
    [{ sites: { a: { origin, hosts: [""] } } }, "must be a host"],
    [{ sites: { a: { folder: "here" } } }, "sites.a.folder: must be an absolute path"],
    [{ sites: {}, allowPrivate: ["10.0.0.0/99"] }, "allowPrivate.0: must be a network such as"],
    [{ sites: {}, allowPrivate: ["localhost"] }, "allowPrivate.0: must be a network such as"],
    [{ sites: {}, rate: { perSecond: 0, burst: 1 } }, "rate.perSecond:"],
    [
      { sites: {}, download: { bytesMax: "5" } },
      "download.bytesMax: must be a whole number from 1",
    ],
    [{ sites: {}, document: { types: [] } }, "document.types:"],
    [{ sites: {}, pool: { memoryBytesMax: 1 } }, "pool.memoryBytesMax:"],
  ])("%j", ([value, why]) => {
    expect(refuse(value)).toContain(why);
  });
});

test("all problems are reported at once", () => {
  const message = refuse({ sites: {}, pool: { size: 0 }, download: { attempts: -1 }, more: 1 });
  expect(message).toMatch(/^the configuration c.json has 3 problems:\n/);
  expect(message.split("\n").length).toBe(4);
});

test("a file may begin with a byte order mark", async () => {
  await expect(load('\uFEFF{"sites":{}}')).resolves.toMatchObject({ sites: {} });
});

test("a file that is missing or not JSON is refused with a hint", async () => {
  const expected = { code: "BAD_CONFIG", hint: expect.stringContaining("README.md") as string };
  await expect(load('{"sites":')).rejects.toMatchObject(expected);
  await expect(loadConfig("/nowhere/c.json")).rejects.toMatchObject({
    ...expected,
    message: expect.stringContaining("/nowhere/c.json cannot be read: ENOENT") as string,
  });
});

test("the name __proto__ is refused", async () => {
  for (const text of ['{"sites":{"__proto__":{"folder":"/"}}}', '{"sites":{},"__proto__":{}}']) {
    await expect(load(text)).rejects.toThrow('the name "__proto__" is not allowed');
  }
});
