/** How what is said on stderr is written: for people, or as one JSON object a line for machines. */
import { SluiceError } from "../../core/base/errors.ts";

export const LOG_FORMATS = ["text", "json"] as const;
export type LogFormat = (typeof LOG_FORMATS)[number];

const FLAG = "--log-format";
const VARIABLE = "SLUICE_LOG";

/** From the words and the environment alone, as errors before anything is loaded are told in it, too. */
export function readLogFormat(argv: readonly string[], env: NodeJS.ProcessEnv): LogFormat {
  const at = argv.indexOf(FLAG);
  const joined = argv.find((word) => word.startsWith(`${FLAG}=`))?.slice(FLAG.length + 1);
  const given = joined ?? (at === -1 ? undefined : argv[at + 1]) ?? env[VARIABLE] ?? "";
  return given === "json" ? "json" : "text";
}

/** A format that does not exist is no reason to be silent, but one to say so. */
export function refuseBadFormat(env: NodeJS.ProcessEnv): void {
  const given = env[VARIABLE] ?? "";
  if (given === "" || LOG_FORMATS.includes(given as LogFormat)) return;
  throw new SluiceError("BAD_CONFIG", `${VARIABLE} is ${JSON.stringify(given)}`, {
    hint: `It is one of ${LOG_FORMATS.join(", ")}.`,
  });
}
