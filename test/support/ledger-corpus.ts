/**
 * Random histories of batches as exports: steps, chunks, retries, flushes, automatic passes,
 * redrives by hand that reopen, early ends, open batches, rotated keys, signed heads. The engine
 * could write each of them; `mutate` turns them into exports that it could not.
 */
import type { Json } from "../../src/core/base/canonical-json.ts";
import { ExportBuilder, type RecordOfItem, SALT } from "./ledger-export.ts";
import { assemble, type Body, dissect, type Entry } from "./ledger-forger.ts";

type Word = "pending" | "succeeded" | "skipped" | "failed";

/** A whole number below `below`. */
export type Draw = (below: number) => number;

export function makeDraw(seed: number): Draw {
  let state = seed | 0;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

const CHUNK = 4;

class History {
  readonly builder: ExportBuilder;
  readonly #draw: Draw;
  readonly #steps: Word[][] = [];
  readonly #drives = new Map<string, number>();
  readonly #fences = new Map<string, number>();
  readonly #hasItems: boolean;
  #drive = 1;

  constructor(draw: Draw) {
    this.#draw = draw;
    this.#hasItems = draw(5) > 0;
    this.builder = new ExportBuilder(`b-${draw(1000)}`, ["north", 'l\u00e4ne "1"'][draw(2)]);
  }

  run(): ExportBuilder {
    const { builder } = this;
    builder.begin(this.#hasItems ? { itemLedger: true } : {});
    const steps = 1 + this.#draw(2);
    for (let step = 0; step < steps; step++) {
      this.#plan(step);
      this.#steps.push(Array.from({ length: this.#planned }, () => "pending"));
      const early = this.#draw(6) === 0;
      this.#work(step, early);
      if (early) return this.#stop(step);
      if (this.#draw(2) === 0) this.#pass(step);
      builder.endStep(this.#count(this.#steps[step]!), step);
      this.#maybeSign();
    }
    this.#end();
    if (this.#draw(3) === 0) this.#reopen();
    return this.#finish();
  }

  #planned = 0;

  #plan(step: number): void {
    const { builder } = this;
    this.#planned = this.#draw(14);
    const isOpen = step === 0 && this.#draw(4) === 0;
    builder.record("slicing.started", { step });
    const items = isOpen ? 0 : this.#planned;
    builder.record("slicing.finished", { step, items, chunks: Math.ceil(items / CHUNK) });
    if (isOpen) builder.record("batch.sealed", { items: this.#planned, chunks: 1 });
  }

  /** Gives the pending items of a step their outcomes; not all of them if it ends early. */
  #work(step: number, early: boolean): void {
    const words = this.#steps[step]!;
    const chunks = Math.ceil(words.length / CHUNK);
    for (let chunk = 0; chunk < chunks; chunk++) {
      if (early && this.#draw(2) === 0) continue;
      const items = words.flatMap((word, item) =>
        word === "pending" && Math.floor(item / CHUNK) === chunk ? [item] : [],
      );
      if (items.length === 0) continue;
      const name = `${step}/${chunk}`;
      const fence = (this.#fences.get(name) ?? 0) + 2;
      this.#fences.set(name, fence);
      if (this.#hasItems && this.#draw(4) === 0)
        this.builder.lose({ step, chunk, fence: fence - 1 });
      const worker = this.#draw(9) === 0 ? null : this.#draw(5);
      const half = this.#draw(2) === 0 ? items.length : this.#draw(items.length + 1);
      const reports = [items.slice(0, half), items.slice(half)].filter(({ length }) => length > 0);
      for (const [at, report] of reports.entries()) {
        const records = report.flatMap((item) => this.#live(step, item, worker !== null));
        const options = { step, chunk, fence, block: at + 1, worker };
        if (this.#hasItems) this.builder.block(records, options);
        if (this.#draw(5) === 0) this.#maybeSign();
      }
    }
  }

  /** An item without a worker has no records, and it can only fail. */
  #live(step: number, item: number, isHeld: boolean): RecordOfItem[] {
    const drawn = (["succeeded", "succeeded", "skipped", "failed"] as const)[this.#draw(4)]!;
    const word = isHeld ? drawn : "failed";
    this.#steps[step]![item] = word;
    const drive = this.#drives.get(`${step}/${item}`) ?? 1;
    const records: RecordOfItem[] = [];
    const key = this.#draw(4) === 0 ? null : `k\u20ac${item}`;
    const tries = 1 + this.#draw(2);
    for (let attempt = 1; attempt <= tries; attempt++) {
      const of = { item, key, drive, attempt };
      const details =
        this.#draw(5) === 0 ? { details: { salt: SALT, details: { n: this.#draw(9) } } } : {};
      if (isHeld && this.#draw(3) > 0) records.push({ ...of, state: "RECEIVED", ...details });
      if (attempt === tries) records.push({ ...of, state: word, code: "E_\u0001" });
    }
    if (tries > 1) records.push({ item, key, drive, attempt: 1, state: "retried", code: "E_2" });
    return records;
  }

  #count(words: readonly Word[]): Record<string, number> {
    const of = (word: Word): number => words.filter((one) => one === word).length;
    return {
      planned: words.length,
      succeeded: of("succeeded"),
      skipped: of("skipped"),
      failed: of("failed"),
      cancelled: of("pending"),
    };
  }

  /** Some failures are redriven; returns how many. */
  #putBack(steps: readonly number[]): number {
    let items = 0;
    for (const step of steps) {
      const back: number[] = [];
      for (const [item, word] of this.#steps[step]!.entries()) {
        if (word !== "failed" || this.#draw(2) === 0) continue;
        this.#steps[step]![item] = "pending";
        this.#drives.set(`${step}/${item}`, this.#drive + 1);
        back.push(item);
      }
      items += back.length;
      for (const [chunk, ofChunk] of Map.groupBy(back, (item) => Math.floor(item / CHUNK))) {
        const fence = this.#fences.get(`${step}/${chunk}`)!;
        if (this.#hasItems) this.builder.putBack(ofChunk, this.#drive + 1, { step, chunk, fence });
      }
    }
    if (items > 0) this.#drive++;
    return items;
  }

  #pass(step: number): void {
    const items = this.#putBack([step]);
    if (items === 0) return;
    const data = { step, drive: this.#drive, items, pass: 1, final: true, by: "engine" };
    this.builder.record("dead_letters.redriven", data);
    this.#work(step, false);
  }

  #reopen(): void {
    const { builder } = this;
    const items = this.#putBack([...this.#steps.keys()]);
    if (items === 0) return;
    builder.record("dead_letters.redriven", { drive: this.#drive, items, revived: 0, by: "ann" });
    const first = this.#steps.findIndex((words) => words.includes("pending"));
    builder.record("batch.reopened", { step: first, drive: this.#drive });
    builder.record("batch.started", { step: first, drive: this.#drive });
    for (let step = first; step < this.#steps.length; step++) {
      if (!this.#steps[step]!.includes("pending")) continue;
      const early = this.#draw(4) === 0;
      this.#work(step, early);
      if (early) {
        this.#stop(step);
        return;
      }
      builder.endStep(this.#count(this.#steps[step]!), step);
    }
    this.#end();
  }

  #stop(step: number): ExportBuilder {
    const state = ["cancelled", "expired", "failed"][this.#draw(3)]!;
    this.builder.endStep(this.#count(this.#steps[step]!), step);
    this.builder.end(state, this.#count(this.#steps.flat()), this.#drive);
    return this.#finish();
  }

  #end(): void {
    const counts = this.#count(this.#steps.flat());
    const state = counts["failed"]! > 0 ? "completed_with_errors" : "succeeded";
    this.builder.end(state, counts, this.#drive);
  }

  #maybeSign(): void {
    const isNew = this.builder.head.seq > this.#signedTo;
    if (!isNew || this.#draw(3) > 0) return;
    this.builder.addSignedHead();
    this.#signedTo = this.builder.head.seq;
    if (this.#draw(3) === 0) this.builder.rotateKey();
  }

  #signedTo = 0;

  #finish(): ExportBuilder {
    const { builder } = this;
    if (builder.head.seq > this.#signedTo && this.#draw(5) > 0) {
      builder.addSignedHead();
      this.#signedTo = builder.head.seq;
    }
    return builder;
  }
}

export function drawExport(draw: Draw): ExportBuilder {
  return new History(draw).run();
}

const pick = <T>(draw: Draw, all: readonly T[]): T => all[draw(all.length)] as T;

/** Changes an export: anything from a flipped bit to a forgery with the real key. */
export function mutate(draw: Draw, builder: ExportBuilder, lines: readonly string[]): Buffer {
  const join = (all: readonly string[]): Buffer =>
    Buffer.from(all.map((one) => `${one}\n`).join(""));
  const bytes = join(lines);
  const at = draw(lines.length);
  switch (draw(8)) {
    case 0:
      bytes[draw(bytes.length)]! ^= 1 << draw(8);
      return bytes;
    case 1:
      return Buffer.from(bytes.subarray(0, draw(bytes.length)));
    case 2:
      return join(lines.toSpliced(at, 1 + draw(3)));
    case 3:
      return join(lines.toSpliced(at, 0, pick(draw, lines)));
    case 4:
      return join(lines.with(at, pick(draw, lines)));
    default:
      return join(forge(draw, builder, lines));
  }
}

/** Changes what records say, and updates everything that follows from it, signatures included. */
function forge(draw: Draw, builder: ExportBuilder, lines: readonly string[]): string[] {
  const model = dissect(lines);
  const { entries } = model;
  const at = draw(entries.length);
  const entry = entries[at] as Entry;
  switch (draw(6)) {
    case 0:
      entries.splice(at, 1);
      break;
    case 1:
      entries.splice(draw(entries.length), 0, structuredClone({ ...entry, signedHead: null }));
      break;
    case 2:
      entry.items.splice(draw(entry.items.length + 1), 1);
      break;
    case 3:
      if (entry.items.length > 0) entry.items.push(pick(draw, entry.items));
      break;
    case 4:
      changeNumber(draw, entry.record["data"] as Body);
      break;
    default:
      entry.items = entry.items.map((line) => (draw(4) > 0 ? line : changeItem(draw, line)));
  }
  const recheck = draw(4) === 0 ? ("unsigned" as const) : builder.firstKey;
  return assemble(model, draw(8) === 0 ? {} : { rechain: true, recheck });
}

function changeItem(draw: Draw, line: string): string {
  return pick(draw, [
    (): string => line.replace(/"worker":(\d+)/, (_, worker) => `"worker":${Number(worker) + 1}`),
    (): string => line.replace(/"item":(\d+)/, (_, item) => `"item":${Number(item) + 1}`),
    (): string => line.replace(/,"key":"[^"]*"/, ""),
    (): string => line.replace(/,"drive":\d+/, ""),
    (): string => line.replace(/,"item"/, ',"drive":2,"item"'),
  ])();
}

function changeNumber(draw: Draw, data: Body): void {
  const numbers: { readonly of: Body; readonly name: string }[] = [];
  const visit = (of: Body): void => {
    for (const [name, value] of Object.entries(of)) {
      if (typeof value === "number") numbers.push({ of, name });
      if (typeof value === "object" && value !== null && !Array.isArray(value))
        visit(value as Body);
    }
  };
  visit(data);
  for (let times = 1 + draw(2); times > 0 && numbers.length > 0; times--) {
    const { of, name } = pick(draw, numbers);
    of[name] = ((of[name] as number) + 1 - 2 * draw(2)) as Json;
  }
}
