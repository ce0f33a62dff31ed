/** What a worker's main thread and the thread that answers for its health say to each other. */
import type { HealthLimits } from "../core/fleet/health.ts";
import type { Served } from "../ports/store/worker-store.ts";
import type { LogEntry } from "../runtime/system/log.ts";
import type { Orphanhood } from "./orphan-watch.ts";

/** Where a page is served. */
export interface Listening {
  readonly host: string;
  /** 0 for any that is free. */
  readonly port: number;
}

/** How the thread opens the worker's store once more. */
export interface RenewalStore {
  readonly store: string;
  readonly busyMs: number;
}

/** What the thread is started with. */
export interface ProbeServerOrders {
  readonly pulse: SharedArrayBuffer;
  readonly leases: SharedArrayBuffer;
  readonly limits: HealthLimits;
  readonly listening: Listening | null;
  /** Null: nobody can renew its leases but the worker itself. */
  readonly renewalStore: RenewalStore | null;
  /** Null where nobody supervises. */
  readonly orphanhood: Orphanhood | null;
  /** A process whose loop hangs is killed, and says so in this format; null: that is for others to do. */
  readonly endsHung: "text" | "json" | null;
  /** Pages whose text the main thread has, by path, with their content types. */
  readonly pages: Readonly<Record<string, string>>;
}

export type ToThread =
  | { readonly kind: "served"; readonly served: readonly Served[] }
  | { readonly kind: "page"; readonly path: string; readonly text: string | null }
  | { readonly kind: "close" };

export type FromThread =
  /** It listens at this port, or nowhere. */
  | { readonly kind: "ready"; readonly port: number | null }
  | { readonly kind: "refused"; readonly code: string; readonly message: string }
  /** The text of a page is wanted. */
  | { readonly kind: "ask"; readonly path: string }
  | { readonly kind: "log"; readonly entry: Pick<LogEntry, "level" | "event" | "message"> };
