/**
 * Watches a world while it runs, for what must hold at every commit and at every start of a
 * handler. It collects problems instead of throwing, because the engine would take an exception for
 * the handler's own.
 */
import { type Batch, type Chunk, currentStep } from "../../src/adapters/memory/state.ts";
import { getOutcome, PENDING } from "../../src/core/items/outcome-map.ts";
import { mustRunAlone } from "../../src/core/items/poison.ts";
import type { InlineResult } from "../../src/ports/store/conductor-store.ts";
import type { LeasedChunk, WorkResult } from "../../src/ports/store/worker-store.ts";
import { describeMiscount } from "../checkers/recount.ts";
import type { StoreVerb } from "../../src/ports/store/store-verbs.ts";
import type { Run, RunContext, RunListener, Workload } from "./workload.ts";
import type { Killer, Node, World, WorldListener } from "../world.ts";

const PROBLEMS_MAX = 20;

export class Witness implements WorldListener, RunListener {
  readonly problems: string[] = [];
  readonly #world: World;
  readonly #workload: Workload;
  /** The last grant of each chunk. */
  readonly #holders = new Map<string, Node>();

  constructor(world: World, workload: Workload) {
    this.#world = world;
    this.#workload = workload;
    world.listeners.push(this);
    workload.listeners.push(this);
  }

  onCommit(node: Node, verb: StoreVerb, answer: unknown): void {
    for (const { batch, chunk } of readLeases(verb, answer)) {
      this.#holders.set(`${batch}/${chunk}`, node);
    }
    for (const batch of this.#world.store.state.batches.values()) this.#recount(batch);
  }

  /**
   * A suspect that had started on a node that another item killed could be convicted for that
   * death.
   */
  onCrash(node: Node, killer: Killer): void {
    if (killer === "fault") return;
    const running = this.#workload.runs.filter((run) => run.node === node && run.end === null);
    const { name = "work" } = this.#workload.options;
    for (const [id, batch] of this.#world.store.state.batches) {
      if (batch.submission.pipeline !== name) continue;
      for (const [at, { start, end, state, tracked }] of currentStep(batch).chunks.entries()) {
        if (this.#holders.get(`${id}/${at}`) !== node || state !== "leased") continue;
        const runs = running.some(({ item }) => start <= item && item < end);
        const blamed = [...tracked.values()].filter(
          ({ started, deaths }) => started && mustRunAlone(deaths) && !runs,
        );
        for (const { index } of blamed)
          this.#fail(`item ${start + index} is blamed for the death of another`);
      }
    }
  }

  /** Conservation at every instant: the counters add up, and equal what the maps say. */
  #recount({ submission, steps }: Batch): void {
    for (const step of steps) {
      const problem = describeMiscount(step);
      if (problem !== null) this.#fail(`${submission.id} ${problem}`);
    }
  }

  /**
   * A handler starts only under a live lease of its own node, on an item that is due and has no
   * outcome.
   */
  onStart(run: Run, context: RunContext): void {
    const who = `${run.node.name}.${run.node.life}`;
    const what = `${who} starts item ${run.item}`;
    const batch = this.#world.store.state.batches.get(context.batch);
    const chunks = batch?.steps[0]?.chunks;
    const at = chunks?.findIndex(({ start, end }) => start <= run.item && run.item < end);
    const chunk = chunks?.[at ?? -1];
    if (batch === undefined || chunk === undefined) return this.#fail(`${what}, of no chunk`);
    const now = this.#world.time.nowMs;
    if (context.index !== run.item) this.#fail(`${what} as item ${context.index}`);
    if (batch.state !== "running") this.#fail(`${what} of a ${batch.state} batch`);
    const position = run.item - chunk.start;
    if (getOutcome(chunk.outcomes, position) !== PENDING) {
      this.#fail(`${what}, which has its outcome already`);
    }
    if (chunk.state !== "leased" || chunk.leaseUntil <= now) {
      this.#fail(`${what} without a live lease`);
    }
    if (this.#holders.get(`${context.batch}/${at}`) !== run.node) {
      this.#fail(`${what}, which another node holds`);
    }
    if (context.fence !== chunk.fence) this.#fail(`${what} with an old fence`);
    this.#checkHistory(what, chunk, position, run.attempt);
    const { concurrency, byChunk = false } = this.#workload.options;
    if (this.#workload.concurrentMax > concurrency && !byChunk) {
      this.#fail(`${this.#workload.concurrentMax} handlers run at once`);
    }
  }

  #checkHistory(what: string, chunk: Chunk, position: number, attempt: number): void {
    const tracked = chunk.tracked.get(position);
    if (chunk.guarded && tracked?.started !== true) this.#fail(`${what}, which was not announced`);
    if (tracked !== undefined && tracked.dueAt > this.#world.time.nowMs) {
      this.#fail(`${what} ${tracked.dueAt - this.#world.time.nowMs} ms before it is due`);
    }
    const expected = (tracked?.attempts ?? 0) + 1;
    if (attempt !== expected) this.#fail(`${what} as attempt ${attempt}, not ${expected}`);
  }

  #fail(problem: string, facts?: unknown): void {
    if (this.problems.length >= PROBLEMS_MAX) return;
    const tail = facts === undefined ? "" : `: ${JSON.stringify(facts)}`;
    this.problems.push(`at ${this.#world.time.elapsedMs} ms ${problem}${tail}`);
  }
}

function readLeases(verb: StoreVerb, answer: unknown): readonly LeasedChunk[] {
  if (verb === "work") return (answer as WorkResult).leased;
  if (verb !== "planInline") return [];
  const inline = answer as InlineResult;
  return inline.kind === "leased" ? [inline.chunk] : [];
}
