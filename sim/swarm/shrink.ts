/**
 * Reduces a failure: leaves out batches, acts, happenings, faults and items while the same promise
 * stays broken. It begins with halves and goes on with smaller parts, as delta debugging does.
 */
import { playSeed, type WorldStore } from "../play-seed.ts";
import { type Cut, WHOLE } from "../traffic/cut.ts";
import { drawHour } from "../traffic/draw-hour.ts";
import { hasLimits } from "../traffic/draw-limits.ts";

/** The largest number of plays for one failure. */
const PLAYS_MAX = 250;

export interface Shrunk {
  readonly cut: Cut;
  readonly plays: number;
}

/** The promise that a problem names. */
export function readPromise(problem: string): string {
  return problem.split(":")[0] ?? problem;
}

export async function shrink(seed: number, promise: string, store: WorldStore): Promise<Shrunk> {
  const hour = drawHour(seed);
  let plays = 0;
  const breaks = async (cut: Cut): Promise<boolean> => {
    if (plays >= PLAYS_MAX) return false;
    plays++;
    const { problems } = await playSeed(seed, cut, { store });
    return problems.some((problem) => readPromise(problem) === promise);
  };
  const { places } = await playSeed(seed, WHOLE, { store });
  const whole: Cut = {
    errands: hour.errands.map(({ key }) => key),
    acts: hour.acts.map((_, number) => number),
    happenings: hour.happenings.map((_, number) => number),
    faults: places,
    items: hour.errands.map(({ key, contents }) => `${key}:${contents.length}`),
    limits: hour.pipelines.flatMap(({ name: pipeline, steps, sharing }) => [
      ...(sharing === undefined ? [] : [pipeline]),
      ...steps.filter((step) => hasLimits(step)).map(({ name }) => name),
    ]),
  };
  if (!(await breaks(whole))) return { cut: WHOLE, plays };
  let cut = whole;
  for (let before = ""; before !== JSON.stringify(cut); ) {
    before = JSON.stringify(cut);
    for (const part of ["faults", "errands", "happenings", "acts", "limits"] as const) {
      cut = await leaveOut(cut, part, breaks);
    }
    cut = await shorten(cut, breaks);
  }
  return { cut, plays };
}

async function leaveOut(
  cut: Cut,
  part: "faults" | "errands" | "happenings" | "acts" | "limits",
  breaks: (cut: Cut) => Promise<boolean>,
): Promise<Cut> {
  let kept = cut;
  let size = Math.ceil((kept[part]?.length ?? 0) / 2);
  while (size > 0) {
    let left = false;
    for (let from = 0; from < (kept[part]?.length ?? 0); ) {
      const list = (kept[part] ?? []) as readonly (string | number)[];
      const rest = [...list.slice(0, from), ...list.slice(from + size)];
      const smaller = { ...kept, [part]: rest } as Cut;
      if (await breaks(smaller)) {
        kept = smaller;
        left = true;
      } else {
        from += size;
      }
    }
    size = left && size > 1 ? size : Math.floor(size / 2);
  }
  return kept;
}

/** The same batches with fewer items. */
async function shorten(cut: Cut, breaks: (cut: Cut) => Promise<boolean>): Promise<Cut> {
  let kept = cut;
  for (const key of cut.errands ?? []) {
    for (;;) {
      const items = kept.items ?? [];
      const size = Number(items.find((text) => text.startsWith(`${key}:`))?.split(":")[1] ?? 0);
      if (size === 0) break;
      const others = items.filter((text) => !text.startsWith(`${key}:`));
      const half = Math.floor(size / 2);
      const halved = { ...kept, items: [...others, `${key}:${half}`] };
      const oneLess = { ...kept, items: [...others, `${key}:${size - 1}`] };
      if (half < size - 1 && (await breaks(halved))) kept = halved;
      else if (await breaks(oneLess)) kept = oneLess;
      else break;
    }
  }
  return { ...kept, items: (kept.items ?? []).filter((text) => isKept(kept, text)) };
}

function isKept({ errands }: Cut, text: string): boolean {
  return errands?.includes(text.split(":")[0] ?? "") ?? true;
}
