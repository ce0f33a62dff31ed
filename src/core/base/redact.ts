/**
 * Removes secrets from texts that people and machines read: error messages, logs, reasons. A secret
 * is recognised by its shape (a password in an address, a bearer token, the value of a name like
 * `password` or `apiKey`), or because the caller named it. Removing too much is better than too
 * little: the text must say what went wrong, and it can do that without the value.
 */

/** What replaces a secret. */
export const REDACTED = "[redacted]";

/** Shorter named secrets would blank out parts of ordinary words. */
export const SECRET_CHARS_MIN = 6;
/**
 * How deep and how far a value is searched for secrets: a failure must not cost more than its item.
 */
const DEPTH_MAX = 6;
const VALUES_MAX = 1_000;

/**
 * Parts of names whose values are secrets, wherever they stand in the name: `db_password`,
 * `x-api-key`.
 */
const SECRET_NAME =
  "pass(?:word|wd|phrase|code)|pwd|secret|token|credential|authori[sz]ation|cookie|api[-_ ]?key|access[-_ ]?key|account[-_ ]?key|private[-_ ]?key|signing[-_ ]?key|encryption[-_ ]?key|signature|bearer|jwt";
const IS_SECRET_NAME = new RegExp(`(?:${SECRET_NAME})|^(?:auth|sig|key|otp|pin)$`, "iu");
/** Names that only count or describe secrets and hold none. */
const IS_HARMLESS_NAME = /(?:count|length|limit|max|min|type|name|url|expires?(?:at|in)?|id)$/iu;

export function isSecretName(name: string): boolean {
  return IS_SECRET_NAME.test(name) && !IS_HARMLESS_NAME.test(name);
}

/**
 * `https://user:password@host`: the password is removed, and for a web address the user as well.
 */
const URL_USER =
  /\b([a-z][a-z0-9+.-]{1,30}:\/\/)([^\s/?#@:"'<>]{0,512})(?::([^\s/?#"'<>]{0,1024}))?@/giu;
/** The quoted value of `name: "..."`, also where the quotes are escaped. */
const QUOTED_VALUE = new RegExp(
  `((?:[\\w.-]{0,64}(?:${SECRET_NAME})[\\w.-]{0,64})\\\\{0,4}["']?\\s{0,4}[:=]\\s{0,4})(\\\\{0,4}["'])((?:(?!\\2)[^\\n]){1,4096}?)\\2`,
  "giu",
);
/** The unquoted value of `name=...` or `name: ...`. */
const BARE_VALUE = new RegExp(
  `((?:[\\w.-]{0,64}(?:${SECRET_NAME})[\\w.-]{0,64})\\s{0,4}(?:=|:(?!\\/\\/))\\s{0,4})((?:(?:Bearer|Basic|Digest|Token)\\s+)?)([^\\s"'&,;)}\\]]{1,4096})`,
  "giu",
);
/** URL parameters whose short names mean nothing elsewhere. */
const QUERY_VALUE = /([?&](?:auth|sig|key|otp|pin)=)([^\s"'&#]{1,4096})/giu;
const BEARER = /\b(Bearer|Basic)\s+([A-Za-z0-9._~+/=-]{8,4096})/gu;
/** A JSON web token; an access key of a cloud; tokens with a prefix that names their issuer. */
const MARKED =
  /\beyJ[\w-]{8,4096}\.[\w-]{4,4096}\.[\w-]{0,4096}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\b(?:gh[pousr]_|github_pat_|xox[abeprs]-|sk_(?:live|test)_|glpat-|npm_)[\w-]{10,255}/gu;
const PRIVATE_KEY =
  /-----BEGIN ([A-Z ]{0,40}PRIVATE KEY)-----[\s\S]{0,16384}?(?:-----END \1-----|$)/gu;

/** A quick check: most texts fail it, as nothing in them could be a secret. */
const SUSPICIOUS = new RegExp(
  `${SECRET_NAME}|:\\/\\/|Basic|eyJ|AKIA|ASIA|gh[pousr]_|github_pat_|xox|sk_|glpat-|npm_|PRIVATE KEY|[?&](?:auth|sig|key|otp|pin)=`,
  "iu",
);

/** The text without secrets: those recognised by shape, and those in `secrets`. */
export function redactText(text: string, secrets: readonly string[] = []): string {
  const safe = concealAll(text, secrets);
  if (!SUSPICIOUS.test(safe)) return safe;
  return safe
    .replace(PRIVATE_KEY, REDACTED)
    .replace(URL_USER, hideUser)
    .replace(QUOTED_VALUE, `$1$2${REDACTED}$2`)
    .replace(BARE_VALUE, hideValue)
    .replace(QUERY_VALUE, `$1${REDACTED}`)
    .replace(BEARER, `$1 ${REDACTED}`)
    .replace(MARKED, REDACTED);
}

function hideUser(whole: string, scheme: string, user: string, password?: string): string {
  if (password === undefined) {
    // In a database address the user is a name; in a web address without a password it is a token.
    return /^https?:/iu.test(scheme) ? `${scheme}${REDACTED}@` : whole;
  }
  return `${scheme}${user}:${REDACTED}@`;
}

/** Redacted values, plain words after a name ("token: expected") and file paths are not hidden. */
function hideValue(whole: string, lead: string, scheme: string, value: string): string {
  if (value.startsWith("[redacted") || HARMLESS_VALUE.test(value)) return whole;
  return `${lead}${scheme}${REDACTED}`;
}

const HARMLESS_VALUE =
  /^(?:expected|missing|required|invalid|expired|unknown|wrong|must|is|was|not|no|the|a|an|null|undefined|true|false|string|number|\d{1,4}|\d{1,6}:\d{1,6})[.!?]?$/iu;

/** The values of secret names in a value, however deep: an error about the value may quote them. */
export function listSecrets(value: unknown): string[] {
  const found: string[] = [];
  visitTexts(value, (text, isSecret) => {
    if (isSecret && text.length >= SECRET_CHARS_MIN) found.push(text);
  });
  return found;
}

/** Whether a value contains a secret, however deep. */
export function holdsSecret(value: unknown, redact: Redact): boolean {
  let holds = false;
  visitTexts(value, (text, isSecret) => {
    holds ||= (isSecret && text.length >= SECRET_CHARS_MIN) || redact(text) !== text;
  });
  return holds;
}

function visitTexts(value: unknown, see: (text: string, isSecret: boolean) => void): void {
  let left = VALUES_MAX;
  const visit = (current: unknown, isSecret: boolean, depth: number): void => {
    if (left-- <= 0 || depth > DEPTH_MAX) return;
    if (typeof current === "string") return see(current, isSecret);
    if (typeof current !== "object" || current === null) return;
    if (Array.isArray(current)) {
      for (const one of current) visit(one, isSecret, depth + 1);
      return;
    }
    for (const [name, one] of readEntries(current)) {
      visit(one, isSecret || isSecretName(name), depth + 1);
    }
  };
  visit(value, false, 0);
}

/** Plain data without secrets, blank where it is too deep to be searched. */
export function redactValue(value: unknown, redact: Redact = redactText): unknown {
  let left = VALUES_MAX;
  const copy = (current: unknown, isSecret: boolean, depth: number): unknown => {
    if (typeof current === "string") {
      return isSecret && current.length >= SECRET_CHARS_MIN ? REDACTED : redact(current);
    }
    if (typeof current !== "object" || current === null) return current;
    if (left-- <= 0 || depth > DEPTH_MAX) return REDACTED;
    if (Array.isArray(current)) return current.map((one) => copy(one, isSecret, depth + 1));
    const entries = readEntries(current).map(([name, one]) => [
      name,
      copy(one, isSecret || isSecretName(name), depth + 1),
    ]);
    return Object.fromEntries(entries);
  };
  return copy(value, false, 0);
}

/** A getter of a user's object may throw. */
function readEntries(object: object): [string, unknown][] {
  try {
    return Object.entries(object);
  } catch {
    return [];
  }
}

/** Longer secrets first: one may contain another. */
function orderSecrets(secrets: readonly string[]): string[] {
  const long = secrets.filter((secret) => secret.length >= SECRET_CHARS_MIN);
  return [...new Set(long)].toSorted((a, b) => b.length - a.length);
}

/** Removes secrets from a text. */
export type Redact = (text: string) => string;

/** Removes the named secrets, and those recognised by shape. */
export function makeRedact(secrets: readonly string[]): Redact {
  const spelled = spellSecrets(secrets);
  return (text) => redactText(text, spelled);
}

/** Removes only the named secrets: for texts whose format must not change. */
export function makeConceal(secrets: readonly string[]): Redact {
  const spelled = spellSecrets(secrets);
  return (text) => concealAll(text, spelled);
}

function spellSecrets(secrets: readonly string[]): string[] {
  // A secret also appears as a URL or a JSON text spells it.
  const spelled = secrets.flatMap((secret) => [
    secret,
    ...(secret.isWellFormed() ? [encodeURIComponent(secret)] : []),
    JSON.stringify(secret).slice(1, -1),
  ]);
  return orderSecrets(spelled);
}

function concealAll(text: string, secrets: readonly string[]): string {
  let safe = text;
  for (const secret of secrets) {
    if (secret.length >= SECRET_CHARS_MIN && safe.includes(secret)) {
      safe = safe.replaceAll(secret, REDACTED);
    }
  }
  return safe;
}
