/**
 * Tests of the code itself: house rules that a compiler or a linter does not know. Each test's name
 * is the rule, and its failure lists the violations.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { layers, rooms } from "./rooms.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

const sourceLinesMax = 400;
const coreLinesMax = 300;
const filesInRoomMax = 20;

/** The port implementations: the only files of `src` that may touch the real clock, timers and randomness. */
const mayTouchTheWorld = [
  /^src\/runtime\/system\/system-[a-z0-9-]+\.ts$/,
  // Virtual time moves when the real process has nothing left to do.
  /^src\/testing\/world\/virtual-clock\.ts$/,
];

/** Files that only one SQL adapter needs. */
const onlyIn = {
  // A file is copied, lives on a disk, and its clock restarts with each boot.
  sqlite: [
    "adopt-boot.ts",
    "backup.ts",
    "dump.ts",
    "connection/file-system.ts",
    "connection/synchronous.ts",
  ],
  // A server has an address and its own state; many clients write to it at once.
  postgres: [
    "connection/address.ts",
    "chunks/held-chunks.ts",
    "working/leasable-chunks.ts",
    "chunks/lease-runs.ts",
    "chunks/runs.ts",
    "chunks/content-claims.ts",
    "connection/fate.ts",
    "inspect.ts",
    "connection/own-settings.ts",
    "topics/positions.ts",
    "restore.ts",
    "connection/statement.ts",
  ],
};

/** Every file of the repository that git tracks or would track and that exists on disk. */
const files = execFileSync(
  "git",
  ["ls-files", "-z", "--cached", "--others", "--exclude-standard"],
  {
    cwd: root,
    encoding: "utf8",
  },
)
  .split("\0")
  .filter((path) => path !== "" && existsSync(posix.join(root, path)));

const isTest = (path: string) => /\.test(-d)?\.ts$/.test(path);
const isScript = (path: string) => /\.(ts|tsx|js|mjs)$/.test(path);
const isBinary = (path: string) => /\.(png|jpg|gif|ico|pdf|db|gz|zip|woff2?)$/.test(path);
const source = files.filter(
  (path) => /^(src|sim|systems|bench)\//.test(path) && isScript(path) && !isTest(path),
);
const library = source.filter((path) => path.startsWith("src/"));

const read = (path: string) => readFileSync(posix.join(root, path), "utf8");

/**
 * Lines with their numbers, without comments. Enough for formatted code, where comments have their
 * own lines.
 */
function codeLines(path: string): { line: number; text: string }[] {
  return read(path)
    .split("\n")
    .map((text, index) => ({ line: index + 1, text: text.replace(/(^|\s)\/\/.*$/, "") }))
    .filter(({ text }) => !/^\s*(\/\*|\*\s|\*\/|\*$)/.test(text));
}

/** `path:line: text` for each line of code that matches. */
function findInCode(paths: readonly string[], pattern: RegExp): string[] {
  return paths.flatMap((path) =>
    codeLines(path)
      .filter(({ text }) => pattern.test(text))
      .map(({ line, text }) => `${path}:${line}: ${text.trim()}`),
  );
}

/** `path:line: text` for each line of text, comments included, that matches. */
function findInText(paths: readonly string[], pattern: RegExp): string[] {
  return paths.flatMap((path) =>
    read(path)
      .split("\n")
      .flatMap((text, index) =>
        pattern.test(text) ? [`${path}:${index + 1}: ${text.trim().slice(0, 120)}`] : [],
      ),
  );
}

function longerThan(paths: readonly string[], linesMax: number): string[] {
  return paths.flatMap((path) => {
    const lines = read(path).trimEnd().split("\n").length;
    return lines > linesMax ? [`${path}: ${lines} lines, at most ${linesMax}`] : [];
  });
}

/** The layer of a file of `src`, such as `core` or `adapters/sqlite`; `entry` for `src/index.ts` and its neighbours. */
function layerOf(path: string): string {
  const parts = path.split("/").slice(1, -1);
  if (parts.length === 0) {
    return "entry";
  }
  return parts.slice(0, parts[0] === "adapters" ? 2 : 1).join("/");
}

/** The room of a file of `src`: its folder below `src`; empty for `src/index.ts` and its neighbours. */
function roomOf(path: string): string {
  return posix.dirname(path).split("/").slice(1).join("/");
}

/** The modules that a file names in `import`, `export ... from` and `import()`. */
function importsOf(path: string): string[] {
  const text = codeLines(path)
    .map((code) => code.text)
    .join("\n");
  const pattern = /(?:\bfrom\s*|\bimport\s*\(\s*|^\s*import\s*)["']([^"']+)["']/gm;
  return [...text.matchAll(pattern)].map((match) => match[1] ?? "");
}

describe("size", () => {
  test(`no source file is longer than ${sourceLinesMax} lines`, () => {
    expect(longerThan(source, sourceLinesMax)).toEqual([]);
  });

  test(`no file of core is longer than ${coreLinesMax} lines`, () => {
    const core = library.filter((path) => path.startsWith("src/core/"));
    expect(longerThan(core, coreLinesMax)).toEqual([]);
  });
});

describe("names", () => {
  const named = files.filter((path) =>
    /^(src|sim|systems|bench|examples|scripts|test)\//.test(path),
  );

  test("no file or folder is called utils, helpers, common or misc", () => {
    const drawer = /(^|\/)(utils?|helpers?|common|misc)(\/|\.[^/]*$|$)/;
    expect(named.filter((path) => drawer.test(path))).toEqual([]);
  });

  test("folders and scripts have names in kebab-case", () => {
    const kebab = /^[a-z0-9]+(-[a-z0-9]+)*$/;
    const offenders = named.filter((path) => {
      const folders = path.split("/").slice(0, -1);
      const stem = posix.basename(path).replace(/(\.[a-z0-9-]+)+$/, "");
      return (
        !folders.every((folder) => kebab.test(folder)) || (isScript(path) && !kebab.test(stem))
      );
    });
    expect(offenders).toEqual([]);
  });

  test("the SQL adapters have the same file names, so that they can be read side by side", () => {
    const namesIn = (adapter: keyof typeof onlyIn) =>
      library
        .filter((path) => path.startsWith(`src/adapters/${adapter}/`))
        .map((path) => path.slice(`src/adapters/${adapter}/`.length))
        .filter((name) => !onlyIn[adapter].includes(name))
        .toSorted();
    expect(namesIn("postgres")).toEqual(namesIn("sqlite"));
  });
});

describe("rooms", () => {
  const known = new Map<string, readonly string[]>();
  for (const [layer, within] of Object.entries(rooms)) {
    for (const [room, imports] of Object.entries(within)) {
      known.set(
        posix.join(layer, room),
        imports.map((other) => posix.join(layer, other)),
      );
    }
  }

  /** `from -> to` for each import of `src` that leaves its room, entries aside. */
  const edges = library.flatMap((path) =>
    importsOf(path)
      .filter((name) => name.startsWith("."))
      .map((name) => posix.join(posix.dirname(path), name))
      .map((target) => ({ path, target, from: roomOf(path), to: roomOf(target) }))
      .filter(({ from, to }) => from !== "" && from !== to),
  );

  test("every folder of src is a room with a place in the table, and every room has a folder", () => {
    const folders = new Set(library.map(roomOf).filter((room) => room !== ""));
    expect([...folders].toSorted()).toEqual([...known.keys()].toSorted());
  });

  test(`no room has more than ${filesInRoomMax} source files`, () => {
    const sizes = Map.groupBy(library, (path) => posix.dirname(path));
    const offenders = [...sizes].filter(([, paths]) => paths.length > filesInRoomMax);
    expect(offenders.map(([room, paths]) => `${room}: ${paths.length} files`)).toEqual([]);
  });

  test("a layer imports only layers below it: no adapter imports another, and runtime imports no adapter", () => {
    const offenders = edges.filter(({ path, target }) => {
      const [layer, below] = [
        layerOf(path),
        target.startsWith("src/") ? layerOf(target) : "outside",
      ];
      return layer !== below && !(layers[layer]?.includes(below) ?? false);
    });
    expect(offenders.map(({ path, target }) => `${path} imports ${target}`)).toEqual([]);
  });

  test("a room imports exactly the rooms that the table allows within its layer", () => {
    const real = edges
      .filter(({ path, target }) => layerOf(path) === layerOf(target))
      .map(({ from, to }) => `${from} -> ${to}`);
    const allowed = [...known].flatMap(([from, imports]) =>
      imports.map((to) => `${from} -> ${to}`),
    );
    expect([...new Set(real)].toSorted()).toEqual(allowed.toSorted());
  });

  test("rooms do not import each other in a circle", () => {
    const below = Map.groupBy(edges, ({ from }) => from);
    const finished = new Set<string>();
    const findCircle = (room: string, path: readonly string[]): readonly string[] => {
      if (path.includes(room)) return [...path.slice(path.indexOf(room)), room];
      if (finished.has(room)) return [];
      for (const { to } of below.get(room) ?? []) {
        const circle = findCircle(to, [...path, room]);
        if (circle.length > 0) return circle;
      }
      finished.add(room);
      return [];
    };
    expect([...known.keys()].flatMap((room) => findCircle(room, []))).toEqual([]);
  });

  /** The rows of the map: a room, or a pattern with `*` for rooms alike, and the file to begin with. */
  const mapped = [...read("ARCHITECTURE.md").matchAll(/^\| `([^`]+)` \|.*\*\*`([^`]+)`\*\*/gm)].map(
    ([, pattern = "", first = ""]) => {
      const names = new RegExp(
        `^${pattern.replace("adapters/*", "adapters/(sqlite|postgres)").replace("/*", "/[^/]+")}$`,
      );
      return { pattern, first, found: [...known.keys()].filter((room) => names.test(room)) };
    },
  );

  test("the map in ARCHITECTURE.md has every room exactly once", () => {
    expect(mapped.filter(({ found }) => found.length === 0).map(({ pattern }) => pattern)).toEqual(
      [],
    );
    expect(mapped.flatMap(({ found }) => found).toSorted()).toEqual([...known.keys()].toSorted());
  });

  test("the map names an existing file to begin with for each room", () => {
    const missing = mapped.filter(({ pattern, first, found }) => {
      const below = pattern.endsWith("/*") && first.includes("/") ? [pattern.slice(0, -2)] : found;
      return !below.every((room) => library.includes(posix.join("src", room, first)));
    });
    expect(missing.map(({ pattern, first }) => `${pattern}: ${first}`)).toEqual([]);
  });

  test("no file of src imports the package by its own name, which would bypass the layers", () => {
    const offenders = library.filter((path) =>
      importsOf(path).some((name) => /^sluice(\/|$)/.test(name)),
    );
    expect(offenders).toEqual([]);
  });

  test("core and ports import no package and no platform module, except the Standard Schema types", () => {
    const offenders = library
      .filter((path) => /^src\/(core|ports)\//.test(path))
      .flatMap((path) =>
        importsOf(path)
          .filter((name) => !name.startsWith(".") && name !== "@standard-schema/spec")
          .map((name) => `${path} imports ${name}`),
      );
    expect(offenders).toEqual([]);
  });
});

describe("the world", () => {
  const confined = library.filter(
    (path) => !mayTouchTheWorld.some((allowed) => allowed.test(path)),
  );

  test("only the port implementations read the clock", () => {
    const clock = /\bDate\.now\b|\bnew Date\(\)|\bperformance\.now\b|\bprocess\.hrtime\b/;
    expect(findInCode(confined, clock)).toEqual([]);
  });

  test("only the port implementations set timers", () => {
    const timer =
      /(?<![.\w])(setTimeout|setInterval|setImmediate)\b|globalThis\.set(Timeout|Interval|Immediate)\b|["'](node:)?timers(\/promises)?["']/;
    expect(findInCode(confined, timer)).toEqual([]);
  });

  test("only the port implementations draw random values", () => {
    const random =
      /\bMath\.random\b|\bcrypto\.(random\w*|getRandomValues)\b|\brandom(UUID|Bytes|Int|FillSync|Fill)\b/;
    expect(findInCode(confined, random)).toEqual([]);
  });

  test("only the command's entry ends the process", () => {
    const others = library.filter((path) => path !== "src/cli/main.ts");
    expect(findInCode(others, /\bprocess\.(exit\s*\(|abort\s*\(|reallyExit\b)/)).toEqual([]);
  });
});

describe("text", () => {
  const texts = files.filter((path) => !isBinary(path));

  test("no file contains a path of one particular machine", () => {
    const machinePath =
      /(?<![\w.:/~$}-])\/(root|work|home\/[\w.-]+|Users\/[\w.-]+)\/|\b[A-Z]:\\+Users\\/;
    expect(findInText(texts, machinePath)).toEqual([]);
  });

  test("no file contains the host of a package registry, and the lockfile has no download addresses", () => {
    const host = /registry\.(npmjs|yarnpkg|npmmirror)\.|\bnpm\.pkg\.github\b|^\s*"resolved": "http/;
    expect(findInText(texts, host)).toEqual([]);
  });

  test("every file of src starts with a comment that says what it is for", () => {
    const offenders = library.filter((path) => !/^(#![^\n]*\n)?\s*(\/\*|\/\/)/.test(read(path)));
    expect(offenders).toEqual([]);
  });
});

describe("checks", () => {
  test("CI runs the same steps as `npm run check`", () => {
    const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };
    const local = [...(scripts["check"] ?? "").matchAll(/npm run ([\w:]+)/g)].map(
      (match) => match[1],
    );
    const ci = /for step in ([^;]+);/.exec(read(".ci/run"))?.[1]?.split(" ");
    expect(ci).toEqual(local);
  });

  test("every set of bench questions has a place for its results", () => {
    const page = read("bench/README.md");
    const sets = new Set([...page.matchAll(/^npm run bench -- (\w+)/gm)].map(([, set]) => set));
    const saved = [...page.matchAll(/written by `node bench\/main\.ts (\w+) --save`/g)];
    expect(saved.map(([, set]) => set)).toEqual([...sets]);
  });
});
