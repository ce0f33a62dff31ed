/** `site-packets ingest`: a manifest of several sites, or a folder of this machine. */
import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { SluiceError } from "sluice";
import { checkConfig, loadConfig } from "../config.ts";
import { SITE_NAME } from "../entry.ts";
import { listFolder } from "../folder-entries.ts";
import { readManifest } from "../manifest.ts";
import { type DataFlags, openFolders } from "./data-folder.ts";
import { runIngest } from "./run-ingest.ts";

export interface IngestFlags extends DataFlags {
  readonly config: string;
  readonly site?: string;
}

export async function ingestFrom(source: string, flags: IngestFlags): Promise<number> {
  const { json, config: path, site } = flags;
  const folders = openFolders(flags);
  const found = await stat(source).catch((cause: unknown) => {
    throw new SluiceError("NO_SOURCE", `there is no manifest or folder ${source}`, {
      hint: "Name a file of JSON lines, a .csv file, or a folder with PDFs.",
      cause,
    });
  });
  const again = `site-packets ingest ${source}${site === undefined ? ` --config ${path}` : ` --site ${site}`}`;
  if (!found.isDirectory()) {
    if (site !== undefined) {
      throw new SluiceError("BAD_USAGE", "--site is for a folder: a manifest names its own sites", {
        hint: "Omit it.",
      });
    }
    const config = await loadConfig(path);
    return runIngest({ config, folders, entries: readManifest(source, config), json, again });
  }
  if (site === undefined) {
    throw new SluiceError("BAD_USAGE", `${source} is a folder, but no site was given`, {
      hint: "Name a site for its documents: --site local",
    });
  }
  if (!SITE_NAME.test(site)) {
    throw new SluiceError("BAD_USAGE", `--site ${site} is not a valid site name`, {
      hint: "Use 1 to 63 letters, digits, dots, dashes or underscores, beginning with a letter or digit.",
    });
  }
  const root = resolve(source);
  const config = checkConfig({ sites: { [site]: { folder: root } } }, `for --site ${site}`);
  return runIngest({
    config,
    folders,
    entries: listFolder(root, site, resolve(folders.root)),
    json,
    again,
  });
}
