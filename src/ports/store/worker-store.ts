/**
 * The store as a worker sees it: chunks are leased, reported on, renewed, and swept up when their
 * holder is lost. A lease is a right for a limited time, by the store's clock; a stale holder
 * cannot forge its fence. A lost race is a returned value, never an exception.
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
  /** Chunks are added while fewer items than this are leased; at least one chunk is granted. */
  readonly itemsMax: number;
  readonly chunksMax: number;
  readonly leaseMs: number;
  /** How many handler calls the worker could run at once: what it requests in capped scopes. */
  readonly slots: number;
  /**
   * What the worker still needs of capped scopes, by its own count: applied first. A scope that is
   * absent stays unchanged while the worker has leases in it.
   */
  readonly keeps: readonly Permit[];
}

/**
 * How many handlers a worker may run at once in a capped scope: `batch/<id>`, `lane/<name>` or
 * `pipeline/<name>`. It lasts as long as a lease. All live permits of a scope together never exceed
 * its cap, except for a short time after the cap was lowered.
 */
export interface Permit {
  readonly scope: string;
  readonly slots: number;
}

export interface HeldPermit extends Permit {
  /** The pipeline for whose work it was last granted. */
  readonly pipeline: string;
  /** How long it lasts from now on; 0 when it has expired. */
  readonly forMs: number;
}

/** All permits of a worker, as one transaction left them. */
export interface Permits {
  /**
   * Rises with each transaction that changes them: of two answers, the lower one is older. 0 for a
   * worker that the store does not know.
   */
  readonly seq: number;
  /**
   * With 0 slots none of the worker's handlers may start in the scope; a scope that is absent has no
   * cap.
   */
  readonly held: readonly HeldPermit[];
}

/** What the store remembers about an item that has failed or is a suspect. */
export interface ItemHistory {
  /** Position in the chunk. */
  readonly index: number;
  readonly attempts: number;
  readonly deaths: number;
  /** How much of its back-off is left; 0 when it is due. */
  readonly dueInMs: number;
  readonly checkpoint: Checkpoint | null;
  /** 1, or the drive of its last redrive. */
  readonly drive: number;
}

/** The payload that an operator put in place of an item's own content. */
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
  /** No automatic pass follows: an item that fails now stays failed. */
  readonly final: boolean;
  /** Its batch keeps a ledger of items; absent otherwise. */
  readonly ledger?: true;
}

export interface Report extends LeaseRef, ReportFacts {
  /**
   * Handler milliseconds of all its items under this lease. Counted from the lease's beginning and
   * not from the last report, so that a repeated report counts once.
   */
  readonly busyMs: number;
  /**
   * Present exactly if the lease has `ledger`. What handlers recorded, in the order of the blocks'
   * numbers. A block whose reply was lost is sent again unchanged, and is written once.
   */
  readonly ledger?: { readonly blocks: readonly LedgerBlock[] };
}

export interface WorkResult {
  /** One for each report, in order. */
  readonly reports: readonly ReportResult[];
  readonly leased: readonly LeasedChunk[];
  /** When the next chunk is due, if nothing could be leased now; null when none waits. */
  readonly nextDueInMs: number | null;
  /** The batches that this commit ended. */
  readonly ended: readonly string[];
  /**
   * If chunks were leased, the permits in scopes of the request's pipeline last as long as those
   * leases, otherwise as long as before. Null without a request.
   */
  readonly permits: Permits | null;
  /**
   * Items whose statements failed, so that their reported outcomes were refused; absent for none. A
   * worker that keeps the lease must not report the same outcomes again: the items would succeed
   * without their statements.
   */
  readonly refused?: readonly RefusedItem[];
}

export interface RefusedItem extends ItemRefusal {
  /** The number of the report in its call. */
  readonly report: number;
}

export interface RenewResult {
  readonly lost: readonly LeaseRef[];
  readonly permits: Permits;
}

export interface SweepResult {
  /** Expired leases whose chunks may be leased again. */
  readonly lostLeases: number;
  /** Batches that were handled otherwise: watched, recovered, parked. */
  readonly tended: number;
  readonly ended: readonly string[];
}

/** The time limits that a sweep applies. */
export interface SweepPolicy {
  readonly watchDelays: WatchDelays;
  /** Looks without progress before leftovers are given up. */
  readonly stallsMax: number;
  /** A batch without a working process for this long is an orphan. */
  readonly orphanMs: number;
  /** An orphan of this age is marked as stale, and its lane continues. */
  readonly staleMs: number;
  /**
   * Leases that expired within this time are left alone, because their holders may not have been
   * able to renew them (core/items/outage-grace.ts); leases of dead processes are taken back
   * anyway. Default 0.
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
  /** The worker takes only this batch. */
  readonly batch?: string;
}

/** What a worker must know about a batch of which it holds chunks. */
export interface Stop {
  readonly batch: string;
  /** `over`: it has ended, and its leases are gone. */
  readonly kind: "cancel" | "pause" | "over";
  readonly mode: StopMode;
}

/** A cancel takes precedence over a pause, and `now` over `drain`. */
export function describeStop(
  batch: string,
  cancel: StopMode | null,
  pause: StopMode | null,
): Stop[] {
  if (cancel === null && pause === null) return [];
  const mode = cancel === "now" || pause === "now" ? "now" : "drain";
  return [{ batch, kind: cancel === null ? "pause" : "cancel", mode }];
}

export type ContentClaim =
  /** Claimed for this item: run it. */
  | "claimed"
  /** An item with this content is running: try again later. */
  | "held"
  /** An item with this content has succeeded: skip this one. */
  | "done";

export interface WorkerStore {
  /** Gives a worker its number. */
  registerWorker(facts: WorkerFacts): Promise<number>;
  /** A heartbeat: for this long the worker counts as having these pipelines. */
  beat(worker: number, serves: readonly Served[], forMs: number): Promise<void>;
  /**
   * Commits any number of reports (a settle, a flush of partial outcomes, a give-back) and leases
   * the next chunks, in one transaction. Outcomes, counters, dead letters, results, checkpoints
   * and, with the last item, the ending of the step or batch are written together or not at all. So
   * are the statements of items, in a store with a `dialect`; a store without one throws
   * STORE_UNSUPPORTED.
   *
   * Leased work is divided between the pipeline's tenants by weight (core/limits/fair-share.ts),
   * and within a tenant goes to the batch that was leased from least recently. A batch in a capped
   * scope is passed over while no slot is free there and the worker has none. Leasing from a batch
   * raises the worker's permits in its scopes to what is free, up to `slots`.
   */
  work(reports: readonly Report[], lease: LeaseRequest | null): Promise<WorkResult>;
  /**
   * Claims contents for items of a leased chunk. A claim lasts as long as the lease: it becomes
   * final with the committed success of its item, and is released when the item fails or the lease
   * ends. Null when the lease is lost.
   */
  claimContents(
    lease: LeaseRef,
    contents: readonly ItemContent[],
  ): Promise<readonly ContentClaim[] | null>;
  /** Which of these batches must stop, and how. */
  readStops(batches: readonly string[]): Promise<readonly Stop[]>;
  /**
   * Extends leases, and the worker's permits; returns which leases are lost. The lease of a
   * cancelled batch is not extended. Permits are lowered if the cap was; in a scope that was capped
   * since, the worker takes what is free.
   */
  renew(worker: number, leases: readonly LeaseRef[], leaseMs: number): Promise<RenewResult>;
  /**
   * Handles everything that expired: leases (their chunks wait again, suspects are charged),
   * deadlines, watches and orphans. Bounded; call again while it finds something.
   */
  sweep(policy: SweepPolicy): Promise<SweepResult>;
}
