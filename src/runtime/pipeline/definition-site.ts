/** Where a pipeline is defined, so that the files that it names can be found from there. */
import { isAbsolute } from "node:path";
import { pathToFileURL } from "node:url";
import { getCallSites } from "node:util";

/** Frames of this function and of the one that asks. */
const OWN_FRAMES = 2;

/** The address of the file that called whoever calls this; null when that is no file. */
export function findDefinitionSite(): string | null {
  const site = getCallSites(OWN_FRAMES + 1)[OWN_FRAMES]?.scriptName ?? "";
  if (site.startsWith("file:")) return site;
  return isAbsolute(site) ? pathToFileURL(site).href : null;
}
