/** The engine's metrics and scaling: its own counts, and those of its store. */
import {
  fillTarget,
  findTargetProblems,
  type ScalingTarget,
  TARGET_OPTIONS,
} from "../../core/fleet/scaling.ts";
import { SluiceError } from "../../core/base/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Store } from "../../ports/store/store.ts";
import { LoadWatch } from "./load-watch.ts";
import { Meter } from "./meter.ts";
import { MetricsPage } from "./metrics-page.ts";
import { type ScalingView, viewScaling } from "./scaling-view.ts";

export interface EngineMetricsParts {
  /** Without retries: the caller wants an answer or an error soon. */
  readonly store: Pick<Store, "readLoad">;
  readonly clock: Clock;
}

export interface ScalingOptions extends Partial<ScalingTarget> {
  /** Default those that this engine works on; all if it works on none. */
  readonly pipelines?: readonly string[];
}

/** A store that does not answer must not block the metrics page. */
const STORE_WAIT_MS = 2_000;

export class EngineMetrics {
  readonly meter = new Meter();
  readonly #parts: EngineMetricsParts;
  readonly #loads: LoadWatch;
  readonly #page: MetricsPage;
  readonly #served = new Set<string>();

  constructor(parts: EngineMetricsParts) {
    this.#parts = parts;
    this.#loads = new LoadWatch(parts);
    this.#page = new MetricsPage({
      meter: this.meter,
      readScaling: () => this.#tryScaling(),
    });
  }

  /** The engine works on this pipeline. */
  serve(pipeline: string): void {
    this.#served.add(pipeline);
  }

  renderMetrics(): Promise<string> {
    return this.#page.render();
  }

  async viewScaling({ pipelines, ...target }: ScalingOptions = {}): Promise<ScalingView> {
    const problems = findTargetProblems(target);
    if (pipelines !== undefined && !Array.isArray(pipelines)) {
      problems.push("pipelines must be a list of names");
    }
    if (problems.length > 0) {
      const list = problems.join("; ");
      throw new SluiceError("BAD_OPTION", `scaling(): ${list}`, {
        field: "scaling",
        hint: `The options of scaling are pipelines, ${TARGET_OPTIONS.join(", ")}.`,
      });
    }
    const wanted = pipelines === undefined ? this.#served : new Set(pipelines);
    const flow = await this.#loads.read();
    return viewScaling(flow, fillTarget(target), wanted.size === 0 ? null : wanted);
  }

  close(): void {
    this.#page.close();
  }

  /** Null when the store fails, or does not answer soon. */
  async #tryScaling(): Promise<ScalingView | null> {
    const { promise, resolve } = Promise.withResolvers<null>();
    const cancel = this.#parts.clock.after(STORE_WAIT_MS, () => resolve(null));
    const looked = this.viewScaling().catch(() => null);
    try {
      return await Promise.race([looked, promise]);
    } finally {
      cancel();
    }
  }
}
