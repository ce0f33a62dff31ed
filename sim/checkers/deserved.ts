/** Each item has an outcome that can follow from its behaviour and from what happened to it. */
import { FAILED, getOutcome, SKIPPED, SUCCEEDED } from "../../src/core/items/outcome-map.ts";
import type { DeadLetter } from "../../src/ports/store/query-store.ts";
import type { Doing, Parcel } from "../traffic/errand.ts";
import {
  type Checker,
  listBatches,
  listParcels,
  listSteps,
  nameBatch,
  type Scene,
  type StepPlace,
} from "./checker.ts";

const EVERYTHING = { afterItem: -1, limit: 1_000_000, filter: {} };

export function checkDeserved(scene: Scene): Checker {
  /** What each item did, by batch, step and index, for items whose parcels are gone. */
  const ran = new Set<string>();
  return {
    onStart: ({ batch, step, index }) => void ran.add(`${batch}/${step}/${index}`),
    atEnd: async () => {
      for (const batch of listBatches(scene)) {
        for (const place of listSteps(scene, batch)) {
          if (!place.plot.waits) await checkStep(scene, place, ran);
        }
      }
    },
  };
}

async function checkStep(scene: Scene, place: StepPlace, ran: ReadonlySet<string>): Promise<void> {
  const { batch, step, number } = place;
  const { id } = batch.submission;
  const parcels = listParcels(scene, place);
  if (parcels === null) return;
  const page = { ...EVERYTHING, step: number };
  const letters = await scene.world.store.readDeadLetters(id, page);
  const byItem = new Map(letters.map((letter) => [letter.item, letter]));
  for (const chunk of step.chunks) {
    for (let at = 0; at < chunk.end - chunk.start; at++) {
      const item = chunk.start + at;
      const parcel = parcels[item] as Parcel;
      const doing = scene.errands.getDoing(parcel, number);
      const outcome = getOutcome(chunk.outcomes, at);
      const what = `item ${number}/${item} of ${nameBatch(batch)} (${doing.does})`;
      const problem =
        outcome === FAILED
          ? findWrongDeath(scene, place, doing, byItem.get(item))
          : findWrongWord(place, doing, parcel, outcome);
      if (problem !== null) scene.fail(`${what} ${problem}`);
      if (outcome === SUCCEEDED && !ran.has(`${id}/${number}/${item}`)) {
        scene.fail(`${what} succeeded and never ran`);
      }
    }
  }
}

function findWrongWord(
  { plot }: StepPlace,
  { does }: Doing,
  { edited }: Parcel,
  outcome: number,
): string | null {
  const refused = does === "refuse" && edited !== true;
  if (outcome === SUCCEEDED && (refused || does === "skip" || does === "kill")) return "succeeded";
  return outcome === SKIPPED && does !== "skip" && !plot.dedupes ? "was skipped" : null;
}

function findWrongDeath(
  scene: Scene,
  { plot }: StepPlace,
  doing: Doing,
  letter: DeadLetter | undefined,
): string | null {
  if (letter === undefined) return "failed without a dead letter";
  const { code, attempts, deaths } = letter;
  const said = `is a dead letter: ${code}, ${attempts} attempts, ${deaths} deaths`;
  const rough = !scene.plot.calm;
  const limit = plot.retry.attempts;
  const gaveUp = attempts >= limit && attempts <= limit + deaths;
  const stumbles = ["stumble", "recover", "stages"].includes(doing.does);
  // A node whose worker stops for good ends at once, and gives nothing back.
  const kills = ["kill", "murder", "stop_worker"].includes(doing.does);
  switch (code) {
    case "REFUSED":
      // It may have been edited since, without a redrive.
      return doing.does === "refuse" ? null : said;
    case "STUMBLED":
      return stumbles && gaveUp ? null : said;
    case "THROTTLED":
      return doing.does === "throttle" && gaveUp ? null : said;
    case "TIME_LIMIT":
      // On a frozen node, time passes for its handlers all the same.
      return (doing.does === "hang" || doing.does === "dawdle" || plot.byChunk || rough) && gaveUp
        ? null
        : said;
    case "POISON":
      return (kills || rough) && deaths >= 3 ? null : said;
    case "STALLED":
      return rough ? null : said;
    default:
      return said;
  }
}
