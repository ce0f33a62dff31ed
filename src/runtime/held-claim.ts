/** Keeps a claim on a duty for as long as the duty is done, however long one step of it takes. */
import type { Clock } from "../ports/clock.ts";
import type { Store } from "../ports/store.ts";
import type { Log } from "./log.ts";

export interface ClaimParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly worker: number;
  readonly claimMs: number;
  readonly renewMs: number;
}

/** Renews until the returned function is called. A failed renewal is told; the next may succeed. */
export function renewClaim(duty: string, parts: ClaimParts): () => void {
  const { store, clock, log, worker, claimMs, renewMs } = parts;
  const renewLater = (): (() => void) =>
    clock.after(renewMs, () => {
      cancel = renewLater();
      store.claim(duty, worker, claimMs).catch((error: unknown) => {
        log({ level: "warn", event: "claim.renewal_failed", message: String(error), error });
      });
    });
  let cancel = renewLater();
  return () => cancel();
}
