/** What the compiler leaves undone: the command must be executable where nothing has installed it. */
import { chmodSync, existsSync } from "node:fs";

const command = new URL("../dist/cli/main.js", import.meta.url);
if (existsSync(command)) {
  chmodSync(command, 0o755);
}
