/**
 * Everything that a store returns through its ports, as one plain value. Two stores that got the
 * same calls can be compared completely, and their first difference shown. State that no port
 * returns (when a lease expires, when a look is due) shows in later answers.
 */
import {
  BATCH_STATES,
  type BatchState,
  ENDED_STATES,
  isEnded,
} from "../../src/core/batch/batch.ts";
import type { PipelineLoad } from "../../src/core/fleet/load.ts";
import type { LimitChange, LimitSetting } from "../../src/core/limits/limit.ts";
import type { BatchSnapshot } from "../../src/ports/store/conductor-store.ts";
import type { UndeliveredEvent } from "../../src/ports/store/delivery-store.ts";
import type {
  LedgerLink,
  StoredSignedHead,
  StoredKey,
} from "../../src/ports/store/ledger-store.ts";
import type { ClosedBucket } from "../../src/ports/store/token-store.ts";
import type {
  DeadLetter,
  ItemPlace,
  LaneView,
  Recount,
  StoredRecord,
  StoredResult,
  WaitingFacts,
} from "../../src/ports/store/query-store.ts";
import type { Store } from "../../src/ports/store/store.ts";
import type { Permit, Stop } from "../../src/ports/store/worker-store.ts";
import type { StoredMessage, TopicView } from "../../src/ports/store/topic-store.ts";

export interface CanonicalOptions {
  /** No port lists the durable readers; the test that started them knows their names. */
  readonly readers: readonly string[];
  /** Batches that may be pruned: that an id is unknown is compared too. */
  readonly gone?: readonly string[];
}

export interface CanonicalStep {
  /** By the drive from which results count as new, from 1 to the batch's own. */
  readonly results: readonly (readonly StoredResult[])[];
  readonly letters: readonly DeadLetter[];
  readonly manifests: readonly Uint8Array[];
  /** Each item of the plan, and the position after the last, where there is no item. */
  readonly items: readonly (ItemPlace | null)[];
}

export interface CanonicalBatch {
  readonly snapshot: BatchSnapshot | null;
  readonly waiting: WaitingFacts | null;
  readonly recount: Recount | null;
  readonly stops: readonly Stop[];
  /** One step more than have begun: it must be empty. */
  readonly steps: readonly CanonicalStep[];
  readonly records: readonly StoredRecord[];
  /** With its item records, if it keeps a ledger of items. */
  readonly chain: readonly LedgerLink[];
  readonly signedHeads: readonly StoredSignedHead[];
}

export interface CanonicalState {
  /** Newest first. */
  readonly listed: readonly BatchSnapshot[];
  readonly outline: CanonicalOutline;
  readonly records: readonly StoredRecord[];
  readonly batches: { readonly [id: string]: CanonicalBatch };
  /** Ids, newest first. */
  readonly unfinished: readonly string[];
  readonly ended: readonly string[];
  readonly unsliced: { readonly [pipeline: string]: readonly BatchSnapshot[] };
  readonly stopsOfTheGone: readonly Stop[];
  readonly lettersOf: { readonly [reader: string]: readonly UndeliveredEvent[] };
  readonly positions: { readonly [reader: string]: number };
  readonly limitChanges: readonly LimitChange[];
  readonly messages: { readonly [topic: string]: readonly StoredMessage[] };
  /** In order of arrival. */
  readonly keys: readonly StoredKey[];
}

/** What is cheap to read after every call. */
export interface CanonicalOutline {
  /** Those that were requested; null for an unknown one. */
  readonly batches: readonly (BatchSnapshot | null)[];
  readonly lanes: readonly LaneView[];
  readonly undelivered: readonly UndeliveredEvent[];
  readonly topics: readonly TopicView[];
  readonly lastPosition: number;
  readonly limits: readonly LimitSetting[];
  readonly capUse: readonly Permit[];
  readonly load: readonly PipelineLoad[];
  readonly closed: readonly ClosedBucket[];
}

/** More than any test has of anything. */
const LIMIT = 1_000_000;
const UNFINISHED = BATCH_STATES.filter((state) => !isEnded(state));

export async function readOutline(store: Store, ids: readonly string[]): Promise<CanonicalOutline> {
  const batches: (BatchSnapshot | null)[] = [];
  for (const id of ids) batches.push(await store.getBatch(id));
  return {
    batches,
    lanes: await store.listLanes(),
    undelivered: await store.listUndelivered({ afterId: 0, limit: LIMIT }),
    topics: await store.listTopics(),
    lastPosition: await store.readLastPosition(),
    limits: await store.listLimits(),
    capUse: await store.listCapUse(),
    load: (await store.readLoad(0)).pipelines,
    closed: await store.listClosed(),
  };
}

export async function readCanonicalState(
  store: Store,
  { readers, gone = [] }: CanonicalOptions,
): Promise<CanonicalState> {
  const batches = await store.listBatches({ limit: LIMIT });
  const ids = new Set(batches.map(({ id }) => id));
  const pipelines = distinct(batches.map(({ pipeline }) => pipeline));
  const unknown = gone.filter((id) => !ids.has(id));
  return {
    listed: batches,
    outline: await readOutline(store, []),
    records: await store.readRecords(null, 0, LIMIT),
    batches: await table(
      [...ids, ...unknown].toSorted(),
      (id) => id,
      (id) => readBatch(store, id),
    ),
    unfinished: await listIds(store, UNFINISHED),
    ended: await listIds(store, ENDED_STATES),
    unsliced: await table(
      pipelines,
      (name) => name,
      (name) => store.listUnsliced(name, LIMIT),
    ),
    stopsOfTheGone: await store.readStops(unknown),
    lettersOf: await table(
      readers,
      (name) => name,
      (reader) => store.listUndelivered({ reader, afterId: 0, limit: LIMIT }),
    ),
    positions: await table(
      readers,
      (name) => name,
      (reader) => store.readPosition(reader),
    ),
    limitChanges: await store.listLimitChanges(0, LIMIT),
    messages: await table(
      (await store.listTopics()).map(({ topic }) => topic),
      (topic) => topic,
      (topic) => store.readMessages(topic, 0, LIMIT),
    ),
    keys: await store.readKeys(),
  };
}

async function listIds(store: Store, states: readonly BatchState[]): Promise<string[]> {
  return (await store.listBatches({ states, limit: LIMIT })).map(({ id }) => id);
}

async function readBatch(store: Store, id: string): Promise<CanonicalBatch> {
  const snapshot = await store.getBatch(id);
  const steps: CanonicalStep[] = [];
  for (const step of snapshot === null ? [] : [...snapshot.steps.keys(), snapshot.steps.length]) {
    steps.push(await readStep(store, snapshot as BatchSnapshot, step));
  }
  return {
    snapshot,
    waiting: await store.readWaiting(id, LIMIT),
    recount: await store.recount(id),
    stops: await store.readStops([id]),
    steps,
    records: await store.readRecords(id, 0, LIMIT),
    chain: await store.readLedger(id, 0, LIMIT),
    signedHeads: await store.readSignedHeads(id),
  };
}

async function readStep(
  store: Store,
  { id, drive, steps }: BatchSnapshot,
  step: number,
): Promise<CanonicalStep> {
  const page = { step, afterItem: -1, limit: LIMIT };
  const { planned } = steps[step]?.counts ?? { planned: 0 };
  const results: (readonly StoredResult[])[] = [];
  for (let sinceDrive = 1; sinceDrive <= drive; sinceDrive++) {
    results.push(await store.readResults(id, { ...page, sinceDrive }));
  }
  const items: (ItemPlace | null)[] = [];
  for (let item = 0; item <= planned; item++) items.push(await store.findItem(id, step, item));
  return {
    results,
    letters: await store.readDeadLetters(id, { ...page, filter: {} }),
    manifests: await store.readManifests(id, step, 0, LIMIT),
    items,
  };
}

async function table<Key, Value>(
  keys: readonly Key[],
  name: (key: Key) => string,
  read: (key: Key) => Promise<Value>,
): Promise<{ readonly [name: string]: Value }> {
  const entries: [string, Value][] = [];
  for (const key of keys) entries.push([name(key), await read(key)]);
  return Object.fromEntries(entries);
}

function distinct(names: readonly string[]): string[] {
  return [...new Set(names)].toSorted();
}

/** The first difference between two values, in the order of their parts. */
export interface Difference {
  /** Such as `batches.b1.steps[0].items[3].outcome`; empty when the values differ as a whole. */
  readonly path: string;
  readonly one: unknown;
  readonly other: unknown;
}

/** Stands for a part that only the other value has. */
const ABSENT = "(nothing)";

/** Null when they are equal in every part. Bytes are compared by content, whatever holds them. */
export function findFirstDifference(one: unknown, other: unknown, path = ""): Difference | null {
  if (Object.is(one, other)) return null;
  if (ArrayBuffer.isView(one) && ArrayBuffer.isView(other)) {
    return showBytes(one) === showBytes(other) ? null : { path, one, other };
  }
  if (!isBranch(one) || !isBranch(other) || Array.isArray(one) !== Array.isArray(other)) {
    return { path, one, other };
  }
  return Array.isArray(one) && Array.isArray(other)
    ? compareLists(one, other, path)
    : compareParts(one, other, path);
}

function compareLists(
  one: readonly unknown[],
  other: readonly unknown[],
  path: string,
): Difference | null {
  for (let at = 0; at < Math.max(one.length, other.length); at++) {
    const place = `${path}[${at}]`;
    if (at >= one.length) return { path: place, one: ABSENT, other: other[at] };
    if (at >= other.length) return { path: place, one: one[at], other: ABSENT };
    const difference = findFirstDifference(one[at], other[at], place);
    if (difference !== null) return difference;
  }
  return null;
}

function compareParts(one: Branch, other: Branch, path: string): Difference | null {
  for (const name of new Set([...Object.keys(one), ...Object.keys(other)])) {
    const place = path === "" ? name : `${path}.${name}`;
    if (!Object.hasOwn(one, name)) return { path: place, one: ABSENT, other: other[name] };
    if (!Object.hasOwn(other, name)) return { path: place, one: one[name], other: ABSENT };
    const difference = findFirstDifference(one[name], other[name], place);
    if (difference !== null) return difference;
  }
  return null;
}

type Branch = { readonly [name: string]: unknown };

function isBranch(value: unknown): value is Branch {
  return typeof value === "object" && value !== null && !ArrayBuffer.isView(value);
}

function showBytes({ buffer, byteOffset, byteLength }: ArrayBufferView): string {
  return `bytes ${Buffer.from(buffer, byteOffset, byteLength).toString("hex")}`;
}

export function describeDifference(
  { path, one, other }: Difference,
  names: readonly [string, string],
): string {
  const place = path === "" ? "the whole" : path;
  return `${place}: ${names[0]} has ${show(one)}, ${names[1]} has ${show(other)}`;
}

function show(value: unknown): string {
  if (value === ABSENT) return ABSENT;
  if (ArrayBuffer.isView(value)) return showBytes(value);
  return JSON.stringify(value) ?? String(value);
}
