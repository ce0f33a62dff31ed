/**
 * A folder as a reader of the pages has it: Sluice is installed in it, and npx finds the command.
 */
import { chmodSync, existsSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ROOT } from "./markdown.ts";

const COMMAND = join(ROOT, "dist/cli/main.js");
const SITE_PACKETS = join(ROOT, "systems/site-packets/main.ts");

export function makeReadersFolder(): string {
  if (!existsSync(COMMAND)) throw new Error("dist is missing: run `npm run build` first");
  const folder = mkdtempSync(join(tmpdir(), "sluice-docs-"));
  const modules = join(folder, "node_modules");
  for (const scope of ["@types", "@opentelemetry"]) {
    mkdirSync(join(modules, scope), { recursive: true });
  }
  symlinkSync(ROOT, join(modules, "sluice"));
  const tracing = ["@opentelemetry/api", "@opentelemetry/sdk-trace-base"];
  for (const name of ["zod", "pg", "@types/node", ...tracing]) {
    symlinkSync(join(ROOT, "node_modules", name), join(modules, name));
  }
  writeFileSync(join(folder, "package.json"), '{ "type": "module", "private": true }\n');
  mkdirSync(join(folder, "bin"));
  putCommand(folder, "npx", ["sluice"], COMMAND);
  putCommand(folder, "npm", ["run", "-s", "site-packets", "--"], SITE_PACKETS);
  return folder;
}

/** A command that works as usual if it begins with these words, and refuses everything else. */
function putCommand(folder: string, name: string, words: readonly string[], script: string): void {
  const only = `${name} ${words.join(" ")}`;
  const lines = [
    "#!/bin/sh",
    ...words.flatMap((word) => [
      `[ "$1" = ${word} ] || { echo "only ${only} can be run here" >&2; exit 127; }`,
      "shift",
    ]),
    `exec "${process.execPath}" "${script}" "$@"`,
  ];
  const path = join(folder, "bin", name);
  writeFileSync(path, `${lines.join("\n")}\n`);
  chmodSync(path, 0o755);
}
