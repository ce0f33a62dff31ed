/**
 * What each type of record says, as a type: the shapes of `data`. A type that is not described here
 * yet is plain JSON to its handlers; describing it is one more entry.
 */
import type { EndedState, RecordType } from "./batch.ts";
import type { Json } from "./canonical-json.ts";
import type { Counts } from "./counts.ts";

type PlainData = { readonly [key: string]: Json | undefined };
type NoData = { readonly [key: string]: never };

interface Cause {
  readonly code?: string;
  readonly message?: string;
}

interface PlanSize {
  readonly items: number;
  readonly chunks: number;
}

interface DescribedData {
  readonly "batch.submitted": {
    readonly pipeline: string;
    readonly version: string;
    readonly lane: string;
    readonly key: string | null;
    readonly inputHash: string;
  };
  readonly "batch.started": NoData;
  readonly "slicing.started": NoData;
  readonly "slicing.finished": PlanSize;
  readonly "slicing.aborted": Cause;
  readonly "batch.sealed": PlanSize;
  readonly "step.ended": { readonly step: number; readonly counts: Counts };
  /** `code` and `message` when it ended early. */
  readonly "batch.ended": Cause & { readonly state: EndedState; readonly counts: Counts };
}

/** The data of each type of event. */
export type EventData = {
  readonly [Type in RecordType]: Type extends keyof DescribedData ? DescribedData[Type] : PlainData;
};
