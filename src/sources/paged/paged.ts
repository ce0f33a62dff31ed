/**
 * An API that returns the number of items and reads them by position.
 *
 * Most such APIs shift under the reader: when a record on page 1 is deleted, another moves from
 * page 3 to page 2. So by default it is a stream, which the engine freezes into manifests once.
 * Only an API that promises `stable` positions (a snapshot, an export, an append-only list) is a
 * `Source` whose slices are ranges, which workers read themselves.
 */
import { isDeepStrictEqual } from "node:util";
import { SluiceError } from "../../core/base/errors.ts";
import type { Source } from "../../ports/source.ts";
import { checkFunction, checkOptionNames, checkSize } from "../files/option-checks.ts";
import { countItems, type PagedCalls, readPage } from "./page-call.ts";
import { StablePages } from "./stable-pages.ts";

export interface PagedOptions<Item> extends PagedCalls<Item> {
  /** Items per request; default 100. */
  readonly pageSize?: number;
  /** True: position n is the same item for the life of the batch. */
  readonly stable?: boolean;
}

const KIND = "paged";
const PAGE_SIZE = 100;

/**
 * The items of a paged API.
 *
 * ```ts
 * const source = paged({
 *   count: async () => (await api.get("/documents/count")).total,
 *   read: async (start, count) => (await api.get(`/documents?from=${start}&size=${count}`)).rows,
 * });
 * ```
 */
export function paged<Item>(options: PagedOptions<Item> & { readonly stable: true }): Source<Item>;
export function paged<Item>(
  options: PagedOptions<Item> & { readonly stable?: false },
): AsyncIterable<Item>;
export function paged<Item>(options: PagedOptions<Item>): Source<Item> | AsyncIterable<Item> {
  checkOptionNames(KIND, options, ["count", "read", "pageSize", "stable"]);
  checkFunction(KIND, "count", options.count);
  checkFunction(KIND, "read", options.read);
  const pageSize = checkSize(KIND, "pageSize", options.pageSize, PAGE_SIZE);
  if (options.stable === true) return new StablePages<Item>(options, pageSize);
  return { [Symbol.asyncIterator]: () => readPages(options, pageSize) };
}

/** A page may be short where the API caps it: reading continues after the items that came. */
async function* readPages<Item>(
  options: PagedOptions<Item>,
  pageSize: number,
): AsyncGenerator<Item> {
  const announced = await countItems(options);
  let previous: readonly Item[] = [];
  for (let start = 0; start < announced; ) {
    const page = await readPage(options, start, Math.min(pageSize, announced - start));
    if (page.length === 0) {
      throw describeShortPage(`read(${start}, …) was empty`, start, announced);
    }
    // An API that ignores `start`, or clamps it to its last page, would fill the count with
    // repeats.
    if (isSamePage(previous, page)) {
      throw describeShortPage(`read(${start}, …) repeated the page before it`, start, announced);
    }
    yield* page;
    start += page.length;
    previous = page;
  }
}

/** Only objects are compared: two pages of equal numbers may be the real content. */
function isSamePage(previous: readonly unknown[], page: readonly unknown[]): boolean {
  const [first] = page;
  return typeof first === "object" && first !== null && isDeepStrictEqual(previous, page);
}

function describeShortPage(what: string, arrived: number, announced: number): SluiceError {
  return new SluiceError(
    "SOURCE_BAD_PAGE",
    `paged: ${what}: ${arrived} items arrived of the ${announced} that count() announced`,
    {
      hint: "Items were removed while they were read, or read() does not use start. Check read(), then submit again.",
      retryable: true,
    },
  );
}
