/**
 * The store as a worker sees it: chunks are leased, reported on, renewed, and swept up when their
 * holder is lost. A lease is a right for a limited time, by the store's clock; its fence is what a
 * stale holder cannot forge. A lost race is a returned value, never an exception.
 */
import type { ReportResult, StopMode } from "../../core/batch/chunk.ts";
import type { ItemRefusal } from "../../core/items/item-commit.ts";
import type { LedgerBlock } from "../../core/ledger/item-ledger.ts";
import type { OutcomeMap } from "../../core/items/outcome-map.ts";
import type { ItemContent, ReportFacts } from "../../core/items/report.ts";
import type { Checkpoint } from "../../core/items/tracked-item.ts";
import type { WatchDelays } from "../../core/batch/watch.ts";

export interface ChunkRef {
  readonly batch: string;
  readonly step: number;
  /** The chunk's number in its step, from 0. */
  readonly chunk: number;
}

export interface LeaseRef extends ChunkRef {
  readonly fence: number;
}

export function nameLease({ batch, step, chunk, fence }: LeaseRef): string {
  return `${batch}/${step}/${chunk}/${fence}`;
}

export interface LeaseRequest {
  readonly worker: number;
  readonly pipeline: string;
  /** The versions of the pipeline that this worker accepts. */
  readonly versions: readonly string[];
  /** The number of the step. */
  readonly step: number;
  /** Only this batch, or null for any. */
  readonly batch: string | null;
  /** Chunks are added while fewer items than this are leased; one is always granted. */
  readonly itemsMax: number;
  readonly chunksMax: number;
  readonly leaseMs: number;
  /** How many handler calls at once the worker could run: what it asks for of capped scopes. */
  readonly slots: number;
  /**
   * What the worker still needs of capped scopes, by its own count: applied first. A scope that is
   * not named stays as it is while the worker has leases in it.
   */
  readonly keeps: readonly Permit[];
}

/**
 * How many handlers at once a worker may run in a scope that has a cap: `batch/<id>`,
 * `lane/<name>` or `pipeline/<name>`. It lasts as long as a lease, and all live permits of a scope
 * together are never more than its cap, but for the time after somebody lowers it.
 */
export interface Permit {
  readonly scope: string;
  readonly slots: number;
}

/** What the store remembers of an item that has failed or is under suspicion. */
export interface ItemHistory {
  /** Position in the chunk. */
  readonly index: number;
  readonly attempts: number;
  readonly deaths: number;
  /** How long its back-off lasts from now; 0 when it is due. */
  readonly dueInMs: number;
  readonly checkpoint: Checkpoint | null;
  /** 1, or the drive of its last redrive. */
  readonly drive: number;
}

/** What somebody put in place of an item's own content. */
export interface ItemOverride {
  readonly index: number;
  /** JSON text. */
  readonly value: string;
}

export interface LeasedChunk extends LeaseRef {
  /** Items `[start, end)` of the step. */
  readonly start: number;
  readonly end: number;
  /** Null: read the manifest. */
  readonly locator: string | null;
  readonly outcomes: OutcomeMap;
  readonly histories: readonly ItemHistory[];
  readonly overrides: readonly ItemOverride[];
  /** Its lease was lost before: starts are written before items run. */
  readonly guarded: boolean;
  /** No automatic pass will follow: what fails now stays failed. */
  readonly final: boolean;
  /** Its batch keeps a ledger of its items; missing where it does not. */
  readonly ledger?: true;
}

export interface Report extends LeaseRef, ReportFacts {
  /**
   * Handler milliseconds under this lease so far, of all its items together. From its beginning and
   * not from the last report on, so that a report that comes twice counts once.
   */
  readonly busyMs: number;
  /**
   * Present exactly where the lease said so. What handlers recorded, in the order of the blocks'
   * numbers: one whose answer was lost comes again as it was, and is written once.
   */
  readonly ledger?: { readonly blocks: readonly LedgerBlock[] };
}

export interface WorkResult {
  /** One for each report, in order. */
  readonly reports: readonly ReportResult[];
  readonly leased: readonly LeasedChunk[];
  /** When the next chunk will be due, if nothing could be leased now; null when none waits. */
  readonly nextDueInMs: number | null;
  /** The batches that this commit ended. */
  readonly ended: readonly string[];
  /**
   * All permits of the worker in scopes of the request's pipeline; with 0 slots none of its handlers
   * may start there, and a scope without one has no cap. Where something was leased they last as
   * long as those leases, otherwise as long as they did. Empty without a request.
   */
  readonly permits: readonly Permit[];
  /**
   * Items whose statements failed, so that they are not what their reports said; missing where there
   * are none. Whoever keeps the lease must not say the same of them again: that would make successes
   * of them without what they wanted done.
   */
  readonly refused?: readonly RefusedItem[];
}

export interface RefusedItem extends ItemRefusal {
  /** The number of the report in its call. */
  readonly report: number;
}

export interface RenewResult {
  readonly lost: readonly LeaseRef[];
  /** All permits of the worker, as they are now. */
  readonly permits: readonly Permit[];
}

export interface SweepResult {
  /** Chunks whose lease had run out and that may be leased again. */
  readonly lostLeases: number;
  /** Batches that were looked after otherwise: watched, recovered, parked. */
  readonly tended: number;
  readonly ended: readonly string[];
}

/** Within which bounds the sweep lets things wait. */
export interface SweepPolicy {
  readonly watchDelays: WatchDelays;
  /** Looks without progress before leftovers are given up. */
  readonly stallsMax: number;
  /** A batch that nobody works on for this long is an orphan. */
  readonly orphanMs: number;
  /** An orphan of this age is marked, and its lane goes on. */
  readonly staleMs: number;
  /**
   * Leases that ran out within this time are left alone, as their holders may not have been able to
   * renew them (core/sparing.ts); not those of whoever is known to be dead. Default 0.
   */
  readonly graceMs?: number;
}

export interface WorkerFacts {
  readonly name: string;
}

/** A pipeline that a worker has. */
export interface Served {
  readonly pipeline: string;
  readonly version: string;
  /** It takes this batch and no other. */
  readonly batch?: string;
}

/** What a worker must know about a batch of which it holds chunks. */
export interface Stop {
  readonly batch: string;
  /** `over`: it has ended, and what is held of it is held no more. */
  readonly kind: "cancel" | "pause" | "over";
  readonly mode: StopMode;
}

/** A cancel comes before a pause, and whoever says `now` is heard beside whoever lets work drain. */
export function describeStop(
  batch: string,
  cancel: StopMode | null,
  pause: StopMode | null,
): Stop[] {
  if (cancel === null && pause === null) return [];
  const mode = cancel === "now" || pause === "now" ? "now" : "drain";
  return [{ batch, kind: cancel === null ? "pause" : "cancel", mode }];
}

export const CONTENT_CLAIMS = [
  /** Nobody else has it: run the item. */
  "claimed",
  /** An item with this content is under way: come again. */
  "held",
  /** An item with this content has succeeded: skip this one. */
  "done",
] as const;
export type ContentClaim = (typeof CONTENT_CLAIMS)[number];

export interface WorkerStore {
  /** Gives a worker its number. */
  registerWorker(facts: WorkerFacts): Promise<number>;
  /** A sign of life: for this long the worker counts as one that has these pipelines. */
  beat(worker: number, serves: readonly Served[], forMs: number): Promise<void>;
  /**
   * Commits any number of reports (a settle, a flush of partial outcomes, a give-back) and leases
   * the next chunks, in one transaction. Outcomes, counters, dead letters, results, checkpoints and,
   * with the last item, the ending of the step or batch are written together or not at all. So are
   * the statements of items, in a store that has a `dialect`; one that has none throws NO_SQL.
   *
   * What is leased is divided between the pipeline's tenants by their weights (core/fair-share.ts),
   * and within a tenant goes to the batch that was leased from least recently. A batch in a capped
   * scope is passed over while no slot is free there and the worker has none; one that is leased
   * from raises the worker's permits in its scopes to what is free, up to `slots`.
   */
  work(reports: readonly Report[], lease: LeaseRequest | null): Promise<WorkResult>;
  /**
   * Claims contents for items of a leased chunk. A claim lasts as long as the lease: it becomes
   * final with the committed success of its item, and is free again when the item fails or the
   * lease is over. Null when the lease is lost.
   */
  claimContents(
    lease: LeaseRef,
    contents: readonly ItemContent[],
  ): Promise<readonly ContentClaim[] | null>;
  /** Which of these batches are to be stopped, and how. */
  readStops(batches: readonly string[]): Promise<readonly Stop[]>;
  /**
   * Prolongs leases, and the worker's permits; answers which leases are lost. That of a cancelled
   * batch is not prolonged. Permits are lowered where the cap was; in a scope that has got a cap
   * since, the worker takes what is free there.
   */
  renew(worker: number, leases: readonly LeaseRef[], leaseMs: number): Promise<RenewResult>;
  /**
   * Acts on what has run out: leases (their chunks wait again, suspects are charged), deadlines,
   * watches and orphans. Bounded; call again while it finds something.
   */
  sweep(policy: SweepPolicy): Promise<SweepResult>;
}
