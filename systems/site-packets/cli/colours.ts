/**
 * Colours where a person looks, and nowhere else: on a terminal, unless NO_COLOR says otherwise, or where
 * FORCE_COLOR asks for them. By itself the library also colours whatever is written under CI.
 */
import picocolors from "picocolors";

type Colours = ReturnType<typeof picocolors.createColors>;

export function pickColours(
  stream: { readonly isTTY?: boolean },
  { NO_COLOR: no, FORCE_COLOR: force }: NodeJS.ProcessEnv = process.env,
): Colours {
  const isForced = force !== undefined && force !== "" && force !== "0";
  const isWanted = no === undefined || no === "";
  return picocolors.createColors(isWanted && (isForced || stream.isTTY === true));
}

export const outColours = pickColours(process.stdout);
export const errColours = pickColours(process.stderr);
