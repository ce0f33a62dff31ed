/**
 * Portals in a separate process: started by `start-portal-process.ts`, and ended with it. The only
 * argument says what to serve, and how; messages go over the channel to the parent.
 */
import { type PortalOptions, startPortals } from "./portal.ts";
import type { PortalRequest } from "./request-log.ts";

/** The requests of the parent; each is answered in turn. */
export type ToPortals = { readonly kind: "read-log"; readonly question: number };

export type FromPortals =
  | { readonly kind: "started"; readonly origins: readonly (readonly [string, string])[] }
  | { readonly kind: "failed"; readonly message: string }
  | {
      readonly kind: "log";
      readonly question: number;
      readonly requests: readonly PortalRequest[];
      /** When this process's clock was 0, for a parent whose clock began at another time. */
      readonly clockOriginMs: number;
    };

const tell = (message: FromPortals): void => {
  // A parent that has just died gets nothing, and `disconnect` ends this process.
  process.send?.(message, undefined, undefined, () => undefined);
};

async function servePortals(options: PortalOptions): Promise<void> {
  // From the very beginning: the parent may die before the portals are ready.
  const parentGone = Promise.withResolvers<void>();
  process.once("disconnect", parentGone.resolve);
  if (!process.connected) parentGone.resolve();
  // Ctrl-C reaches every process of a terminal: the parent decides when portals close.
  process.on("SIGINT", () => {});

  const portals = await startPortals(options);
  process.on("message", (message: ToPortals) => {
    tell({
      kind: "log",
      question: message.question,
      requests: portals.requests(),
      clockOriginMs: performance.timeOrigin,
    });
  });
  tell({ kind: "started", origins: [...portals.origins] });
  await parentGone.promise;
  await portals.close();
}

try {
  await servePortals(JSON.parse(process.argv[2] ?? "{}") as PortalOptions);
} catch (error) {
  tell({ kind: "failed", message: error instanceof Error ? error.message : String(error) });
  // An open channel would keep the process alive.
  if (process.connected) process.disconnect();
  process.exitCode = 1;
}
