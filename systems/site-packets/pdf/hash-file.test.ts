/** The name of a file is the hash of its bytes, whatever its size. */
import { hash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { hashFile } from "./hash-file.ts";

test.for([0, 1, 65_536, 300_001])("a file of %i bytes has its SHA-256", async (size) => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-hash-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const bytes = Buffer.from(Array.from({ length: size }, (_, at) => at % 251));
  await writeFile(join(folder, "f"), bytes);
  expect(await hashFile(join(folder, "f"))).toBe(hash("sha256", bytes));
});

test("a missing file has no hash", async () => {
  await expect(hashFile("/nowhere/f")).rejects.toMatchObject({ code: "ENOENT" });
});
