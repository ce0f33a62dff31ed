/** The options that choose among a batch's dead letters. */
import { type Command, Option } from "commander";
import { ERROR_CLASSES, type ErrorClass, SluiceError } from "../../core/base/errors.ts";
import type { DeadLetterFilter } from "../../core/items/redrive.ts";
import { formatDidYouMean, findSimilar } from "../../core/base/similar-words.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import { collect } from "./act-flags.ts";
import { findStep } from "./step-flag.ts";

/** The description of a dead letter's item in help texts. */
export const ABOUT_ITEM = "number of the item, from 0";
export const ABOUT_LETTER_STEP = "step of the dead letter (default: the only one that has it)";

export interface LetterFlags {
  readonly step?: string;
  readonly item?: readonly string[];
  readonly itemKey?: readonly string[];
  readonly code?: readonly string[];
  readonly class?: readonly string[];
}

export function addLetterFlags(command: Command): Command {
  return command
    .option("--step <name>", "only dead letters of this step")
    .option("--item <n>", "only this item, by its number from 0; repeatable", collect)
    .option("--item-key <key>", "only the item with this key; repeatable", collect)
    .option("--code <code>", "only dead letters with this error code; repeatable", collect)
    .addOption(
      new Option("--class <class>", "only dead letters of this error class; repeatable")
        .choices(ERROR_CLASSES)
        .argParser(collect),
    );
}

export function readLetterFilter(batch: BatchSnapshot, flags: LetterFlags): DeadLetterFilter {
  const { step, item, itemKey, code } = flags;
  const classes = flags.class?.map(readClass);
  return {
    ...(step === undefined ? {} : { step: findStep(batch, step) }),
    ...(item === undefined ? {} : { items: item.map(readItem) }),
    ...(itemKey === undefined ? {} : { keys: itemKey }),
    ...(code === undefined ? {} : { codes: code }),
    ...(classes === undefined ? {} : { classes }),
  };
}

/** Called before the store is opened. */
export function checkLetterFlags({ item, class: classes }: LetterFlags): void {
  item?.forEach(readItem);
  classes?.forEach(readClass);
}

export function readItem(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new SluiceError("USAGE", `${JSON.stringify(text)} is not an item number`, {
    hint: "Give the number of an item, from 0, as `sluice dead` lists it.",
  });
}

function readClass(text: string): ErrorClass {
  const found = ERROR_CLASSES.find((one) => one === text);
  if (found !== undefined) return found;
  const meant = formatDidYouMean(findSimilar(text, ERROR_CLASSES));
  throw new SluiceError("USAGE", `${JSON.stringify(text)} is not an error class`, {
    hint: `${meant} Use one of ${ERROR_CLASSES.join(", ")}.`.trim(),
  });
}
