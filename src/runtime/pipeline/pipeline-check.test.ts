import { describe, expect, test } from "vitest";
import { SluiceError } from "../../core/base/errors.ts";
import { acceptsVersion, definePipeline, isPipeline, type Pipeline } from "./pipeline.ts";

const define = definePipeline as unknown as (options: unknown) => unknown;

function refuse(options: unknown): string {
  try {
    define(options);
  } catch (error) {
    if (error instanceof SluiceError && error.code === "BAD_PIPELINE") return error.message;
    throw error;
  }
  throw new Error("the pipeline was accepted");
}

const process = (): void => undefined;

describe("definePipeline", () => {
  test("fills in every default", () => {
    const pipeline = definePipeline({ name: "import", process });
    expect(pipeline).toMatchObject({
      name: "import",
      version: "1",
      accepts: [],
      strict: false,
      share: { tenant: null, weights: {} },
      caps: {},
      ledger: null,
      retention: {},
      steps: [
        {
          name: "import",
          number: 0,
          itemSchema: null,
          source: null,
          carriesFrom: null,
          uniqueKeys: false,
          chunkSize: 100,
          maxChunks: 1_000_000,
          whenTooManyChunks: "refuse",
          inlineItems: 100,
          concurrency: 16,
          retry: { attempts: 4, baseMs: 500, capMs: 30_000 },
          timeLimitMs: 300_000,
          maxRedrives: 3,
          failureBudget: null,
          canary: null,
          dedupe: null,
          topics: { emit: [], errors: null, unsent: null },
          waits: false,
        },
      ],
    });
    expect(isPipeline(pipeline)).toBe(true);
    expect(isPipeline({ name: "import", process })).toBe(false);
  });

  test("accepts a ledger of items, and refuses invalid ones", () => {
    const states = ["RECEIVED", "A1_B"];
    const pipeline = define({ name: "import", process, ledger: { item: true, states } });
    expect(pipeline).toMatchObject({ ledger: { item: true, states }, steps: [{ states }] });
    expect(define({ name: "import", process, ledger: { item: true } })).toMatchObject({
      ledger: { item: true, states: [] },
    });
    expect(define({ name: "import", process, ledger: null })).toMatchObject({ ledger: null });
    const step = { name: "a", process };
    expect(define({ name: "import", steps: [step], ledger: { item: true, states } })).toMatchObject(
      { steps: [{ states }] },
    );
    const wrong = (ledger: unknown): string => refuse({ name: "import", process, ledger });
    expect(wrong(true)).toContain("ledger must be { item: true, states }");
    expect(wrong({ item: false })).toContain("ledger.item must be true");
    expect(wrong({ item: true, stats: [] })).toContain("ledger.stats is not an option");
    expect(wrong({ item: true, states: "A" })).toContain("ledger.states must be a list of states");
    expect(wrong({ item: true, states: ["ok"] })).toContain("ledger.states.0 must be a name");
    expect(wrong({ item: true, states: ["A", "B", "A"] })).toContain(
      "ledger.states.2 is in the list already",
    );
    const many = Array.from({ length: 65 }, (_, n) => `S${n}`);
    expect(wrong({ item: true, states: many })).toContain(
      "ledger.states must be at most 64 states",
    );
  });

  test("accepts tenants, weights and caps, and refuses invalid ones", () => {
    const caps = { batch: 1, lane: undefined, pipeline: 1_000_000 };
    const share = { tenant: (lane: string) => lane, weights: { acme: 0.5 } };
    const pipeline = define({ name: "import", process, share, caps }) as Pipeline;
    expect(pipeline).toMatchObject({ share: { weights: { acme: 0.5 } }, caps: { batch: 1 } });
    expect(Object.keys(pipeline.caps)).toEqual(["batch", "pipeline"]);
    expect(pipeline.share.tenant?.("north")).toBe("north");
    const steps = [{ name: "a", process }];
    expect(define({ name: "import", steps, share, caps })).toMatchObject({
      share: { weights: { acme: 0.5 } },
      caps: { batch: 1 },
    });
    const wrong = {
      share: { tenant: "acme", weights: { acme: 0, bolt: Number.NaN }, weight: 1 },
      caps: { lane: 0, site: 3 },
    };
    for (const step of [{ process }, { steps }]) {
      const message = refuse({ name: "import", ...step, ...wrong });
      for (const problem of [
        "has 6 problems",
        "share.weights.acme must be a number above 0, at most 1000000 (got 0)",
        "share.weights.bolt must be a number above 0, at most 1000000 (got NaN)",
        'share.tenant must be a function that returns the tenant of a lane (got "acme")',
        "share.weight is not an option. Did you mean weights?",
        "caps.lane must be a whole number from 1 to 1000000 (got 0)",
        "caps.site is not an option",
      ]) {
        expect(message).toContain(problem);
      }
    }
    for (const [given, problem] of [
      [{ share: 3 }, "share must be { tenant, weights }"],
      [
        { share: { weights: 3 } },
        "share.weights must be numbers by tenant, for example { acme: 2 }",
      ],
      [{ caps: 3 }, "caps must be { batch, lane, pipeline }"],
    ] as const) {
      expect(refuse({ name: "import", process, ...given })).toContain(problem);
    }
  });

  test("suggests the option that an unknown name belongs to", () => {
    const message = refuse({
      name: "import",
      process,
      tenant: () => "acme",
      weights: { acme: 2 },
      route: () => "email",
      weigths: {},
      baseMs: 5,
    });
    for (const problem of [
      "tenant is not an option. Did you mean share.tenant?",
      "weights is not an option. Did you mean share.weights?",
      "weigths is not an option. Did you mean share.weights?",
      "route is not an option. Did you mean topics.route?",
      "baseMs is not an option. Did you mean retry.baseMs?",
    ]) {
      expect(message).toContain(problem);
    }
    const steps = [{ name: "a", process, route: () => "email", topics: { rout: () => "email" } }];
    const within = refuse({ name: "import", steps });
    expect(within).toContain("steps.0.route is not an option. Did you mean topics.route?");
    expect(within).toContain("steps.0.topics.rout is not an option. Did you mean route?");
    for (const removed of ["limits", "errorsTopic", "unsentTopic"]) {
      expect(refuse({ name: "import", process, [removed]: {} })).toContain(
        `${removed} is not an option`,
      );
    }
  });

  test("accepts ages for its batches, and refuses invalid ones", () => {
    const take = (ages: object): unknown =>
      (define({ name: "import", process, retention: ages }) as Pipeline).retention;
    expect(take({})).toEqual({});
    expect(take({ keepMs: 0 })).toEqual({ keepMs: 0 });
    expect(take({ keepMs: 5, keepEvidenceMs: 5 })).toEqual({ keepMs: 5, keepEvidenceMs: 5 });
    expect(take({ keepMs: 5, keepEvidenceMs: 0 })).toEqual({ keepMs: 5, keepEvidenceMs: 0 });
    expect(Object.keys(take({ keepMs: undefined, keepEvidenceMs: 1 }) as object)).toEqual([
      "keepEvidenceMs",
    ]);
    const step = { name: "a", process };
    expect(define({ name: "import", steps: [step], retention: { keepMs: 1 } })).toMatchObject({
      retention: { keepMs: 1 },
    });
    const wrong = (given: unknown): string => refuse({ name: "import", process, retention: given });
    expect(wrong(5)).toContain("retention must be ages: { keepMs, keepEvidenceMs }");
    expect(wrong({ keepMs: 2_000, keepEvidenceMs: 1_999 })).toContain(
      "retention.keepEvidenceMs (1999) must not be below retention.keepMs (2000)",
    );
    const message = wrong({ keepMs: -1, keepEvidenceMs: "30d", keepEvidence: 1 });
    for (const problem of [
      "has 3 problems",
      "retention.keepMs must be a whole number from 0 to 3,153,600,000,000 (got -1)",
      'retention.keepEvidenceMs must be a whole number from 0 to 3,153,600,000,000 (got "30d")',
      "retention.keepEvidence is not an option. Did you mean keepEvidenceMs?",
    ]) {
      expect(message).toContain(problem);
    }
  });

  test("suggests a name for a misspelled option", () => {
    const message = refuse({ name: "import", process, retension: {}, chunksize: 5 });
    expect(message).toContain("retension is not an option. Did you mean retention?");
    expect(message).toContain("chunksize is not an option. Did you mean chunkSize?");
    const steps = [{ name: "a", process, chunksise: 5 }];
    expect(refuse({ name: "import", steps })).toContain(
      "steps.0.chunksise is not an option. Did you mean chunkSize?",
    );
    expect(refuse({ name: "import", process, ledger: { item: true, stats: [] } })).toContain(
      "ledger.stats is not an option. Did you mean states?",
    );
  });

  test("reports all problems at once, with their place and the given value", () => {
    const message = refuse({
      name: "a b",
      version: "",
      chunkSize: 0,
      concurrency: Number.NaN,
      maxChunks: 1.5,
      timeLimitMs: "5s",
      whenTooManyChunks: "drop",
      retry: { attempts: 0, backoff: 2 },
      uniqueKeys: true,
      chunksize: 5,
    });
    for (const place of [
      "name must be",
      "version must be",
      "chunkSize must be a whole number from 1 to 100,000 (got 0)",
      "concurrency must be a whole number",
      "maxChunks must be",
      'timeLimitMs must be a whole number from 1 to 86,400,000 (got "5s")',
      "whenTooManyChunks must be refuse or grow",
      "retry.attempts must be",
      "retry.backoff is not an option",
      "chunksize is not an option",
    ]) {
      expect(message).toContain(place);
    }
  });

  test("requires exactly one handler", () => {
    expect(refuse({ name: "none" })).toContain("process is missing");
    const both = { name: "both", process, processChunk: () => [] };
    expect(refuse(both)).toContain("cannot be combined");
  });

  test("requires a key for unique keys, and a back-off below its cap", () => {
    expect(refuse({ name: "keys", process, uniqueKeys: true })).toContain("needs a key");
    const retry = { baseMs: 100, capMs: 50 };
    expect(refuse({ name: "retry", process, retry })).toContain("must not be above retry.capMs");
  });

  test.each([null, undefined, 5, "import", []])("refuses %s as a definition", (options) => {
    expect(refuse(options)).toMatch(/the pipeline without a name has/);
  });

  test("accepts its own version and the listed ones", () => {
    const pipeline = definePipeline({ name: "v", version: "3", accepts: ["2"], process });
    expect(["1", "2", "3"].map((version) => acceptsVersion(pipeline, version))).toEqual([
      false,
      true,
      true,
    ]);
  });
});
