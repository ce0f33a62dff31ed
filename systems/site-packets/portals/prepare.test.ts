/** A corpus on disk: complete, repeatable, and with correct checksums except where planned. */
import { createHash } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { planCorpus } from "./corpus.ts";
import { locateFile } from "./corpus-folder.ts";
import { DOWNLOAD_BYTES_MAX, type ManifestEntry, prepareCorpus } from "./prepare.ts";

const OPTIONS = { seed: 5, sites: 3, documents: 30 };

async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "portals-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

async function readManifest(file: string): Promise<ManifestEntry[]> {
  const lines = (await readFile(file, "utf8")).trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line) as ManifestEntry);
}

const hash = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");

async function hashFiles(folder: string): Promise<string[]> {
  const names = (await readdir(folder, { recursive: true })).toSorted();
  const hashes = names.map(async (name) =>
    name === "files" ? name : `${name} ${hash(await readFile(join(folder, name)))}`,
  );
  return Promise.all(hashes);
}

describe("a prepared corpus", () => {
  test("is the same in every byte for the same options", async () => {
    const [one, two] = [await makeFolder(), await makeFolder()];
    await prepareCorpus(one, OPTIONS);
    await prepareCorpus(two, OPTIONS);
    expect(await hashFiles(one)).toEqual(await hashFiles(two));
  });

  test("has one line in its manifest for each planned entry, in order", async () => {
    const { manifest, entries } = await prepareCorpus(await makeFolder(), OPTIONS);
    const plan = planCorpus(OPTIONS);
    const written = await readManifest(manifest);
    expect(entries).toBe(30);
    expect(written).toMatchObject(
      plan.map(({ site, document, type, schemaVersion, path: url }) => ({
        site,
        document,
        type,
        schemaVersion,
        url,
      })),
    );
  });

  test("has the right checksum in about half of its entries, and a wrong one where planned", async () => {
    const folder = await makeFolder();
    const { manifest } = await prepareCorpus(folder, OPTIONS);
    const written = await readManifest(manifest);
    for (const [index, planned] of planCorpus(OPTIONS).entries()) {
      const said = written[index]?.sha256;
      if (said === undefined) continue;
      const right = hash(await readFile(locateFile(folder, planned)));
      expect(said === right, planned.path).toBe(planned.kind !== "wrong-checksum");
    }
    const saying = written.filter(({ sha256 }) => sha256 !== undefined).length;
    expect(saying).toBeGreaterThan(8);
    expect(saying).toBeLessThan(22);
  });

  test("has a document one byte over the limit that takes little space", async () => {
    const folder = await makeFolder();
    await prepareCorpus(folder, OPTIONS);
    const planned = planCorpus(OPTIONS).find(({ kind }) => kind === "too-large")!;
    const { size, blocks } = await stat(locateFile(folder, planned));
    expect(size).toBe(DOWNLOAD_BYTES_MAX + 1);
    expect(blocks * 512).toBeLessThan(100_000);
  });
});

describe("preparing again", () => {
  test("keeps existing files and makes the missing ones", async () => {
    const folder = await makeFolder();
    await prepareCorpus(folder, OPTIONS);
    const [kept, lost] = [join(folder, "files/0.pdf"), join(folder, "files/1.pdf")];
    await writeFile(kept, "kept");
    await rm(lost);
    await prepareCorpus(folder, OPTIONS);
    expect(await readFile(kept, "utf8")).toBe("kept");
    expect((await stat(lost)).isFile()).toBe(true);
  });

  test("does not mix two corpora in one folder", async () => {
    const folder = await makeFolder();
    await prepareCorpus(folder, { ...OPTIONS, documents: 1 });
    await expect(prepareCorpus(folder, { ...OPTIONS, documents: 1, seed: 6 })).rejects.toThrow(
      /contains another corpus/,
    );
  });
});
