/** Keeps a claim on a duty for as long as the duty is done, however long one step of it takes. */
import type { Clock } from "../../ports/clock.ts";
import type { Store } from "../../ports/store/store.ts";
import type { Log } from "../system/log.ts";

export interface ClaimParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly worker: number;
  readonly claimMs: number;
  readonly renewMs: number;
}

/** Renewals that are under way at most: a store that is away for an hour is not asked all of them. */
const RENEWALS_MAX = 3;

/** Renews until the returned function is called. A failed renewal is told; the next may succeed. */
export function renewClaim(duty: string, parts: ClaimParts): () => void {
  const { store, clock, log, worker, claimMs, renewMs } = parts;
  let underWay = 0;
  const renew = async (): Promise<void> => {
    if (underWay >= RENEWALS_MAX) return;
    underWay++;
    try {
      await store.claim(duty, worker, claimMs);
    } catch (error) {
      log({ level: "warn", event: "claim.renewal_failed", message: String(error), error });
    } finally {
      underWay--;
    }
  };
  const renewLater = (): (() => void) =>
    clock.after(renewMs, () => {
      cancel = renewLater();
      void renew();
    });
  let cancel = renewLater();
  return () => cancel();
}
