import { describe, expect, test } from "vitest";
import { SluiceError } from "../../core/base/errors.ts";
import { definePipeline, type Pipeline } from "./pipeline.ts";
import { describeStep, type Step } from "./step.ts";

const define = definePipeline as unknown as (options: object) => Pipeline;
const process = (): void => undefined;
const count = (): number => 0;
const identity = (): string => "i";

function defineStep(options: object): Step {
  return define({ name: "p", process, ...options }).steps[0];
}

function refuse(options: object): string {
  try {
    define(options);
  } catch (error) {
    if (error instanceof SluiceError && error.code === "BAD_PIPELINE") return error.message;
    throw error;
  }
  throw new Error("the pipeline was accepted");
}

const refuseStep = (options: object): string => refuse({ name: "p", process, ...options });

describe("a failure budget", () => {
  test.each([
    [5, { any: { count: 5 } }],
    [0, { any: { count: 0 } }],
    ["5%", { any: { percent: 5 } }],
    ["0.5 %", { any: { percent: 0.5 } }],
    ["100%", { any: { percent: 100 } }],
    [
      { permanent: 3, transient: "10%" },
      { permanent: { count: 3 }, transient: { percent: 10 } },
    ],
    [
      { any: "1%", unexpected: 0 },
      { any: { percent: 1 }, unexpected: { count: 0 } },
    ],
    [{}, {}],
    [null, null],
  ])("may be %j", (failureBudget, expected) => {
    expect(defineStep({ failureBudget }).failureBudget).toEqual(expected);
  });

  test.each([-1, 1.5, Number.NaN, "5", "five%", "101%", "-1%", "%", true])(
    "cannot be %s",
    (failureBudget) => {
      expect(refuseStep({ failureBudget })).toContain(
        'failureBudget must be a whole number of items, or a share such as "5%"',
      );
    },
  );

  test("of a class is checked in its place, and an unknown class is named", () => {
    expect(refuseStep({ failureBudget: { permanent: "lots" } })).toContain(
      "failureBudget.permanent must be a whole number",
    );
    expect(refuseStep({ failureBudget: { fatal: 1 } })).toContain(
      "failureBudget.fatal is not an option",
    );
  });
});

describe("a canary", () => {
  test.each([
    [20, { items: 20, failuresMax: 0 }],
    [{ items: 20 }, { items: 20, failuresMax: 0 }],
    [
      { items: 20, failures: 2 },
      { items: 20, failuresMax: 2 },
    ],
    [null, null],
  ])("may be %j", (canary, expected) => {
    expect(defineStep({ canary }).canary).toEqual(expected);
  });

  test.each([
    0,
    -1,
    2.5,
    "20",
    true,
    [],
    {},
    { items: 0 },
    { items: 5, failures: -1 },
    { items: 5, failures: "1" },
    { items: 5, failure: 1 },
  ])("cannot be %j", (canary) => {
    expect(refuseStep({ canary })).toContain(
      "canary must be a number of items, or { items, failures }",
    );
  });
});

describe("de-duplication", () => {
  test("needs an identity; the scope is the pipeline's name by default", () => {
    expect(defineStep({ dedupe: { identity } }).dedupe?.scope).toBe("p");
    expect(defineStep({ dedupe: { identity, scope: "case-7" } }).dedupe?.scope).toBe("case-7");
    expect(refuseStep({ dedupe: {} })).toContain("dedupe.identity must be a function");
    expect(refuseStep({ dedupe: { identity: "id" } })).toContain("dedupe.identity must be");
  });

  test("compares the whole item by default", () => {
    const whole = defineStep({ dedupe: { identity } }).dedupe;
    expect(whole?.content({ a: 1 })).toBe('{"a":1}');
    const part = defineStep({ dedupe: { identity, content: () => "text" } }).dedupe;
    expect(part?.content({ a: 1 })).toBe("text");
  });

  test("accepts numbers as identities, as keys do", () => {
    const dedupe = defineStep({ dedupe: { identity: (item: number) => item } }).dedupe;
    expect(dedupe?.identity(7)).toBe("7");
  });

  test("a repeat is recorded with a state of the ledger, if one is configured", () => {
    const ledger = { item: true, states: ["DEDUPED"] };
    const dedupe = { identity, state: "DEDUPED" };
    expect(defineStep({ dedupe, ledger }).dedupe?.state).toBe("DEDUPED");
    expect(defineStep({ dedupe: { identity }, ledger }).dedupe?.state).toBe(null);
    expect(refuseStep({ dedupe })).toContain(
      'dedupe.state needs a ledger: add ledger: { item: true, states: ["DEDUPED"] }',
    );
    expect(refuseStep({ dedupe: { identity, state: "DEDUPE" }, ledger })).toContain(
      "dedupe.state is none of ledger.states. Did you mean DEDUPED?",
    );
    expect(refuseStep({ dedupe: { identity, state: "OTHER" }, ledger })).toContain(
      'dedupe.state is none of ledger.states: add "OTHER" to it',
    );
    expect(refuseStep({ dedupe: { identity, state: 7 }, ledger })).toContain(
      "dedupe.state must be one of the ledger's states",
    );
  });

  test("refuses a bad scope and unknown options", () => {
    expect(refuseStep({ dedupe: { identity, scope: "a b" } })).toContain("dedupe.scope must be");
    expect(refuseStep({ dedupe: { identity, contents: () => "" } })).toContain(
      "dedupe.contents is not an option",
    );
  });
});

describe("passes over dead letters", () => {
  test("are as many as configured, and three by default", () => {
    expect(
      [{}, { maxRedrives: 0 }, { maxRedrives: 7 }].map((o) => defineStep(o).maxRedrives),
    ).toEqual([3, 0, 7]);
    for (const maxRedrives of [-1, 1.5, 1_001, "3"]) {
      expect(refuseStep({ maxRedrives })).toContain("maxRedrives must be a whole number from 0");
    }
  });
});

describe("a step that waits", () => {
  const waitFor = { count };

  test("has exactly one item, whatever step comes before it", () => {
    const { steps } = define({
      name: "p",
      steps: [
        { name: "a", process },
        { name: "w", waitFor },
        { name: "b", process },
      ],
    });
    const [, waits, after] = steps as [Step, Step, Step];
    expect(waits).toMatchObject({ waits: true, carriesFrom: null, chunkSize: 1 });
    expect(waits.source?.({} as never)).toEqual([null]);
    // The results of the last step that has results.
    expect(after).toMatchObject({ waits: false, carriesFrom: 0, source: null });
  });

  test("excludes handlers and a source", () => {
    for (const other of [{ process }, { processChunk: () => [] }, { source: () => [] }]) {
      expect(refuse({ name: "p", waitFor, ...other })).toContain(
        "waitFor excludes process, processChunk and source",
      );
    }
    expect(define({ name: "p", waitFor }).steps[0].waits).toBe(true);
  });

  test.each([
    [5, "waitFor must be"],
    [{}, "waitFor.count must be a function"],
    [{ count: 5 }, "waitFor.count must be a function"],
    [{ count, target: "10" }, "waitFor.target must be"],
    [{ count, target: -1 }, "waitFor.target must be"],
    [{ count, target: Number.NaN }, "waitFor.target must be"],
    [{ count, stalls: -1 }, "waitFor.stalls must be a whole number"],
    [{ count, stall: 1 }, "waitFor.stall is not an option"],
    [{ count, delays: { stallMS: 5 } }, "waitFor.delays.stallMS is not an option"],
    [{ count, delays: { stallMs: -5 } }, "waitFor.delays.stallMs must be a whole number"],
    [{ count, delays: { steps: [{ below: 1 }] } }, "waitFor.delays.steps.0.delayMs must be"],
  ])("refuses %j", (bad, problem) => {
    expect(refuse({ name: "p", waitFor: bad })).toContain(problem);
  });

  test("accepts all of its options", () => {
    const delays = { steps: [{ below: 10, delayMs: 5 }], elseMs: 7, stallMs: 9 };
    const full = { count, target: () => 5, stalls: 0, delays };
    expect(define({ name: "p", waitFor: full }).steps[0].waits).toBe(true);
    expect(define({ name: "p", waitFor: { count, target: 0 } }).steps[0].waits).toBe(true);
  });
});

describe("several steps", () => {
  const step = (name: unknown, changes: object = {}): object => ({ name, process, ...changes });

  test("each has its own options, and takes the results of the one before it", () => {
    const { steps } = define({
      name: "p",
      steps: [
        step("fetch", { chunkSize: 5 }),
        step("parse", { concurrency: 2 }),
        step("index", { source: () => [1] }),
      ],
    });
    expect(steps.map(({ name, number, carriesFrom }) => [name, number, carriesFrom])).toEqual([
      ["fetch", 0, null],
      ["parse", 1, 0],
      ["index", 2, null],
    ]);
    expect(steps.map(({ chunkSize, concurrency }) => [chunkSize, concurrency])).toEqual([
      [5, 16],
      [100, 2],
      [100, 16],
    ]);
  });

  test("must be a list with a step", () => {
    expect(refuse({ name: "p", steps: [] })).toContain("steps must have a step");
    expect(refuse({ name: "p", steps: { a: 1 } })).toContain("steps must be a list of steps");
  });

  test("have names, and no two the same", () => {
    expect(refuse({ name: "p", steps: [{ process }] })).toContain("steps.0.name must be 1 to 100");
    expect(refuse({ name: "p", steps: [step("a b")] })).toContain("steps.0.name must be");
    expect(refuse({ name: "p", steps: [step("a"), step("b"), step("a")] })).toContain(
      "steps.2.name is the name of another step",
    );
  });

  test("have every rule of a step checked in its place", () => {
    const message = refuse({
      name: "p",
      steps: [
        step("a", { chunksize: 5, canary: 0 }),
        { name: "b" },
        step("c", { uniqueKeys: true, retry: { baseMs: 9, capMs: 1 }, failureBudget: "x" }),
      ],
    });
    for (const problem of [
      "steps.0.chunksize is not an option",
      "steps.0.canary must be",
      "steps.1.process is missing",
      "steps.2.failureBudget must be",
    ]) {
      expect(message).toContain(problem);
    }
  });

  test("exclude a handler of the pipeline's own", () => {
    expect(refuse({ name: "p", process, steps: [step("a")] })).toContain(
      "process is not an option",
    );
  });
});

describe("topics", () => {
  const route = (): string => "a";

  test("are none by default, and recorded with a batch only if the engine itself writes to them", () => {
    const none = { emit: [], errors: null, unsent: null };
    expect(defineStep({}).topics).toEqual(none);
    expect(defineStep({ topics: [] }).topics).toEqual(none);
    expect(defineStep({ topics: {} }).topics).toEqual(none);
    const settings = describeStep(defineStep({ topics: ["a"] }));
    expect(settings).not.toHaveProperty("errorsTopic");
    expect(settings).not.toHaveProperty("unsentTopic");
    const topics = { errors: "e", unsent: "u" };
    expect(describeStep(defineStep({ topics }))).toMatchObject({
      errorsTopic: "e",
      unsentTopic: "u",
    });
  });

  test("may be a list of those that the handler emits to, or have all their members", () => {
    const none = { errors: null, unsent: null };
    expect(defineStep({ topics: ["a", "b"] }).topics).toEqual({ ...none, emit: ["a", "b"] });
    expect(defineStep({ topics: { emit: ["a"] } }).topics).toEqual({ ...none, emit: ["a"] });
    const full = { emit: ["a"], route, errors: "e", unsent: "u" };
    expect(defineStep({ topics: full }).topics).toEqual(full);
    expect(defineStep({ topics: { errors: null, unsent: null } }).topics).toEqual({
      ...none,
      emit: [],
    });
    const steps = [{ name: "s", process, topics: full }];
    expect(define({ name: "p", steps }).steps[0].topics).toEqual(full);
  });

  const SHAPE = 'topics must be a list of topics, for example ["email"], or { emit, route, errors';

  test.each([
    ["email", SHAPE],
    [7, SHAPE],
    [null, SHAPE],
    [["e mail"], "topics.0 must be 1 to 100 letters"],
    [["a", ""], "topics.1 must be 1 to 100 letters"],
    [[7], "topics.0 must be 1 to 100 letters"],
    [["a", "b", "a"], "topics.2 is in the list already"],
    [{ emit: "email" }, "topics.emit must be a list of topics"],
    [{ emit: ["e mail"] }, "topics.emit.0 must be 1 to 100 letters"],
    [{ emit: ["a", "b", "a"] }, "topics.emit.2 is in the list already"],
    [{ errors: "no/such" }, "topics.errors must be 1 to 100 letters"],
    [{ unsent: "" }, "topics.unsent must be 1 to 100 letters"],
    [{ route }, "topics.route needs topics.emit"],
    [{ route, emit: [] }, "topics.route needs topics.emit"],
    [{ route: "a", emit: ["a"] }, "topics.route must be a function"],
    [{ emits: ["a"] }, "topics.emits is not an option. Did you mean emit?"],
  ])("cannot be %j", (topics, problem) => {
    expect(refuseStep({ topics })).toContain(`has a problem:\n  - ${problem}`);
    expect(refuse({ name: "p", steps: [{ name: "s", process, topics }] })).toContain(
      `has a problem:\n  - steps.0.${problem}`,
    );
  });

  test("have all their problems reported at once", () => {
    const topics = { emit: ["a", "a b", "a"], route: 5, errors: "", unsent: 7, error: "e" };
    const message = refuseStep({ topics, chunkSize: 0 });
    for (const problem of [
      "has 7 problems",
      "chunkSize must be",
      'topics.emit.1 must be 1 to 100 letters, digits, dots, dashes or underscores (got "a b")',
      "topics.emit.2 is in the list already",
      "topics.route must be a function",
      'topics.errors must be 1 to 100 letters, digits, dots, dashes or underscores (got "")',
      "topics.unsent must be 1 to 100 letters, digits, dots, dashes or underscores (got 7)",
      "topics.error is not an option. Did you mean errors?",
    ]) {
      expect(message).toContain(problem);
    }
  });
});
