/** Sub-commands, such as `show` in `dead show`. */
import type { Command } from "commander";
import { SluiceError } from "../../core/base/errors.ts";
import { formatDidYouMean, findSimilar } from "../../core/base/similar-words.ts";

/**
 * The options of a sub-command. Commander also accepts the options of the parent command, which
 * would silently have no effect, so they are refused.
 */
export function readSubFlags<Flags extends object>(command: Command): Flags {
  const own = new Set(command.options.map((option) => option.attributeName()));
  for (const option of command.parent?.options ?? []) {
    const name = option.attributeName();
    const isGiven = command.parent?.getOptionValueSource(name) === "cli";
    if (!isGiven || own.has(name)) continue;
    throw new SluiceError("USAGE", `unknown option '${option.long ?? name}'`, {
      hint: "`--help` after the command lists its options.",
    });
  }
  return command.optsWithGlobals<Flags>();
}

/** Refuses extra arguments: the first one was probably meant as a sub-command. */
export function refuseExcess(command: Command): void {
  const [word] = command.args.slice(command.registeredArguments.length);
  if (word === undefined) return;
  const names = command.commands.map((one) => one.name());
  const first = command.args[0] ?? word;
  const meant = formatDidYouMean(findSimilar(first, names));
  throw new SluiceError("USAGE", `unknown command '${command.name()} ${first}'`, {
    hint: meant || `\`sluice ${command.name()} --help\` lists the commands.`,
  });
}
