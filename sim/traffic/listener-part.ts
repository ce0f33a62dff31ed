/**
 * A subscriber to everything that happens: it sometimes refuses a record, and dies with its node.
 */
import { sleep } from "../../src/ports/clock.ts";
import { PermanentError, TransientError } from "../../src/core/base/errors.ts";
import type { BatchEvent } from "../../src/ports/store/batch-event.ts";
import type { Engine } from "../../src/runtime/engine/engine.ts";
import type { DeliveryListener } from "../checkers/deliveries.ts";
import { never, type Node, type World } from "../world.ts";
import type { TrafficPlot } from "./plot.ts";

const TAKES_MAX_MS = 30;
/** Share of refusals that are permanent. */
const FOR_GOOD = 0.2;

export class ListenerPart {
  readonly #world: World;
  readonly #plot: TrafficPlot;
  readonly #listener: DeliveryListener;

  constructor(world: World, plot: TrafficPlot, listener: DeliveryListener) {
    this.#world = world;
    this.#plot = plot;
    this.#listener = listener;
  }

  subscribe(node: Node, engine: Engine): void {
    const backoff = { baseMs: 100, capMs: 5_000 };
    for (const reader of this.#plot.readers) {
      engine.subscribe(reader, (event) => this.#take(node, reader, event), { backoff });
    }
  }

  /** True when every reader has reached the end of the records. */
  get isDone(): boolean {
    const { positions, lastPosition } = this.#world.store.state;
    return this.#plot.readers.every((reader) => (positions.get(reader) ?? 0) >= lastPosition);
  }

  async #take(node: Node, reader: string, { batch, seq, type }: BatchEvent): Promise<void> {
    if (!node.alive) return never();
    const { random } = this.#world;
    const takesMs = Math.floor(random.next() * TAKES_MAX_MS);
    const refuses = random.next() * 1_000 < this.#plot.refusalsPerMille;
    const forGood = random.next() < FOR_GOOD;
    if (takesMs > 0) await sleep(node.clock, takesMs);
    if (!node.alive) return never();
    if (refuses && forGood) throw new PermanentError("no such event, please", { code: "NO" });
    if (refuses) throw new TransientError("not now", { code: "NOT_NOW" });
    this.#world.note(node, `tells ${reader} of ${batch}/${seq} ${type}`, "record");
    this.#listener.onDelivery({ reader, batch, seq });
  }
}
