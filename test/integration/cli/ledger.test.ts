/**
 * `sluice ledger`: exporting, verifying, showing, proving and erasing, as people and scripts do it.
 */
import { chmodSync, existsSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Ending, Workspace } from "../../support/command-line.ts";

let work: Workspace;
let batch = "";

const LEDGER = 'ledger: { item: true, states: ["RECEIVED", "STORED"] }, maxRedrives: 0,';

beforeEach(async () => {
  work = new Workspace();
  work.writePipeline(`${LEDGER} key: (item: any) => "letter-" + item.n,
    process: ({ n }: any, { record }: any) => {
      record("RECEIVED", { to: "person " + n });
      if (n === 3) throw new PermanentError("no such place", { code: "NO_PLACE" });
      record("STORED");
    }`);
  work.writeItems(5);
  const { view } = await work.runJson<{ batch: string }>(
    "run",
    "pipeline.ts",
    "--input",
    "items.jsonl",
  );
  ({ batch } = view);
});
afterEach(() => work.remove());

const file = (name: string): string => work.at(name);

async function exportIt(name = "ledger.jsonl"): Promise<string> {
  expect(await work.run("ledger", "export", batch, "-o", name)).toMatchObject({ code: 0 });
  return name;
}

async function writeKey(): Promise<string> {
  const { code, stdout } = await work.run("ledger", "key");
  expect(code).toBe(0);
  writeFileSync(file("key.pem"), stdout);
  return "key.pem";
}

describe("an export", () => {
  test("is signed to its end when the command that ran the batch has ended", async () => {
    const verified = ["ledger", "verify", await exportIt(), "--trust", await writeKey()];
    const { code, stdout } = await work.run(...verified, "--conclusive");
    expect({ code, stdout }).toMatchObject({ code: 0 });
    expect(stdout).toContain(`intact: batch ${batch}, `);
    expect(stdout).toContain("the batch ended: completed_with_errors");
    const { view } = await work.runJson(...verified);
    expect(view).toMatchObject({ kind: "intact", batch, conclusive: true, trusted: true });
    expect(statSync(file(".sluice/ledger.key")).mode & 0o777).toBe(0o600);
  });

  test("that was changed is reported as broken, with place, reason and its own exit code", async () => {
    const name = await exportIt();
    const text = readFileSync(file(name), "utf8");
    writeFileSync(file("forged.jsonl"), text.replace("NO_PLACE", "NO_PLICE"));
    const { code, stdout } = await work.run("ledger", "verify", "forged.jsonl");
    expect(code).toBe(1);
    expect(stdout).toMatch(/^broken at line \d+, record \d+: /);
    const { view } = await work.runJson("ledger", "verify", "forged.jsonl");
    expect(view).toMatchObject({ kind: "broken", conclusive: false });
  });

  test("signed with another key is broken for a reader who trusts one key only", async () => {
    const other = new Workspace();
    try {
      other.writePipeline("process: () => undefined");
      other.writeItems(1);
      await other.run("run", "pipeline.ts", "--input", "items.jsonl");
      writeFileSync(file("other.pem"), (await other.run("ledger", "key")).stdout);
    } finally {
      other.remove();
    }
    const { code, stdout } = await work.run(
      "ledger",
      "verify",
      await exportIt(),
      "--trust",
      "other.pem",
    );
    expect(code).toBe(1);
    expect(stdout).toMatch(/neither trusted nor introduced/);
  });

  test("that is not signed to its end is no proof for a reader who names a key", async () => {
    const lines = readFileSync(file(await exportIt()), "utf8").split("\n");
    const unsigned = lines.filter((line) => !line.startsWith('{"head"'));
    writeFileSync(file("unsigned.jsonl"), unsigned.join("\n"));
    const verify = ["ledger", "verify", "unsigned.jsonl"];
    const { code, stdout } = await work.run(...verify, "--trust", await writeKey());
    expect(code).toBe(1);
    expect(stdout).toMatch(/^intact, but signed only up to record 0; anyone could have written/);
    expect(await work.run(...verify)).toMatchObject({ code: 0 });
  });

  test("is intact without a trusted key, but not proven", async () => {
    const name = await exportIt();
    const { code, stdout } = await work.run("ledger", "verify", name);
    expect(code).toBe(0);
    expect(stdout).toContain("no key was named as trusted");
    expect((await work.run("ledger", "verify", name, "--conclusive")).code).toBe(1);
  });

  test("that is older than an anchor is detected", async () => {
    const older = await exportIt("older.jsonl");
    await work.run("dead", "discard", batch, "--yes");
    const newer = await exportIt("newer.jsonl");
    const lines = readFileSync(file(newer), "utf8").split("\n");
    writeFileSync(
      file("anchors.jsonl"),
      `${lines.findLast((line) => line.startsWith('{"head"'))}\n`,
    );
    const verify = (name: string): Promise<Ending> =>
      work.run("ledger", "verify", name, "--anchors", "anchors.jsonl");
    expect(await verify(newer)).toMatchObject({ code: 0 });
    const old = await verify(older);
    expect(old.code).toBe(1);
    expect(old.stdout).toContain("older than its anchor");
  });
});

describe("showing", () => {
  test("an item prints its states, attempts and outcome", async () => {
    const { code, stdout } = await work.run("ledger", "show", batch, "--item-key", "letter-3");
    expect(code).toBe(0);
    expect(stdout).toContain("item 3 (letter-3) of step 0");
    expect(stdout).toMatch(/RECEIVED +1 .*\{"to":"person 3"\}/);
    expect(stdout).toMatch(/failed .*NO_PLACE/);
    const byNumber = await work.run("ledger", "show", await exportIt(), "--item", "3");
    expect(byNumber.stdout).toBe(stdout);
  });

  test("a batch prints its records", async () => {
    const { stdout } = await work.run("ledger", "show", batch);
    for (const type of ["batch.submitted", "items.recorded", "step.ended", "batch.ended"]) {
      expect(stdout).toContain(type);
    }
  });

  test("an unknown item says so", async () => {
    const { code, stderr } = await work.run("ledger", "show", batch, "--item-key", "letter-99");
    expect(code).toBe(2);
    expect(stderr).toContain("error NOT_FOUND: the ledger has no item with the key letter-99");
  });
});

describe("a proof", () => {
  test("of one record verifies with the key, and fails when it is changed", async () => {
    const key = await writeKey();
    expect(await work.run("ledger", "prove", batch, "5/0", "-o", "proof.json")).toMatchObject({
      code: 0,
    });
    const proven = await work.run("ledger", "check-proof", "proof.json", "--trust", key);
    expect(proven.code).toBe(0);
    expect(proven.stdout).toContain(`proven: record 5/0 of batch ${batch}`);
    writeFileSync(
      file("bad.json"),
      readFileSync(file("proof.json"), "utf8").replace("letter-", "letter_"),
    );
    const refused = await work.run("ledger", "check-proof", "bad.json", "--trust", key);
    expect(refused.code).toBe(1);
    expect(refused.stdout).toMatch(/^not proven: /);
  });
});

test("erased details are missing from exports, and the exports still verify", async () => {
  expect(await work.run("ledger", "erase", batch, "--item-key", "letter-1")).toMatchObject({
    code: 2,
  });
  const erased = await work.run(
    "ledger",
    "erase",
    batch,
    "--item-key",
    "letter-1",
    "--by",
    "ann",
    "--yes",
  );
  expect(erased).toMatchObject({ code: 0, stdout: `erased the details of 1 record of ${batch}\n` });
  const name = await exportIt();
  const text = readFileSync(file(name), "utf8");
  expect(text).not.toContain("person 1");
  expect(text).toContain("person 2");
  const verified = ["ledger", "verify", name, "--trust", await writeKey(), "--conclusive"];
  expect(await work.run(...verified)).toMatchObject({ code: 0 });
});

test("a reader who trusts the old key trusts the new one", async () => {
  const key = await writeKey();
  const { stdout, stderr } = await work.run("ledger", "key", "--rotate");
  expect(stdout).not.toBe(readFileSync(file(key), "utf8"));
  expect(stderr).toMatch(/the old key is now .sluice\/ledger\.key\.[0-9a-f]{16}:/);
  await work.run("dead", "discard", batch, "--yes");
  const verified = ["ledger", "verify", await exportIt(), "--trust", key, "--conclusive"];
  expect(await work.run(...verified)).toMatchObject({ code: 0 });
});

describe("an old key", () => {
  /** Signs the batch again, with this key. */
  async function signBy(keyFile: string): Promise<string> {
    await work.run("dead", "discard", batch, "--yes");
    const env = { SLUICE_LEDGER_KEY: keyFile };
    const words = ["ledger", "export", batch, "-o", "later.jsonl"];
    expect(await work.start(words, { env }).ended).toMatchObject({ code: 0 });
    return "later.jsonl";
  }
  const verify = (name: string, key: string): Promise<Ending> =>
    work.run("ledger", "verify", name, "--trust", key);

  test("that was replaced is still trusted, until only the new one is named", async () => {
    const old = await writeKey();
    const { stdout, stderr } = await work.run("ledger", "key", "--rotate");
    writeFileSync(file("new.pem"), stdout);
    expect(stderr).toContain("verifiers that trust the old key still accept what it signs");
    const [oldFile = ""] = /\.sluice\/ledger\.key\.[0-9a-f]{16}/.exec(stderr) ?? [];
    const signed = await signBy(oldFile);
    expect(await verify(signed, old)).toMatchObject({ code: 0 });
    const refused = await verify(signed, "new.pem");
    expect(refused.code).toBe(1);
    expect(refused.stdout).toContain("neither trusted nor introduced");
  });

  test("that was stolen is moved away, and the key made next inherits no trust", async () => {
    const old = await writeKey();
    renameSync(file(".sluice/ledger.key"), file("stolen.key"));
    const signed = await signBy(".sluice/ledger.key");
    writeFileSync(file("new.pem"), (await work.run("ledger", "key")).stdout);
    expect((await verify(signed, old)).stdout).toContain("neither trusted nor introduced");
    const both = ["ledger", "verify", signed, "--trust", old, "--trust", "new.pem"];
    expect(await work.run(...both)).toMatchObject({ code: 0 });
  });

  test("is not reported as revoked after a rotation", async () => {
    const { stdout } = await work.run("ledger", "key", "--help");
    const help = stdout.replaceAll(/\s+/g, " ");
    expect(help).toContain("does not revoke the old key");
    expect(help).toContain("If the old key was stolen, move its file away");
    expect(help).not.toContain("read by others");
  });
});

describe("bad input", () => {
  test.each([
    [["ledger"], /no ledger command/],
    [["ledger", "verfy", "x"], /unknown command 'ledger verfy'/],
    [["ledger", "verify", "missing.jsonl"], /there is no file missing\.jsonl/],
    [["ledger", "check-proof", "missing.json", "--trust", "06e3fd8fda29bb60"], /there is no file/],
    [["ledger", "prove", "b-unknown", "x"], /"x" is not a record/],
    [["ledger", "erase", "b-unknown"], /no items were given/],
    [["ledger", "export", "b-zzzzzzzzzzzz", "-o", "x.jsonl"], /NOT_FOUND: there is no batch/],
  ])("%j is refused with a hint", async (words, why) => {
    const { code, stderr } = await work.run(...words);
    expect(stderr).toMatch(why);
    expect(stderr).toContain("hint: ");
    expect(code).toBe(2);
    expect(existsSync(file("x.jsonl"))).toBe(false);
  });

  test("of a file that is no key, anchor or export is refused or reported as broken", async () => {
    const name = await exportIt();
    const key = await work.run("ledger", "verify", name, "--trust", "nonsense");
    expect(key.code).toBe(2);
    expect(key.stderr).toContain("error LEDGER_KEY: this is not a ledger's public key");
    writeFileSync(file("anchors.jsonl"), "hello\n");
    const anchors = await work.run("ledger", "verify", name, "--anchors", "anchors.jsonl");
    expect(anchors).toMatchObject({ code: 2 });
    const nothing = await work.run("ledger", "verify", "items.jsonl");
    expect(nothing).toMatchObject({ code: 1 });
    expect(nothing.stdout).toMatch(/^broken at line 1: /);
  });

  test("of a key that others may read is refused with the fix", async () => {
    chmodSync(file(".sluice/ledger.key"), 0o644);
    const { code, stderr } = await work.run("ledger", "key");
    expect(code).toBe(1);
    expect(stderr).toMatch(/error LEDGER_KEY_FILE: .*its mode is 644/);
    expect(stderr).toContain("chmod 600");
    expect(stderr.replaceAll(/\s+/g, " ")).toContain("move it away: a new key is created");
  });

  test("of an unusable default key stops no work; a key that was named does", async () => {
    chmodSync(file(".sluice/ledger.key"), 0o644);
    const run = ["run", "pipeline.ts", "--input", "items.jsonl"];
    const ran = await work.run(...run);
    expect(ran.code).toBe(3);
    expect(ran.stderr).toContain("other users can access the key");
    const env = { SLUICE_LEDGER_KEY: ".sluice/ledger.key" };
    const { code, stderr } = await work.start(run, { env }).ended;
    expect(code).toBe(1);
    expect(stderr).toMatch(/error LEDGER_KEY_FILE: other users can access the key .*mode is /);
  }, 60_000);

  test("signing off creates no key and leaves exports unsigned", async () => {
    const env = { SLUICE_LEDGER_KEY: "off" };
    const { code, stderr } = await work.start(["ledger", "key"], { env }).ended;
    expect(code).toBe(2);
    expect(stderr).toContain("error LEDGER_KEY: nothing is signed here");
  });
});
