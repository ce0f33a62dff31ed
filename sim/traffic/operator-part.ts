/** An operator who acts on batches at drawn moments, and at the end resumes everything. */
import { type Batch, findPause } from "../../src/adapters/memory/state.ts";
import { isEnded } from "../../src/core/batch/batch.ts";
import { SluiceError } from "../../src/core/base/errors.ts";
import { ITEM_OUTCOMES } from "../../src/core/items/outcome-list.ts";
import { LANE_POLICIES } from "../../src/core/batch/lane.ts";
import { verifyExport } from "../../src/ledger/verify/verify-export.ts";
import { sleep } from "../../src/ports/clock.ts";
import type { Store } from "../../src/ports/store/store.ts";
import type { Engine } from "../../src/runtime/engine/engine.ts";
import type { Operator, Target } from "../../src/runtime/engine/operator.ts";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import type { Node, World } from "../world.ts";
import { listRateKeys } from "./limits.ts";
import { PARCELS_TOPIC } from "./errand.ts";
import { SIGNING_KEY_ID } from "./signing-key.ts";
import type { ActName, ActPlot, TrafficPlot } from "./plot.ts";

/** Errors that an operator may get by acting too early or too late. */
const EXPECTED_ERRORS = [
  "NOT_FOUND lane",
  "NOT_FOUND pipeline",
  "NOT_FOUND undelivered",
  "WRONG_STATE batch",
  "CANNOT_REDRIVE",
];
const TIDY_EVERY_MS = 400;
const BY = { by: "op" };
/** The group with which the operator reads. */
const DESK = "desk";

export interface OperatorListener {
  /** An act on a batch is about to happen. */
  onAct(act: ActName, batch: Batch, isPaused: boolean): void;
}

export class OperatorPart {
  readonly problems: string[] = [];
  readonly listeners: OperatorListener[] = [];
  /** True when nothing is left to do. */
  done = false;
  actedAt = 0;
  readonly #world: World;
  readonly #plot: TrafficPlot;
  #next = 0;

  constructor(world: World, plot: TrafficPlot) {
    this.#world = world;
    this.#plot = plot;
  }

  async play(node: Node, engine: Engine, listKeys: () => readonly string[]): Promise<void> {
    const { acts, errands } = this.#plot;
    for (let act = acts[this.#next]; act !== undefined; act = acts[this.#next]) {
      await sleep(node.clock, act.atMs - this.#world.time.elapsedMs);
      this.#next++;
      await this.#act(node, engine, act, listKeys());
    }
    // Whatever is paused or parked now would stay so.
    while (!(await this.#tidy(engine.operator)) || listKeys().length < errands.length) {
      await sleep(node.clock, TIDY_EVERY_MS);
    }
    this.done = true;
  }

  async #act(node: Node, engine: Engine, plot: ActPlot, keys: readonly string[]): Promise<void> {
    const choice = new Choice(plot.roll);
    const batch = this.#findBatch(choice, keys);
    if (batch === null) return;
    const isPaused = findPause(this.#world.store.state, batch) !== null;
    for (const listener of this.listeners) listener.onAct(plot.act, batch, isPaused);
    this.#world.note(node, `wants to ${plot.act} ${batch.submission.key}`, "act");
    try {
      await this.#try(engine, choice, plot.act, batch);
      this.actedAt = this.#world.time.nowMs;
    } catch (error) {
      // A redrive whose answer was lost is not repeated for its caller; the caller gets the error.
      if (!isExpected(error)) this.problems.push(`the operator was told: ${String(error)}`);
    }
  }

  async #try(engine: Engine, choice: Choice, act: ActName, batch: Batch): Promise<unknown> {
    const { operator, store } = engine;
    const { id, lane, pipeline } = batch.submission;
    const target = choice.pick<Target>([{ batch: id }, { batch: id }, { lane }, { pipeline }]);
    const mode = choice.pick(["drain", "now"] as const);
    switch (act) {
      case "cancel": {
        const one = "batch" in target || choice.chance(0.7);
        return operator.cancel(one ? { batch: id } : target, { mode, ...BY });
      }
      case "pause":
        // Parking is rare unless paused batches block others.
        if (!this.#plot.orderly && choice.chance(0.5)) await operator.setLanePolicy(lane, "park");
        return operator.pause(target, { mode, ...BY });
      case "resume":
        return operator.resume(target, BY);
      case "redrive":
        return operator.redrive(id, {
          withCancelled: choice.chance(0.7),
          ceiling: choice.pick([1, 3, 1_000]),
          ...(choice.chance(0.3) ? { perSecond: 20 } : {}),
          ...BY,
        });
      case "discard":
        return operator.discard(id, { codes: ["REFUSED"], ...BY });
      case "edit":
        return edit(store, batch);
      case "move":
        if (this.#plot.orderly) return undefined;
        return operator.move(id, { to: choice.pick(["front", "back"] as const), ...BY });
      case "policy":
        if (this.#plot.orderly) return undefined;
        return operator.setLanePolicy(lane, choice.pick([...LANE_POLICIES, "park", "park"]));
      case "prune":
        return operator.prune({ keepMs: choice.pick([0, 60_000, 600_000]), keepEvidenceMs: 0 });
      case "closeKey":
      case "openKey":
        return this.#actOnKey(operator, choice, act, pipeline);
      case "setCap":
        return setCap(engine, choice, batch);
      case "setWeight":
        return setWeight(operator, choice, batch);
      case "look":
        return lookAround(engine, batch, choice);
      case "read":
        return readAround(engine, batch, choice);
      case "inspect":
        return inspect(engine, batch, choice);
      default:
        throw new Error(`unknown act ${String(act)}`);
    }
  }

  /** One of the keys of the pipeline's rate, if it has any. */
  async #actOnKey(
    operator: Operator,
    choice: Choice,
    act: "closeKey" | "openKey",
    pipeline: string,
  ): Promise<unknown> {
    const steps = this.#plot.pipelines.find(({ name }) => name === pipeline)?.steps ?? [];
    const rates = steps.flatMap(({ rate }) => rate ?? []);
    if (rates.length === 0) return undefined;
    const rate = choice.pick(rates);
    const key = choice.pick(listRateKeys(rate));
    if (act === "closeKey") {
      const forMs = choice.pick([500, 5_000, 30_000, 120_000]);
      return operator.closeKey(rate.name, key, { forMs });
    }
    const closed = await operator.closedKeys();
    const known = closed.length > 0 && choice.chance(0.8) ? choice.pick(closed) : null;
    return operator.openKey(known?.rate ?? rate.name, known?.key ?? key);
  }

  /** Resumes what is paused; true when nothing was paused and every batch has ended. */
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
      await operator.resume(target, BY);
      this.actedAt = this.#world.time.nowMs;
    } catch (error) {
      if (!isExpected(error)) throw error;
    }
  }

  #findBatch(choice: Choice, keys: readonly string[]): Batch | null {
    if (keys.length === 0) return null;
    const all = [...this.#world.store.state.batches.values()];
    const known = all.filter(({ submission }) => keys.includes(submission.key ?? ""));
    // Ended batches are less interesting, and their share grows.
    const live = known.filter(({ state }) => !isEnded(state));
    const some = live.length > 0 && choice.chance(0.75) ? live : known;
    return some.length === 0 ? null : choice.pick(some);
  }
}

/** The choices of one act come from its own roll: leaving out an act changes no other. */
class Choice {
  readonly #random: SeededRandom;

  constructor(roll: number) {
    this.#random = new SeededRandom(roll);
  }

  pick<T>(choices: readonly T[]): T {
    return choices[Math.floor(this.#random.next() * choices.length)] as T;
  }

  chance(probability: number): boolean {
    return this.#random.next() < probability;
  }
}

/** Sets, lowers, raises or clears a cap of a batch, its lane or its pipeline. */
async function setCap({ operator, store }: Engine, choice: Choice, batch: Batch): Promise<void> {
  const { id, lane, pipeline } = batch.submission;
  const names = { batch: id, lane, pipeline };
  const scope = choice.pick(["batch", "lane", "pipeline", "pipeline"] as const);
  const value = choice.chance(0.3) ? null : choice.pick([1, 2, 3, 5, 8, 12]);
  await operator.setLimit({ kind: "cap", scope, name: names[scope], value }, BY);
  if (choice.chance(0.3)) await store.listCapUse();
}

async function setWeight(operator: Operator, choice: Choice, batch: Batch): Promise<void> {
  const name = `${batch.submission.pipeline}/${batch.tenant}`;
  const value = choice.chance(0.3) ? null : choice.pick([0.5, 1, 2, 3]);
  await operator.setLimit({ kind: "weight", scope: "tenant", name, value }, BY);
  if (choice.chance(0.3)) await operator.listLimitChanges();
}

/** Edits the first dead letter that was refused, if its item is known. */
async function edit(store: Store, { submission, step }: Batch): Promise<void> {
  const page = { step, afterItem: -1, limit: 1, filter: { codes: ["REFUSED"] } };
  const [letter] = await store.readDeadLetters(submission.id, page);
  const [key = "", n = ""] = letter?.key?.split("/") ?? [];
  if (letter === undefined || n === "") return;
  const value = JSON.stringify({ key, n: Number(n), edited: true });
  await store.editDeadLetter(submission.id, {
    step,
    item: letter.item,
    value,
    by: "op",
    why: null,
  });
}

/** Queries change nothing, even if they fail. */
async function lookAround(engine: Engine, batch: Batch, choice: Choice): Promise<void> {
  const { id } = batch.submission;
  await engine.operator.why(id);
  await engine.operator.lanes();
  await engine.store.findItem(id, 0, 0);
  await engine.store.recount(id);
  for await (const letter of engine.undelivered()) {
    if (choice.chance(0.5)) await engine.discardUndelivered(letter.id);
  }
}

/** An export of a ledger verifies at any time, also after something was erased. */
async function inspect(engine: Engine, batch: Batch, choice: Choice): Promise<void> {
  const { id } = batch.submission;
  if (choice.chance(0.5)) await engine.operator.eraseDetails(id, { keys: null, ...BY });
  const verdict = await verifyExport(engine.exportLedger(id), { trusted: [SIGNING_KEY_ID] });
  if (verdict.kind === "broken") throw new Error(`the export of ${id} is broken: ${verdict.why}`);
}

/** Lists items by outcome, and reads a topic for its own group, which it sometimes replays. */
async function readAround(engine: Engine, batch: Batch, choice: Choice): Promise<void> {
  const handle = await engine.get(batch.submission.id);
  let before = -1;
  for await (const { item } of handle.items(choice.pick(ITEM_OUTCOMES))) {
    if (item <= before) throw new Error(`item ${item} is listed after ${before}`);
    before = item;
  }
  const topic = engine.topic(PARCELS_TOPIC);
  const messages = await topic.read({ group: DESK, limit: choice.pick([1, 10, 100]) });
  const positions = messages.map(({ position }) => position);
  if (positions.some((position, at) => position <= (positions[at - 1] ?? 0))) {
    throw new Error(`messages are out of order: ${positions.join()}`);
  }
  const last = positions.at(-1);
  if (last !== undefined && choice.chance(0.7)) await topic.acknowledge(DESK, last);
  if (choice.chance(0.5)) await topic.replay(DESK, choice.pick([0, last ?? 0]));
  await topic.look();
}

function isExpected(error: unknown): boolean {
  if (!(error instanceof SluiceError)) return false;
  const { code, kind = "" } = error;
  return error.retryable || EXPECTED_ERRORS.includes(`${code} ${kind}`.trim());
}
