/** The lines of a block and of its details, held against the record that the block hangs on. */
import { hashLine } from "./block.ts";
import { ensure } from "./broken-export.ts";
import type { BlockHeader } from "./chain-line.ts";
import { GrowingTree } from "./growing-tree.ts";
import { readItemLine } from "./item-line.ts";
import { digestDetails, ENGINE_STATES, type FinalState, SALT_BYTES } from "./item-record.ts";
import { ItemScanner } from "./item-scanner.ts";
import { HASH_DIGITS } from "./merkle-tree.ts";
import type { PlanCheck } from "./plan-check.ts";
import { hasMembers, isCount, isHex, type JsonObject } from "./strict-json.ts";
import type { Json } from "../core/canonical-json.ts";

const FINAL_STATES: readonly (FinalState | null)[] = ENGINE_STATES.map((state) =>
  state === "retry" ? null : state,
);

export class BlockCheck {
  readonly #plan: PlanCheck;
  readonly #scanner: ItemScanner;
  readonly #batch: string;
  readonly #tree = new GrowingTree();
  /** The digests of its records that have details, by their place. */
  readonly #digests = new Map<number, string>();
  #header: BlockHeader | null = null;
  #index = 0;
  #lastDetails = -1;
  items = 0;
  present = 0;
  withDetails = 0;

  constructor(batch: string, plan: PlanCheck) {
    this.#batch = batch;
    this.#plan = plan;
    this.#scanner = new ItemScanner(batch, plan.lane);
  }

  /** How many lines are still to come. */
  get left(): number {
    return this.#header === null ? 0 : this.#header.count - this.#index;
  }

  /** The place of the next line in its block. */
  get index(): number {
    return this.#index;
  }

  /** Begins with a block, or, with null, leaves the last one behind. */
  begin(header: BlockHeader | null): void {
    this.#header = header;
    this.#index = 0;
    this.#lastDetails = -1;
    this.#digests.clear();
    this.#tree.clear();
  }

  takeItem(buffer: Buffer, start: number, end: number): void {
    const header = this.#header as BlockHeader;
    const scanner = this.#scanner;
    if (!scanner.scan(buffer, start, end)) ensure(false, this.#explain(buffer, start, end));
    const { step, item, drive, worker, state, detailsAt } = scanner;
    ensure(step === header.step, `it is about step ${step}, its block about step ${header.step}`);
    ensure(worker === (header.worker ?? -1), "it names another worker than its block");
    if (detailsAt !== -1) {
      const digest = buffer.toString("latin1", detailsAt, detailsAt + HASH_DIGITS);
      this.#digests.set(this.#index, digest);
      this.withDetails++;
    }
    this.#plan.takeItem(step, item, drive, FINAL_STATES[state] ?? null);
    this.#tree.append(hashLine(buffer, start, end));
    this.items++;
    this.#index++;
    if (this.#index < header.count) return;
    const isRoot = this.#tree.computeRoot() === header.root;
    ensure(isRoot, "the lines of its block do not have the root that it names");
  }

  takeDetails(value: JsonObject): void {
    ensure(this.#header !== null, "there are details where no block is");
    const { i: index, salt, details } = value;
    const isShaped =
      hasMembers(value, ["details", "i", "salt"]) && isCount(index) && isHex(salt, SALT_BYTES * 2);
    ensure(isShaped, "the details of a record are malformed");
    ensure(index > this.#lastDetails, "details are there twice or out of order");
    this.#lastDetails = index;
    const digest = this.#digests.get(index);
    ensure(
      digest !== undefined,
      `there are details of record ${index} of the block, which has none`,
    );
    ensure(
      digest === digestDetails(salt, details as Json),
      `the details of record ${index} of the block are not those that were recorded`,
    );
    this.present++;
  }

  /** The plain way says what the scanner did not like. */
  #explain(buffer: Buffer, start: number, end: number): string {
    const read = readItemLine(buffer.toString("utf8", start, end));
    if (read.kind === "refused") return read.why;
    const { batch } = read.line;
    if (batch !== this.#batch) return `it is about batch ${batch}`;
    return `it names the lane ${JSON.stringify(read.line.lane)}, the batch is in another`;
  }
}
