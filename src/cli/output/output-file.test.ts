import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { systemRandom } from "../../runtime/system/system-random.ts";
import { nameTemporary, OutputFile } from "./output-file.ts";

let folder = "";
let path = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-output-"));
  path = join(folder, "out.jsonl");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("a file has an unguessable name while it is written", async () => {
  const names = [nameTemporary(path), nameTemporary(path)];
  expect(new Set(names).size).toBe(2);
  for (const name of names) expect(basename(name)).toMatch(/^\.out\.jsonl\.[0-9a-z]{12,}\.tmp$/);
  const first = await OutputFile.create(path);
  const second = await OutputFile.create(path);
  await first.write("first");
  await second.write("second");
  await second.finish();
  await first.finish();
  expect(readFileSync(path, "utf8")).toBe("first");
  expect(readdirSync(folder)).toEqual(["out.jsonl"]);
});

test("a planted link under that name is not followed", async () => {
  const victim = join(folder, "victim");
  writeFileSync(victim, "precious");
  vi.spyOn(systemRandom, "id").mockReturnValue("guessed");
  symlinkSync(victim, nameTemporary(path));
  await expect(OutputFile.create(path)).rejects.toMatchObject({
    code: "FILE_EXISTS",
    message: `${nameTemporary(path)} already exists`,
  });
  expect(readFileSync(victim, "utf8")).toBe("precious");
});
