/** Messages between a worker's main thread and its health thread. */
import type { HealthLimits } from "../core/fleet/health.ts";
import type { Served } from "../ports/store/worker-store.ts";
import type { LogEntry } from "../runtime/system/log.ts";
import type { Orphanhood } from "./orphan-watch.ts";

/** Where a page is served. */
export interface Listening {
  readonly host: string;
  /** 0 for any free port. */
  readonly port: number;
}

/** How the thread opens the worker's store a second time. */
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
  /** Null: only the worker itself can renew its leases. */
  readonly renewalStore: RenewalStore | null;
  /** Null without a supervisor. */
  readonly orphanhood: Orphanhood | null;
  /** Kill the process if its loop hangs, and log it in this format; null: do not kill it. */
  readonly endsHung: "text" | "json" | null;
  /** Pages whose text the main thread makes, by path, with their content types. */
  readonly pages: Readonly<Record<string, string>>;
}

export type ToThread =
  | { readonly kind: "served"; readonly served: readonly Served[] }
  | { readonly kind: "page"; readonly path: string; readonly text: string | null }
  | { readonly kind: "close" };

export type FromThread =
  /** It listens at this port; null for no port. */
  | { readonly kind: "ready"; readonly port: number | null }
  | { readonly kind: "refused"; readonly code: string; readonly message: string }
  /** Requests the text of a page. */
  | { readonly kind: "ask"; readonly path: string }
  | { readonly kind: "log"; readonly entry: Pick<LogEntry, "level" | "event" | "message"> };
