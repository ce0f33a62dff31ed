import { expect, test } from "vitest";
import type { FaultKind } from "../faults.ts";
import { drawHour, type Hour, HOURS } from "./draw-hour.ts";

function listFaults({ faults }: Hour): (FaultKind | undefined)[] {
  return Array.from(
    { length: 5_000 },
    (_, at) => faults({ node: "n1", life: 1, number: at + 1, verb: "work" })?.kind,
  );
}

test("seeds with the same last six digits have the same hour, and other luck", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const own = drawHour(seed);
    const other = drawHour(seed + 3 * HOURS);
    expect({ ...other, seed, faults: null }).toEqual({ ...own, faults: null });
    expect(other.seed).toBe(seed + 3 * HOURS);
    const faults = listFaults(own);
    if (faults.some((kind) => kind !== undefined)) expect(listFaults(other)).not.toEqual(faults);
  }
});
