/** The format of stderr: text for people, or one JSON object per line for machines. */
import { SluiceError } from "../../core/base/errors.ts";

export const LOG_FORMATS = ["text", "json"] as const;
export type LogFormat = (typeof LOG_FORMATS)[number];

const FLAG = "--log-format";
const VARIABLE = "SLUICE_LOG";

/**
 * Read from the arguments and the environment alone, because errors before the configuration is
 * loaded use it, too.
 */
export function readLogFormat(argv: readonly string[], env: NodeJS.ProcessEnv): LogFormat {
  const at = argv.indexOf(FLAG);
  const joined = argv.find((word) => word.startsWith(`${FLAG}=`))?.slice(FLAG.length + 1);
  const given = joined ?? (at === -1 ? undefined : argv[at + 1]) ?? env[VARIABLE] ?? "";
  return given === "json" ? "json" : "text";
}

/** An unknown format is reported in the default format. */
export function refuseBadFormat(env: NodeJS.ProcessEnv): void {
  const given = env[VARIABLE] ?? "";
  if (given === "" || LOG_FORMATS.includes(given as LogFormat)) return;
  throw new SluiceError("BAD_CONFIG", `${VARIABLE} is ${JSON.stringify(given)}`, {
    hint: `Use one of ${LOG_FORMATS.join(", ")}.`,
  });
}
