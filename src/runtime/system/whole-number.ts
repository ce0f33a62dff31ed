/** The rule for an option that is a whole number within bounds. */
import { z } from "zod";

export function wholeNumber(min: number, max: number): z.ZodType<number> {
  const message = `must be a whole number from ${min.toLocaleString("en")} to ${max.toLocaleString("en")}`;
  return z
    .any()
    .refine((value) => Number.isInteger(value) && value >= min && value <= max, { message });
}
