/** The lines of frozen items: JSON texts, or the errors of items that could not be read. */

/** No JSON text begins with this character. */
const UNREADABLE_MARK = "!";

/** Why an item could not be read when it was frozen. */
export interface FrozenError {
  readonly code: string;
  readonly message: string;
}

export function writeUnreadable({ code, message }: FrozenError): string {
  return UNREADABLE_MARK + JSON.stringify({ code, message });
}

export function isUnreadable(line: string): boolean {
  return line.startsWith(UNREADABLE_MARK);
}

export function readUnreadable(line: string): FrozenError {
  return JSON.parse(line.slice(UNREADABLE_MARK.length)) as FrozenError;
}
