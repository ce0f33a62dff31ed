/** The options that choose among a batch's dead letters. */
import { type Command, Option } from "commander";
import { ERROR_CLASSES, type ErrorClass, SluiceError } from "../../core/base/errors.ts";
import type { LetterFilter } from "../../core/items/redrive.ts";
import { askDidYouMean, findSimilar } from "../../core/base/similar-words.ts";
import type { BatchSnapshot } from "../../ports/store/conducting.ts";
import { collect } from "./act-flags.ts";
import { findStep } from "../../views/step.ts";

export interface LetterFlags {
  readonly step?: string;
  readonly item?: readonly string[];
  readonly key?: readonly string[];
  readonly code?: readonly string[];
  readonly class?: readonly string[];
}

export function addLetterFlags(command: Command): Command {
  return command
    .option("--step <name>", "only those of this step")
    .option("--item <n>", "only this item; may be given again", collect)
    .option("--key <key>", "only the item with this key; may be given again", collect)
    .option("--code <code>", "only those with this error code; may be given again", collect)
    .addOption(
      new Option("--class <class>", "only those of this class of errors; may be given again")
        .choices(ERROR_CLASSES)
        .argParser(collect),
    );
}

export function readLetterFilter(batch: BatchSnapshot, flags: LetterFlags): LetterFilter {
  const { step, item, key, code } = flags;
  const classes = flags.class?.map(readClass);
  return {
    ...(step === undefined ? {} : { step: findStep(batch, step) }),
    ...(item === undefined ? {} : { items: item.map(readItem) }),
    ...(key === undefined ? {} : { keys: key }),
    ...(code === undefined ? {} : { codes: code }),
    ...(classes === undefined ? {} : { classes }),
  };
}

/** Found before the store is opened. */
export function checkLetterFlags({ item, class: classes }: LetterFlags): void {
  item?.forEach(readItem);
  classes?.forEach(readClass);
}

export function readItem(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new SluiceError("USAGE", `${JSON.stringify(text)} is no item`, {
    hint: "An item is its number, from 0 on, as `sluice dead` lists it.",
  });
}

function readClass(text: string): ErrorClass {
  const found = ERROR_CLASSES.find((one) => one === text);
  if (found !== undefined) return found;
  const meant = askDidYouMean(findSimilar(text, ERROR_CLASSES));
  throw new SluiceError("USAGE", `${JSON.stringify(text)} is no class of errors`, {
    hint: `${meant} A class is ${ERROR_CLASSES.join(", ")}.`.trim(),
  });
}
