/**
 * A member of a pool: a process or a thread that runs one task at a time. Whatever ends it while it
 * runs one is a death; what a task returns or throws is an answer.
 */
import type { Transferable } from "node:worker_threads";
import type { WrittenThrown } from "./thrown.ts";

/** What a member is asked to run. */
export interface CpuRequest {
  /** The address of the module's file. */
  readonly module: string;
  readonly exportName: string;
  readonly data: unknown;
}

export type CpuAnswer =
  | { readonly kind: "returned"; readonly value: unknown }
  | { readonly kind: "threw"; readonly thrown: WrittenThrown };

/** The member is no more. The message says how that came, and goes on after "it". */
export class MemberDeath extends Error {
  override readonly name = "MemberDeath";
}

export interface Member {
  /** Whose memory can be looked at from outside; null for a thread. */
  readonly pid: number | null;
  /** Resolves when it is gone, however that came. */
  readonly gone: Promise<void>;
  /** Rejects with a `MemberDeath` if it dies over it. */
  run(request: CpuRequest, transfer: readonly Transferable[]): Promise<CpuAnswer>;
  /** At once, whatever it is doing. The words say why, for its death. */
  kill(how: string): void;
  /** Lets it come to its end in order; kills it if that takes long. */
  end(): Promise<void>;
}

/** Starts one; rejects if that cannot be done. */
export type StartMember = () => Promise<Member>;

/** How long a member may take until it can be asked. */
export const START_MS_MAX = 30_000;
/** How long one may take to end in order. */
export const END_MS_MAX = 2_000;
