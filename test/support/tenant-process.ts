/**
 * One of several processes that share the work of tenants: `node tenant-process.ts <options as
 * JSON>`. It works until it is told to close. Its log has three numbers for each handler call: the
 * tenant's position among the names, and when the call began and ended.
 */
import { openSync, writeSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { openSqliteStore } from "../../src/adapters/sqlite/store.ts";
import { Engine } from "../../src/runtime/engine/engine.ts";
import { definePipeline, type Pipeline } from "../../src/runtime/pipeline/pipeline.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { systemRandom } from "../../src/runtime/system/system-random.ts";

export interface Tenant {
  readonly name: string;
  readonly weight: number;
  /** How long its handlers take. */
  readonly workMs: number;
}

export interface TenantOptions {
  readonly store: string;
  readonly log: string;
  readonly concurrency: number;
  readonly tenants: readonly Tenant[];
}

export const NUMBERS_PER_CALL = 3;
/** Calls that are written together. */
const BLOCK_CALLS = 256;

/** The same for all; batches with another chunk size run like the others. */
export function makeTenantPipeline(
  { tenants, concurrency }: Pick<TenantOptions, "tenants" | "concurrency">,
  chunkSize: number,
  process: (tenant: number) => Promise<void> = () => Promise.resolve(),
): Pipeline<number, Iterable<number> | AsyncIterable<number>> {
  const places = new Map(tenants.map(({ name }, place) => [name, place]));
  const findTenant = (lane: string): string => lane.slice(0, lane.indexOf("."));
  return definePipeline({
    name: "shared",
    chunkSize,
    concurrency,
    share: {
      tenant: findTenant,
      weights: Object.fromEntries(tenants.map(({ name, weight }) => [name, weight])),
    },
    process: (_item: number, { lane }) => process(places.get(findTenant(lane)) ?? -1),
  });
}

class CallLog {
  readonly #file: number;
  readonly #block = new Float64Array(BLOCK_CALLS * NUMBERS_PER_CALL);
  #filled = 0;

  constructor(path: string) {
    this.#file = openSync(path, "a");
  }

  add(tenant: number, startAt: number, endAt: number): void {
    this.#block.set([tenant, startAt, endAt], this.#filled);
    this.#filled += NUMBERS_PER_CALL;
    if (this.#filled === this.#block.length) this.write();
  }

  write(): void {
    writeSync(this.#file, new Uint8Array(this.#block.buffer, 0, this.#filled * 8));
    this.#filled = 0;
  }
}

async function main(options: TenantOptions): Promise<void> {
  const { tenants } = options;
  const parts = { clock: systemClock, random: systemRandom, synchronous: "normal" as const };
  const store = await openSqliteStore(options.store, parts);
  const engine = await Engine.start(store, { ownsStore: true });
  engine.onFailure((error) => {
    throw error;
  });
  const log = new CallLog(options.log);
  const work = async (tenant: number): Promise<void> => {
    const startAt = systemClock.monotonicMs();
    await delay(tenants[tenant]?.workMs);
    log.add(tenant, startAt, systemClock.monotonicMs());
  };
  engine.work(makeTenantPipeline(options, 1, work));
  process.once("message", () => {
    const closed = engine.close().then(() => {
      log.write();
      process.disconnect();
    });
    closed.catch((error: unknown) => {
      throw error;
    });
  });
  process.send?.({ kind: "ready" });
}

if (import.meta.main) await main(JSON.parse(process.argv[2] ?? "") as TenantOptions);
