/**
 * Deletes what the build and the tests leave behind. A file deleted from `src` stays in `dist`
 * until then.
 */
import { rmSync } from "node:fs";

for (const folder of ["dist", "coverage", "test-results"]) {
  rmSync(new URL(`../${folder}`, import.meta.url), { recursive: true, force: true });
}
