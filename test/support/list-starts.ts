/** What a draw granted, one date for each start. */
import type { TokenPortion } from "../../src/core/limits/token-bucket.ts";

/** Milliseconds after the draw. */
export function listStarts({ atOnce, inMs }: Pick<TokenPortion, "atOnce" | "inMs">): number[] {
  return [...Array.from({ length: atOnce }, () => 0), ...inMs];
}
