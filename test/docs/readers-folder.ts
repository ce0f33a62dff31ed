/** A folder as a reader of the pages has one: Sluice is installed in it, and npx finds the command. */
import { chmodSync, existsSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { ROOT } from "./markdown.ts";

const COMMAND = join(ROOT, "dist/cli/main.js");

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
  const npx = join(folder, "bin/npx");
  mkdirSync(dirname(npx));
  const refuse = '{ echo "only npx sluice can be run here, not: $*" >&2; exit 127; }';
  const lines = [
    "#!/bin/sh",
    `[ "$1" = sluice ] || ${refuse}`,
    "shift",
    `exec "${process.execPath}" "${COMMAND}" "$@"`,
  ];
  writeFileSync(npx, `${lines.join("\n")}\n`);
  chmodSync(npx, 0o755);
  return folder;
}
