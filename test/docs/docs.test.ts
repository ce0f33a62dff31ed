/** Runs every code block of the pages, and follows every link between them. */
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { askForPostgres } from "../support/postgres-setup.ts";
import { listLinkedPages, listPages, type Page, readPage, ROOT } from "./markdown.ts";
import { nameScript, PageRun } from "./page-run.ts";
import { makeReadersFolder } from "./readers-folder.ts";

const pages = listPages();
let folder = "";

beforeAll(() => {
  folder = makeReadersFolder();
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const slug = ({ path }: Page): string =>
  path.replace(/\.md$/, "").replaceAll("/", "-").toLowerCase();

/** The address behind `postgres:///`, as a page shows it. */
async function describeServer(): Promise<Record<string, string>> {
  const { hostname, port, username, password, pathname } = new URL(await askForPostgres());
  return {
    PGHOST: hostname,
    PGPORT: port,
    PGUSER: username,
    PGPASSWORD: password,
    PGDATABASE: pathname.slice(1),
  };
}

describe.concurrent("every page does what it says when its blocks run from top to bottom", () => {
  for (const page of pages.filter(({ blocks }) => blocks.length > 0)) {
    test(page.path, async () => {
      const env = page.blocks.some(({ text }) => text.includes("postgres:///"))
        ? await describeServer()
        : {};
      await new PageRun(page, folder, slug(page), env).run();
    });
  }
});

test("every TypeScript block compiles as a strict file of its own page", async () => {
  const types = join(folder, "types");
  for (const page of pages) {
    for (const block of page.blocks.filter(({ language }) => language === "ts")) {
      const file = join(types, slug(page), nameScript(block));
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, block.text);
    }
  }
  const compilerOptions = {
    target: "es2024",
    lib: ["es2024"],
    module: "nodenext",
    types: ["node"],
    strict: true,
    noUncheckedIndexedAccess: true,
    exactOptionalPropertyTypes: true,
    erasableSyntaxOnly: true,
    verbatimModuleSyntax: true,
    allowImportingTsExtensions: true,
    skipLibCheck: true,
    noEmit: true,
  };
  writeFileSync(join(types, "tsconfig.json"), JSON.stringify({ compilerOptions }));
  const compiler = join(ROOT, "node_modules/.bin/tsc");
  const { stdout, stderr } = await promisify(execFile)(compiler, ["-p", types]).catch(
    (error: unknown) => error as { stdout: string; stderr: string },
  );
  expect(stdout + stderr).toBe("");
});

test("no two blocks of a page are the same file", () => {
  const repeated = pages.flatMap(({ path, blocks }) => {
    const names = blocks.flatMap(({ file }) => (file === null ? [] : [file]));
    return names.filter((name, at) => names.indexOf(name) < at).map((name) => `${path}: ${name}`);
  });
  expect(repeated).toEqual([]);
});

test("links between pages lead to an existing file and heading", () => {
  const anchors = new Map<string, ReadonlySet<string>>();
  const findAnchors = (path: string): ReadonlySet<string> => {
    const known = anchors.get(path) ?? readPage(path).anchors;
    anchors.set(path, known);
    return known;
  };
  const broken = listLinkedPages().flatMap((page) =>
    page.links
      .filter(({ target }) => !/^[a-z]+:/.test(target))
      .filter(({ target }) => {
        const [file = "", anchor] = target.split("#");
        const path = file === "" ? page.path : normalize(join(dirname(page.path), file));
        if (!existsSync(join(ROOT, path))) return true;
        return anchor !== undefined && !findAnchors(path).has(anchor);
      })
      .map(({ line, target }) => `${page.path}:${line}: ${target}`),
  );
  expect(broken).toEqual([]);
});
