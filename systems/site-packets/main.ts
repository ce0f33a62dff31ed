#!/usr/bin/env node
/** `site-packets`: clinical sites' packets, from their portals to an archive with evidence. */
import { CommanderError } from "commander";
import { SluiceError } from "sluice";
import { errColours } from "./cli/colours.ts";
import { EXIT } from "./cli/exit-codes.ts";
import { makeInert, makeInertLines } from "./cli/inert-text.ts";
import { makeProgram } from "./cli/program.ts";

try {
  await makeProgram((code) => (process.exitCode = code)).parseAsync();
} catch (error) {
  process.exitCode = tell(error);
}

/** A user's mistake is reported in a few lines; other errors are printed with their stack. */
function tell(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.badUsage;
  if (!(error instanceof SluiceError)) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    process.stderr.write(`${makeInertLines(text)}\n`);
    return EXIT.failed;
  }
  const { code, message, hint } = error;
  process.stderr.write(
    `${errColours.red("error")} ${makeInert(code)}: ${makeInertLines(message)}\n`,
  );
  if (hint) process.stderr.write(`hint: ${makeInertLines(hint)}\n`);
  return code.startsWith("BAD_") || code.startsWith("NO_") ? EXIT.badUsage : EXIT.failed;
}
