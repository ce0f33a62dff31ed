/**
 * Promise 3, its last sentence: every record reaches every subscriber, in order and at least once,
 * unless it became an undelivered event that can be delivered again.
 */
import type { NewUndelivered } from "../../src/ports/store/delivery-store.ts";
import type { StoredRecord } from "../../src/ports/store/query-store.ts";
import type { Checker, Scene } from "./checker.ts";

export interface Delivery {
  readonly reader: string;
  readonly batch: string;
  readonly seq: number;
}

export interface DeliveryListener {
  onDelivery(delivery: Delivery): void;
}

export function checkDeliveries(scene: Scene): Checker & DeliveryListener {
  const { state } = scene.world.store;
  /** The furthest position that each reader got. */
  const furthest = new Map<string, number>();
  /** Delivered, or given up into an undelivered event; by reader and position. */
  const settled = new Set<string>();
  const isSettled = (reader: string, { position }: StoredRecord): boolean =>
    settled.has(`${reader}/${position}`);
  return {
    onCommit: (_node, verb, _answer, args) => {
      if (verb !== "keepUndelivered") return;
      const { reader, position } = args[0] as NewUndelivered;
      settled.add(`${reader}/${position}`);
    },
    onDelivery: ({ reader, batch, seq }) => {
      const at = state.records.findLastIndex((one) => one.batch === batch && one.seq === seq);
      const record = state.records[at];
      if (record === undefined)
        return scene.fail(`${reader} gets ${batch}/${seq}, which is no record`);
      settled.add(`${reader}/${record.position}`);
      const before = furthest.get(reader) ?? 0;
      furthest.set(reader, Math.max(before, record.position));
      // All records in between were delivered before, or given up.
      for (let back = at - 1; (state.records[back]?.position ?? 0) > before; back--) {
        const skipped = state.records[back] as StoredRecord;
        if (isSettled(reader, skipped)) continue;
        const what = `${reader} gets ${batch}/${seq}`;
        return scene.fail(`${what} before ${skipped.batch}/${skipped.seq}`);
      }
    },
    atEnd: () => {
      for (const reader of scene.plot.readers) {
        const missing = state.records.find((record) => !isSettled(reader, record));
        if (missing !== undefined)
          scene.fail(`${reader} never got ${missing.batch}/${missing.seq}`);
      }
    },
  };
}
