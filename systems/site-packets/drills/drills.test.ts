/** Every drill in its short size; `npm run drills` runs the full size. */
import { describe, expect, test } from "vitest";
import { DRILLS } from "./all-drills.ts";

// They wait for portals most of the time.
describe.concurrent("drill", () => {
  for (const { name, about, run } of DRILLS) {
    test(`${name}: ${about}`, async () => {
      const { faults } = await run(false);
      expect(faults).toEqual([]);
    });
  }
});
