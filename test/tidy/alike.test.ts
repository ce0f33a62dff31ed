/**
 * The two SQL stores are written twice only where they must differ. A rule of both belongs into
 * `src/adapters/sql`.
 */
import { existsSync, globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { measureAlike } from "./alike.ts";

const adapters = fileURLToPath(new URL("../../src/adapters", import.meta.url));
const alikeMax = 0.4;

/** Files that may be more alike: how much, and why. The numbers may fall, and not rise. */
const exceptions: Readonly<Record<string, { readonly max: number; readonly why: string }>> = {
  "connection/rows.ts": { max: 0.8, why: "three constants, each rendered for its dialect" },
  "connection/rules.ts": { max: 0.45, why: "the same interface on two kinds of transactions" },
  "connection/watch.ts": { max: 0.5, why: "the same subscriptions on two kinds of notifications" },
  "store.ts": { max: 0.45, why: "binds the calls of the hot path, which differ" },
};

const read = (store: string, file: string): string =>
  readFileSync(`${adapters}/${store}/${file}`, "utf8");

const pairs = globSync("**/*.ts", { cwd: `${adapters}/sqlite` })
  .filter((file) => !/\.(test|d)\.ts$/.test(file) && existsSync(`${adapters}/postgres/${file}`))
  .map((file) => ({ file, alike: measureAlike(read("sqlite", file), read("postgres", file)) }));

describe("the SQL stores", () => {
  test(`no two files of the same name share more than ${alikeMax * 100} % of their tokens, but for the named ones`, () => {
    expect(pairs.length).toBeGreaterThan(15);
    const offenders = pairs
      .filter(({ file, alike }) => alike > (exceptions[file]?.max ?? alikeMax))
      .map(({ file, alike }) => `${file}: ${Math.round(alike * 100)} %`);
    expect(offenders).toEqual([]);
  });

  test("every exception is still needed", () => {
    const needless = Object.keys(exceptions).filter(
      (file) => !pairs.some((pair) => pair.file === file && pair.alike > alikeMax),
    );
    expect(needless).toEqual([]);
  });
});

describe("measuring", () => {
  const rule = (name: string, wait: string) =>
    `export ${wait} function ${name}(tx: Transaction) { return ${wait} tx.get(FIND, "a $1", 7); }`;

  test("the same code counts as the same, whether it waits or not", () => {
    expect(measureAlike(rule("find", "async"), rule("find", ""))).toBe(1);
  });

  test("other code does not count, and neither do comments and imports", () => {
    const one = `import { a } from "b";\n/** The same words. */\n${rule("find", "")}`;
    const other = `import { a } from "b";\n/** The same words. */\nconst list = [1, 2, 3, 4, 5, 6];`;
    expect(measureAlike(one, other)).toBe(0);
  });
});
