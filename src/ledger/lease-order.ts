/**
 * That nobody who had lost a lease wrote a block: the fences of a chunk never fall, and the reports
 * under one lease are numbered upwards. Sixteen bytes a chunk, in pages.
 */
import type { BlockHeader } from "./chain-line.ts";
import { ensure } from "./broken-export.ts";

const PAGE_CHUNKS = 4_096;

export class LeaseOrder {
  readonly #pages = new Map<string, Float64Array>();

  take({ step, chunk, fence, block, worker }: BlockHeader): void {
    const name = `${step}/${Math.floor(chunk / PAGE_CHUNKS)}`;
    const page = this.#pages.get(name) ?? new Float64Array(2 * PAGE_CHUNKS);
    this.#pages.set(name, page);
    const at = 2 * (chunk % PAGE_CHUNKS);
    const fenceBefore = page[at] as number;
    const blockBefore = page[at + 1] as number;
    const what = `chunk ${chunk} of step ${step}`;
    ensure(fence >= fenceBefore, `${what} was reported on under fence ${fenceBefore} before`);
    // What the engine itself writes about a chunk is no report of a worker, and has no number.
    const isReport = worker !== null;
    ensure(
      !isReport || fence > fenceBefore || block > blockBefore,
      `${what} has two reports ${block} under fence ${fence}, or they are out of order`,
    );
    page[at] = fence;
    if (isReport) page[at + 1] = block;
    else if (fence > fenceBefore) page[at + 1] = 0;
  }
}
