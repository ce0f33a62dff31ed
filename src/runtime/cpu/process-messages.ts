/** What a worker and a process of its pool say to each other. */
import type { CpuRequest } from "./member.ts";

export interface ToMember {
  readonly id: number;
  readonly request: CpuRequest;
}

export type FromMember =
  | { readonly kind: "ready" }
  /** A `CpuAnswer`, written down. */
  | { readonly kind: "answer"; readonly id: number; readonly answer: Uint8Array };
