/** The messages of one item, as its attempt leaves them and as they are stored with its outcome. */

/** What an item leaves in a topic when it has succeeded or was skipped. */
export interface ItemMessage {
  /** Position in the chunk. */
  readonly index: number;
  readonly topic: string;
  /** Its number among those of the attempt, from 0; `route` for what the step's route sends. */
  readonly nth: number | "route";
  /** JSON text. */
  readonly body: string;
  /** The trace in which it was emitted, where somebody traces: see trace-parent.ts. */
  readonly traceparent?: string;
}

/** The same with the drive that its id needs. */
export interface DrivenMessage extends ItemMessage {
  readonly drive: number;
}
