/** Reads and edits one dead letter with its payload. */
import type { Act } from "../../core/batch/batch.ts";
import type { Unnamed } from "../../core/base/unnamed.ts";
import { describeError, SluiceError } from "../../core/base/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import type { DeadLetter, ItemPlace } from "../../ports/store/query-store.ts";
import type { SliceItems } from "../../ports/source.ts";
import type { Store } from "../../ports/store/store.ts";
import type { LeasedChunk } from "../../ports/store/worker-store.ts";
import { BatchReader } from "../reading/batch-reader.ts";
import { checkItem } from "../pipeline/item-check.ts";
import { readManifest } from "../reading/manifest.ts";
import type { Pipeline } from "../pipeline/pipeline.ts";

export interface DeadLetterParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
}

/** Which dead letter of a batch. */
export interface LetterPlace {
  readonly step: number;
  /** The item's number in its step. */
  readonly item: number;
  /** Reads items from its source, and checks a new payload. */
  readonly pipeline?: Pipeline | null;
}

/** A dead letter with its payload. */
export type OpenedDeadLetter = Unnamed<
  DeadLetter & {
    /** Undefined when it cannot be read: `payloadProblem` then says why. */
    readonly payload: unknown;
    readonly payloadProblem: string | null;
    readonly checkpoint: { readonly name: string; readonly data: unknown } | null;
  }
>;

/** Reads a dead letter. Its payload needs the pipeline, unless the batch owns its items. */
export async function openDeadLetter(
  parts: DeadLetterParts,
  id: string,
  { step, item, pipeline = null }: LetterPlace,
): Promise<OpenedDeadLetter> {
  const { place, letter } = await findLetter(parts.store, id, step, item);
  const { checkpoint } = place;
  const read = await readPayload(parts, id, step, item, place, pipeline);
  return {
    ...letter,
    ...read,
    checkpoint:
      checkpoint === null
        ? null
        : { name: checkpoint.name, data: JSON.parse(checkpoint.data) as unknown },
  };
}

/** Replaces the payload of a dead letter, if the new one fits the pipeline's schema. */
export async function editDeadLetter(
  store: Store,
  id: string,
  { step, item, pipeline = null }: LetterPlace,
  payload: unknown,
  { by, why }: Act,
): Promise<void> {
  await findLetter(store, id, step, item);
  const schema = pipeline?.steps[step]?.itemSchema ?? null;
  if (schema !== null) {
    try {
      await checkItem(schema, payload);
    } catch (error) {
      throw new SluiceError("BAD_OPTION", `the new payload ${describeError(error).message}`, {
        field: "payload",
        hint: "Fix the payload; the dead letter is unchanged.",
        cause: error,
      });
    }
  }
  const value = JSON.stringify(payload);
  if (value === undefined) {
    throw new SluiceError("BAD_OPTION", "the new payload cannot be written as JSON", {
      field: "payload",
      hint: "Give plain data.",
    });
  }
  if (await store.editDeadLetter(id, { step, item, value, by, why })) return;
  throw new SluiceError(
    "WRONG_STATE",
    `item ${item} of batch ${id} is not a dead letter any more`,
    { kind: "item", hint: "It was redriven, or retention has removed its data." },
  );
}

async function findLetter(
  store: Store,
  id: string,
  step: number,
  item: number,
): Promise<{ readonly place: ItemPlace; readonly letter: DeadLetter }> {
  const place = await store.findItem(id, step, item);
  if (place === null) {
    throw new SluiceError("NOT_FOUND", `batch ${id} has no item ${item} in step ${step}`, {
      kind: "item",
      hint: "`sluice dead` lists the dead letters of a batch.",
    });
  }
  if (place.letter === null) {
    throw new SluiceError("WRONG_STATE", `item ${item} of batch ${id} is ${place.outcome}`, {
      kind: "item",
      hint: "Only a dead letter can be shown, edited or discarded.",
    });
  }
  return { place, letter: place.letter };
}

async function readPayload(
  parts: DeadLetterParts,
  id: string,
  step: number,
  item: number,
  place: ItemPlace,
  pipeline: Pipeline | null,
): Promise<{ readonly payload: unknown; readonly payloadProblem: string | null }> {
  if (place.override !== null) {
    return { payload: JSON.parse(place.override) as unknown, payloadProblem: null };
  }
  try {
    const items = await readChunk(parts, id, step, place, pipeline);
    return { payload: items.at(item - place.start), payloadProblem: null };
  } catch (error) {
    return { payload: undefined, payloadProblem: describeError(error).message };
  }
}

async function readChunk(
  parts: DeadLetterParts,
  id: string,
  step: number,
  place: ItemPlace,
  pipeline: Pipeline | null,
): Promise<SliceItems> {
  if (place.locator === null) {
    const [manifest] = await parts.store.readManifests(id, step, place.chunk, place.chunk + 1);
    if (manifest !== undefined) return readManifest(manifest);
    throw new SluiceError("SOURCE_CHANGED", "retention has removed its payload");
  }
  const batch = await parts.store.getBatch(id);
  const definition = pipeline?.steps[step];
  if (batch === null)
    throw new SluiceError("NOT_FOUND", `there is no batch ${id}`, { kind: "batch" });
  if (definition === undefined) {
    throw new SluiceError("NO_PAYLOAD", "its pipeline is needed to read its payload");
  }
  const reader = new BatchReader(batch, definition, parts);
  try {
    const { chunk, start, end, locator } = place;
    const lease: LeasedChunk = { ...UNLEASED, batch: id, step, chunk, start, end, locator };
    const [items] = await reader.read([lease]);
    if (items === undefined) throw new SluiceError("SOURCE_CHANGED", "its chunk is not there");
    return items;
  } finally {
    await reader.close();
  }
}

/** Fields of a lease that the reader does not use. */
const UNLEASED = {
  fence: 0,
  outcomes: new Uint8Array(),
  histories: [],
  overrides: [],
  guarded: false,
  final: true,
};
