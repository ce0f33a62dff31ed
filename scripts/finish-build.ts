/**
 * Completes the build: the command must be executable even before a package manager installs it.
 */
import { chmodSync, existsSync } from "node:fs";

const command = new URL("../dist/cli/main.js", import.meta.url);
if (existsSync(command)) {
  chmodSync(command, 0o755);
}
