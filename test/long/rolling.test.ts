/** 200 restarts during work; takes minutes: `npm run test:long`. */
import { afterEach, test } from "vitest";
import type { Crew } from "../chaos/crew.ts";
import { checkRolling } from "../chaos/rolling.ts";

let crew: Crew | null = null;
afterEach(() => crew?.dispose());

test("200 restarts by SIGTERM during work exit 0 each time, count no attempt and lose nothing, and the rest runs elsewhere", () =>
  checkRolling(200, (made) => {
    crew = made;
  }));
