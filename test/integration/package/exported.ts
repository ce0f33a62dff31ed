/**
 * What a program may export under `declaration: true` without writing a type: pipelines, sources and
 * what the package's functions return. It is compiled against the installed package and never run.
 */
import {
  commandSink,
  createEngine,
  csv,
  definePipeline,
  defineStep,
  failed,
  fileSink,
  folder,
  jsonl,
  jsonlSink,
  keyset,
  later,
  paged,
  routeEvents,
  type Sink,
  type SinkContext,
  skipped,
  type SliceItems,
  type SliceRequest,
  type Source,
  succeeded,
  webhookSink,
  verifyWebhook,
  describeError,
} from "sluice";
import {
  checkConsistency,
  checkProof,
  describeVerdict,
  readItemHistories,
  readTimeline,
  verifyExport,
} from "sluice/ledger";
import { openMemory } from "sluice/memory";
import { openPostgres } from "sluice/postgres";
import { openSqlite } from "sluice/sqlite";
import { crash, inVirtualTime, killAtEveryCommit, late, loseAnswer, refuse } from "sluice/testing";
import { z } from "zod";

// Pipelines, steps and handlers.
export const judge = (words: string) => {
  if (words === "") return skipped("empty");
  if (words === "?") return later(1_000);
  return words.length > 9 ? failed(new Error("long")) : succeeded({ words });
};
export const words = defineStep({ name: "words", process: judge });
export const counted = defineStep({ name: "counted", waitFor: { count: () => 0 } });
export const steps = definePipeline({ name: "steps", steps: [words, counted] });
export const plain = definePipeline({ name: "plain", process: (n: number) => n * 2 });
export const judged = definePipeline({ name: "judged", process: judge });
export const chunks = definePipeline({
  name: "chunks",
  processChunk: (items: readonly { readonly item: number; readonly index: number }[]) =>
    items.map(({ item }) => succeeded(item)),
});
export const files = definePipeline({
  name: "files",
  source: ({ input }) => folder(input),
  process: (file) => file,
});

export const checked = definePipeline({
  name: "checked",
  item: z.object({ id: z.string() }),
  source: ({ input }: { input: { path: string } }) => jsonl(input.path),
  process: ({ id }) => ({ id }),
});

// Sources and sinks, ready-made and one's own.
export class Letters implements Source<string> {
  readonly kind = "letters";
  async *slice({ after, chunkSize }: SliceRequest) {
    if (after === null) yield { items: chunkSize, locator: "a", cursor: "a" };
  }
  async read(locators: readonly string[]): Promise<readonly SliceItems[]> {
    return locators.map((locator) => ({ count: 1, at: () => locator }));
  }
}
export class Mailbox implements Sink {
  readonly kind = "mailbox";
  readonly target = "a mailbox";
  readonly events = null;
  readonly retry = { attempts: 1, baseMs: 1, capMs: 1 };
  async deliver(event: Parameters<Sink["deliver"]>[0], { signal }: SinkContext) {
    if (!signal.aborted) described.code.concat(event.id);
  }
}
export const lines = jsonl<{ readonly id: string }>("a.jsonl");
export const rows = csv("a.csv");
export const scans = folder("scans");
export const pages = paged({ count: () => 1, read: () => [{ id: 1 }], stable: true });
export const drifting = paged({ count: () => 1, read: () => [{ id: 1 }] });
export const query = keyset({ page: () => [{ id: 1 }], key: ({ id }) => id });
export const sinks = {
  hook: webhookSink({ url: "https://example.com", secret: "a secret of more than 24 bytes" }),
  file: fileSink({ path: "events.jsonl" }),
  command: commandSink({ run: ["notify"] }),
  topic: jsonlSink({ folder: "out" }),
};
export const router = routeEvents({ "batch.ended": ({ data }) => void data.counts });
export const received = verifyWebhook({ secret: "", headers: {}, body: "", nowMs: 0 });
export const described = describeError(new Error("bad"));

// The engine and its parts.
export const engine = await createEngine({ store: ":memory:", log: (entry) => void entry.level });
export const stores = [
  openMemory(),
  await openSqlite("a.db"),
  await openPostgres("postgres://a/b"),
];
export const batch = await engine.submit(judged, ["one"]);
export const open = await engine.open(plain);
export const known = await engine.get("b-1");
export const { operator } = engine;
export const topic = engine.topic("email");

// What their methods answer.
export const progress = () => batch.progress();
export const events = () => batch.events();
export const eventTypes = async function* () {
  for await (const { type, data } of batch.events()) yield { type, data };
};
export const state = async () => (await batch.wait()).state;
export const results = () => batch.results();
export const pagesOf = () => batch.results<{ readonly pages: number }>("pages");
export const items = () => batch.items("cancelled");
export const letters = () => batch.deadLetters();
export const classes = async function* () {
  for await (const { errorClass } of batch.deadLetters()) yield errorClass;
};
export const why = () => batch.why();
export const cancelled = () => batch.cancel();
export const paused = () => batch.pause();
export const redriven = () => batch.redrive({ dryRun: true });
export const { takenUp } = batch;
export const newest = () => engine.store.listBatches({ limit: 1 });
export const found = () => engine.store.getBatch("b-1");
export const messages = () => topic.read();
export const lag = () => topic.look();
export const topics = () => engine.topics();
export const undelivered = () => engine.undelivered();
export const scaling = () => engine.scaling();
export const metrics = () => engine.metrics();
export const redrivenByHand = () => operator.redrive("b-1");
export const cancelledLane = () => operator.cancel({ lane: "a" });
export const lanes = () => operator.lanes();
export const closedKeys = () => operator.closedKeys();
export const limits = () => operator.listLimits();
export const limitChanges = () => operator.listLimitChanges();
export const explained = () => operator.why("b-1");
export const pruned = () => operator.prune({ keepMs: 1, keepEvidenceMs: 2 });
export const letter = () => operator.openDeadLetter("b-1", { step: 0, item: 1, pipeline: plain });

// Ledgers.
export const verdict = () => verifyExport([], { trusted: [] });
export const verdictLines = async () => describeVerdict(await verdict());
export const broken = async () => {
  const found = await verdict();
  return found.kind === "broken" ? found : null;
};
export const proof = () => checkProof("{}", []);
export const proven = () => {
  const checked = checkProof("{}", []);
  return checked.kind === "proven" ? checked.text : checked.why;
};
export const consistent = () => checkConsistency("{}", []);
export const timeline = () => readTimeline([], (entry) => void entry.kind);
export const histories = () =>
  readItemHistories(
    () => [],
    () => true,
  );

// Tests of one's own pipelines.
export const faults = [
  crash.after("settle", 1),
  late("renew", 1, 5),
  loseAnswer("lease", 1),
  refuse("end", 1),
];
export const world = () =>
  inVirtualTime({ seed: 1 }, (given) => ({ given, main: given.start("main", () => 1) }));
export const kills = () =>
  killAtEveryCommit({
    setUp: () => ({ charges: 0 }),
    batch: () => ({ pipeline: plain, input: [1] }),
    check: (_context, ended) => void ended.results,
  });
