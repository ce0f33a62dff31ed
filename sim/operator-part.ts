/** Somebody who interferes with batches at random moments, and at last lets everything go on. */
import { isEnded } from "../src/core/batch.ts";
import { SluiceError } from "../src/core/errors.ts";
import { LANE_POLICIES } from "../src/core/lane.ts";
import { sleep } from "../src/ports/clock.ts";
import type { Store } from "../src/ports/store.ts";
import type { Engine } from "../src/runtime/engine.ts";
import type { Operator, Target } from "../src/runtime/operator.ts";
import type { Node, World } from "./world.ts";

export interface OperatorPlot {
  readonly acts: number;
  readonly actsWithinMs: number;
  readonly orderly: boolean;
  readonly errands: readonly unknown[];
}

/** What an operator may be told who comes too early or too late. */
const EXPECTED_CODES = [
  "UNKNOWN_LANE",
  "UNKNOWN_PIPELINE",
  "BATCH_ENDED",
  "CANNOT_REDRIVE",
  "NOT_WAITING",
];
const TIDY_EVERY_MS = 400;

export class OperatorPart {
  readonly problems: string[] = [];
  /** Nothing is left to do. */
  done = false;
  actedAt = 0;
  readonly #world: World;
  readonly #plot: OperatorPlot;
  #actsLeft: number;

  constructor(world: World, plot: OperatorPlot) {
    this.#world = world;
    this.#plot = plot;
    this.#actsLeft = plot.acts;
  }

  async play(node: Node, engine: Engine, listKeys: () => readonly string[]): Promise<void> {
    const { acts, actsWithinMs } = this.#plot;
    const { operator, store } = engine;
    while (this.#actsLeft > 0) {
      await sleep(node.clock, this.#draw((actsWithinMs * 2) / acts));
      this.#actsLeft--;
      await this.#act(operator, store, listKeys());
    }
    // Whatever is paused or parked now would stay so.
    const { errands } = this.#plot;
    while (!(await this.#tidy(operator)) || listKeys().length < errands.length) {
      await sleep(node.clock, TIDY_EVERY_MS);
    }
    this.done = true;
  }

  async #act(operator: Operator, store: Store, keys: readonly string[]): Promise<void> {
    const batch = this.#findBatch(keys);
    if (batch === null) return;
    try {
      await this.#try(operator, store, batch);
      this.actedAt = this.#world.time.nowMs;
    } catch (error) {
      // A redrive whose answer was lost is not made again for its caller, who is told so.
      const expected =
        error instanceof SluiceError && (error.retryable || EXPECTED_CODES.includes(error.code));
      if (!expected) this.problems.push(`the operator was told: ${String(error)}`);
    }
  }

  async #try(operator: Operator, store: Store, id: string): Promise<unknown> {
    const { submission } = this.#world.store.state.batches.get(id) ?? {};
    const { lane = "", pipeline = "" } = submission ?? {};
    const target = this.#pick<Target>([{ batch: id }, { batch: id }, { lane }, { pipeline }]);
    const mode = this.#pick(["drain", "now"] as const);
    const act = this.#pick([
      "cancel",
      "pause",
      "pause",
      "pause",
      "resume",
      "redrive",
      "redrive",
      "discard",
      "edit",
      "edit",
      "move",
      "policy",
    ] as const);
    switch (act) {
      case "cancel":
        return operator.cancel("batch" in target ? target : { batch: id }, { mode });
      case "pause":
        return operator.pause(target, { mode });
      case "resume":
        return operator.resume(target);
      case "redrive":
        return operator.redrive(id, {
          withCancelled: this.#world.random.next() < 0.7,
          ceiling: this.#pick([1, 3, 1_000]),
          ...(this.#world.random.next() < 0.3 ? { perSecond: 20 } : {}),
        });
      case "discard":
        return operator.discard(id, { codes: ["REFUSED"] });
      case "edit":
        return this.#edit(store, id);
      case "move":
        if (this.#plot.orderly) return undefined;
        return operator.move(id, { to: this.#pick(["front", "back"] as const) });
      case "policy":
        if (this.#plot.orderly) return undefined;
        return operator.setLanePolicy(lane, this.#pick(LANE_POLICIES));
      default:
        throw new Error(`unknown act ${String(act)}`);
    }
  }

  /** Mends the first letter that was refused, if its item is known. */
  async #edit(store: Store, id: string): Promise<void> {
    const batch = this.#world.store.state.batches.get(id);
    const step = batch?.step ?? 0;
    const page = { step, afterItem: -1, limit: 1, filter: { codes: ["REFUSED"] } };
    const [letter] = await store.readDeadLetters(id, page);
    const [key = "", n = ""] = letter?.key?.split("/") ?? [];
    if (letter === undefined || n === "") return;
    const act = { by: "op", why: null };
    const value = JSON.stringify({ key, n: Number(n), mended: true });
    await store.editLetter(id, { step, item: letter.item, value, ...act });
  }

  /** Resumes what stands; true when nothing did and every batch has ended. */
  async #tidy(operator: Operator): Promise<boolean> {
    const { batches, pauses } = this.#world.store.state;
    const unfinished = [...batches.values()].filter(({ state }) => !isEnded(state));
    if (unfinished.length === 0 && pauses.size === 0) return true;
    for (const { scope, name } of pauses.values()) {
      const target: Target =
        scope === "batch"
          ? { batch: name }
          : scope === "lane"
            ? { lane: name }
            : { pipeline: name };
      await this.#resume(operator, target);
    }
    for (const { parked, submission } of unfinished) {
      if (parked !== null) await this.#resume(operator, { batch: submission.id });
    }
    return false;
  }

  async #resume(operator: Operator, target: Target): Promise<void> {
    try {
      await operator.resume(target);
      this.actedAt = this.#world.time.nowMs;
    } catch (error) {
      if (!(error instanceof SluiceError && error.code === "BATCH_ENDED")) throw error;
    }
  }

  #findBatch(keys: readonly string[]): string | null {
    if (keys.length === 0) return null;
    const key = this.#pick(keys);
    for (const [id, { submission }] of this.#world.store.state.batches) {
      if (submission.key === key) return id;
    }
    return null;
  }

  #pick<T>(choices: readonly T[]): T {
    return choices[Math.floor(this.#world.random.next() * choices.length)] as T;
  }

  #draw(maxMs: number): number {
    return Math.floor(this.#world.random.next() * (maxMs + 1));
  }
}
