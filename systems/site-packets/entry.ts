/** One line of a manifest: a document that a site offers. */
import { z } from "zod";

/** Sites are lanes: they name batches, files and rates. */
export const SITE_NAME = /^[a-z0-9][a-z0-9._-]{0,62}$/i;
const NO_CONTROL = /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}]*$/u;

const text = (charactersMax: number) =>
  z
    .string()
    .min(1, "must not be empty")
    .max(charactersMax, `must have at most ${charactersMax} characters`)
    .regex(NO_CONTROL, "must not hold control characters");

export const entrySchema = z.strictObject({
  site: z.string().regex(SITE_NAME, "must be 1 to 63 letters, digits, dots, dashes or underscores"),
  /** The site's own id; the same document may come again, unchanged or corrected. */
  document: text(200),
  /** Its declared type; validation checks whether it is known. */
  type: text(100),
  schemaVersion: text(50),
  /** Its location: absolute, or relative to the origin of its site. */
  url: text(2_000),
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/, "must be 64 hexadecimal digits in lower case")
    .optional(),
});

export type Entry = z.output<typeof entrySchema>;

/** An entry whose document is in the spool. */
export interface ReceivedEntry extends Entry {
  /** Its file in the spool. */
  readonly file: string;
  /** Of the received bytes, whatever the manifest says. */
  readonly receivedSha256: string;
  readonly bytes: number;
}
