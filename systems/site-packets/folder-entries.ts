/** The PDFs of a folder of this machine as entries of a site, in the order of their paths. */
import { opendir } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { SluiceError } from "sluice";
import { type Entry, entrySchema } from "./entry.ts";
import { describeIssue } from "./config.ts";

/** The type of the user's own files, because nothing states it. */
const TYPE = "other";
const SCHEMA_VERSION = "v2.0";

/** `skipped`: a folder that is left out, because archived files are not new documents. */
export async function* listFolder(
  root: string,
  site: string,
  skipped: string,
): AsyncGenerator<Entry> {
  let entries = 0;
  for await (const path of listFiles(root, skipped)) {
    if (!/\.pdf$/i.test(path)) continue;
    const document = relative(root, path).split(sep).join("/");
    const given = { site, document, type: TYPE, schemaVersion: SCHEMA_VERSION, url: document };
    const checked = entrySchema.safeParse(given);
    if (!checked.success) {
      const why = checked.error.issues.map(describeIssue).join("; ");
      throw new SluiceError(
        "BAD_NAME",
        `the file ${JSON.stringify(document)} cannot be used: ${why}`,
        {
          hint: "Rename it and run the same command again.",
        },
      );
    }
    entries++;
    yield checked.data;
  }
  if (entries === 0) {
    throw new SluiceError("NO_DOCUMENTS", `there is no PDF in the folder ${root}`, {
      hint: "Files that end in .pdf are read, in all folders below it.",
    });
  }
}

/** Folder by folder, each in the order of its names, so that a second run gives the same list. */
async function* listFiles(folder: string, skipped: string): AsyncGenerator<string> {
  const found: { readonly path: string; readonly isFolder: boolean }[] = [];
  try {
    for await (const entry of await opendir(folder)) {
      found.push({ path: join(folder, entry.name), isFolder: entry.isDirectory() });
    }
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new SluiceError("BAD_FOLDER", `the folder ${folder} cannot be read: ${why}`, {
      hint: "Make it readable, or name another folder.",
      cause,
    });
  }
  for (const { path, isFolder } of found.toSorted((one, other) =>
    one.path < other.path ? -1 : 1,
  )) {
    if (!isFolder) yield path;
    else if (path !== skipped) yield* listFiles(path, skipped);
  }
}
