/** Compares the lines of a block and of its details with the record of the block. */
import { hashLine } from "../format/block.ts";
import { ensure, refuse } from "./broken-export.ts";
import { GrowingTree } from "../format/growing-tree.ts";
import { readItemLine } from "../format/item-line.ts";
import { digestDetails, SALT_BYTES } from "../format/item-record.ts";
import { ItemScanner } from "./item-scanner.ts";
import type { ItemsChange } from "../format/items-change.ts";
import { HASH_DIGITS } from "../format/merkle-tree.ts";
import type { PlanCheck } from "./plan-check.ts";
import { hasMembers, isCount, isHex, type JsonObject, show } from "../format/strict-json.ts";
import type { Json } from "../../core/base/canonical-json.ts";

export class BlockCheck {
  readonly #plan: PlanCheck;
  readonly #scanner: ItemScanner;
  readonly #batch: string;
  readonly #tree = new GrowingTree();
  /** The digests of records with details, by position. */
  readonly #digests = new Map<number, string>();
  /** The change of the record that the block belongs to. */
  #change: ItemsChange | null = null;
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

  /** How many lines are still missing. */
  get left(): number {
    return (this.#change?.block?.count ?? 0) - this.#index;
  }

  /** The position of the next line in its block. */
  get index(): number {
    return this.#index;
  }

  /** Starts the block of a change, if it has one; with null, drops the last one. */
  begin(change: ItemsChange | null): void {
    this.#change = (change?.block ?? null) === null ? null : change;
    this.#index = 0;
    this.#lastDetails = -1;
    this.#digests.clear();
    this.#tree.clear();
  }

  takeItem(buffer: Buffer, start: number, end: number): void {
    const header = this.#change as ItemsChange;
    const scanner = this.#scanner;
    if (!scanner.scan(buffer, start, end)) refuse(this.#explain(buffer, start, end));
    const { step, item, drive, worker, detailsAt } = scanner;
    if (step !== header.step) {
      refuse(`it is about step ${step}, its block about step ${header.step}`);
    }
    ensure(worker === header.worker, "it names another worker than its block");
    if (detailsAt !== -1) {
      const digest = buffer.toString("latin1", detailsAt, detailsAt + HASH_DIGITS);
      this.#digests.set(this.#index, digest);
      this.withDetails++;
    }
    this.#plan.takeState(step, item, drive);
    this.#tree.append(hashLine(buffer, start, end));
    this.items++;
    this.#index++;
  }

  /** Whether its lines, all of which were read, match the root in the record of the chain. */
  hasItsRoot(): boolean {
    return this.#tree.computeRoot() === this.#change?.block?.root;
  }

  takeDetails(value: JsonObject): void {
    ensure(this.#change !== null, "there are details without a block");
    const { i: index, salt, details } = value;
    const isShaped =
      hasMembers(value, ["details", "i", "salt"]) && isCount(index) && isHex(salt, SALT_BYTES * 2);
    ensure(isShaped, "the details of a record are malformed");
    ensure(index > this.#lastDetails, "details are repeated or out of order");
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

  /** The simple check explains what the scanner did not accept. */
  #explain(buffer: Buffer, start: number, end: number): string {
    const read = readItemLine(buffer.toString("utf8", start, end));
    if (read.kind === "refused") return read.why;
    const { batch } = read.line;
    if (batch !== this.#batch) return `it is about batch ${show(batch)}`;
    return `it names the lane ${show(read.line.lane)}, the batch is in another`;
  }
}
