/**
 * Pipeline files that cannot be loaded: each error has its code, its place and a hint, with exit 2.
 */
import { mkdirSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Workspace } from "../../support/command-line.ts";

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

interface Case {
  readonly rule: string;
  readonly files: Readonly<Record<string, string>>;
  /** Default `pipeline.ts`. */
  readonly file?: string;
  readonly error: RegExp;
  readonly hint: RegExp;
}

const cases: Case[] = [
  {
    rule: "a missing file and suggests similar names",
    files: { "pipelines.ts": "export default 1" },
    error: /^error FILE_MISSING: there is no pipeline file pipeline\.ts$/m,
    hint: /Did you mean pipelines\.ts\?/,
  },
  {
    rule: "a folder and lists its files",
    files: { "pipelines/import.ts": "export default 1" },
    file: "pipelines",
    error: /^error IMPORT_FAILED: pipelines is a folder, not a pipeline file$/m,
    hint: /Name one of its files: import\.ts/,
  },
  {
    rule: "a file of another type",
    files: { "pipeline.json": "{}" },
    file: "pipeline.json",
    error: /^error IMPORT_FAILED: pipeline\.json is not a pipeline file$/m,
    hint: /its name ends in \.ts, \.mts, \.js, \.mjs/,
  },
  {
    rule: "an empty file",
    files: { "pipeline.ts": " \n" },
    error: /^error IMPORT_FAILED: pipeline\.ts is empty$/m,
    hint: /export default definePipeline/,
  },
  {
    rule: "invalid TypeScript and shows line and column",
    files: { "pipeline.ts": "const a = 1;\nconst b: number = ;\n" },
    error: /^error IMPORT_FAILED: pipeline\.ts, line 2, column 19: Expression expected$/m,
    hint: /Fix that line/,
  },
  {
    rule: "invalid JavaScript and shows the line",
    files: { "pipeline.mjs": "const a = 1;\nconst a = 2;\nexport default a;\n" },
    file: "pipeline.mjs",
    error: /^error IMPORT_FAILED: pipeline\.mjs, line 2(, column \d+)?: .*already been declared$/m,
    hint: /Fix that line/,
  },
  {
    rule: "a syntax error in an imported file and shows the place in that file",
    files: { "pipeline.ts": 'import "./part.ts";\n', "part.ts": "\nlet = = 1;\n" },
    error: /^error IMPORT_FAILED: part\.ts, line 2, column \d+: /m,
    hint: /Fix that line/,
  },
  ...[
    ["an enum", "enum Colour { Red }"],
    ["a namespace", "namespace Space { export const a = 1 }"],
    ["a parameter property", "class Box { constructor(private content: string) {} }"],
  ].map(([what, text]) => ({
    rule: `${what}, which type stripping cannot run`,
    files: { "pipeline.ts": `export const before = 1;\n${text}\nexport default before;\n` },
    error: /^error IMPORT_FAILED: pipeline\.ts, line 2, column \d+: /m,
    hint: /erasableSyntaxOnly/,
  })),
  {
    rule: "a file that throws while it loads and shows the user's own line",
    files: {
      "pipeline.ts": 'import { fail } from "./part.ts";\nfail();\n',
      "part.ts": 'export function fail() {\n  throw new Error("no credentials");\n}\n',
    },
    error:
      /^error IMPORT_FAILED: loading the pipeline failed at part\.ts, line 2, column 9: no credentials$/m,
    hint: /Fix that line/,
  },
  {
    rule: "a file that throws a value that is not an error",
    files: { "pipeline.ts": 'throw "just a text";\n' },
    error: /^error IMPORT_FAILED: .*at pipeline\.ts: just a text$/m,
    hint: /Fix/,
  },
  {
    rule: "a file without a default export and suggests a named export",
    files: { "pipeline.ts": "export const importer = 1;\n" },
    error: /^error IMPORT_FAILED: pipeline\.ts has no default export$/m,
    hint: /If importer is the pipeline, add: export default importer;/,
  },
  {
    rule: "a script without exports",
    files: { "pipeline.ts": "const a = 1;\nvoid a;\n" },
    error: /^error IMPORT_FAILED: pipeline\.ts has no default export$/m,
    hint: /export default definePipeline/,
  },
  {
    rule: "a default export that is not from definePipeline",
    files: { "pipeline.ts": 'export default { name: "x", process() {} };\n' },
    error:
      /^error IMPORT_FAILED: the default export of pipeline\.ts is an object, not a pipeline$/m,
    hint: /Wrap it: export default definePipeline/,
  },
  {
    rule: "TypeScript inside node_modules",
    files: { "node_modules/other/pipeline.ts": "export default 1 as number;\n" },
    file: "node_modules/other/pipeline.ts",
    error: /^error IMPORT_FAILED: node_modules\/other\/pipeline\.ts is inside node_modules/m,
    hint: /Copy the file into your project/,
  },
  {
    rule: "a package that is not installed",
    files: { "pipeline.ts": 'import { parse } from "@scope/no-such-package/sub";\nparse();\n' },
    error:
      /^error IMPORT_FAILED: the package @scope\/no-such-package is not installed \(imported in pipeline\.ts\)$/m,
    hint: /Run: npm install @scope\/no-such-package$/m,
  },
  {
    rule: "a missing local module and suggests one with a similar name",
    files: { "pipeline.ts": 'import "./parts.ts";\n', "part.ts": "" },
    error: /^error IMPORT_FAILED: there is no parts\.ts \(imported in pipeline\.ts\)$/m,
    hint: /Did you mean part\.ts/,
  },
  {
    rule: "an import without its file extension",
    files: { "pipeline.ts": 'import "./part";\n', "part.ts": "export {};" },
    error: /^error IMPORT_FAILED: there is no part \(imported in pipeline\.ts\)$/m,
    hint: /import it as part\.ts/,
  },
  {
    rule: "a type that is imported as a value",
    files: {
      "pipeline.ts": 'import { Item } from "./part.ts";\nexport default 1 as unknown as Item;\n',
      "part.ts": "export interface Item { id: string }\n",
    },
    error:
      /^error IMPORT_FAILED: pipeline\.ts, line 1, column \d+: .*does not provide an export named 'Item'$/m,
    hint: /`import type`/,
  },
  {
    rule: "an ES module in a CommonJS package",
    files: {
      "package.json": '{ "type": "commonjs" }',
      "pipeline.ts": 'import { a } from "./b.ts";\nexport default a;\n',
    },
    error: /^error IMPORT_FAILED: pipeline\.ts, line 1.*its package is CommonJS$/m,
    hint: /"type": "module"/,
  },
];

describe("loading a pipeline refuses", () => {
  for (const { rule, files, file = "pipeline.ts", error, hint } of cases) {
    test(rule, async () => {
      for (const [name, text] of Object.entries(files)) work.write(name, text);
      const { code, stderr, stdout } = await work.run("run", file, "--input", "x");
      expect(stderr).toMatch(error);
      expect(stderr.split("\n").filter((line) => line.startsWith("hint: "))).toEqual([
        expect.stringMatching(hint),
      ]);
      expect(code).toBe(2);
      expect(stdout).toBe("");
    });
  }
});

test("all problems of a definition are reported at once, with the place of the call", async () => {
  work.write(
    "pipeline.ts",
    `import { definePipeline } from "sluice";

export default definePipeline({ name: "no name!", chunkSize: 0, uniqueKeys: true, colour: "red" } as any);
`,
  );
  const { code, stderr } = await work.run("run", "pipeline.ts", "--input", "x");
  expect(code).toBe(2);
  expect(stderr).toMatch(/^error BAD_PIPELINE: the pipeline "no name!" has 5 problems:$/m);
  for (const option of ["name", "chunkSize", "uniqueKeys", "colour", "process"]) {
    expect(stderr).toMatch(new RegExp(`^  - ${option} `, "m"));
  }
  expect(stderr).toContain("It is in pipeline.ts, line 3, column 16.");
});

test("a pipeline may be JavaScript, and may import modules of its own", async () => {
  work.write("part.mts", "export const double = (n: number): number => n * 2;\n");
  work.write(
    "pipeline.mjs",
    `import { definePipeline } from "sluice";
     import { double } from "./part.mts";
     export default definePipeline({ name: "doubles", source: () => [1, 2], process: double });`,
  );
  const { code, view } = await work.runJson("run", "pipeline.mjs");
  expect(code).toBe(0);
  expect((await work.run("results", view.batch)).stdout).toContain('"value":4');
});

test("Node's warnings about SQLite and type stripping are hidden, but not a pipeline's own warnings", async () => {
  work.write("package.json", "{}");
  work.writePipeline(`process: () => { process.emitWarning("mind the gap"); }`);
  const { stderr } = await work.run("run", "pipeline.ts", "--input", work.writeItems(1));
  expect(stderr).not.toMatch(/Experimental|MODULE_TYPELESS/);
  expect(stderr).toContain("Warning: mind the gap");
});

test("a pipeline that brings its own copy of the package works, including its errors", async () => {
  const { cpSync, rmSync, symlinkSync } = await import("node:fs");
  rmSync(work.at("node_modules/sluice"));
  mkdirSync(work.at("node_modules/sluice"));
  for (const part of ["dist", "migrations", "package.json"]) {
    cpSync(new URL(`../../../${part}`, import.meta.url), work.at(`node_modules/sluice/${part}`), {
      recursive: true,
    });
  }
  mkdirSync(work.at("node_modules/@opentelemetry"));
  for (const name of ["zod", "csv-parse", "prom-client", "@opentelemetry/api"]) {
    symlinkSync(
      new URL(`../../../node_modules/${name}`, import.meta.url),
      work.at(`node_modules/${name}`),
    );
  }
  work.writePipeline(`process: (item) => {
    if (item.n === 1) throw new PermanentError("no", { code: "NO" });
    return item.n === 2 ? skipped() : item;
  }`);
  const good = await work.runJson("run", "pipeline.ts", "--input", work.writeItems(3));
  expect(good).toMatchObject({ code: 3, view: { succeeded: 1, skipped: 1, failed: 1 } });
  const missing = await work.run("run", "pipeline.ts", "--input", "nowhere.jsonl");
  expect(missing.stdout).toContain("Check the path.");
  work.writePipeline("chunkSize: 0");
  const bad = await work.run("run", "pipeline.ts", "--input", "items.jsonl");
  expect(bad).toMatchObject({ code: 2, stderr: expect.stringContaining("error BAD_PIPELINE") });
});
