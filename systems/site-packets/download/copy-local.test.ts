/** Which files of a site's folder are copied, and that no other file can be read through it. */
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PermanentError, TransientError } from "sluice";
import { expect, onTestFinished, test } from "vitest";
import { copyLocal } from "./copy-local.ts";

interface Desk {
  readonly folder: string;
  readonly root: string;
  readonly target: string;
  readonly copy: (path: string, bytesMax?: number, signal?: AbortSignal) => Promise<unknown>;
}

async function makeDesk(): Promise<Desk> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-copy-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const [root, target] = [join(folder, "site"), join(folder, "target")];
  await mkdir(root);
  await writeFile(join(folder, "outside"), "secret");
  await writeFile(join(root, "a.pdf"), "hello");
  const copy: Desk["copy"] = (path, bytesMax = 1_000, signal = new AbortController().signal) =>
    copyLocal(path, root, target, { bytesMax, signal });
  return { folder, root, target, copy };
}

/** The error of the copy, which must have left nothing behind. */
async function fail({ copy, target }: Desk, ...args: Parameters<Desk["copy"]>): Promise<unknown> {
  const error: unknown = await copy(...args).then(
    () => new Error("the copy was expected to fail"),
    (thrown: unknown) => thrown,
  );
  expect(existsSync(target)).toBe(false);
  return error;
}

test("a regular file is copied, by its relative or absolute path", async () => {
  const { copy, root, target } = await makeDesk();
  expect(await copy("a.pdf")).toEqual({ bytes: 5 });
  expect(await readFile(target, "utf8")).toBe("hello");
  await mkdir(join(root, "..b"));
  await writeFile(join(root, "..b", "c"), "");
  expect(await copy(join(root, "..b", "c"))).toEqual({ bytes: 0 });
  expect(await readFile(target, "utf8")).toBe("");
});

test("a large file is copied completely", async () => {
  const { copy, root, target } = await makeDesk();
  const body = Buffer.from(Array.from({ length: 300_001 }, (_, at) => at % 251));
  await writeFile(join(root, "large"), body);
  expect(await copy("large", body.length)).toEqual({ bytes: body.length });
  expect(body.equals(await readFile(target))).toBe(true);
});

test("a link within the folder is followed, even if the folder itself is a link", async () => {
  const { folder, root, target, copy } = await makeDesk();
  await symlink("a.pdf", join(root, "link"));
  expect(await copy("link")).toEqual({ bytes: 5 });
  await symlink(root, join(folder, "other"));
  const options = { bytesMax: 10, signal: new AbortController().signal };
  expect(await copyLocal("link", join(folder, "other"), target, options)).toEqual({ bytes: 5 });
});

test("every path out of the folder is refused", async () => {
  const desk = await makeDesk();
  const { folder, root } = desk;
  await symlink(join(folder, "outside"), join(root, "link"));
  await symlink("../outside", join(root, "relative"));
  await symlink(folder, join(root, "up"));
  await mkdir(`${root}-2`);
  await writeFile(join(`${root}-2`, "b"), "secret");
  const paths = ["../outside", join(folder, "outside"), "link", "relative", "up/outside"];
  for (const path of [...paths, `${root}-2/b`, "../site-2/b", "/etc/passwd", "..", "a.pdf\0"]) {
    const error = await fail(desk, path);
    expect(error, path).toBeInstanceOf(PermanentError);
    expect(error, path).toMatchObject({ code: "FORBIDDEN_PATH" });
  }
});

test("a path that is not a regular file is refused without waiting", async () => {
  const desk = await makeDesk();
  const { root } = desk;
  execFileSync("mkfifo", [join(root, "pipe")]);
  await symlink("pipe", join(root, "to-pipe"));
  await symlink("/dev/zero", join(root, "device"));
  await symlink("loop", join(root, "loop"));
  await mkdir(join(root, "folder"));
  const server = createServer().listen(join(root, "socket"));
  await once(server, "listening");
  onTestFinished(() => void server.close());
  for (const path of ["pipe", "to-pipe", "device", "loop", "folder", "socket", "", "."]) {
    const error = await fail(desk, path);
    expect(error, path).toBeInstanceOf(PermanentError);
    expect(error, path).toMatchObject({ code: "FORBIDDEN_PATH" });
  }
});

test("a missing file fails permanently", async () => {
  const desk = await makeDesk();
  for (const path of ["none", "none/a", "a.pdf/b", "n".repeat(300)]) {
    const error = await fail(desk, path);
    expect(error).toBeInstanceOf(PermanentError);
    expect(error).toMatchObject({ code: "DOWNLOAD_FAILED" });
  }
});

test("a missing folder fails temporarily", async () => {
  const { folder, target } = await makeDesk();
  const options = { bytesMax: 10, signal: new AbortController().signal };
  const copied = copyLocal("a.pdf", join(folder, "none"), target, options);
  await expect(copied).rejects.toBeInstanceOf(TransientError);
});

test("a file of exactly the limit is copied, and one byte more is refused", async () => {
  const desk = await makeDesk();
  expect(await desk.copy("a.pdf", 5)).toEqual({ bytes: 5 });
  await rm(desk.target);
  const error = await fail(desk, "a.pdf", 4);
  expect(error).toBeInstanceOf(PermanentError);
  expect(error).toMatchObject({ code: "TOO_LARGE" });
  // Refused by its size, before a byte was copied.
  expect((error as Error).message).toContain("it has 5 bytes");
});

test("a file that is larger than its stated size is stopped at the limit or reported as changed", async () => {
  const { target } = await makeDesk();
  // Files of /proc report a size of 0.
  const copy = (bytesMax: number): Promise<unknown> => {
    const { signal } = new AbortController();
    return copyLocal("status", `/proc/${process.pid}`, target, { bytesMax, signal });
  };
  await expect(copy(10)).rejects.toMatchObject({ code: "TOO_LARGE" });
  await expect(copy(1_000_000)).rejects.toBeInstanceOf(TransientError);
  expect(existsSync(target)).toBe(false);
});

test("a caller's abort is thrown with the caller's own reason", async () => {
  const desk = await makeDesk();
  const reason = new Error("stop");
  expect(await fail(desk, "a.pdf", 10, AbortSignal.abort(reason))).toBe(reason);
  await writeFile(join(desk.root, "large"), Buffer.alloc(1_000_000));
  const caller = new AbortController();
  const failed = fail(desk, "large", 1_000_000, caller.signal);
  caller.abort(reason);
  expect(await failed).toBe(reason);
});

test("errors of the disk are thrown unchanged", async () => {
  const { root, folder } = await makeDesk();
  const options = { bytesMax: 10, signal: new AbortController().signal };
  const copied = copyLocal("a.pdf", root, join(folder, "none", "target"), options);
  await expect(copied).rejects.toMatchObject({ code: "ENOENT", syscall: "open" });
});

test("a name in a message is quoted and cut, because it may contain anything", async () => {
  const desk = await makeDesk();
  const error = await fail(desk, `\u001b[31m${"n".repeat(1_000)}`);
  expect((error as Error).message).toMatch(/^"\\u001b\[31mn+…: there is no such file$/u);
});
