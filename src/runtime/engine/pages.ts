/** The pages that an engine serves over HTTP, next to those about its health. */
import type { Engine } from "./engine.ts";
import { METRICS_CONTENT_TYPE } from "../observing/metrics-page.ts";

export interface Page {
  readonly contentType: string;
  readonly read: () => Promise<string>;
}

/** By path. */
export function listPages(engine: Pick<Engine, "metrics" | "scaling">): Record<string, Page> {
  return {
    "/metrics": { contentType: METRICS_CONTENT_TYPE, read: () => engine.metrics() },
    "/scaling": {
      contentType: "application/json; charset=utf-8",
      read: async () => `${JSON.stringify(await engine.scaling())}\n`,
    },
  };
}
