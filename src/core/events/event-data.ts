/** The type of each record's `data`. */
import type { EndedState, RecordType } from "../batch/batch.ts";
import type { StopMode } from "../batch/chunk.ts";
import type { Counts } from "../batch/counts.ts";
import type { PauseFacts } from "../batch/why.ts";

type NoData = { readonly [key: string]: never };

/** Who acted, and why. */
interface ByHand {
  readonly by: string;
  readonly why?: string;
}

interface Cause {
  readonly code?: string;
  readonly message?: string;
}

interface PlanSize {
  readonly items: number;
  readonly chunks: number;
}

interface AtStep {
  readonly step: number;
}

interface DescribedData {
  readonly "batch.submitted": {
    readonly pipeline: string;
    readonly version: string;
    readonly lane: string;
    readonly key: string | null;
    readonly inputHash: string;
    /** Every change of its items is in its chain as well. */
    readonly itemLedger?: true;
  };
  readonly "batch.started": AtStep & { readonly drive: number };
  readonly "slicing.started": AtStep;
  readonly "slicing.finished": AtStep & PlanSize;
  readonly "slicing.aborted": Cause;
  readonly "batch.sealed": PlanSize;
  readonly "batch.paused": ByHand & {
    readonly scope: PauseFacts["scope"];
    readonly mode: StopMode;
  };
  readonly "batch.resumed": ByHand & { readonly scope: PauseFacts["scope"] };
  readonly "batch.moved": ByHand & { readonly to?: "front" | "back"; readonly before?: string };
  readonly "batch.parked": Required<Cause>;
  readonly "batch.cancel_requested": ByHand & { readonly mode: StopMode };
  /** `pass` and `final` for an automatic pass at a step's end, `revived` for one by hand. */
  readonly "dead_letters.redriven": ByHand & {
    readonly drive: number;
    readonly items: number;
    readonly step?: number;
    readonly pass?: number;
    readonly final?: boolean;
    readonly revived?: number;
  };
  readonly "dead_letters.discarded": ByHand & { readonly items: number };
  readonly "details.erased": ByHand & { readonly records: number };
  readonly "dead_letter.edited": ByHand & AtStep & { readonly item: number };
  readonly "batch.reopened": AtStep & { readonly drive: number };
  readonly "step.ended": AtStep & { readonly name: string; readonly counts: Counts };
  readonly "batch.drained": NoData;
  /** `code` and `message` when it ended early; `abandoned` what a cancel left running. */
  readonly "batch.ended": Cause & {
    readonly state: EndedState;
    readonly drive: number;
    readonly counts: Counts;
    readonly abandonedChunks?: number;
    readonly abandoned?: readonly {
      readonly step: number;
      readonly chunk: number;
      readonly items: readonly number[] | null;
    }[];
  };
  readonly "batch.released": { readonly lane: string };
}

/** The data of each type of event: the compiler refuses a missing type. */
export type EventData = { readonly [Type in RecordType]: DescribedData[Type] };
