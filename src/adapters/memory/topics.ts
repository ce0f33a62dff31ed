/** Messages of topics on the reference model. */
import { readGroupName } from "../../core/events/reader-name.ts";
import { listMessages, type NewMessage } from "../../core/events/topic.ts";
import type { ChunkEffect } from "../../core/items/tracked-item.ts";
import { listUnsent } from "../../core/events/unsent.ts";
import type { Clock } from "../../ports/clock.ts";
import {
  PAGE_CHARS_MAX,
  type StoredMessage,
  type TopicView,
} from "../../ports/store/topic-store.ts";
import { type Batch, type Chunk, currentStep, type State, type Step } from "./state.ts";

export class Topics {
  readonly #state: State;
  readonly #clock: Clock;

  constructor(state: State, clock: Clock) {
    this.#state = state;
    this.#clock = clock;
  }

  /** Writes the messages of a chunk's items, with the effect that sets their outcomes. */
  write({ submission, steps }: Batch, step: Step, { start }: Chunk, effect: ChunkEffect): void {
    const origin = {
      batch: submission.id,
      step: steps.indexOf(step),
      stepName: step.settings.name,
      errorsTopic: step.settings.errorsTopic ?? null,
      start,
    };
    this.add(listMessages(origin, effect));
  }

  /** Continues the `unsent` messages of batches that ended early; true when there were any. */
  writeUnsent(): boolean {
    const stopped = [...this.#state.batches.values()].filter((one) => one.unsentAfter !== null);
    for (const batch of stopped) {
      const { submission, step, drive, unsentAfter } = batch;
      const { settings, chunks } = currentStep(batch);
      const topic = settings.unsentTopic ?? "";
      const origin = { batch: submission.id, step, stepName: settings.name, topic, drive };
      const { messages, next } = listUnsent(
        origin,
        chunks.map((chunk) => ({ ...chunk, readLines: () => splitLines(chunk.manifest) })),
        unsentAfter ?? -1,
      );
      this.add(messages);
      batch.unsentAfter = next;
    }
    return stopped.length > 0;
  }

  add(messages: readonly NewMessage[]): void {
    for (const message of messages) {
      const position = ++this.#state.messagesKept;
      this.#state.messages.push({ position, ...message, at: this.#clock.wallMs() });
    }
  }

  read(topic: string, after: number, limit: number): StoredMessage[] {
    const found = this.#state.messages
      .filter((message) => message.topic === topic && message.position > after)
      .slice(0, limit);
    let chars = 0;
    const over = found.findIndex(({ body }, at) => {
      chars += body.length;
      return at > 0 && chars > PAGE_CHARS_MAX;
    });
    return over === -1 ? found : found.slice(0, over);
  }

  list(): TopicView[] {
    const names = new Set(this.#state.messages.map(({ topic }) => topic));
    for (const reader of this.#state.positions.keys()) {
      const group = readGroupName(reader);
      if (group !== null) names.add(group.topic);
    }
    return [...names].toSorted(byCode).map((topic) => this.#view(topic));
  }

  #view(topic: string): TopicView {
    const messages = this.#state.messages.filter((message) => message.topic === topic);
    return {
      topic,
      messages: messages.length,
      firstPosition: messages[0]?.position ?? 0,
      lastPosition: messages.at(-1)?.position ?? 0,
      groups: this.#listGroups(topic)
        .toSorted((a, b) => byCode(a.group, b.group))
        .map(({ group, position }) => ({
          group,
          position,
          lag: messages.filter((message) => message.position > position).length,
        })),
    };
  }

  hasGroups(topic: string): boolean {
    return this.#listGroups(topic).length > 0;
  }

  #listGroups(topic: string): { readonly group: string; readonly position: number }[] {
    return [...this.#state.positions].flatMap(([reader, position]) => {
      const name = readGroupName(reader);
      return name?.topic === topic ? [{ group: name.group, position }] : [];
    });
  }

  /**
   * Removes messages from the beginning of each topic that are older than a time and that no reader
   * needs; returns how many. Stops at the first message that is too young.
   */
  prune(before: number, dryRun: boolean): number {
    const gone = new Set<StoredMessage>();
    for (const { topic } of this.list()) {
      const reached = Math.min(...this.#listGroups(topic).map(({ position }) => position));
      for (const message of this.#state.messages) {
        if (message.topic !== topic) continue;
        if (message.at >= before || message.position > reached) break;
        if (!this.#hasLetter(message)) gone.add(message);
      }
    }
    if (dryRun) return gone.size;
    const kept = this.#state.messages.filter((message) => !gone.has(message));
    this.#state.messages.splice(0, this.#state.messages.length, ...kept);
    return gone.size;
  }

  #hasLetter({ topic, position }: StoredMessage): boolean {
    return this.#state.undelivered.some(
      (one) => one.position === position && readGroupName(one.reader)?.topic === topic,
    );
  }
}

/** The order in which SQL compares texts. */
function byCode(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function splitLines(manifest: Uint8Array | null): readonly string[] | null {
  return manifest === null ? null : new TextDecoder().decode(manifest).split("\n");
}
