/**
 * Watches many batches while they run: what must hold at every commit and at every start of a
 * handler, whatever operators do. It collects what it sees instead of throwing.
 */
import { type Batch, type Chunk, findPause, type Step } from "../src/adapters/memory/state.ts";
import { isEnded } from "../src/core/batch.ts";
import { isConserved } from "../src/core/counts.ts";
import { countOutcomes, getOutcome, PENDING } from "../src/core/outcome-map.ts";
import type { InlineResult } from "../src/ports/conducting.ts";
import type { Store } from "../src/ports/store.ts";
import type { LeasedChunk, WorkResult } from "../src/ports/working.ts";
import { type ErrandRun, type Errands, TIME_LIMIT_MS } from "./errands.ts";
import type { StoreVerb } from "../src/ports/store-verbs.ts";
import type { Node, World, WorldListener } from "./world.ts";

const PROBLEMS_MAX = 20;
/** Every worker has seen a pause or a cancel after this time, if nothing goes wrong. */
const SEEN_WITHIN_MS = 1_000;

export interface WitnessPlot {
  /** Batches of a lane start in the order of submission, as nobody moves or passes them. */
  readonly orderly: boolean;
  /** Nothing goes wrong. */
  readonly calm: boolean;
}

interface Seen {
  outcomes: Uint8Array;
  drive: number;
}

export class TrafficWitness implements WorldListener {
  readonly problems: string[] = [];
  readonly #world: World;
  readonly #errands: Errands;
  readonly #plot: WitnessPlot;
  readonly #holders = new Map<string, Node>();
  readonly #outcomes = new Map<string, Seen>();
  /** Batches that ended while workers held chunks of them, who learn of it later. */
  readonly #cutShort = new Set<string>();
  readonly #started = new Map<string, string[]>();
  #records = 0;
  readonly #endings = new Map<string, { ended: number; reopened: number; drives: Set<number> }>();

  /** Since when a batch is to be stopped at once. */
  readonly #stoppedAt = new Map<string, number>();
  /** Handlers that ran under a lease when their batch was cancelled. */
  readonly #cancelled = new Map<string, ErrandRun[]>();

  constructor(world: World, errands: Errands, plot: WitnessPlot) {
    this.#world = world;
    this.#errands = errands;
    this.#plot = plot;
    world.listeners.push(this);
    errands.onStart = (run) => this.#look(run);
  }

  /** The node's store, with an eye on what is told at once. */
  watchReports({ name, life, store }: Node): Store {
    const told = new Set<string>();
    const work: Store["work"] = async (reports, lease) => {
      const names = reports.map(({ batch, step, chunk }) => `${batch}/${step}/${chunk}`);
      const twice = names.filter((one, at) => told.has(one) || names.indexOf(one) < at);
      // Two reports of one chunk at once would tell some things twice and others never.
      for (const one of twice) this.#say(`${name}.${life} tells twice at once of ${one}`);
      for (const one of names) told.add(one);
      try {
        return await store.work(reports, lease);
      } finally {
        for (const one of names) told.delete(one);
      }
    };
    return { ...store, work };
  }

  onCrash(): void {
    // Nothing to see: what a death breaks shows at the next commit.
  }

  onCommit(node: Node, verb: StoreVerb, answer: unknown): void {
    for (const lease of readLeases(verb, answer)) this.#noteLease(node, lease);
    const active = new Map<string, string>();
    for (const batch of this.#world.store.state.batches.values()) {
      this.#readBatch(batch, active);
    }
    this.#readRecords();
  }

  /** Nothing of a batch is leased that is cancelled, paused, or not its lane's turn. */
  #noteLease(node: Node, { batch: id, step, chunk }: LeasedChunk): void {
    this.#holders.set(`${id}/${step}/${chunk}`, node);
    const { state } = this.#world.store;
    const batch = state.batches.get(id);
    if (batch === undefined) return this.#say(`chunk ${chunk} of no batch is leased`);
    const what = `chunk ${step}/${chunk} of ${nameOf(batch)} is leased`;
    if (batch.state !== "running" || !batch.active) this.#say(`${what} while it is ${batch.state}`);
    if (batch.step !== step) this.#say(`${what} while it is at step ${batch.step}`);
    if (batch.cancel !== null) this.#say(`${what} after its cancel`);
    if (findPause(state, batch) !== null) this.#say(`${what} while it is paused`);
  }

  #readBatch(batch: Batch, active: Map<string, string>): void {
    const { id, lane } = batch.submission;
    if (batch.state === "failed" || batch.state === "expired") this.#cutShort.add(id);
    if (batch.active) {
      const other = active.get(lane);
      if (other !== undefined) this.#say(`${nameOf(batch)} and ${other} both hold lane ${lane}`);
      active.set(lane, nameOf(batch));
      if (isEnded(batch.state)) this.#say(`${nameOf(batch)} has ended and holds its lane`);
    }
    if (batch.state === "running" && !batch.active) {
      this.#say(`${nameOf(batch)} runs without its lane`);
    }
    this.#noteStop(batch);
    for (const [number, step] of batch.steps.entries()) this.#recount(batch, number, step);
  }

  #noteStop(batch: Batch): void {
    const { id } = batch.submission;
    const pause = findPause(this.#world.store.state, batch);
    const stops = batch.cancel?.mode === "now" || pause?.mode === "now";
    if (!stops || isEnded(batch.state)) this.#stoppedAt.delete(id);
    else if (!this.#stoppedAt.has(id)) this.#stoppedAt.set(id, this.#world.time.nowMs);
    if (batch.cancel === null) return void this.#cancelled.delete(id);
    const known = this.#cancelled.get(id);
    if (known === undefined) {
      const runs = this.#errands.runs.filter(
        (run) => run.batch === id && !run.ended && isHeld(batch, run),
      );
      this.#cancelled.set(id, runs);
    } else if (isEnded(batch.state)) {
      this.#cancelled.set(id, []);
      for (const run of known) this.#checkAbandoned(batch, run);
    }
  }

  /** A cancel is acknowledged with the names of those who ignored it. */
  #checkAbandoned(batch: Batch, { node, ended, startedAt, step, index }: ErrandRun): void {
    // One that is past its time limit is given up on for that.
    const overdue = this.#world.time.nowMs - startedAt >= TIME_LIMIT_MS;
    if (ended || !node.alive || overdue || batch.state !== "cancelled") return;
    const chunk = batch.steps[step]?.chunks.findIndex(
      ({ start, end }) => start <= index && index < end,
    );
    const named = batch.abandoned.some((one) => one.step === step && one.chunk === chunk);
    if (!named) this.#say(`${nameOf(batch)} is cancelled, and ${step}/${index} runs unnamed`);
  }

  /** Conservation, at every instant: the counters add up, and are what the maps say. */
  #recount(batch: Batch, number: number, { counts, chunks }: Step): void {
    const what = `step ${number} of ${nameOf(batch)}`;
    if (!isConserved(counts)) this.#say(`${what} is not conserved`, counts);
    if (isEnded(batch.state) && counts.pending > 0) this.#say(`${what} ended`, counts);
    const sum = { planned: 0, succeeded: 0, skipped: 0, failed: 0 };
    for (const [at, chunk] of chunks.entries()) {
      const counted = countOutcomes(chunk.outcomes);
      sum.planned += chunk.end - chunk.start;
      sum.succeeded += counted.succeeded;
      sum.skipped += counted.skipped;
      sum.failed += counted.failed;
      this.#compare(batch, `${batch.submission.id}/${number}/${at}`, chunk);
    }
    const { planned, succeeded, skipped, failed } = counts;
    const said = { planned, succeeded, skipped, failed };
    if (JSON.stringify(said) !== JSON.stringify(sum)) {
      this.#say(`${what} counts ${JSON.stringify(said)}, a recount says`, sum);
    }
  }

  /** One outcome for each drive: a word that was given stands, unless a new drive takes it back. */
  #compare(batch: Batch, where: string, { start, end, outcomes }: Chunk): void {
    const seen = this.#outcomes.get(where);
    if (seen?.outcomes === outcomes) return;
    this.#outcomes.set(where, { outcomes, drive: batch.drive });
    if (seen === undefined) return;
    for (let at = 0; at < end - start; at++) {
      const before = getOutcome(seen.outcomes, at);
      const now = getOutcome(outcomes, at);
      if (before === PENDING || before === now) continue;
      const redriven = now === PENDING && batch.drive > seen.drive;
      if (!redriven) this.#say(`item ${start + at} of ${where} was ${before} and is ${now}`);
    }
  }

  #readRecords(): void {
    const { records, batches } = this.#world.store.state;
    for (const { batch: id, type, body } of records.slice(this.#records)) {
      const batch = batches.get(id);
      const ends = this.#endings.get(id) ?? { ended: 0, reopened: 0, drives: new Set() };
      this.#endings.set(id, ends);
      const { data } = JSON.parse(body) as { data: { drive?: number } };
      if (type === "batch.ended") {
        ends.ended++;
        if (ends.drives.has(data.drive ?? 0)) this.#say(`${id} ends drive ${data.drive} twice`);
        ends.drives.add(data.drive ?? 0);
      }
      if (type === "batch.reopened") ends.reopened++;
      if (ends.ended - ends.reopened > 1) this.#say(`${id} ends without having been reopened`);
      if (type === "batch.started" && batch !== undefined) this.#noteStart(batch, data.drive ?? 1);
    }
    this.#records = records.length;
    for (const [id, { ended, reopened }] of this.#endings) {
      const state = batches.get(id)?.state ?? "submitted";
      if (isEnded(state) !== ended > reopened) this.#say(`${id} is ${state}: ${ended}/${reopened}`);
    }
  }

  #noteStart(batch: Batch, drive: number): void {
    const { id, lane } = batch.submission;
    const started = this.#started.get(lane) ?? [];
    this.#started.set(lane, started);
    if (started.includes(id)) return;
    started.push(id);
    // One that is reopened comes to its lane's head, whether or not it ever ran.
    if (!this.#plot.orderly || drive > 1) return;
    for (const other of this.#world.store.state.batches.values()) {
      if (other === batch) return;
      const waits = other.submission.lane === lane && !started.includes(other.submission.id);
      if (waits && !isEnded(other.state)) {
        this.#say(`${nameOf(batch)} starts before ${nameOf(other)}, which was submitted earlier`);
      }
    }
  }

  /** A handler starts only under a live lease of its own node, on an item that is due and not done. */
  #look({ node, batch: id, step: number, index, attempt, drive, fence, final }: ErrandRun): void {
    const batch = this.#world.store.state.batches.get(id);
    const step = batch?.steps[number];
    const at = step?.chunks.findIndex(({ start, end }) => start <= index && index < end) ?? -1;
    const chunk = step?.chunks[at];
    const who = `${node.name}.${node.life}`;
    if (batch === undefined || step === undefined || chunk === undefined) {
      return this.#say(`${who} starts ${id}/${number}/${index}, which is nowhere`);
    }
    // Its worker may not have heard of the end yet.
    if (this.#cutShort.has(id)) return;
    const now = this.#world.time.nowMs;
    const what = `${who} starts item ${number}/${index} of ${nameOf(batch)}`;
    if (batch.state !== "running") return this.#say(`${what}, which is ${batch.state}`);
    const stoppedMs = now - (this.#stoppedAt.get(id) ?? now);
    if (this.#plot.calm && stoppedMs > SEEN_WITHIN_MS) {
      this.#say(`${what}, which was stopped ${stoppedMs} ms ago`);
    }
    if (chunk.state !== "leased" || chunk.leaseUntil <= now) {
      this.#say(`${what} without a live lease`);
    }
    if (this.#holders.get(`${id}/${number}/${at}`) !== node) this.#say(`${what}: another's`);
    if (fence !== chunk.fence) this.#say(`${what} with an old fence`);
    const position = index - chunk.start;
    if (getOutcome(chunk.outcomes, position) !== PENDING) {
      this.#say(`${what}, which has its outcome already`);
    }
    const tracked = chunk.tracked.get(position);
    if (chunk.careful && tracked?.started !== true) this.#say(`${what}, which is unannounced`);
    if (tracked !== undefined && tracked.dueAt > now) {
      this.#say(`${what} ${tracked.dueAt - now} ms before it is due`);
    }
    const expected = (tracked?.attempts ?? 0) + 1;
    if (attempt !== expected) this.#say(`${what} as attempt ${attempt}, not ${expected}`);
    if (drive !== (tracked?.drive ?? 1)) this.#say(`${what} in drive ${drive}`);
    if (final !== step.passes >= step.settings.maxRedrives) this.#say(`${what}, final: ${final}`);
  }

  #say(problem: string, facts?: unknown): void {
    if (this.problems.length >= PROBLEMS_MAX) return;
    const tail = facts === undefined ? "" : `: ${JSON.stringify(facts)}`;
    this.problems.push(`at ${this.#world.time.elapsedMs} ms ${problem}${tail}`);
  }
}

function isHeld({ steps }: Batch, { node, step, index, fence }: ErrandRun): boolean {
  const chunk = steps[step]?.chunks.find(({ start, end }) => start <= index && index < end);
  return node.alive && chunk?.state === "leased" && chunk.fence === fence;
}

function nameOf({ submission }: Batch): string {
  return submission.key ?? submission.id;
}

function readLeases(verb: StoreVerb, answer: unknown): readonly LeasedChunk[] {
  if (verb === "work") return (answer as WorkResult).leased;
  if (verb !== "planInline") return [];
  const inline = answer as InlineResult;
  return inline.kind === "leased" ? [inline.chunk] : [];
}
