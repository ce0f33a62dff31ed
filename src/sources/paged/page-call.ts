/** The two calls of a paged API, with their answers checked. */
import { SluiceError } from "../../core/base/errors.ts";
import { callUser, checkPage } from "./user-source.ts";

export interface PagedCalls<Item> {
  /** How many items there are. */
  readonly count: () => Promise<number> | number;
  /** `count` items from `start` on (from 0); fewer only where the API caps its pages or ends. */
  readonly read: (start: number, count: number) => Promise<readonly Item[]> | readonly Item[];
}

export async function countItems(calls: PagedCalls<unknown>): Promise<number> {
  const items = await callUser("paged: count()", () => calls.count());
  if (Number.isSafeInteger(items) && items >= 0) return items;
  throw new SluiceError("SOURCE_BAD_PAGE", `paged: count() returned ${String(items)}`, {
    hint: "Return how many items there are: a whole number, 0 or more.",
  });
}

/** At most `count` items: additional ones would be read again as the next page. */
export async function readPage<Item>(
  calls: PagedCalls<Item>,
  start: number,
  count: number,
): Promise<readonly Item[]> {
  const call = `paged: read(${start}, ${count})`;
  const page = await callUser(call, () => calls.read(start, count));
  checkPage(call, page);
  if (page.length <= count) return page;
  throw new SluiceError("SOURCE_BAD_PAGE", `${call} returned ${page.length} items`, {
    hint: "Return at most as many items as were asked for, from start on.",
  });
}
