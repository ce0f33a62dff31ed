import { spawn } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { generateKeyPairSync } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ExportBuilder, exportPem, toBytes } from "../../../test/support/ledger-export.ts";
import { writeKeyLine } from "../format/export-line.ts";
import { openKeyFile, readKeyFile, rotateKeyFile } from "./key-file.ts";
import { readKeyId } from "../format/signing-key.ts";
import { verifyExport } from "../verify/verify-export.ts";

const AT = "2026-11-16T12:00:00.000Z";
const refusedWith = (code: string): Error => expect.objectContaining({ code }) as Error;

let folder = "";
let path = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-key-"));
  path = join(folder, "ledger.key");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("the key file", () => {
  test("is created on first use, readable by its owner only, and stays the same", () => {
    const first = openKeyFile(path, AT);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readFileSync(path, "utf8")).toMatch(/^-----BEGIN PRIVATE KEY-----\n/);
    expect(first.key.id).toMatch(/^[0-9a-f]{16}$/);
    const again = openKeyFile(path, AT);
    expect(again.key.id).toBe(first.key.id);
    expect(again.statements).toEqual(first.statements);
    expect(first.statements).toHaveLength(1);
    expect(readdirSync(folder).toSorted()).toEqual(["ledger.key", "ledger.key.statements"]);
  });

  test("that others may read is refused, with a hint", () => {
    openKeyFile(path, AT);
    chmodSync(path, 0o640);
    expect(() => openKeyFile(path, AT)).toThrow(refusedWith("LEDGER_KEY_FILE"));
    expect(() => openKeyFile(path, AT)).toThrow(
      expect.objectContaining({ hint: expect.stringContaining("chmod 600") as string }) as Error,
    );
  });

  test("that is not an Ed25519 key is refused, and left as it is", () => {
    const rsa = generateKeyPairSync("rsa", { modulusLength: 1024 }).privateKey;
    for (const text of ["", "x", String(rsa.export({ type: "pkcs8", format: "pem" }))]) {
      writeFileSync(path, text, { mode: 0o600 });
      expect(() => openKeyFile(path, AT)).toThrow(refusedWith("LEDGER_KEY"));
      expect(readFileSync(path, "utf8")).toBe(text);
    }
  });

  test("is not created by a read", () => {
    expect(() => readKeyFile(path)).toThrow(refusedWith("LEDGER_KEY_FILE"));
    expect(readdirSync(folder)).toEqual([]);
  });

  test.each([
    ["is none", () => "{}"],
    ["is cut", (line: string) => line.slice(0, -9)],
    ["has another signature", (line: string) => line.replace(/.(?="}$)/, flipDigit)],
    ["says another time", (line: string) => line.replace("T12:", "T13:")],
  ])("with a statement that %s is refused, by file and line", (_, damage) => {
    openKeyFile(path, AT);
    rotateKeyFile(path, AT, { keepOld: false });
    const file = `${path}.statements`;
    const [first = "", second = ""] = readFileSync(file, "utf8").split("\n");
    writeFileSync(file, `${first}\n\n${damage(second)}\n`);
    const text = readFileSync(file, "utf8");
    const refused = expect.objectContaining({
      code: "LEDGER_KEY",
      message: expect.stringContaining(`line 3 of ${file}`) as string,
      hint: expect.any(String) as string,
    }) as Error;
    expect(() => openKeyFile(path, AT)).toThrow(refused);
    expect(() => rotateKeyFile(path, AT, { keepOld: true })).toThrow(refused);
    expect(readFileSync(file, "utf8")).toBe(text);
    expect(readdirSync(folder).toSorted()).toEqual(["ledger.key", "ledger.key.statements"]);
  });

  test("has statements that only its owner can write, whatever the umask", () => {
    const before = process.umask(0);
    try {
      openKeyFile(path, AT);
    } finally {
      process.umask(before);
    }
    expect(statSync(`${path}.statements`).mode & 0o777).toBe(0o644);
  });

  test("that cannot be created gives the reason and a hint", () => {
    expect(() => openKeyFile(join(folder, "missing", "ledger.key"), AT)).toThrow(
      expect.objectContaining({
        name: "SluiceError",
        code: "LEDGER_KEY_FILE",
        message: expect.stringContaining("ENOENT") as string,
        hint: expect.stringContaining("folder") as string,
      }) as Error,
    );
  });

  test("is created once by processes that start at the same moment", async () => {
    const module = new URL("./key-file.ts", import.meta.url).href;
    const script = `const { openKeyFile } = await import(${JSON.stringify(module)});
      process.stdout.write(openKeyFile(${JSON.stringify(path)}, "${AT}").key.id);`;
    const run = (): Promise<string> =>
      new Promise((resolve, reject) => {
        const args = ["--disable-warning=ExperimentalWarning", "--input-type=module", "-e", script];
        const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
        let output = "";
        child.stdout.on("data", (text: Buffer) => (output += text.toString()));
        child.once("error", reject);
        child.once("close", () => resolve(output));
      });
    const ids = await Promise.all([run(), run(), run(), run()]);
    const { key, statements } = readKeyFile(path);
    expect(ids).toEqual([key.id, key.id, key.id, key.id]);
    expect(statements.length).toBeGreaterThan(0);
    expect(readdirSync(folder).toSorted()).toEqual(["ledger.key", "ledger.key.statements"]);
  }, 30_000);
});

/** Returns a different last digit of a signature. */
function flipDigit(digit: string): string {
  return digit === "0" ? "1" : "0";
}

describe("a key file that is a link", () => {
  let target = "";
  beforeEach(() => {
    mkdirSync(join(folder, "safe"));
    target = join(folder, "safe", "real.key");
    symlinkSync(target, path);
  });

  test("stays a link when the key is rotated, and its target has the new key", () => {
    const first = openKeyFile(target, AT);
    expect(openKeyFile(path, AT).key.id).toBe(first.key.id);
    const { keyFile, oldPath } = rotateKeyFile(path, AT, { keepOld: true });
    expect(lstatSync(path).isSymbolicLink()).toBe(true);
    expect(readKeyFile(target)).toEqual(keyFile);
    expect(readKeyFile(path)).toEqual(keyFile);
    expect(oldPath).toBe(`${target}.${first.key.id}`);
    expect(readdirSync(folder).toSorted()).toEqual(["ledger.key", "safe"]);
  });

  test("that leads nowhere is refused with a hint, and nothing is created", () => {
    const refused = expect.objectContaining({
      code: "LEDGER_KEY",
      message: expect.stringContaining(target) as string,
      hint: expect.stringMatching(/remove the link/) as string,
    }) as Error;
    expect(() => openKeyFile(path, AT)).toThrow(refused);
    expect(() => readKeyFile(path)).toThrow(refused);
    expect(() => rotateKeyFile(path, AT, { keepOld: true })).toThrow(refused);
    expect(readdirSync(join(folder, "safe"))).toEqual([]);
    expect(readdirSync(folder).toSorted()).toEqual(["ledger.key", "safe"]);
  });
});

describe("a rotated key", () => {
  test("is completed after a crash that left a copy of the old key", () => {
    const first = openKeyFile(path, AT);
    const copy = `${path}.${first.key.id}`;
    copyFileSync(path, copy);
    const { keyFile, oldPath } = rotateKeyFile(path, AT, { keepOld: true });
    expect(oldPath).toBe(copy);
    expect(readKeyFile(copy).key.id).toBe(first.key.id);
    expect(keyFile.statements.map(readKeyId)).toEqual([first.key.id, keyFile.key.id]);
  });

  test("does not overwrite another file at the place of the old key's copy, and shows no content of it", () => {
    const { key } = openKeyFile(path, AT);
    const copy = `${path}.${key.id}`;
    writeFileSync(copy, "something else", { mode: 0o600 });
    for (let nth = 0; nth < 2; nth++) {
      expect(() => rotateKeyFile(path, AT, { keepOld: true })).toThrow(
        expect.objectContaining({
          code: "LEDGER_KEY",
          message: expect.stringContaining(copy) as string,
          hint: expect.stringMatching(/[Mm]ove it away/) as string,
        }) as Error,
      );
    }
    expect(readFileSync(copy, "utf8")).toBe("something else");
    expect(openKeyFile(path, AT)).toMatchObject({ key: { id: key.id }, statements: [{}] });
    expect(readdirSync(folder)).toHaveLength(3);
  });

  test("is refused if others may read the old key", () => {
    const { key } = openKeyFile(path, AT);
    copyFileSync(path, `${path}.${key.id}`);
    chmodSync(`${path}.${key.id}`, 0o644);
    const rotate = (): unknown => rotateKeyFile(path, AT, { keepOld: true });
    expect(rotate).toThrow(refusedWith("LEDGER_KEY_FILE"));
  });

  test("has its own line of statement, also if the last line has no end", () => {
    const { key } = openKeyFile(path, AT);
    const file = `${path}.statements`;
    writeFileSync(file, readFileSync(file, "utf8").trimEnd());
    const { keyFile } = rotateKeyFile(path, AT, { keepOld: false });
    expect(openKeyFile(path, AT).statements.map(readKeyId)).toEqual([key.id, keyFile.key.id]);
  });

  test("is introduced by the old key, which is kept beside it or dropped", () => {
    const first = openKeyFile(path, AT);
    const second = rotateKeyFile(path, AT, { keepOld: true });
    expect(second.keyFile.key.id).not.toBe(first.key.id);
    expect(second.oldPath).toBe(`${path}.${first.key.id}`);
    expect(statSync(second.oldPath!).mode & 0o777).toBe(0o600);
    expect(readKeyFile(second.oldPath!).key.id).toBe(first.key.id);
    const third = rotateKeyFile(path, AT, { keepOld: false });
    expect(third.oldPath).toBeNull();
    expect(existsSync(`${path}.${second.keyFile.key.id}`)).toBe(false);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(openKeyFile(path, AT).key.id).toBe(third.keyFile.key.id);
    expect(third.keyFile.statements).toHaveLength(3);
  });

  test("makes signatures that a reader accepts who trusts only the first key", async () => {
    const first = openKeyFile(path, AT);
    rotateKeyFile(path, AT, { keepOld: false });
    const { keyFile } = rotateKeyFile(path, AT, { keepOld: false });
    const builder = new ExportBuilder("b-1", "north", keyFile.key).begin().addSignedHead();
    const [header, , ...body] = builder.lines();
    const bytes = toBytes([header!, ...keyFile.statements.map(writeKeyLine), ...body]);
    const verdict = await verifyExport([bytes], { trusted: [exportPem(first.key)] });
    expect(verdict).toMatchObject({ kind: "intact", signers: [keyFile.key.id], isTrusted: true });
    const [root, ...rest] = keyFile.statements.map(writeKeyLine);
    const gap = toBytes([header!, root!, ...rest.slice(1), ...body]);
    expect(await verifyExport([gap], { trusted: [exportPem(first.key)] })).toMatchObject({
      kind: "broken",
      line: 3,
    });
  });
});
