/**
 * Lets one suspect run with nothing beside it in the whole process: every item loop joins, and a
 * guarded run pauses all members while its suspect runs.
 */
export interface Pausable {
  /** Resolves when nothing runs any more. */
  pause(): Promise<void>;
  resume(): void;
}

export class ExclusiveRun {
  readonly #members = new Set<Pausable>();
  #last: Promise<void> = Promise.resolve();

  join(member: Pausable): () => void {
    this.#members.add(member);
    return () => void this.#members.delete(member);
  }

  /** Runs an act while every member is paused; one act at a time. */
  async runAlone(act: () => Promise<void>): Promise<void> {
    const turn = this.#last.then(async () => {
      const members = [...this.#members];
      await Promise.all(members.map((member) => member.pause()));
      try {
        await act();
      } finally {
        for (const member of members) member.resume();
      }
    });
    this.#last = turn.catch(() => undefined);
    return turn;
  }
}
