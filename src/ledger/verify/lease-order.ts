/**
 * Checks that no worker wrote anything after it had lost its lease: the fences of a chunk never
 * fall, the blocks under one lease have rising numbers, and none is reported under a lost lease.
 * Sixteen bytes a chunk, in pages.
 */
import { ensure } from "./broken-export.ts";
import type { ItemsChange } from "../format/items-change.ts";

/** Small, because a forged number costs a whole page. */
const PAGE_CHUNKS = 64;
/** Instead of a block's number: nothing more may come under this lease. */
const LOST = Number.POSITIVE_INFINITY;

export class LeaseOrder {
  readonly #pages = new Map<string, Float64Array>();

  take({ step, chunk, fence, cause, drive, block }: ItemsChange): void {
    const name = `${step}/${Math.floor(chunk / PAGE_CHUNKS)}`;
    const page = this.#pages.get(name) ?? new Float64Array(2 * PAGE_CHUNKS);
    this.#pages.set(name, page);
    const at = 2 * (chunk % PAGE_CHUNKS);
    const fenceBefore = page[at] as number;
    const blockBefore = fence > fenceBefore ? 0 : (page[at + 1] as number);
    const what = `chunk ${chunk} of step ${step}`;
    ensure(fence >= fenceBefore, `${what} was reported on under fence ${fenceBefore} before`);
    page[at] = fence;
    page[at + 1] = cause === "lost" ? LOST : (block?.number ?? blockBefore);
    // The engine's own changes of a chunk are under no lease.
    if (cause !== null || drive !== null) return;
    ensure(blockBefore !== LOST, `${what} has a report under fence ${fence}, which was lost`);
    ensure(
      block === null || block.number > blockBefore,
      `${what} has two blocks ${block?.number} under fence ${fence}, or they are out of order`,
    );
  }
}
