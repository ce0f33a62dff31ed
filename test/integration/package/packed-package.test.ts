/**
 * The package as a registry would deliver it: packed, installed into an empty project, run and
 * compiled against. Its dependencies have the versions of this repository's lock file, so npm finds
 * them in its cache and needs no network.
 */
import { spawn } from "node:child_process";
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readPage, ROOT } from "../../docs/markdown.ts";

interface PackageFile {
  readonly exports: Readonly<Record<string, unknown>>;
}

let project = "";

/** With the Node that runs this test first in the path, for programs that start with `env node`. */
async function run(folder: string, program: string, ...args: string[]): Promise<string> {
  const path = [dirname(process.execPath), process.env["PATH"]].join(delimiter);
  const child = spawn(program, args, {
    cwd: folder,
    env: { ...process.env, PATH: path, NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const code = new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", resolve);
  });
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  if ((await code) !== 0) throw new Error(`${program} ${args.join(" ")}\n${stdout}${stderr}`);
  return stdout;
}

const readJson = async (path: string): Promise<unknown> =>
  JSON.parse(await readFile(path, "utf8")) as unknown;

const writeJson = (name: string, value: unknown): Promise<void> =>
  writeFile(join(project, name), JSON.stringify(value));

beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), "sluice-packed-"));
  // The build already exists; building again would change it during other tests.
  const packed = await run(ROOT, "npm", "pack", "--ignore-scripts", "--pack-destination", project);
  const dependencies = { sluice: `file:${packed.trim().split("\n").at(-1)}` };
  await writeJson("package.json", { type: "module", private: true, dependencies });
  // npm takes from the lock file what the package needs and drops the rest.
  const lock = (await readJson(join(ROOT, "package-lock.json"))) as { packages: object };
  const packages = { ...lock.packages, "": { dependencies } };
  await writeJson("package-lock.json", { ...lock, packages });
  await run(project, "npm", "install", "--prefer-offline", "--no-audit", "--no-fund");
});

afterAll(() => rm(project, { recursive: true, force: true }));

test("the package contains compiled code, types, migrations and its pages, and nothing else", async () => {
  const folder = join(project, "node_modules/sluice");
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1));
  const needed =
    /^(dist\/.*(?<!\.test)(\.js|\.d\.ts)|migrations\/(sqlite|postgres)\/\w+\.sql|package\.json|(README|CHANGELOG)\.md|LICENSE)$/;
  expect(files.filter((file) => !needed.test(file))).toEqual([]);
  expect(files).toEqual(expect.arrayContaining(["README.md", "LICENSE", "package.json"]));
});

test("the first pipeline of the README runs", async () => {
  const block = readPage("README.md").blocks.find(({ file }) => file === "compress.ts");
  await writeFile(join(project, "compress.ts"), block?.text ?? "");
  await mkdir(join(project, "logs"));
  await writeFile(join(project, "logs/a.log"), "a line\n".repeat(3_000));
  await writeFile(join(project, "logs/empty.log"), "");
  const ran = await run(
    project,
    "npx",
    "sluice",
    "run",
    "compress.ts",
    "--input",
    "logs",
    "--json",
  );
  expect(JSON.parse(ran.trim().split("\n").at(-1) ?? "")).toMatchObject({
    state: "succeeded",
    succeeded: 1,
    skipped: 1,
  });
  expect(await readdir(join(project, "packed"))).toEqual(["a.log.gz"]);
});

test.each([
  ["nodenext", "nodenext"],
  ["esnext", "bundler"],
])(
  "the types of all subpaths compile with module %s, moduleResolution %s",
  async (module, moduleResolution) => {
    const { exports } = (await readJson(join(ROOT, "package.json"))) as PackageFile;
    const subpaths = Object.keys(exports).filter((path) => !path.endsWith(".json"));
    const names = subpaths.map((path) => path.replace(/^\./, "sluice"));
    expect(names).toContain("sluice/testing");
    const imports = names.map((name, at) => `import * as part${at} from "${name}";\n`);
    const uses = names.map((_name, at) => `part${at}`);
    const consumer = `${imports.join("")}export const all: object[] = [${uses.join(", ")}];\n`;
    await writeFile(join(project, "consumer.ts"), consumer);
    await writeJson(`${moduleResolution}.json`, {
      compilerOptions: {
        module,
        moduleResolution,
        target: "es2024",
        lib: ["es2024"],
        types: ["node"],
        typeRoots: [join(ROOT, "node_modules/@types")],
        strict: true,
        exactOptionalPropertyTypes: true,
        skipLibCheck: false,
        noEmit: true,
      },
      files: ["consumer.ts"],
    });
    const compiler = join(ROOT, "node_modules/.bin/tsc");
    expect(await run(project, compiler, "--project", `${moduleResolution}.json`)).toBe("");
  },
);

test("what functions return can be exported from a user's module with declaration: true", async () => {
  await copyFile(new URL("exported.ts", import.meta.url), join(project, "exported.ts"));
  await writeJson("declarations.json", {
    compilerOptions: {
      module: "nodenext",
      target: "es2024",
      lib: ["es2024"],
      types: ["node"],
      typeRoots: [join(ROOT, "node_modules/@types")],
      strict: true,
      declaration: true,
      emitDeclarationOnly: true,
      outDir: "declared",
    },
    files: ["exported.ts"],
  });
  const compiler = join(ROOT, "node_modules/.bin/tsc");
  expect(await run(project, compiler, "--project", "declarations.json")).toBe("");
  const declared = await readFile(join(project, "declared/exported.d.ts"), "utf8");
  // Only what the package exports: no path within it.
  expect([...declared.matchAll(/import\("([^"]+)"\)/g)].map(([, from]) => from)).toEqual(
    expect.not.arrayContaining([expect.stringContaining("dist")]),
  );
  expect(declared).toContain('import("sluice").Pipeline<');
});
