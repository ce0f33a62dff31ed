/** Finds the file that defines a pipeline, so that relative paths in it can be resolved. */
import { isAbsolute } from "node:path";
import { pathToFileURL } from "node:url";
import { getCallSites } from "node:util";

/** Frames of this function and of its caller. */
const OWN_FRAMES = 2;

/** The URL of the file that called the caller of this function; null when it is not a file. */
export function findDefinitionSite(): string | null {
  const site = getCallSites(OWN_FRAMES + 1)[OWN_FRAMES]?.scriptName ?? "";
  if (site.startsWith("file:")) return site;
  return isAbsolute(site) ? pathToFileURL(site).href : null;
}
