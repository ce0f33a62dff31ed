/** The parts of a page that the tests need: its code blocks, tables, headings and links. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));

export interface Block {
  /** The line of the fence, from 1. */
  readonly line: number;
  readonly language: string;
  /** The block's file name: from the fence, or from a first line like `// compress.ts`. */
  readonly file: string | null;
  readonly text: string;
}

export interface Link {
  readonly line: number;
  readonly target: string;
}

export interface Page {
  /** From the repository's root. */
  readonly path: string;
  readonly blocks: readonly Block[];
  readonly links: readonly Link[];
  readonly anchors: ReadonlySet<string>;
  /** The rows of all tables; cells without their backticks; the header is a row as well. */
  readonly tables: readonly (readonly (readonly string[])[])[];
}

/** The pages whose blocks are run. */
export function listPages(): Page[] {
  const own = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"];
  return [...own, ...listMarkdown("docs"), ...listMarkdown("systems")].map(readPage);
}

/** Every page for people, for its links. */
export function listLinkedPages(): Page[] {
  const others = ["ARCHITECTURE.md", "bench/README.md"].filter((path) =>
    existsSync(join(ROOT, path)),
  );
  return [...listPages(), ...others.map(readPage)];
}

function listMarkdown(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => relative(ROOT, join(ROOT, folder, name)))
    .toSorted();
}

const FENCE = /^(\s*)(`{3,})\s*(\S*)\s*(\S*)\s*$/;
const FILE_COMMENT = /^(?:\/\/|#) ([\w./-]+\.\w+)$/;

export function readPage(path: string): Page {
  const lines = readFileSync(join(ROOT, path), "utf8").split("\n");
  const blocks: Block[] = [];
  const prose: { line: number; text: string }[] = [];
  for (let at = 0; at < lines.length; at++) {
    const text = lines[at] ?? "";
    const [, indent = "", fence, language = "", name = ""] = FENCE.exec(text) ?? [];
    if (fence === undefined) {
      prose.push({ line: at + 1, text });
      continue;
    }
    const from = at + 1;
    const to = lines.findIndex((line, index) => index >= from && line.trim() === fence);
    const body = lines.slice(from, to).map((line) => line.slice(indent.length));
    const commented = FILE_COMMENT.exec(body[0] ?? "")?.[1];
    blocks.push({
      line: at + 1,
      language,
      file: name === "" ? (commented ?? null) : name,
      text: `${body.join("\n")}\n`,
    });
    at = to;
  }
  return {
    path,
    blocks,
    links: prose.flatMap(({ line, text }) => findLinks(line, text)),
    anchors: new Set(prose.flatMap(({ text }) => findAnchor(text))),
    tables: findTables(prose.map(({ text }) => text)),
  };
}

function findLinks(line: number, text: string): Link[] {
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => ({ line, target }));
}

/** As GitHub makes them: lower case, spaces to dashes, other signs dropped. */
function findAnchor(text: string): string[] {
  const heading = /^#{1,6}\s+(.*?)\s*$/.exec(text)?.[1];
  if (heading === undefined) return [];
  const plain = heading.toLowerCase().replaceAll(/[^\p{L}\p{N}\s_-]/gu, "");
  return [plain.trim().replaceAll(/\s/g, "-")];
}

function findTables(lines: readonly string[]): string[][][] {
  const tables: string[][][] = [];
  let open: string[][] | null = null;
  for (const line of lines) {
    if (!line.startsWith("|")) {
      open = null;
      continue;
    }
    if (open === null) {
      open = [];
      tables.push(open);
    }
    const cells = line
      .replaceAll("\\|", "\u0000")
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.replaceAll("\u0000", "|").trim());
    if (!cells.every((cell) => /^:?-+:?$/.test(cell))) open.push(cells);
  }
  return tables;
}
