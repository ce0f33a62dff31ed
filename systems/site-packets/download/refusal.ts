/** Why a link, an address or a file is not fetched: as a value, and as an error. */
import { PermanentError } from "sluice";

export interface Refusal {
  readonly code: "FORBIDDEN_ADDRESS" | "FORBIDDEN_PATH" | "FORBIDDEN_URL";
  /** Names the host, the address or the file. Never a query, because queries contain tokens. */
  readonly why: string;
  /** The setting that would allow it, or who could fix it. */
  readonly remedy: string;
}

/** `place`: where the link was found; null if `why` is enough. */
export function makeRefusalError(
  { code, why, remedy }: Refusal,
  place: string | null = null,
): PermanentError {
  const found = place === null ? "" : `${place}: `;
  return new PermanentError(`${found}${why}; ${remedy}`, { code });
}
