/**
 * A second verifier, written only from the page about the format: the whole file in memory, plain
 * objects, trees by recursion. It shares no code with the first, and returns only yes or the reason
 * why not.
 */
import { createPublicKey, type KeyObject, verify } from "node:crypto";
import { leafOf, rootOf } from "./ledger-forger.ts";
import { checkChange, COUNT_NAMES, countsOf, rangesOf } from "./naive-data.ts";
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
const OUTCOMES = ["succeeded", "skipped", "failed"];

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
  seen: Set<number>;
}

class NaiveVerifier {
  readonly #lines: string[];
  readonly #options: NaiveOptions;
  readonly #keys = new Map<string, { key: KeyObject; trusted: boolean }>();
  readonly #steps = new Map<number, Step>();
  readonly #fences = new Map<string, { fence: number; block: number; lost: boolean }>();
  #batch = "";
  #lane = "";
  #drive = 1;
  #ended = false;
  #withItems = false;
  /** Redriven items without a record of the redrive; by the drives that they name. */
  #backAtWork: number[] = [];
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
    must(by !== undefined, "a key that no other key introduced");
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
    let lastSignedHash = ZEROS;
    let signedTo = 0;
    let items = 0;
    /** Details may follow until another line does. */
    let digests: (string | undefined)[] | null = null;
    let lastDetails = -1;
    while (lines.length > 0) {
      const line = lines.shift() ?? "";
      if (leaves.length > 0 && line.startsWith('{"end":')) {
        const end = parse(line);
        only(end, "end");
        only(end["end"] as Fields, "items records");
        must(spell(end["end"]) === spell({ items, records: leaves.length }), "wrong end");
        must(lines.length === 0, "lines after the end");
        for (const { body } of mine) must(met.has(body), "an anchor is missing");
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
      if (leaves.length > 0 && line.startsWith('{"head":')) {
        const { body, signature } = signedOf(parse(line), "head");
        const point = parse(body);
        only(point, "at batch head key prev root size v");
        must(point["v"] === 1 && INSTANT.test(String(point["at"])), "bad signed head");
        must(typeof point["at"] === "string" && point["batch"] === this.#batch, "bad signed head");
        must(point["size"] === leaves.length && leaves.length > signedTo, "wrong size");
        must(point["head"] === head && point["prev"] === lastSignedHash, "wrong link");
        must(point["root"] === rootOf(leaves).toString("hex"), "wrong root");
        const by = this.#keys.get(String(point["key"]));
        must(by?.trusted === true && typeof point["key"] === "string", "not trusted");
        const said = Buffer.from(`sluice-signed-head\n${body}`);
        must(verify(null, said, by.key, signature), "not signed");
        lastSignedHash = sha(body);
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
      checkChange(data);
      this.#checkLease(data);
      const header = data["block"] as { count: number; root: string } | undefined;
      if (header !== undefined) {
        const block = lines.splice(0, header.count);
        must(block.length === header.count, "cut in a block");
        must(rootOf(block.map(leafOf)).toString("hex") === header.root, "another block");
        digests = block.map((text) => this.#checkItem(text, data));
        lastDetails = -1;
        items += block.length;
      }
      this.#applyChange(data);
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
    const isSaid = type === "items.recorded" || type === "dead_letters.redriven";
    must(isSaid || this.#backAtWork.length === 0, "redriven without a record");
    this.#account(type, data);
    this.#lastType = type;
  }

  #checkLease(data: Fields): void {
    const { step, chunk, fence } = data as Record<string, number>;
    const block = data["block"] as { number: number } | undefined;
    const name = `${step}/${chunk}`;
    const known = this.#fences.get(name) ?? { fence: 0, block: 0, lost: false };
    must(fence! >= known.fence, "a stale fence");
    const before = fence! > known.fence ? { fence, block: 0, lost: false } : known;
    if (data["cause"] === undefined && data["drive"] === undefined) {
      must(!before.lost, "under a lease that was lost");
      must(block === undefined || block.number > before.block, "a block twice");
    }
    const lost = data["cause"] === "lost" || before.lost;
    this.#fences.set(name, { fence: fence!, block: block?.number ?? before.block, lost });
  }

  #applyChange(data: Fields): void {
    must(this.#withItems, "no ledger of items");
    const step = this.#step(data["step"]);
    if (data["redriven"] !== undefined) {
      for (const item of rangesOf(data["redriven"])) {
        must(step.outcomes.get(item) === "failed", "a redriven item had not failed");
        step.outcomes.delete(item);
        this.#backAtWork.push(Number(data["drive"]));
      }
      must(Number(data["drive"]) > this.#drive, "an old drive");
      return;
    }
    must(this.#backAtWork.length === 0, "redriven without a record");
    must(!this.#ended, "items after the end");
    const { retried = [], failed = [] } = data as Record<string, Fields[]>;
    for (const one of [...retried, ...failed]) {
      must(Number(one["drive"] ?? 1) <= this.#drive, "a later drive");
      this.#noteItem(step, Number(one["item"]));
    }
    const end = (word: string, items: readonly number[]): void => {
      for (const item of items) {
        this.#noteItem(step, item);
        must(word === "failed" || step.seen.has(item), "no record of its own");
        step.outcomes.set(item, word);
      }
    };
    end("succeeded", rangesOf(data["succeeded"]));
    end("skipped", rangesOf(data["skipped"]));
    end(
      "failed",
      failed.map(({ item }) => Number(item)),
    );
  }

  #checkItem(text: string, header: Fields): string | undefined {
    const line = parse(text);
    only(line, "at attempt batch item lane state step v worker", "content details drive key");
    must(typeof line["at"] === "string" && INSTANT.test(line["at"]), "no time");
    must(
      line["v"] === 1 && line["batch"] === this.#batch && line["lane"] === this.#lane,
      "strange",
    );
    must(line["step"] === header["step"], "another step");
    must(line["worker"] === header["worker"], "another worker");
    for (const name of ["attempt", "item"]) must(isWhole(line[name]), name);
    must(line["key"] === undefined || typeof line["key"] === "string", "no key");
    must(isWhole(line["worker"]), "no worker");
    for (const name of ["content", "details"]) {
      must(line[name] === undefined || isHexOf(line[name], 64), name);
    }
    const drive = line["drive"] ?? 1;
    must(isWhole(drive) && (line["drive"] === undefined || drive > 1), "no drive");
    must(drive <= this.#drive, "a later drive");
    must(typeof line["state"] === "string" && line["state"] !== "", "no state");
    const step = this.#step(Number(line["step"]));
    this.#noteItem(step, Number(line["item"]));
    step.seen.add(Number(line["item"]));
    return line["details"] as string | undefined;
  }

  /** Only an item without an outcome may have records. */
  #noteItem(step: Step, item: number): void {
    must(!step.ended, "the step has ended");
    must(step.planned === null || item < step.planned, "outside of the plan");
    must(!step.outcomes.has(item), "a second outcome");
    this.#highest.set(step, Math.max(this.#highest.get(step) ?? -1, item));
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
      seen: new Set<number>(),
    };
    this.#steps.set(number, step);
    return step;
  }

  #plan(step: Step, items: number): void {
    must(step.planned === null || items >= step.planned, "a plan that shrinks");
    must((this.#highest.get(step) ?? -1) < items, "an item outside of the plan");
    step.planned = items;
  }

  #account(type: string, data: Fields): void {
    const { step, drive, items, counts, state } = data;
    switch (type) {
      case "batch.submitted":
        must(typeof data["lane"] === "string", "no lane");
        this.#lane = data["lane"];
        this.#withItems = data["itemLedger"] === true;
        return;
      case "batch.started":
        must(isWhole(step) && drive === this.#drive && !this.#ended, "an invalid start");
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
      case "dead_letters.redriven":
        must(isWhole(drive) && drive > this.#drive && isWhole(items), "an invalid redrive");
        this.#drive = drive;
        if (!this.#withItems) return;
        must(this.#backAtWork.length === items, "a wrong number of redriven items");
        must(items === 0 || this.#backAtWork.at(-1) === drive, "another drive");
        this.#backAtWork = [];
        return;
      case "batch.reopened":
        must(this.#ended && drive === this.#drive && isWhole(step), "an invalid reopening");
        this.#ended = false;
        this.#current = step;
        for (const [number, one] of this.#steps) if (number >= step) one.ended = false;
        return;
      case "step.ended":
        this.#endStep(this.#step(step), step === 0, countsOf(counts));
        return;
      case "batch.ended":
        must(drive === this.#drive && !this.#ended, "an invalid end");
        this.#endBatch(String(state), countsOf(counts));
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
      for (const word of OUTCOMES) must(counts[word] === this.#tally(step, word), `other ${word}`);
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
    for (const step of whole ? steps : []) {
      must(step.counts !== null, "a step did not end");
      must(step.counts["planned"] === (step.planned ?? step.counts["planned"]), "it grew");
      if (!this.#withItems) continue;
      for (const word of OUTCOMES) must(step.counts[word] === this.#tally(step, word), "not anew");
    }
    const known = steps.reduce((sum, { planned }) => sum + (planned ?? 0), 0);
    must(counts["planned"]! >= known, "less than was planned");
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
    for (const word of OUTCOMES) {
      must(counts[word] === add((step) => this.#tally(step, word)), "not the sum of its items");
    }
  }
}
