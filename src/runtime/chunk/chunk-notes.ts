/** What happened to a chunk's items since the last report to the store. */
import { PermanentError } from "../../core/base/errors.ts";
import type {
  ItemCheckpoint,
  ItemContent,
  ItemDeferral,
  ItemFailure,
  ReportFacts,
} from "../../core/items/report.ts";
import type { ItemCommit } from "../../core/items/item-commit.ts";
import type { ItemMessage } from "../../core/items/item-message.ts";
import type { Checkpoint, ItemResult } from "../../core/items/tracked-item.ts";

type Notes = Pick<
  ReportFacts,
  | "failures"
  | "results"
  | "deferrals"
  | "checkpoints"
  | "contents"
  | "messages"
  | "commits"
  | "abandoned"
>;

export const NOTHING_NOTED: Notes = {
  failures: [],
  results: [],
  deferrals: [],
  checkpoints: [],
  contents: [],
  messages: [],
  commits: [],
  abandoned: [],
};

interface Waiter {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

const RESULT_CHARS_MAX = 1_048_576;
const CHECKPOINT_CHARS_MAX = 1_048_576;
const CHECKPOINT_NAME = /^[^\0]{1,100}$/u;

export class ChunkNotes {
  #failures: ItemFailure[] = [];
  #results: ItemResult[] = [];
  #deferrals: ItemDeferral[] = [];
  #checkpoints: (ItemCheckpoint & { readonly waiter: Waiter })[] = [];
  #contents: ItemContent[] = [];
  #messages: ItemMessage[] = [];
  #commits: ItemCommit[] = [];
  #abandoned: number[] = [];

  addFailure(failure: ItemFailure): void {
    this.#failures.push(failure);
  }

  addResult(index: number, key: string | null, value: unknown): void {
    this.#results.push({ index, key, value: writeResult(value) });
  }

  addDeferral(deferral: ItemDeferral): void {
    this.#deferrals.push(deferral);
  }

  addContent(content: ItemContent): void {
    this.#contents.push(content);
  }

  addMessages(messages: readonly ItemMessage[]): void {
    for (const message of messages) this.#messages.push(message);
  }

  addCommit(commit: ItemCommit): void {
    this.#commits.push(commit);
  }

  addAbandoned(index: number): void {
    this.#abandoned.push(index);
  }

  /** `saved` resolves when the store has committed the checkpoint. */
  addCheckpoint(
    index: number,
    key: string | null,
    checkpoint: Checkpoint,
  ): { readonly saved: Promise<void> } {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#checkpoints.push({ index, key, ...checkpoint, waiter: { resolve, reject } });
    return { saved: promise };
  }

  get hasCheckpoints(): boolean {
    return this.#checkpoints.length > 0;
  }

  /** For a report. The lists are copies: handlers add more while the report is being sent. */
  list(): Notes {
    return {
      failures: [...this.#failures],
      results: [...this.#results],
      deferrals: [...this.#deferrals],
      checkpoints: this.#checkpoints.map(({ index, key, name, data }) => ({
        index,
        key,
        name,
        data,
      })),
      contents: [...this.#contents],
      messages: [...this.#messages],
      commits: [...this.#commits],
      abandoned: [...this.#abandoned],
    };
  }

  /** Drops what a report listed, now that the store has it. */
  forget(reported: Notes): void {
    this.#failures = this.#failures.slice(reported.failures.length);
    this.#results = this.#results.slice(reported.results.length);
    this.#deferrals = this.#deferrals.slice(reported.deferrals.length);
    this.#contents = this.#contents.slice(reported.contents.length);
    this.#messages = this.#messages.slice(reported.messages.length);
    this.#commits = this.#commits.slice(reported.commits.length);
    this.#abandoned = this.#abandoned.slice(reported.abandoned.length);
    for (const { waiter } of this.#checkpoints.splice(0, reported.checkpoints.length)) {
      waiter.resolve();
    }
  }

  /** No report will be made any more: rejects the handlers that wait for a checkpoint. */
  giveUp(error: Error): void {
    for (const { waiter } of this.#checkpoints.splice(0)) waiter.reject(error);
  }
}

export function writeCheckpoint(name: string, data: unknown): Checkpoint {
  if (!CHECKPOINT_NAME.test(name)) {
    throw new PermanentError("a checkpoint's name has 1 to 100 characters", {
      code: "BAD_CHECKPOINT",
    });
  }
  const text = writeJson(data ?? null, "a checkpoint's data", "BAD_CHECKPOINT");
  if (text.length <= CHECKPOINT_CHARS_MAX) return { name, data: text };
  throw new PermanentError(
    `the checkpoint ${JSON.stringify(name)} has ${text.length} characters, over the limit of ${CHECKPOINT_CHARS_MAX}; keep large data elsewhere`,
    { code: "BAD_CHECKPOINT" },
  );
}

function writeResult(value: unknown): string {
  const text = writeJson(value, "its result", "BAD_RESULT");
  if (text.length <= RESULT_CHARS_MAX) return text;
  throw new PermanentError(
    `its result has ${text.length} characters, over the limit of ${RESULT_CHARS_MAX}; return plain data or nothing, and keep large values elsewhere`,
    { code: "BAD_RESULT" },
  );
}

export function writeJson(value: unknown, what: string, code: string): string {
  const remedy = "return plain data or nothing, and keep large values elsewhere";
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    throw new PermanentError(
      `${what} cannot be written as JSON: ${(error as Error).message}; ${remedy}`,
      { code },
    );
  }
  if (text !== undefined) return text;
  throw new PermanentError(`${what} is a ${typeof value}, which JSON does not have; ${remedy}`, {
    code,
  });
}
