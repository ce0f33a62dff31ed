/** The messages of one item, as its attempt emits them and as they are stored with its outcome. */

/** A message to a topic from an item that succeeded or was skipped. */
export interface ItemMessage {
  /** Position in the chunk. */
  readonly index: number;
  readonly topic: string;
  /** Its number among those of the attempt, from 0; `route` for the message of the step's route. */
  readonly nth: number | "route";
  /** JSON text. */
  readonly body: string;
  /** The trace in which it was emitted, if tracing is on: see trace-parent.ts. */
  readonly traceparent?: string;
}

/** The same with the drive, which is part of its id. */
export interface DrivenMessage extends ItemMessage {
  readonly drive: number;
}
