/** A store on PostgreSQL behind a proxy that can break the connection. */
import { onTestFinished } from "vitest";
import type { PostgresStoreOptions } from "../../src/adapters/postgres/store.ts";
import { makePlace, openAt, type Place } from "../conformance/postgres-rig.ts";
import { Rig } from "../conformance/rig.ts";
import { CuttingProxy } from "../support/cutting-proxy.ts";
import { ManualClock } from "../support/manual-clock.ts";

export class BehindProxy {
  readonly place: Place;
  readonly proxy: CuttingProxy;

  private constructor(place: Place, proxy: CuttingProxy) {
    this.place = place;
    this.proxy = proxy;
  }

  static async start(): Promise<BehindProxy> {
    const place = await makePlace();
    const proxy = await CuttingProxy.start(place.address);
    onTestFinished(() => proxy.close());
    return new BehindProxy(place, proxy);
  }

  async open(options: Partial<PostgresStoreOptions> = {}): Promise<Rig> {
    const clock = new ManualClock();
    const store = await openAt(this.proxy.address, clock, options);
    onTestFinished(() => store.close());
    return new Rig(store, clock, await store.registerWorker({ name: "worker" }));
  }
}
