/**
 * Colours on a terminal, unless NO_COLOR is set, or with FORCE_COLOR. The library's own default
 * would also colour output under CI.
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
