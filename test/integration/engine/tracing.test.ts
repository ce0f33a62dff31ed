/** Spans of batches, chunks, items and consumers, as a real OpenTelemetry SDK records them. */
import { context, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { afterEach, beforeEach, expect } from "vitest";
import {
  definePipeline,
  PermanentError,
  succeeded,
  type TopicMessage,
} from "../../../src/index.ts";
import { writeJson } from "../../../src/sinks/event-json.ts";
import { describeOnStores, makeSignal } from "./engine-rig.ts";

let exporter: InMemorySpanExporter;

function register(): void {
  exporter = new InMemorySpanExporter();
  const spanProcessors = [new SimpleSpanProcessor(exporter)];
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors }));
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
}
beforeEach(register);
afterEach(() => {
  trace.disable();
  context.disable();
});

const find = (name: string): ReadableSpan[] =>
  exporter.getFinishedSpans().filter((span) => span.name === name);
const idOf = (span: ReadableSpan): string => span.spanContext().spanId;

/** Names with those of child spans, in the order of their attributes. */
function drawTree(parent: string | undefined): unknown[] {
  return exporter
    .getFinishedSpans()
    .filter((span) => span.parentSpanContext?.spanId === parent)
    .map((span) => {
      const inner = drawTree(idOf(span));
      return inner.length === 0 ? span.name : [span.name, inner];
    })
    .toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
}

describeOnStores("tracing", (check) => {
  check("the spans of a batch form a tree within the span of its submitter", async ({ rig }) => {
    const pages = definePipeline({
      name: "pages",
      chunkSize: 2,
      maxRedrives: 0,
      process: async (n: number) => {
        await Promise.resolve();
        trace.getTracer("handler").startSpan("own").end();
        if (n === 3) throw new PermanentError("broken, password=hunter22");
      },
    });
    const engine = await rig.start();
    const outer = trace.getTracer("test").startSpan("request");
    const batch = await context.with(trace.setSpan(context.active(), outer), () =>
      engine.submit(pages, [1, 2, 3]),
    );
    await batch.wait();
    await engine.close();
    outer.end();
    const item = ["sluice.item", ["own"]];
    expect(drawTree(undefined)).toEqual([
      [
        "request",
        [
          [
            "sluice.batch",
            [
              ["sluice.chunk", [item, item]],
              ["sluice.chunk", [item]],
            ],
          ],
        ],
      ],
    ]);
    const [batchSpan] = find("sluice.batch");
    expect(batchSpan?.kind).toBe(SpanKind.PRODUCER);
    expect(batchSpan?.attributes).toMatchObject({
      "sluice.batch": batch.id,
      "sluice.pipeline": "pages",
    });
    for (const span of find("sluice.chunk")) {
      expect(span.attributes).toMatchObject({
        "sluice.batch": batch.id,
        "sluice.step": "pages",
        "sluice.chunk.result": "settled",
      });
    }
    const failed = find("sluice.item").filter(({ status }) => status.code === SpanStatusCode.ERROR);
    expect(failed).toHaveLength(1);
    expect(failed[0]?.attributes).toMatchObject({ "sluice.item": 2, "sluice.attempt": 1 });
    // The message is in the dead letter; in a span it could reveal data.
    expect(failed[0]?.status.message).toBe("PERMANENT");
  });

  check("chunks that another process runs belong to the submitter's trace", async ({ rig }) => {
    const pages = definePipeline({ name: "pages", process: () => undefined });
    const submitter = await rig.start({ work: false });
    const worker = await rig.startBeside();
    worker.work(pages);
    const batch = await submitter.submit(pages, [1]);
    await batch.wait();
    await worker.close();
    const [batchSpan] = find("sluice.batch");
    const [chunk] = find("sluice.chunk");
    expect(chunk?.spanContext().traceId).toBe(batchSpan?.spanContext().traceId);
    expect(chunk?.parentSpanContext).toMatchObject({ isRemote: true });
  });

  check("a consumer's span is linked to that of the emitting item", async ({ rig }) => {
    const letters = definePipeline({
      name: "letters",
      topics: { emit: ["post", "copies"], route: () => "copies" },
      process: (n: number, { emit }) => {
        emit("post", { n });
        return n;
      },
    });
    const engine = await rig.start();
    const taken: TopicMessage[] = [];
    const done = makeSignal();
    engine.consume("post", "office", (message) => {
      taken.push(message);
      trace.getTracer("handler").startSpan("delivery").end();
      if (taken.length === 2) done.give();
    });
    await (await engine.submit(letters, [1, 2])).wait();
    await done.wait;
    const [routed] = await engine.topic("copies").read();
    await engine.close();
    const items = find("sluice.item");
    const consumed = find("sluice.consume");
    expect(consumed).toHaveLength(2);
    const linked = consumed.map(({ links }) => links.map((link) => link.context.spanId));
    expect(linked.flat().toSorted()).toEqual(items.map(idOf).toSorted());
    for (const span of consumed) {
      expect(span.kind).toBe(SpanKind.CONSUMER);
      expect(span.parentSpanContext).toBeUndefined();
      expect(span.attributes).toMatchObject({ "messaging.destination.name": "post" });
    }
    const within = find("delivery").map((span) => span.parentSpanContext?.spanId ?? "");
    expect(within.toSorted()).toEqual(consumed.map(idOf).toSorted());
    expect(taken[0]?.traceparent).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
    const written = JSON.parse(writeJson(taken[0] as TopicMessage)) as TopicMessage;
    expect(written.traceparent).toBe(taken[0]?.traceparent);
    expect(items.map(idOf)).toContain(routed?.traceparent?.split("-")[2]);
  });

  check("a handler of several items has one span for each attempt", async ({ rig }) => {
    const tries = new Set<number>();
    const many = definePipeline({
      name: "many",
      retry: { baseMs: 1, capMs: 1 },
      processChunk: (items: readonly { item: number }[]) => items.map(() => succeeded()),
    });
    const again = definePipeline({
      name: "again",
      retry: { baseMs: 1, capMs: 1 },
      process: (n: number) => {
        if (tries.has(n)) return;
        tries.add(n);
        throw new Error("not yet");
      },
    });
    const engine = await rig.start();
    await (await engine.submit(many, [1, 2, 3])).wait();
    await (await engine.submit(again, [1])).wait();
    await engine.close();
    expect(find("sluice.items").map(({ attributes }) => attributes["sluice.items"])).toEqual([3]);
    const attempts = find("sluice.item").map(({ attributes }) => attributes["sluice.attempt"]);
    expect(attempts).toEqual([1, 2]);
  });

  check("without an SDK no span is recorded and no context is passed on", async ({ rig }) => {
    trace.disable();
    context.disable();
    const letters = definePipeline({
      name: "letters",
      topics: ["post"],
      process: (n: number, { emit }) => emit("post", { n }),
    });
    const engine = await rig.start();
    const batch = await engine.submit(letters, [1]);
    await batch.wait();
    const [message] = await engine.topic("post").read();
    expect(message).not.toHaveProperty("traceparent");
    expect((await rig.getBatch(batch.id)).settings).not.toHaveProperty("traceparent");
    expect(exporter.getFinishedSpans()).toEqual([]);
  });
});
