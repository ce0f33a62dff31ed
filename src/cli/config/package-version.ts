/** This package's own version. */
import { readFileSync } from "node:fs";

export function readPackageVersion(): string {
  const text = readFileSync(new URL("../../../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { readonly version: string }).version;
}
