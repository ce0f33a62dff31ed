import { spawn } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { generateKeyPairSync } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ExportBuilder, exportPem, toBytes } from "../../test/support/ledger-export.ts";
import { writeKeyLine } from "./export-line.ts";
import { openKeyFile, readKeyFile, rotateKeyFile } from "./key-file.ts";
import { verifyExport } from "./verify-export.ts";

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
  test("is made on first use for its owner alone, and is the same ever after", () => {
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

  test("that others may read is refused, with the remedy", () => {
    openKeyFile(path, AT);
    chmodSync(path, 0o640);
    expect(() => openKeyFile(path, AT)).toThrow(refusedWith("LEDGER_KEY_EXPOSED"));
    expect(() => openKeyFile(path, AT)).toThrow(
      expect.objectContaining({ hint: expect.stringContaining("chmod 600") as string }) as Error,
    );
  });

  test("that is no Ed25519 key is refused, and left as it is", () => {
    const rsa = generateKeyPairSync("rsa", { modulusLength: 1024 }).privateKey;
    for (const text of ["", "x", String(rsa.export({ type: "pkcs8", format: "pem" }))]) {
      writeFileSync(path, text, { mode: 0o600 });
      expect(() => openKeyFile(path, AT)).toThrow(refusedWith("LEDGER_KEY"));
      expect(readFileSync(path, "utf8")).toBe(text);
    }
  });

  test("is not made by who only reads it", () => {
    expect(() => readKeyFile(path)).toThrow("ENOENT");
    expect(readdirSync(folder)).toEqual([]);
  });

  test("whose statements are damaged is refused", () => {
    openKeyFile(path, AT);
    writeFileSync(`${path}.statements`, "{}\n");
    expect(() => openKeyFile(path, AT)).toThrow(refusedWith("LEDGER_KEY"));
  });

  test("is made once by processes that begin at the same moment", async () => {
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

describe("a new key in the place of the old one", () => {
  test("is introduced by it, and the old one is kept beside it or dropped", () => {
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

  test("signs what a reader accepts who trusts the first alone", async () => {
    const first = openKeyFile(path, AT);
    rotateKeyFile(path, AT, { keepOld: false });
    const { keyFile } = rotateKeyFile(path, AT, { keepOld: false });
    const builder = new ExportBuilder("b-1", "north", keyFile.key).begin().checkpoint();
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
