/** A folder of migrations: those of a store, followed by invented ones. */
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { onTestFinished } from "vitest";

export async function makeMigrations(
  store: "sqlite" | "postgres",
  ...later: readonly string[]
): Promise<URL> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-migrations-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await cp(new URL(`../../migrations/${store}/`, import.meta.url), folder, { recursive: true });
  for (const [at, sql] of later.entries()) {
    await writeFile(join(folder, `9${at}_later.sql`), sql);
  }
  return pathToFileURL(`${folder}/`);
}
