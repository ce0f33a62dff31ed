/** Renews the claim on a background task while the task runs, however long one step of it takes. */
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

/** Without a bound, an hour's outage of the store would leave an hour's renewals waiting. */
const RENEWALS_UNDER_WAY_MAX = 3;

/**
 * Renews until the returned function is called. A failed renewal is logged; the next may succeed.
 */
export function renewClaim(task: string, parts: ClaimParts): () => void {
  const { store, clock, log, worker, claimMs, renewMs } = parts;
  let underWay = 0;
  const renew = async (): Promise<void> => {
    if (underWay >= RENEWALS_UNDER_WAY_MAX) return;
    underWay++;
    try {
      await store.claim(task, worker, claimMs);
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
