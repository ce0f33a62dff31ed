/**
 * The metrics page for Prometheus. The registry belongs to one engine and is filled on request,
 * from plain numbers: items pay nothing for metrics. Labels are names of pipelines and steps, whose
 * number is fixed by the program, and never a batch, an item or a lane.
 */
import { type ELDHistogram, monitorEventLoopDelay, performance } from "node:perf_hooks";
import type { Metric, Registry } from "prom-client";
import type { DurationHistogram } from "../../core/base/histogram.ts";
import type { Meter, StepMeter } from "./meter.ts";
import type { PipelineScaling, ScalingView } from "./scaling-view.ts";

export const METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

export interface MetricsParts {
  readonly meter: Meter;
  /** Null when the store does not answer. */
  readonly readScaling: () => Promise<ScalingView | null>;
}

interface Value {
  /** If different from the metric's own name: the parts of a histogram. */
  readonly metricName?: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

interface Described {
  readonly name: string;
  readonly help: string;
}

const MS_PER_SECOND = 1_000;
const NS_PER_SECOND = 1e9;
const LAG_RESOLUTION_MS = 10;
const NO_LABELS = {};

export class MetricsPage {
  readonly #parts: MetricsParts;
  #registry: Promise<Registry> | null = null;
  #lag: ELDHistogram | null = null;
  #scaling: ScalingView | null = null;

  constructor(parts: MetricsParts) {
    this.#parts = parts;
  }

  /** The library is loaded at the first request. */
  async render(): Promise<string> {
    this.#registry ??= this.#build();
    const registry = await this.#registry;
    this.#scaling = await this.#parts.readScaling();
    const text = await registry.metrics();
    this.#lag?.reset();
    return text;
  }

  close(): void {
    this.#lag?.disable();
  }

  async #build(): Promise<Registry> {
    const { Registry } = await import("prom-client");
    const registry = new Registry();
    this.#lag = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS });
    this.#lag.enable();
    this.#addWork(registry);
    this.#addStore(registry);
    this.#addProcess(registry);
    return registry;
  }

  /** What this worker has done. */
  #addWork(registry: Registry): void {
    const { meter } = this.#parts;
    const counter = (name: string, help: string, list: () => readonly Value[]): void =>
      register(registry, "counter", { name, help }, list);
    counter("sluice_items_total", "Items that got their outcome from this worker.", () =>
      byPipeline(meter, ["succeeded", "skipped", "failed"]),
    );
    counter("sluice_item_retries_total", "Failed attempts that will be retried.", () =>
      byPipeline(meter, ["retries"]),
    );
    counter("sluice_dead_letters_total", "Items that became dead letters in this worker.", () =>
      byPipeline(meter, ["failed"]),
    );
    counter("sluice_leases_lost_total", "Leases of this worker that others took over.", () =>
      byPipeline(meter, ["leasesLost"]),
    );
    counter("sluice_store_errors_total", "Calls of the store that failed for a moment.", () => [
      { labels: NO_LABELS, value: meter.storeErrors },
    ]);
    const item = {
      name: "sluice_item_duration_seconds",
      help: "Handler time of an item, or of one call that takes several.",
    };
    addHistogram(registry, item, meter, ({ items }) => items);
    const chunk = {
      name: "sluice_chunk_duration_seconds",
      help: "From the lease of a chunk until it was settled or given back.",
    };
    addHistogram(registry, chunk, meter, ({ chunks }) => chunks);
  }

  /** What the store knows of all workers. */
  #addStore(registry: Registry): void {
    const gauge = (
      name: string,
      help: string,
      read: (one: PipelineScaling) => number | null,
    ): void =>
      register(registry, "gauge", { name, help }, () =>
        (this.#scaling?.pipelines ?? []).flatMap((one) => {
          const value = read(one);
          return value === null ? [] : [{ labels: { pipeline: one.pipeline }, value }];
        }),
      );
    register(
      registry,
      "gauge",
      { name: "sluice_store_up", help: "Whether the store answers." },
      () => [{ labels: NO_LABELS, value: this.#scaling === null ? 0 : 1 }],
    );
    const depth = { name: "sluice_queue_items", help: "Items by what they wait for." };
    register(registry, "gauge", depth, () =>
      (this.#scaling?.pipelines ?? []).flatMap((one) =>
        (["ready", "delayed", "leased", "held", "dead"] as const).map((state) => ({
          labels: { pipeline: one.pipeline, state },
          value: one[state],
        })),
      ),
    );
    gauge(
      "sluice_oldest_age_seconds",
      "Age of the oldest unfinished batch.",
      (one) => one.oldestAgeSeconds,
    );
    gauge("sluice_arrivals_per_second", "Items that are added.", (one) => one.arrivalPerSecond);
    gauge(
      "sluice_services_per_second",
      "Items that get their outcome.",
      (one) => one.servicePerSecond,
    );
    gauge(
      "sluice_drain_seconds",
      "How long the backlog lasts at this speed.",
      (one) => one.drainSeconds,
    );
    gauge("sluice_workers", "Workers that have the pipeline.", (one) => one.workers);
    gauge(
      "sluice_workers_busy",
      "Workers that hold work of the pipeline.",
      (one) => one.busyWorkers,
    );
    gauge(
      "sluice_workers_recommended",
      "Workers needed to reach the target.",
      (one) => one.recommendedWorkers,
    );
  }

  #addProcess(registry: Registry): void {
    const one = (type: "counter" | "gauge", name: string, help: string, read: () => number): void =>
      register(registry, type, { name, help }, () => [{ labels: NO_LABELS, value: read() }]);
    const lag = (read: (lag: ELDHistogram) => number): number =>
      this.#lag === null
        ? 0
        : // A timer that is on time counts with its own interval.
          Math.max(0, read(this.#lag) / NS_PER_SECOND - LAG_RESOLUTION_MS / 1_000 || 0);
    one("gauge", "sluice_event_loop_lag_mean_seconds", "Mean lag since the last look.", () =>
      lag(({ mean }) => mean),
    );
    one("gauge", "sluice_event_loop_lag_p99_seconds", "99 % of lags were shorter.", () =>
      lag((histogram) => histogram.percentile(99)),
    );
    one("gauge", "sluice_event_loop_lag_max_seconds", "Longest lag since the last look.", () =>
      lag(({ max }) => max),
    );
    one("counter", "process_cpu_seconds_total", "User and system CPU time.", () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1e6;
    });
    one("gauge", "process_resident_memory_bytes", "Resident memory.", () =>
      process.memoryUsage.rss(),
    );
    one("gauge", "process_start_time_seconds", "Start of the process since 1970.", () =>
      Math.round(performance.timeOrigin / 1_000),
    );
    one(
      "gauge",
      "nodejs_heap_size_used_bytes",
      "Heap in use.",
      () => process.memoryUsage().heapUsed,
    );
  }
}

/**
 * Adds a metric whose values are read when the page is made. The registry only asks its metrics for
 * this; the library's own metric classes would have to be updated for every item.
 */
function register(
  registry: Registry,
  type: "counter" | "gauge" | "histogram",
  { name, help }: Described,
  list: () => readonly Value[],
): void {
  const get = async (): Promise<object> => ({ name, help, type, values: list() });
  registry.registerMetric({ name, help, type, aggregator: "sum", get } as unknown as Metric);
}

type Count = "succeeded" | "skipped" | "failed" | "retries" | "leasesLost";

/** The sum over a pipeline's steps; by outcome if there are several counts, or where it says so. */
function byPipeline(meter: Meter, counts: readonly Count[]): Value[] {
  const pipelines = Map.groupBy(meter.list(), ({ pipeline }) => pipeline);
  return [...pipelines].flatMap(([pipeline, steps]) =>
    counts.map((count) => ({
      labels: counts.length === 1 ? { pipeline } : { pipeline, outcome: count },
      value: steps.reduce((sum, step) => sum + step[count], 0),
    })),
  );
}

function addHistogram(
  registry: Registry,
  described: Described,
  meter: Meter,
  read: (step: StepMeter) => DurationHistogram,
): void {
  const { name } = described;
  register(registry, "histogram", described, () =>
    meter.list().flatMap((step) => {
      const labels = { pipeline: step.pipeline, step: step.step };
      const histogram = read(step);
      const { count, sumMs } = histogram;
      return [
        ...histogram.listCumulative().map((bucket) => ({
          metricName: `${name}_bucket`,
          labels: { ...labels, le: String(bucket.boundMs / MS_PER_SECOND) },
          value: bucket.count,
        })),
        { metricName: `${name}_bucket`, labels: { ...labels, le: "+Inf" }, value: count },
        { metricName: `${name}_sum`, labels, value: sumMs / MS_PER_SECOND },
        { metricName: `${name}_count`, labels, value: count },
      ];
    }),
  );
}
