/** Messages between a worker and a process of its pool. */
import type { CpuRequest } from "./member.ts";

export interface ToMember {
  readonly id: number;
  readonly request: CpuRequest;
}

export type FromMember =
  | { readonly kind: "ready" }
  /** A serialised `CpuAnswer`. */
  | { readonly kind: "answer"; readonly id: number; readonly answer: Uint8Array };
