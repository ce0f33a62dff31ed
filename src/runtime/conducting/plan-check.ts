/** Checks items before they run, if the batch is `strict` or the step has `uniqueKeys`. */
import { describeError, SluiceError } from "../../core/base/errors.ts";
import type { PlannedChunk, PlanResult } from "../../ports/store/conductor-store.ts";
import type { SliceItems, Source } from "../../ports/source.ts";
import { checkItem } from "../pipeline/item-check.ts";
import type { Step } from "../pipeline/step.ts";
import { readManifest } from "../reading/manifest.ts";

const PROBLEMS_SHOWN_MAX = 20;

export class PlanCheck {
  readonly #step: Step;
  readonly #strict: boolean;
  readonly #problems: string[] = [];
  #problemCount = 0;
  #item: number;

  constructor(step: Step, strict: boolean, firstItem: number) {
    this.#step = step;
    this.#strict = strict;
    this.#item = firstItem;
  }

  get isNeeded(): boolean {
    return this.#strict || this.#step.uniqueKeys;
  }

  /** The items' keys, if they must be unique. Notes the problem of each bad item. */
  async readKeys(chunk: PlannedChunk, source: Source | null): Promise<(string | null)[] | null> {
    const { uniqueKeys } = this.#step;
    const items = await readPlanned(chunk, source);
    const keys: (string | null)[] = [];
    for (let position = 0; position < chunk.items; position++) {
      const index = this.#item++;
      try {
        let item = items.at(position);
        if (this.#step.itemSchema !== null) {
          item = await checkItem(this.#step.itemSchema, item);
        }
        keys.push(this.#step.readKey(item));
      } catch (error) {
        // A bad item fails by itself when it runs, and its key is compared with no other.
        keys.push(null);
        if (this.#strict) this.#note(index, error);
      }
    }
    return uniqueKeys ? keys : null;
  }

  #note(index: number, error: unknown): void {
    this.#problemCount++;
    if (this.#problems.length < PROBLEMS_SHOWN_MAX) {
      const { code, message } = describeError(error);
      this.#problems.push(`item ${index}: ${code}: ${message}`);
    }
  }

  /** Refuses the batch before its first chunk runs. */
  throwIfBad(): void {
    if (this.#problemCount === 0) return;
    const more = this.#problemCount - this.#problems.length;
    const list = this.#problems.map((problem) => `  - ${problem}`).join("\n");
    throw new SluiceError(
      "BAD_ITEMS",
      `${this.#problemCount === 1 ? "one item is" : `${this.#problemCount} items are`} bad, and the batch is strict:\n${list}${more > 0 ? `\n  - and ${more} more` : ""}`,
      { hint: "Fix these items, or run without --strict to count them as failed." },
    );
  }

  describeDuplicate({ key, firstItem, secondItem }: PlanResult & { kind: "duplicate_key" }): Error {
    return new SluiceError(
      "DUPLICATE_KEY",
      `the key ${JSON.stringify(key)} is repeated: items ${firstItem} and ${secondItem} (counted from 0)`,
      { hint: "Make the keys unique, or leave out uniqueKeys." },
    );
  }
}

async function readPlanned(chunk: PlannedChunk, source: Source | null): Promise<SliceItems> {
  if (chunk.manifest !== null) return readManifest(chunk.manifest);
  const [items] = await (source as Source).read([chunk.locator as string]);
  return items as SliceItems;
}
