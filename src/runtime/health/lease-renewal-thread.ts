/**
 * Renews a worker's leases while its loop is busy. It runs in another thread, on a connection of its
 * own, and steps in when the loop is late with its renewal by half of the time between two of them.
 * It stops when the loop has hung for longer than it may: then the leases run out and others take over.
 *
 * Whatever the loop does at the same time is safe. Both may renew; a renewal of what was settled, given
 * back or lost a moment ago meets a fence and changes nothing. The loop hears of renewals from the
 * lease's own place on the page, which no other lease ever has at the same time.
 */
import { describeError } from "../../core/base/errors.ts";
import { type HealthLimits, isLoopAlive } from "../../core/fleet/health.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Store } from "../../ports/store/store.ts";
import type { Served } from "../../ports/store/worker-store.ts";
import type { SharedLeases } from "./shared-leases.ts";
import type { Log } from "../system/log.ts";
import type { LeaseTerms, SharedHealth } from "./shared-health.ts";
import { computeBeatMs, findEndingBatches } from "./renewal.ts";

type KeeperStore = Pick<Store, "renew" | "readStops" | "beat" | "close">;

export interface RenewalThreadParts {
  readonly pulse: SharedHealth;
  readonly leases: SharedLeases;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: HealthLimits;
  /**
   * Opens the worker's store once more. It is done as soon as there is a worker: when it is needed, on
   * a machine whose cores are all busy, there may be no time for it.
   */
  readonly openStore: () => Promise<KeeperStore>;
}

/** Between two renewals it looks this often, so that it is late by no more than a part of them. */
const LOOKS_PER_RENEWAL = 4;
/** Until there is a worker. */
const FIRST_LOOKS_MS = 250;
/** The loop is late when this many times the time between two renewals has passed. */
const LATE_AFTER = 1.5;

export class LeaseRenewalThread {
  readonly #parts: RenewalThreadParts;
  #served: readonly Served[] = [];
  #store: Promise<KeeperStore> | null = null;
  #renewedAt = 0;
  #look: Promise<void> = Promise.resolve();
  #cancel: () => void;
  #isStopped = false;

  constructor(parts: RenewalThreadParts) {
    this.#parts = parts;
    this.#cancel = this.#lookLater();
  }

  /** The pipelines that the worker has, which it cannot say itself while it is busy. */
  noteServed(served: readonly Served[]): void {
    this.#served = served;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancel();
    await this.#look;
    const store = await this.#store?.catch(() => null);
    await store?.close();
  }

  #lookLater(): () => void {
    const { clock, pulse } = this.#parts;
    const renewMs = pulse.readTerms()?.renewMs;
    const everyMs = renewMs === undefined ? FIRST_LOOKS_MS : renewMs / LOOKS_PER_RENEWAL;
    return clock.after(everyMs, () => {
      this.#look = this.#keep().finally(() => {
        if (!this.#isStopped) this.#cancel = this.#lookLater();
      });
    });
  }

  async #keep(): Promise<void> {
    const { pulse, clock, limits, log } = this.#parts;
    const terms = pulse.readTerms();
    const now = clock.monotonicMs();
    if (terms === null || !isLoopAlive(pulse.read(), now, limits)) return;
    try {
      this.#store ??= this.#parts.openStore();
      const store = await this.#store;
      const renewedAt = Math.max(pulse.get("renewedAt"), this.#renewedAt);
      if (clock.monotonicMs() - renewedAt < terms.renewMs * LATE_AFTER) return;
      await this.#renew(store, terms);
    } catch (error) {
      // The leases hold on for a while; the next look may still come in time.
      const { message } = describeError(error);
      log({ level: "warn", event: "lease.renewal_failed", message, error });
      await this.#dropIfUnopened();
    }
  }

  /** One that could not be opened is opened anew the next time. */
  async #dropIfUnopened(): Promise<void> {
    const store = await this.#store?.catch(() => null);
    if (store === null) this.#store = null;
  }

  async #renew(store: KeeperStore, { worker, leaseMs, renewMs }: LeaseTerms): Promise<void> {
    const { leases, clock, pulse } = this.#parts;
    // Opening may have taken its time: what is held is what is held now.
    const found = leases.list();
    const asked = clock.monotonicMs();
    if (found.length > 0) {
      const held = found.map(({ lease }) => lease);
      const { lost } = await store.renew(worker, held, leaseMs);
      const ending = await findEndingBatches(store, [...new Set(held.map(({ batch }) => batch))]);
      const gone = new Set(lost);
      for (const one of found) {
        if (gone.has(one.lease) || ending.has(one.lease.batch)) continue;
        leases.enterRenewal(one, asked + leaseMs);
      }
      pulse.increment("renewals");
    }
    this.#renewedAt = asked;
    const isStopping = pulse.read().isStopping;
    if (this.#served.length > 0 && !isStopping) {
      await store.beat(worker, this.#served, computeBeatMs(renewMs));
    }
  }
}
