/**
 * A second verifier, written from the page of the format and from nothing else of the first: the
 * whole file in memory, plain objects, trees by recursion. It only says yes or why not.
 */
import { createPublicKey, type KeyObject, verify } from "node:crypto";
import { leafOf, rootOf } from "./ledger-forger.ts";
import {
  type Fields,
  isHexOf,
  isWhole,
  must,
  only,
  parse,
  sha,
  signedOf,
  spell,
} from "./naive-json.ts";

const ZEROS = "0".repeat(64);
const INSTANT = /^\d\d\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ$/;
const COUNT_NAMES = ["cancelled", "failed", "pending", "planned", "skipped", "succeeded"];

export interface NaiveOptions {
  /** The public key that is trusted, as PEM. */
  readonly pem: string;
  readonly anchors?: readonly string[];
}

/** Null when the export is intact. */
export function verifyNaively(bytes: Buffer, options: NaiveOptions): string | null {
  try {
    new NaiveVerifier(bytes, options).run();
    return null;
  } catch (error) {
    return String(error);
  }
}

interface Step {
  planned: number | null;
  ended: boolean;
  counts: Record<string, number> | null;
  outcomes: Map<number, string>;
  credit: number;
}

class NaiveVerifier {
  readonly #lines: string[];
  readonly #options: NaiveOptions;
  readonly #keys = new Map<string, { key: KeyObject; trusted: boolean }>();
  readonly #steps = new Map<number, Step>();
  readonly #fences = new Map<string, { fence: number; block: number }>();
  #batch = "";
  #lane = "";
  #drive = 1;
  #ended = false;
  #withItems = false;
  #credit = 0;
  #current = 0;
  #slicing: number | null = null;
  #lastType = "";

  constructor(bytes: Buffer, options: NaiveOptions) {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    must(text.endsWith("\n"), "cut");
    this.#lines = text.slice(0, -1).split("\n");
    this.#options = options;
    const key = createPublicKey(options.pem);
    this.#keys.set(sha(key.export({ type: "spki", format: "der" })).slice(0, 16), {
      key,
      trusted: true,
    });
  }

  run(): void {
    const lines = [...this.#lines];
    const header = parse(lines.shift() ?? "");
    only(header, "batch ledger");
    must(header["ledger"] === 1 && typeof header["batch"] === "string", "no header");
    this.#batch = header["batch"];
    while (lines[0]?.startsWith('{"key":')) this.#introduce(parse(lines.shift() ?? ""));
    this.#readRecords(lines);
  }

  #introduce(line: Fields): void {
    const { body, signature } = signedOf(line, "key");
    const { v, key: id, public: spki, prev, at } = parse(body);
    only(parse(body), "at key prev public v");
    must(v === 1 && INSTANT.test(String(at)) && typeof at === "string", "bad statement");
    must(typeof id === "string" && typeof spki === "string", "bad statement");
    const key = createPublicKey({ key: Buffer.from(spki, "hex"), format: "der", type: "spki" });
    must(key.asymmetricKeyType === "ed25519", "not ed25519");
    const der = key.export({ type: "spki", format: "der" });
    must(der.toString("hex") === spki && sha(der).slice(0, 16) === id, "not its id");
    const by = prev === null ? { key, trusted: false } : this.#keys.get(prev as string);
    must(by !== undefined, "introduced by nobody");
    must(verify(null, Buffer.from(`sluice-key\n${body}`), by.key, signature), "not signed");
    const known = this.#keys.get(id);
    must(known === undefined || known.key.equals(key), "two keys of one id");
    this.#keys.set(id, { key, trusted: by.trusted || known?.trusted === true });
  }

  #readRecords(lines: string[]): void {
    const leaves: Buffer[] = [];
    const anchors = (this.#options.anchors ?? []).map((body): Fields => ({ body, ...parse(body) }));
    const mine = anchors.filter(({ batch }) => batch === this.#batch);
    const met = new Set<unknown>();
    let head = ZEROS;
    let checkpointHead = ZEROS;
    let signedTo = 0;
    let items = 0;
    /** Details may follow until something else does. */
    let digests: (string | undefined)[] | null = null;
    let lastDetails = -1;
    while (lines.length > 0) {
      const line = lines.shift() ?? "";
      if (leaves.length > 0 && line.startsWith('{"end":')) {
        const end = parse(line);
        only(end, "end");
        only(end["end"] as Fields, "items records");
        must(spell(end["end"]) === spell({ items, records: leaves.length }), "wrong end");
        must(lines.length === 0, "more behind the end");
        for (const { body } of mine) must(met.has(body), "an anchor is not there");
        return;
      }
      if (leaves.length > 0 && line.startsWith('{"details":')) {
        const { details, i, salt } = parse(line);
        only(parse(line), "details i salt");
        must(digests !== null && isWhole(i) && isHexOf(salt, 32), "strange details");
        must(i > lastDetails, "details out of order");
        lastDetails = i;
        const bytes = [Buffer.from(String(salt), "hex"), Buffer.from(spell(details))];
        must(digests[i] === sha(Buffer.concat(bytes)), "other details");
        continue;
      }
      digests = null;
      if (leaves.length > 0 && line.startsWith('{"checkpoint":')) {
        const { body, signature } = signedOf(parse(line), "checkpoint");
        const point = parse(body);
        only(point, "at batch head key prev root size v");
        must(point["v"] === 1 && INSTANT.test(String(point["at"])), "bad checkpoint");
        must(typeof point["at"] === "string" && point["batch"] === this.#batch, "bad checkpoint");
        must(point["size"] === leaves.length && leaves.length > signedTo, "wrong size");
        must(point["head"] === head && point["prev"] === checkpointHead, "wrong link");
        must(point["root"] === rootOf(leaves).toString("hex"), "wrong root");
        const by = this.#keys.get(String(point["key"]));
        must(by?.trusted === true && typeof point["key"] === "string", "not trusted");
        const said = Buffer.from(`sluice-checkpoint\n${body}`);
        must(verify(null, said, by.key, signature), "not signed");
        checkpointHead = sha(body);
        signedTo = leaves.length;
        met.add(body);
        continue;
      }
      const record = parse(line);
      this.#checkRecord(record, leaves.length + 1, head);
      head = sha(line);
      leaves.push(leafOf(line));
      for (const anchor of mine) {
        if (anchor["size"] !== leaves.length) continue;
        must(anchor["head"] === head, "another history");
        must(anchor["root"] === rootOf(leaves).toString("hex"), "another history");
      }
      if (record["type"] !== "items.recorded") continue;
      const data = record["data"] as Fields;
      const block = lines.splice(0, this.#checkHeader(data));
      must(block.length === data["count"], "cut in a block");
      must(rootOf(block.map(leafOf)).toString("hex") === data["root"], "another block");
      digests = block.map((text) => this.#checkItem(text, data));
      lastDetails = -1;
      items += block.length;
    }
    must(false, "no end");
  }

  #checkRecord(record: Fields, seq: number, head: string): void {
    only(record, "at batch data prev seq type v");
    must(record["v"] === 1 && record["seq"] === seq && record["prev"] === head, "no link");
    must(record["batch"] === this.#batch, "another batch");
    must(typeof record["at"] === "string" && INSTANT.test(record["at"]), "no time");
    const { type, data } = record as { type: unknown; data: Fields };
    must(typeof type === "string", "no type");
    must(typeof data === "object" && data !== null && !Array.isArray(data), "no data");
    must((type === "batch.submitted") === (seq === 1), "a batch begins once");
    this.#account(type, data);
    this.#lastType = type;
  }

  #checkHeader(data: Fields): number {
    only(data, "block chunk count fence root step worker");
    for (const name of ["block", "chunk", "count", "fence", "step"])
      must(isWhole(data[name]), name);
    must(data["worker"] === null || isWhole(data["worker"]), "no worker");
    must(data["count"] !== 0, "an empty block");
    const { step, chunk, fence, block } = data as Record<string, number>;
    const before = this.#fences.get(`${step}/${chunk}`) ?? { fence: 0, block: 0 };
    must(fence! >= before.fence, "a stale fence");
    const last = fence! > before.fence ? 0 : before.block;
    const isReport = data["worker"] !== null;
    if (isReport && fence === before.fence) must(block! > last, "a report twice");
    this.#fences.set(`${step}/${chunk}`, { fence: fence!, block: isReport ? block! : last });
    return Number(data["count"]);
  }

  #checkItem(text: string, header: Fields): string | undefined {
    const line = parse(text);
    only(line, "at attempt batch item lane state step v", "code content details drive key worker");
    must(typeof line["at"] === "string" && INSTANT.test(line["at"]), "no time");
    must(
      line["v"] === 1 && line["batch"] === this.#batch && line["lane"] === this.#lane,
      "strange",
    );
    must(line["step"] === header["step"], "another step");
    must((line["worker"] ?? null) === header["worker"], "another worker");
    for (const name of ["attempt", "item"]) must(isWhole(line[name]), name);
    for (const name of ["code", "key"]) {
      must(line[name] === undefined || typeof line[name] === "string", name);
    }
    must(line["worker"] === undefined || isWhole(line["worker"]), "no worker");
    for (const name of ["content", "details"]) {
      must(line[name] === undefined || isHexOf(line[name], 64), name);
    }
    const drive = line["drive"] ?? 1;
    must(isWhole(drive) && (line["drive"] === undefined || drive > 1), "no drive");
    must(drive <= this.#drive, "a later drive");
    must(typeof line["state"] === "string" && line["state"] !== "", "no state");
    this.#noteItem(this.#step(Number(line["step"])), Number(line["item"]), drive, line["state"]);
    return line["details"] as string | undefined;
  }

  #noteItem(step: Step, item: number, drive: number, state: string): void {
    must(!step.ended, "the step has ended");
    must(step.planned === null || item < step.planned, "outside of the plan");
    const before = step.outcomes.get(item);
    if (before !== undefined) {
      must(before === "failed" && drive > 1 && step.credit + this.#credit > 0, "a second outcome");
    }
    this.#highest.set(step, Math.max(this.#highest.get(step) ?? -1, item));
    if (!["succeeded", "skipped", "failed"].includes(state)) return;
    step.outcomes.set(item, state);
    if (before === undefined) return;
    if (step.credit > 0) step.credit--;
    else this.#credit--;
  }

  readonly #highest = new Map<Step, number>();

  #step(number: unknown): Step {
    must(isWhole(number) && number < 10_000, "no step");
    const known = this.#steps.get(number);
    const step = known ?? {
      planned: null,
      ended: false,
      counts: null,
      outcomes: new Map<number, string>(),
      credit: 0,
    };
    this.#steps.set(number, step);
    return step;
  }

  #plan(step: Step, items: number): void {
    must(step.planned === null || items >= step.planned, "a plan that shrinks");
    must((this.#highest.get(step) ?? -1) < items, "an item outside of the plan");
    step.planned = items;
  }

  #counts(value: unknown): Record<string, number> {
    only(value as Fields, COUNT_NAMES.join(" "));
    const counts = value as Record<string, number>;
    for (const name of COUNT_NAMES) must(isWhole(counts[name]), name);
    const { planned, succeeded, skipped, failed, cancelled, pending } = counts;
    must(planned === succeeded! + skipped! + failed! + cancelled!, "not conserved");
    must(pending === 0, "something is pending");
    return counts;
  }

  #account(type: string, data: Fields): void {
    const { step, drive, items, counts, state } = data;
    switch (type) {
      case "batch.submitted":
        must(typeof data["lane"] === "string", "no lane");
        this.#lane = data["lane"];
        this.#withItems = data["ledger"] === "items";
        return;
      case "batch.started":
        must(isWhole(step) && drive === this.#drive && !this.#ended, "a strange start");
        this.#current = step;
        return;
      case "slicing.started":
        this.#step(step);
        this.#slicing = Number(step);
        this.#current = Number(step);
        return;
      case "slicing.finished":
        must(isWhole(items), "no plan");
        this.#step(step);
        if (step !== 0 || items > 0) this.#plan(this.#step(step), items);
        this.#slicing = null;
        return;
      case "slicing.aborted":
        if (this.#slicing !== null) this.#step(this.#slicing).planned = null;
        this.#slicing = null;
        return;
      case "batch.sealed":
        must(isWhole(items), "no plan");
        this.#plan(this.#step(this.#current), items);
        return;
      case "items.recorded":
        must(!this.#ended, "items after the end");
        this.#withItems = true;
        return;
      case "dead_letters.redriven":
        must(isWhole(drive) && drive > this.#drive && isWhole(items), "a strange redrive");
        this.#drive = drive;
        if (step === undefined) this.#credit += items;
        else this.#step(step).credit += items;
        return;
      case "batch.reopened":
        must(this.#ended && drive === this.#drive && isWhole(step), "a strange reopening");
        this.#ended = false;
        this.#current = step;
        for (const [number, one] of this.#steps) if (number >= step) one.ended = false;
        return;
      case "step.ended":
        this.#endStep(this.#step(step), step === 0, this.#counts(counts));
        return;
      case "batch.ended":
        must(drive === this.#drive && !this.#ended, "a strange end");
        this.#endBatch(String(state), this.#counts(counts));
        must(typeof state === "string", "no state");
        this.#ended = true;
        break;
      default:
    }
  }

  #tally(step: Step, word: string): number {
    return [...step.outcomes.values()].filter((one) => one === word).length;
  }

  #endStep(step: Step, isFirst: boolean, counts: Record<string, number>): void {
    must(!this.#ended, "a step after the end");
    if (step.planned !== null) must(counts["planned"] === step.planned, "another plan");
    else if (!isFirst || counts["planned"]! > 0) this.#plan(step, counts["planned"]!);
    if (this.#withItems) {
      must(counts["succeeded"] === this.#tally(step, "succeeded"), "other successes");
      must(counts["skipped"] === this.#tally(step, "skipped"), "other skips");
      const left = this.#tally(step, "failed") - step.credit - counts["failed"]!;
      must(left >= 0 && left <= this.#credit, "other failures");
    }
    for (const name of ["succeeded", "skipped"]) {
      must(counts[name]! >= (step.counts?.[name] ?? 0), "fewer than before");
    }
    step.counts = counts;
    step.ended = true;
  }

  #endBatch(state: string, counts: Record<string, number>): void {
    const words = ["succeeded", "completed_with_errors", "failed", "cancelled", "expired"];
    must(words.includes(state), "no such ending");
    const whole = state === "succeeded" || state === "completed_with_errors";
    if (whole) {
      must(counts["cancelled"] === 0, "cancelled");
      must(counts["failed"]! > 0 === (state === "completed_with_errors"), "not honest");
    }
    const steps = [...this.#steps.values()];
    const add = (of: (step: Step) => number): number =>
      steps.reduce((sum, one) => sum + of(one), 0);
    for (const name of COUNT_NAMES) {
      const sum = add((step) => step.counts?.[name] ?? 0);
      const stays = name === "succeeded" || name === "skipped";
      if (whole || (stays && this.#lastType === "batch.drained")) {
        must(counts[name] === sum, "not the sum of its steps");
      } else if (stays) must(counts[name]! >= sum, "less than its steps");
    }
    if (!this.#withItems) return;
    for (const word of ["succeeded", "skipped"]) {
      must(counts[word] === add((step) => this.#tally(step, word)), "not the sum of its items");
    }
    const failed = add((step) => this.#tally(step, "failed") - step.credit) - this.#credit;
    must(counts["failed"] === failed, "not the sum of its failures");
  }
}
