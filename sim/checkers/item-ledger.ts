/**
 * Promise 10 for items: where a ledger of them is kept, the chain alone says what happened to each.
 * An item has one outcome a drive in it, the same as in its chunk's map; every lost lease has its
 * link; what handlers recorded appears once, matches its root, comes from a run that took place,
 * and stands before the outcome that followed it.
 */
import type { Batch, Chunk, LinkRow } from "../../src/adapters/memory/state.ts";
import { readRanges } from "../../src/core/ledger/item-ledger.ts";
import { getOutcome } from "../../src/core/items/outcome-map.ts";
import { computeBlockRoot } from "../../src/ledger/format/block.ts";
import { SEEN } from "../../src/ledger/format/item-record.ts";
import { OUTCOME_WORDS } from "../../src/ports/store/query-store.ts";
import { RECORDED } from "../traffic/errand.ts";
import { type Checker, listBatches, listSteps, nameBatch, type Scene } from "./checker.ts";

/** The parts of a link that this checker reads. */
interface Told {
  readonly step: number;
  readonly chunk: number;
  readonly fence: number;
  readonly succeeded?: string;
  readonly skipped?: string;
  readonly failed?: readonly { readonly item: number }[];
  readonly redriven?: string;
  readonly cause?: string;
  readonly block?: { readonly number: number; readonly count: number; readonly root: string };
}

interface Line {
  readonly item: number;
  readonly attempt: number;
  readonly drive?: number;
  readonly state: string;
}

export function checkItemLedger(scene: Scene): Checker {
  const held = new Map<Chunk, number>();
  const runs = new Set<string>();
  return {
    onStart: ({ batch, step, index, attempt, drive }) => {
      runs.add(`${batch}/${step}/${index}/${drive}/${attempt}`);
    },
    onCommit: (_node, verb) => {
      for (const batch of listBatches(scene)) {
        if (!isKept(batch)) continue;
        for (const [step, { chunks }] of batch.steps.entries()) {
          for (const [number, chunk] of chunks.entries()) {
            const fence = held.get(chunk);
            if (chunk.state === "leased") held.set(chunk, chunk.fence);
            else held.delete(chunk);
            const isLost = fence !== undefined && verb === "sweep" && isGivenBack(chunk);
            if (isLost) checkLoss(scene, batch, { step, chunk: number, fence });
          }
        }
      }
    },
    atEnd: () => {
      for (const batch of listBatches(scene)) {
        if (isKept(batch)) new Reading(scene, batch, runs).check();
        else if (batch.links.length > 0)
          scene.fail(`${nameBatch(batch)} keeps no ledger, and has links`);
      }
    },
  };
}

function isKept({ submission }: Batch): boolean {
  return submission.settings.ledger?.item === true;
}

function isGivenBack({ state }: Chunk): boolean {
  return state === "waiting" || state === "settled";
}

function checkLoss(scene: Scene, batch: Batch, lost: Pick<Told, "step" | "chunk" | "fence">): void {
  const { step, chunk, fence } = lost;
  const isTold = batch.links.some(
    (link) =>
      link.step === step &&
      link.chunk === chunk &&
      link.fence === fence &&
      readTold(link).cause === "lost",
  );
  if (!isTold)
    scene.fail(`the loss of lease ${step}/${chunk}/${fence} of ${nameBatch(batch)} has no link`);
}

function readTold({ body }: LinkRow): Told {
  return (JSON.parse(body) as { data: Told }).data;
}

/** One batch's links, from the first to the last. */
class Reading {
  readonly #scene: Scene;
  readonly #batch: Batch;
  readonly #runs: ReadonlySet<string>;
  /** By step and item. */
  readonly #outcomes = new Map<string, string>();
  readonly #blocks = new Set<string>();
  /** States by lease and item. */
  readonly #recorded = new Map<string, Set<string>>();

  constructor(scene: Scene, batch: Batch, runs: ReadonlySet<string>) {
    this.#scene = scene;
    this.#batch = batch;
    this.#runs = runs;
  }

  check(): void {
    for (const link of this.#batch.links) {
      const told = readTold(link);
      this.#readBlock(link, told);
      this.#readOutcomes(told);
    }
    for (const [number, { chunks }] of this.#batch.steps.entries()) {
      for (const chunk of chunks) this.#compare(number, chunk);
    }
  }

  #fail(problem: string): void {
    this.#scene.fail(`${problem} in the ledger of ${nameBatch(this.#batch)}`);
  }

  #readBlock({ block, seq }: LinkRow, told: Told): void {
    const { step, chunk, fence, block: said, failed = [] } = told;
    if (block === null && said === undefined) return;
    if (block === null || said === undefined) return this.#fail(`link ${seq} and its block differ`);
    const name = `${step}/${chunk}/${fence}/${said.number}`;
    if (this.#blocks.has(name)) this.#fail(`block ${name} is repeated`);
    this.#blocks.add(name);
    if (computeBlockRoot(Buffer.from(block.lines)) !== said.root) {
      this.#fail(`block ${name} does not match its root`);
    }
    const lines = block.lines.split("\n").slice(0, -1);
    if (lines.length !== said.count) this.#fail(`block ${name} has ${lines.length} lines`);
    for (const text of lines) {
      const { item, attempt, drive = 1, state } = JSON.parse(text) as Line;
      const run = `${this.#batch.submission.id}/${step}/${item}/${drive}/${attempt}`;
      // A check of an item may fail it, or take too long, before its handler starts.
      const hasFailed = failed.some((one) => one.item === item);
      const isSilent = state === SEEN && (hasFailed || this.#mayBeSilent(step));
      if (!isSilent && !this.#runs.has(run))
        this.#fail(`a line of ${run}, which never took place,`);
      const place = `${step}/${fence}/${item}`;
      this.#recorded.set(place, (this.#recorded.get(place) ?? new Set()).add(state));
    }
  }

  #readOutcomes({ step, fence, succeeded, skipped, failed = [], redriven }: Told): void {
    for (const item of listItems(succeeded)) this.#give(step, item, "succeeded", fence);
    for (const item of listItems(skipped)) this.#give(step, item, "skipped", fence);
    for (const { item } of failed) this.#give(step, item, "failed", fence);
    for (const item of listItems(redriven)) {
      const was = this.#outcomes.get(`${step}/${item}`);
      if (was !== "failed") this.#fail(`item ${step}/${item} is redriven and was ${was}`);
      this.#outcomes.delete(`${step}/${item}`);
    }
  }

  #give(step: number, item: number, outcome: string, fence: number): void {
    const place = `${step}/${item}`;
    const was = this.#outcomes.get(place);
    if (was !== undefined) this.#fail(`item ${place} was ${was} and is ${outcome}`);
    this.#outcomes.set(place, outcome);
    const states = this.#recorded.get(`${step}/${fence}/${item}`);
    // An item that was tried before may turn out to be a duplicate: then it has only its first
    // states.
    if (outcome === "failed" || (this.#mayBeSilent(step) && states !== undefined)) return;
    if (RECORDED.every((state) => states?.has(state))) return;
    this.#fail(`item ${place} is ${outcome} under fence ${fence} without its states`);
  }

  /**
   * An item that is skipped as a duplicate never ran, and an item that waits for a count records
   * nothing.
   */
  #mayBeSilent(step: number): boolean {
    const plot = listSteps(this.#scene, this.#batch)[step]?.plot;
    return plot?.waits === true || plot?.dedupes === true;
  }

  #compare(step: number, { start, end, outcomes }: Chunk): void {
    for (let at = 0; at < end - start; at++) {
      const item = start + at;
      const is = OUTCOME_WORDS[getOutcome(outcomes, at)];
      const told = this.#outcomes.get(`${step}/${item}`) ?? "pending";
      if (told !== is) this.#fail(`item ${step}/${item} is ${is}, and ${told}`);
    }
  }
}

function listItems(ranges: string | undefined): number[] {
  if (ranges === undefined) return [];
  return [...readRanges(ranges)].flatMap(([first, last]) =>
    Array.from({ length: last - first + 1 }, (_, nth) => first + nth),
  );
}
