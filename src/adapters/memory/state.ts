/** The whole state of the reference model: plain values, so that a test can inspect everything. */
import type { Act, BatchState, EndReason } from "../../core/batch/batch.ts";
import type { BucketState } from "../../core/limits/bucket.ts";
import { CHAIN_START, type ChainHead } from "../../core/ledger/chain.ts";
import type { ChunkState } from "../../core/batch/chunk.ts";
import { type Counts, NO_ITEMS } from "../../core/batch/counts.ts";
import type { LeaseAccount, ShareClock, TenantShare } from "../../core/limits/fair-share.ts";
import { type FailureTally, NO_FAILURES } from "../../core/batch/failure-budget.ts";
import type { LanePolicy } from "../../core/batch/lane.ts";
import type { LedgerBlock } from "../../core/ledger/item-ledger.ts";
import type { LimitChange, LimitSetting, LimitTarget } from "../../core/limits/limit.ts";
import type { OutcomeMap } from "../../core/items/outcome-map.ts";
import type { RestFacts } from "../../core/batch/why.ts";
import type { TrackedItem } from "../../core/items/tracked-item.ts";
import { type Abandoned, addCounts, type StepSettings } from "../../core/batch/step.ts";
import { FIRST_LOOK, type WatchState } from "../../core/batch/watch.ts";
import type { Clock } from "../../ports/clock.ts";
import type { BatchSnapshot, CancelFacts, Submission } from "../../ports/store/conductor-store.ts";
import type { UndeliveredEvent } from "../../ports/store/delivery-store.ts";
import type { StoredSignedHead, StoredKey } from "../../ports/store/ledger-store.ts";
import type { PauseRequest, PauseScope } from "../../ports/store/operator-store.ts";
import type { StoredRecord, StoredResult } from "../../ports/store/query-store.ts";
import type { StoredMessage } from "../../ports/store/topic-store.ts";
import type { Served } from "../../ports/store/worker-store.ts";

export interface Chunk {
  readonly start: number;
  readonly end: number;
  readonly locator: string | null;
  manifest: Uint8Array | null;
  /** The plan part that added it. */
  readonly part: string;
  state: ChunkState;
  fence: number;
  worker: number;
  leaseUntil: number;
  dueAt: number;
  /** The limit that it waits for. */
  limitWait: RestFacts | null;
  guarded: boolean;
  losses: number;
  /** The account of its newest lease. */
  account: LeaseAccount;
  outcomes: OutcomeMap;
  readonly tracked: Map<number, TrackedItem>;
  /** When each dead letter failed, by position. */
  readonly failedAt: Map<number, number>;
}

export interface Step {
  readonly settings: StepSettings;
  counts: Counts;
  tally: FailureTally;
  passes: number;
  /** Its plan is complete. */
  sliced: boolean;
  /** The drive in which its plan was last completed; 0 before that. */
  slicedDrive: number;
  sliceCursor: string | null;
  /** Higher than that of any step before it. */
  sliceFence: number;
  chunks: Chunk[];
  /** Chunks of drives before the last reopening. */
  baseChunks: number;
  /** Only these first chunks may run yet; null for all. */
  canaryChunks: number | null;
  watch: WatchState;
  watchDueAt: number;
  /** When it was last leased from, counted in leases of its pipeline. */
  turn: number;
  readonly keys: Map<string, number>;
  readonly results: Map<number, StoredResult & { readonly drive: number }>;
  readonly overrides: Map<number, string>;
  readonly discarded: Map<number, Act>;
}

export interface Batch {
  readonly submission: Submission;
  readonly tenant: string;
  readonly submittedAt: number;
  readonly sealDeadlineAt: number | null;
  state: BatchState;
  /** It holds its lane. */
  active: boolean;
  /** Its place in its lane's queue: the lowest is next. */
  place: number;
  parked: EndReason | null;
  cancel: CancelFacts | null;
  deadlineAt: number | null;
  sealed: boolean;
  startedAt: number | null;
  endedAt: number | null;
  reason: EndReason | null;
  /** Its last activity, in monotonic milliseconds. */
  activityAt: number;
  drive: number;
  sinceDrive: number;
  pruned: boolean;
  abandoned: Abandoned[];
  /** The last item with an `unsent` message; null when no such messages are being written. */
  unsentAfter: number | null;
  step: number;
  readonly steps: Step[];
  head: ChainHead;
  /** Links about its items, where it keeps a ledger of items. */
  readonly links: LinkRow[];
  readonly signedHeads: StoredSignedHead[];
}

/** A change of a chunk's items in its batch's chain. */
export interface LinkRow {
  readonly seq: number;
  readonly body: string;
  readonly hash: string;
  readonly step: number;
  readonly chunk: number;
  readonly fence: number;
  block: LedgerBlock | null;
}

export interface ContentRow {
  readonly batch: string;
  readonly step: number;
  readonly chunk: number;
  readonly item: number;
  readonly fence: number;
  final: boolean;
}

export interface BucketRow {
  readonly state: BucketState;
  /** From then on it equals a new bucket. */
  readonly idleAt: number;
}

/** A worker's right to run handlers in a capped scope. */
export interface PermitRow {
  readonly scope: string;
  readonly worker: number;
  /** The pipeline for which it was granted. */
  readonly pipeline: string;
  readonly slots: number;
  /** The cap that the batch itself declares. */
  readonly declared: number | null;
  readonly until: number;
}

export interface State {
  /** In order of submission. */
  readonly batches: Map<string, Batch>;
  readonly records: StoredRecord[];
  readonly positions: Map<string, number>;
  /** Keys that signed heads, in the order in which they were first used. */
  readonly keys: Map<string, StoredKey>;
  /** By id. */
  readonly undelivered: UndeliveredEvent[];
  /** How many undelivered events were ever stored. */
  undeliveredKept: number;
  /** Of all topics, by position. */
  readonly messages: StoredMessage[];
  /** How many messages were ever stored: the position of the newest. */
  messagesKept: number;
  readonly claims: Map<string, { readonly worker: number; readonly until: number }>;
  readonly pauses: Map<string, PauseRequest>;
  readonly lanePolicies: Map<string, LanePolicy>;
  readonly contents: Map<string, ContentRow>;
  /** By bucket and key, as JSON. */
  readonly buckets: Map<string, BucketRow>;
  /** By pipeline and tenant. */
  readonly shares: Map<string, TenantShare>;
  readonly shareClocks: Map<string, ShareClock>;
  /** By scope and worker. */
  readonly permits: Map<string, PermitRow>;
  /** How often each worker's permits have changed. */
  readonly permitChanges: Map<number, number>;
  readonly limits: Map<string, LimitSetting>;
  readonly limitChanges: LimitChange[];
  readonly workers: Map<number, { readonly until: number; readonly serves: readonly Served[] }>;
  lastWorker: number;
  /** The position of the newest record: never reused, also when that record is gone. */
  lastPosition: number;
}

export function createState(): State {
  return {
    batches: new Map(),
    records: [],
    positions: new Map(),
    keys: new Map(),
    undelivered: [],
    undeliveredKept: 0,
    messages: [],
    messagesKept: 0,
    claims: new Map(),
    pauses: new Map(),
    lanePolicies: new Map(),
    contents: new Map(),
    buckets: new Map(),
    shares: new Map(),
    shareClocks: new Map(),
    permits: new Map(),
    permitChanges: new Map(),
    limits: new Map(),
    limitChanges: [],
    workers: new Map(),
    lastWorker: 0,
    lastPosition: 0,
  };
}

export function createBatch(submission: Submission, clock: Clock, place: number): Batch {
  const needsProducer = submission.open || submission.input === null;
  const now = clock.wallMs();
  return {
    submission,
    tenant: submission.tenant ?? submission.lane,
    submittedAt: now,
    sealDeadlineAt: needsProducer ? now + submission.sealWithinMs : null,
    state: "submitted",
    active: false,
    place,
    parked: null,
    cancel: null,
    deadlineAt: submission.deadlineAt,
    sealed: false,
    startedAt: null,
    endedAt: null,
    reason: null,
    activityAt: clock.monotonicMs(),
    drive: 1,
    sinceDrive: 1,
    pruned: false,
    abandoned: [],
    unsentAfter: null,
    step: 0,
    steps: [createStep(submission.settings.steps[0] as StepSettings)],
    head: CHAIN_START,
    links: [],
    signedHeads: [],
  };
}

export function createStep(settings: StepSettings): Step {
  return {
    settings,
    counts: NO_ITEMS,
    tally: NO_FAILURES,
    passes: 0,
    sliced: false,
    slicedDrive: 0,
    sliceCursor: null,
    sliceFence: 0,
    chunks: [],
    baseChunks: 0,
    canaryChunks: null,
    watch: FIRST_LOOK,
    watchDueAt: 0,
    turn: 0,
    keys: new Map(),
    results: new Map(),
    overrides: new Map(),
    discarded: new Map(),
  };
}

/** The batch's current step. */
export function currentStep(batch: Batch): Step {
  return batch.steps[batch.step] as Step;
}

export function countAll(batch: Batch): Counts {
  return addCounts(batch.steps.map(({ counts }) => counts));
}

export function hasLeases(batch: Batch): boolean {
  return batch.steps.some(({ chunks }) => chunks.some(({ state }) => state === "leased"));
}

/**
 * Once for each chunk, in order. A chunk that listed its items, and whose lease was lost later,
 * keeps the list.
 */
export function noteAbandoned(batch: Batch, abandoned: Abandoned): void {
  const { step, chunk, items } = abandoned;
  const known = batch.abandoned.find((one) => one.step === step && one.chunk === chunk);
  if (known !== undefined && items === null) return;
  batch.abandoned = [...batch.abandoned.filter((one) => one !== known), abandoned].toSorted(
    (a, b) => a.step - b.step || a.chunk - b.chunk,
  );
}

export function namePermit(scope: string, worker: number): string {
  return `${worker}/${scope}`;
}

export function nameLimit({ kind, scope, name }: LimitTarget): string {
  return `${kind}/${scope}/${name}`;
}

export function namePause({ scope, name }: PauseScope): string {
  return `${scope}/${name}`;
}

/** The pause that applies to a batch, the narrowest first; null when it may run. */
export function findPause(state: State, { submission }: Batch): PauseRequest | null {
  const { id, lane, pipeline } = submission;
  return (
    state.pauses.get(namePause({ scope: "batch", name: id })) ??
    state.pauses.get(namePause({ scope: "lane", name: lane })) ??
    state.pauses.get(namePause({ scope: "pipeline", name: pipeline })) ??
    null
  );
}

export function takeSnapshot(state: State, batch: Batch): BatchSnapshot {
  const { id, pipeline, version, lane, key, input, open, settings } = batch.submission;
  const step = currentStep(batch);
  return {
    id,
    pipeline,
    version,
    lane,
    tenant: batch.tenant,
    key,
    input,
    open,
    settings,
    state: batch.state,
    active: batch.active,
    sealed: batch.sealed,
    step: batch.step,
    steps: batch.steps.map(({ settings: { name }, counts, chunks, passes }) => ({
      name,
      counts,
      chunks: chunks.length,
      passes,
    })),
    counts: countAll(batch),
    chunks: step.chunks.length,
    sliceCursor: step.sliceCursor,
    sliceFence: step.sliceFence,
    reason: batch.reason,
    pause: findPause(state, batch),
    parked: batch.parked,
    cancel: batch.cancel,
    drive: batch.drive,
    sinceDrive: batch.sinceDrive,
    deadlineAt: batch.deadlineAt,
    pruned: batch.pruned,
    submittedAt: batch.submittedAt,
    startedAt: batch.startedAt,
    endedAt: batch.endedAt,
  };
}

/** Whether a living worker accepts this batch. */
export function hasWorker(state: State, nowMs: number, { submission }: Batch): boolean {
  const { id, pipeline, version } = submission;
  return [...state.workers.values()].some(
    ({ until, serves }) =>
      until > nowMs &&
      serves.some(
        (one) =>
          one.pipeline === pipeline &&
          one.version === version &&
          (one.batch === undefined || one.batch === id),
      ),
  );
}
