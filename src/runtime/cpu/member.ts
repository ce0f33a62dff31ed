/**
 * A member of a pool: a process or a thread that runs one task at a time. If it ends during a task,
 * that is a death. What a task returns or throws is an answer.
 */
import type { Transferable } from "node:worker_threads";
import type { WrittenThrown } from "./thrown.ts";

/** What a member is asked to run. */
export interface CpuRequest {
  /** The URL of the module's file. */
  readonly module: string;
  readonly exportName: string;
  readonly data: unknown;
}

export type CpuAnswer =
  | { readonly kind: "returned"; readonly value: unknown }
  | { readonly kind: "threw"; readonly thrown: WrittenThrown };

/** The member has ended during a task. Its message continues a sentence after "it". */
export class MemberDeath extends Error {
  override readonly name = "MemberDeath";
}

export interface Member {
  /** The process, whose memory the pool can read from outside; null for a thread. */
  readonly pid: number | null;
  /** Resolves when the member has ended, for whatever reason. */
  readonly gone: Promise<void>;
  /** Rejects with a `MemberDeath` if the member dies during the task. */
  run(request: CpuRequest, transfer: readonly Transferable[]): Promise<CpuAnswer>;
  /** Kills the member at once. `how` becomes the message of its death. */
  kill(how: string): void;
  /** Ends the member in order, and kills it if that takes too long. */
  end(): Promise<void>;
}

/** Starts a member; rejects if it cannot start. */
export type StartMember = () => Promise<Member>;

/** How long a member may take until it accepts tasks. */
export const START_MS_MAX = 30_000;
/** How long a member may take to end in order. */
export const END_MS_MAX = 2_000;
