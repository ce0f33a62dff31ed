/**
 * The size of what users see: every name is one to learn, to document and to keep. Each number may
 * fall, and rises only with a decision.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { VARIABLES } from "../../src/cli/config/settings-layers.ts";
import { DEFAULT_SETTINGS } from "../../src/runtime/system/settings.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const exportsMax = 90;
const settingsMax = 14;
const variablesMax = 24;
const codesMax = 120;

const read = (path: string) => readFileSync(posix.join(root, path), "utf8");

/** The names in `{ a, type B, c as d }`. */
function readNames(list: string): string[] {
  return list
    .split(",")
    .map((one) => one.trim().split(/\s+/).at(-1) ?? "")
    .filter((name) => name !== "");
}

/** The names that a module exports, values and types; `export *` is followed. */
function listExports(path: string): string[] {
  const text = read(path).replaceAll(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, "");
  const forms: [RegExp, (match: RegExpExecArray) => string[]][] = [
    [/^export (?:type )?\{([^}]*)\}/, ([, list = ""]) => readNames(list)],
    [/^export (?:type )?\* as (\w+)/, ([, name = ""]) => [name]],
    [
      /^export (?:type )?\* from "([^"]+)"/,
      ([, from = ""]) => listExports(posix.join(posix.dirname(path), from)),
    ],
    [
      /^export (?:declare |abstract |async |const (?=enum))*(?:interface|type|function\*?|const|let|class|enum|namespace) (\w+)/,
      ([, name = ""]) => [name],
    ],
    [/^export default\b/, () => ["default"]],
  ];
  return [...text.matchAll(/^export\b/gm)].flatMap(({ index }) => {
    const statement = text.slice(index);
    for (const [form, name] of forms) {
      const match = form.exec(statement);
      if (match !== null) return name(match);
    }
    throw new Error(`${path} exports in a way that this test does not know: ${statement}`);
  });
}

describe("exports", () => {
  const { exports: subpaths } = JSON.parse(read("package.json")) as {
    exports: Readonly<Record<string, string | { readonly types: string }>>;
  };
  const listed = Object.entries(subpaths).flatMap(([subpath, target]) =>
    typeof target === "string"
      ? []
      : [
          {
            subpath,
            names: listExports(
              target.types.replace(/^\.\/dist\//, "src/").replace(/\.d\.ts$/, ".ts"),
            ),
          },
        ],
  );

  test(`at most ${exportsMax} exports over all subpaths`, () => {
    const counts = listed.map(({ subpath, names }) => `${subpath}: ${new Set(names).size}`);
    const sum = listed.reduce((total, { names }) => total + new Set(names).size, 0);
    expect(sum, counts.join(", ")).toBeLessThanOrEqual(exportsMax);
  });

  test("every subpath exports something, so that none is left out of the count", () => {
    expect(listed.map(({ subpath }) => subpath)).toContain("./testing");
    expect(listed.filter(({ names }) => names.length === 0)).toEqual([]);
  });
});

describe("settings", () => {
  const sources = execFileSync("git", ["ls-files", "-co", "--exclude-standard", "src"], {
    cwd: root,
    encoding: "utf8",
  })
    .split("\n")
    .filter((path) => path.endsWith(".ts") && !path.endsWith(".test.ts"))
    .map((path) => ({ path, text: read(path) }));

  test(`an engine has at most ${settingsMax} settings`, () => {
    expect(Object.keys(DEFAULT_SETTINGS).length).toBeLessThanOrEqual(settingsMax);
  });

  test(`the command reads at most ${variablesMax} SLUICE_ variables`, () => {
    expect(VARIABLES.length).toBeLessThanOrEqual(variablesMax);
  });

  test("every SLUICE_ variable that the source names is listed, or a command sink hands it on", () => {
    const handedOn = sources
      .filter(({ path }) => path.startsWith("src/sinks/"))
      .flatMap(({ text }) => [...text.matchAll(/\b(SLUICE_[A-Z_]+):/g)].map(([, name]) => name));
    const named = sources.flatMap(({ path, text }) =>
      [...text.matchAll(/(?:["'`.[]|\$\{)(SLUICE_[A-Z_]+)\b/g)].map(([, name = ""]) => ({
        path,
        name,
      })),
    );
    expect(named.map(({ name }) => name)).toContain("SLUICE_PROCESS");
    const unlisted = named.filter(
      // A symbol of ours, no variable.
      ({ name }) => ![...VARIABLES, ...handedOn, "SLUICE_ERROR"].includes(name),
    );
    expect(unlisted).toEqual([]);
  });
});

test(`at most ${codesMax} error codes`, () => {
  const page = read("docs/reference/error-codes.md");
  const codes = [...page.matchAll(/^\| `([A-Z][A-Z0-9_]*…?)`/gm)].map(([, code]) => code);
  expect(codes).toContain("BAD_OPTION");
  expect(codes.length).toBeLessThanOrEqual(codesMax);
});
