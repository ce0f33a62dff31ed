/**
 * A paged API with stable positions as a `Source`: a slice is a range `[start, count]`, and
 * adjacent slices are read in one call. Positions do not tell sizes, so `sliceBytesMax` cannot be
 * enforced.
 */
import { SluiceError } from "../../core/base/errors.ts";
import { invariant } from "../../core/base/invariant.ts";
import { planRanges } from "../../core/batch/slicing.ts";
import type { Slice, SliceItems, SliceRequest, Source } from "../../ports/source.ts";
import { checkRequest } from "../files/option-checks.ts";
import { countItems, type PagedCalls, readPage } from "./page-call.ts";
import { parseNumbers, refuseText } from "../files/record-range.ts";

const KIND = "paged";

interface Stretch {
  readonly start: number;
  readonly count: number;
}

export class StablePages<Item> implements Source<Item> {
  readonly kind = KIND;
  readonly #calls: PagedCalls<Item>;
  readonly #pageSize: number;

  constructor(calls: PagedCalls<Item>, pageSize: number) {
    this.#calls = calls;
    this.#pageSize = pageSize;
  }

  async *slice(request: SliceRequest): AsyncGenerator<Slice> {
    checkRequest(KIND, request);
    const total = await countItems(this.#calls);
    const begun = request.after === null ? 0 : resumeAt(request.after, total);
    for (const { start, end } of planRanges(total - begun, request.chunkSize)) {
      const items = end - start;
      yield {
        items,
        locator: `[${begun + start},${items}]`,
        cursor: `[${begun + end},${total}]`,
      };
    }
  }

  async read(locators: readonly string[]): Promise<readonly SliceItems[]> {
    const stretches = locators.map(parseLocator);
    const slices: SliceItems[] = [];
    while (slices.length < stretches.length) {
      const run = takeRun(stretches, slices.length, this.#pageSize);
      const items = await this.#readAll(run);
      for (const { start, count } of run.parts) {
        slices.push(new ArrayItems(items.slice(start - run.start, start - run.start + count)));
      }
    }
    return slices;
  }

  async #readAll({ start, count }: Stretch): Promise<readonly Item[]> {
    const items: Item[] = [];
    while (items.length < count) {
      const asked = Math.min(this.#pageSize, count - items.length);
      const page = await readPage(this.#calls, start + items.length, asked);
      if (page.length === 0) throw describeMissing(start + items.length, start + count);
      for (const item of page) items.push(item);
    }
    return items;
  }
}

class ArrayItems implements SliceItems {
  readonly count: number;
  readonly #items: readonly unknown[];

  constructor(items: readonly unknown[]) {
    this.count = items.length;
    this.#items = items;
  }

  at(position: number): unknown {
    invariant(position >= 0 && position < this.count, "an item is asked for within its slice");
    return this.#items[position];
  }
}

/** As many adjacent ranges from `first` on as fit into one call. */
function takeRun(
  stretches: readonly Stretch[],
  first: number,
  itemsMax: number,
): Stretch & { readonly parts: readonly Stretch[] } {
  const parts: Stretch[] = [];
  let start = 0;
  let count = 0;
  for (let index = first; index < stretches.length; index++) {
    const stretch = stretches[index];
    if (stretch === undefined) break;
    if (parts.length === 0) start = stretch.start;
    else if (stretch.start !== start + count || count + stretch.count > itemsMax) break;
    count += stretch.count;
    parts.push(stretch);
  }
  return { start, count, parts };
}

function parseLocator(locator: string): Stretch {
  const numbers = parseNumbers(locator);
  const [start = 0, count = 0] = numbers ?? [];
  if (numbers?.length === 2 && count >= 1) return { start, count };
  throw refuseText("locator", KIND, locator);
}

/** Where slicing continues, if the API still has as many items as at the start. */
function resumeAt(cursor: string, total: number): number {
  const numbers = parseNumbers(cursor);
  const [at = 0, totalThen = 0] = numbers ?? [];
  if (numbers?.length !== 2 || at > totalThen) throw refuseText("cursor", KIND, cursor);
  if (total === totalThen) return at;
  throw new SluiceError(
    "SOURCE_CHANGED",
    `paged: count() is ${total}, and was ${totalThen} when slicing began`,
    { hint: "The API is not stable. Leave out stable: true, so that the items are frozen first." },
  );
}

function describeMissing(from: number, to: number): SluiceError {
  return new SluiceError(
    "SOURCE_CHANGED",
    `paged: the items ${from} to ${to} that existed at slicing no longer exist`,
    { hint: "The API is not stable. Leave out stable: true, so that the items are frozen first." },
  );
}
