/** A short rolling restart; the long one is in test/long. */
import { afterEach, test } from "vitest";
import type { Crew } from "./crew.ts";
import { checkRolling } from "./rolling.ts";

let crew: Crew | null = null;
afterEach(() => crew?.dispose());

test(
  "10 restarts by SIGTERM during work exit 0 each time, count no attempt and lose nothing, and the rest runs elsewhere",
  () =>
    checkRolling(10, (made) => {
      crew = made;
    }),
  180_000,
);
