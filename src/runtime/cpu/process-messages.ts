/** What a worker and a process of its pool say to each other. */
import type { CpuAnswer, CpuRequest } from "./member.ts";

export interface ToMember {
  readonly id: number;
  readonly request: CpuRequest;
}

export type FromMember =
  | { readonly kind: "ready" }
  | { readonly kind: "answer"; readonly id: number; readonly answer: CpuAnswer };
