/**
 * Links about items in the chains of the reference model, for batches that keep a ledger of items.
 */
import { ITEMS_RECORDED } from "../../core/batch/batch.ts";
import {
  type ChangeCause,
  type ChunkPlace,
  describeChange,
  describeRedriven,
  type ItemsLink,
  LEDGER_PAGE_CHARS,
  type LedgerBlock,
  measureLink,
} from "../../core/ledger/item-ledger.ts";
import type { OutcomeMap } from "../../core/items/outcome-map.ts";
import type { ChunkEffect, StoredChunk } from "../../core/items/tracked-item.ts";
import type { LedgerLink } from "../../ports/store/ledger-store.ts";
import type { RecordLog } from "./records.ts";
import type { Batch, Chunk, State, Step } from "./state.ts";

export class Ledger {
  readonly #state: State;
  readonly #records: RecordLog;

  constructor(state: State, records: RecordLog) {
    this.#state = state;
    this.#records = records;
  }

  /** Called before the chunk changes. A block that already exists is not written again. */
  write(
    batch: Batch,
    place: ChunkPlace,
    change: {
      readonly stored: StoredChunk;
      readonly effect: ChunkEffect;
      readonly cause: ChangeCause;
      readonly blocks?: readonly LedgerBlock[];
    },
  ): void {
    const { stored, effect, cause, blocks = [] } = change;
    const fresh = blocks.filter(({ number }) => !isKnown(batch, place, number));
    for (const link of describeChange(place, stored, effect, cause, fresh)) {
      this.#append(batch, place, link);
    }
  }

  writeRedriven(
    batch: Batch,
    place: ChunkPlace,
    before: OutcomeMap,
    after: OutcomeMap,
    drive: number,
  ): void {
    this.#append(batch, place, describeRedriven(place, before, after, drive));
  }

  #append(batch: Batch, { step, chunk, fence }: ChunkPlace, { record, block }: ItemsLink): void {
    const { seq, body, hash } = this.#records.chain(batch, record);
    batch.links.push({ seq, body, hash, step, chunk, fence, block });
  }

  read(id: string, afterSeq: number, limit: number): LedgerLink[] {
    const batch = this.#state.batches.get(id);
    if (batch === undefined) return [];
    const records = this.#state.records
      .filter((record) => record.batch === id)
      .map(({ seq, type, body, hash }): LedgerLink => ({ seq, type, body, hash, block: null }));
    const links = batch.links.map(({ seq, body, hash, block }): LedgerLink => {
      const stored = block === null ? null : { lines: block.lines, details: block.details };
      return { seq, type: ITEMS_RECORDED, body, hash, block: stored };
    });
    const page: LedgerLink[] = [];
    let chars = 0;
    for (const link of [...records, ...links].toSorted((a, b) => a.seq - b.seq)) {
      if (link.seq <= afterSeq) continue;
      chars += link.type === ITEMS_RECORDED ? measureLink(link.body, link.block) : 0;
      if (page.length >= limit || (page.length > 0 && chars > LEDGER_PAGE_CHARS)) break;
      page.push(link);
    }
    return page;
  }
}

export function keepsLedger({ submission }: Batch): boolean {
  return submission.settings.ledger?.item === true;
}

/** The place of a chunk and the worker that holds or held it; `worker` is null for none. */
export function findPlace(
  batch: Batch,
  step: Step,
  chunk: Chunk,
  worker: number | null,
): ChunkPlace {
  const { start, fence } = chunk;
  const number = batch.steps.indexOf(step);
  return { step: number, chunk: step.chunks.indexOf(chunk), start, fence, worker };
}

function isKnown(batch: Batch, { step, chunk, fence }: ChunkPlace, number: number): boolean {
  return batch.links.some(
    (link) =>
      link.step === step &&
      link.chunk === chunk &&
      link.fence === fence &&
      link.block?.number === number,
  );
}
