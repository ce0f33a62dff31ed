/**
 * The error of one item that cannot be read: it names the place, shows a little of it and gives the
 * remedy. It fails only that item, at once: reading the same bytes again cannot help.
 */
import { PermanentError } from "../../core/base/errors.ts";

export interface BadRecord {
  readonly code: string;
  readonly path: string;
  readonly line: number;
  /** In characters from 1, if known. */
  readonly column?: number;
  readonly problem: string;
  /** The record's text and the offset to show it around. */
  readonly text: string;
  readonly offset?: number;
  readonly remedy: string;
  readonly cause?: unknown;
}

export function describeBadRecord(bad: BadRecord): PermanentError {
  const column = bad.column === undefined ? "" : `, column ${bad.column}`;
  const shown = excerpt(bad.text, bad.offset ?? 0);
  const message = `${bad.path}, line ${bad.line}${column}: ${bad.problem}: ${shown} - ${bad.remedy}`;
  return new PermanentError(message, {
    code: bad.code,
    ...(bad.cause === undefined ? {} : { cause: bad.cause }),
  });
}

const EXCERPT_CHARS_MAX = 80;
/** How much is shown before the offset. */
const LEAD_CHARS = 40;

/**
 * A short piece of text around an offset, safe for a terminal and a log: characters that are
 * invisible or control the display (control characters, direction marks, lone surrogates) are
 * spelled out.
 */
export function excerpt(text: string, offset: number): string {
  const start = Math.max(0, offset - LEAD_CHARS);
  let shown = start > 0 ? "…" : "";
  for (const character of text.slice(start, start + EXCERPT_CHARS_MAX + 1)) {
    const spelled = /[\p{C}\p{Zl}\p{Zp}]/u.test(character) ? spellOut(character) : character;
    if (shown.length + spelled.length >= EXCERPT_CHARS_MAX) return `${shown}…`;
    shown += spelled;
  }
  return shown;
}

function spellOut(character: string): string {
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}
