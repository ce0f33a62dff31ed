/** How a command reports progress: for people or as JSON lines, and never with a secret. */
import type { Cli } from "../output/cli.ts";
import type { Config } from "../config/config.ts";
import { JsonLog } from "../render/json-log.ts";
import { ProgressDisplay } from "../render/progress-display.ts";

export function openDisplay({ err, clock, logFormat }: Cli, config: Config): ProgressDisplay {
  err.hide(config.secrets);
  const display = logFormat === "json" ? new JsonLog(err, clock) : new ProgressDisplay(err, clock);
  for (const message of config.warnings) display.log({ level: "warn", event: "config", message });
  return display;
}
