/** Asks before an act that cannot be undone; without a terminal it requires --yes. */
import { SluiceError } from "../../core/base/errors.ts";
import { isYes } from "./ask.ts";
import type { Cli } from "./cli.ts";
import { makeInert } from "./inert-text.ts";

export async function confirmAct(
  { ask }: Cli,
  { yes }: { readonly yes?: boolean },
  question: string,
): Promise<void> {
  if (yes === true) return;
  if (ask === null) {
    throw new SluiceError("NOT_CONFIRMED", `cannot ask for confirmation: ${question}`, {
      hint: "There is no terminal. Repeat with --yes to confirm. Nothing was changed.",
    });
  }
  if (isYes(await ask(`${makeInert(question)} [y/N] `))) return;
  throw new SluiceError("DECLINED", "nothing was changed", { hint: "Answer y to do it." });
}
