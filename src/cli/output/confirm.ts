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
    throw new SluiceError("NOT_CONFIRMED", `nobody can be asked: ${question}`, {
      hint: "This is no terminal. Give --yes to say that it is meant; nothing was changed.",
    });
  }
  if (isYes(await ask(`${makeInert(question)} [y/N] `))) return;
  throw new SluiceError("DECLINED", "nothing was changed", { hint: "Answer y to do it." });
}
