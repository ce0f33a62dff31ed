/**
 * The keys that a reader of an export knows: those that the reader named, and those that statements
 * in the export introduce. Only the named ones are trusted, and those chained to them.
 */
import type { KeyObject } from "node:crypto";
import { SluiceError } from "../../core/base/errors.ts";
import {
  computeFingerprint,
  isExactSpki,
  isSigned,
  KEY_ID_DIGITS,
  readPublicKey,
  type Signed,
} from "../format/signing-key.ts";
import { hasMembers, isHex, isInstant, parseCanonical } from "../format/strict-json.ts";

export interface KnownKey {
  readonly id: string;
  readonly publicKey: KeyObject;
  readonly isTrusted: boolean;
}

interface KeyStatement {
  readonly key: string;
  readonly public: string;
  readonly prev: string | null;
}

export class KeyRing {
  readonly #keys = new Map<string, KnownKey>();
  readonly #fingerprints: readonly string[];

  /**
   * Each of `trusted` is a public key (PEM), a key's id, or more digits of its fingerprint. An id
   * has 64 bits; against an attacker with very much time, give the key itself.
   */
  constructor(trusted: readonly string[]) {
    this.#fingerprints = trusted.filter((one) => FINGERPRINT.test(one));
    for (const pem of trusted.filter((one) => !FINGERPRINT.test(one))) {
      const publicKey = readPublicKey({ pem });
      if (publicKey === null) throw refuseKey(pem);
      const id = computeFingerprint(publicKey).slice(0, KEY_ID_DIGITS);
      this.#keys.set(id, { id, publicKey, isTrusted: true });
    }
  }

  find(id: string): KnownKey | undefined {
    return this.#keys.get(id);
  }

  /** Adds a statement; returns what is wrong with it, or null. */
  introduce(signed: Signed): string | null {
    const parsed = parseCanonical(signed.body);
    if (parsed.kind === "refused") return `the statement of a key is not readable: ${parsed.why}`;
    const { value } = parsed;
    if (!hasMembers(value, ["at", "key", "prev", "public", "v"]) || value["v"] !== 1) {
      return "the statement of a key does not have the right members";
    }
    const isShaped =
      isInstant(value["at"]) &&
      isHex(value["key"], KEY_ID_DIGITS) &&
      typeof value["public"] === "string" &&
      (value["prev"] === null || isHex(value["prev"], KEY_ID_DIGITS));
    if (!isShaped) return "the statement of a key is malformed";
    return this.#add(value as unknown as KeyStatement, signed);
  }

  #add({ key: id, public: spki, prev }: KeyStatement, signed: Signed): string | null {
    const publicKey = readPublicKey({ spki });
    if (publicKey === null || !isExactSpki(publicKey, spki))
      return `key ${id} is not an Ed25519 key`;
    const fingerprint = computeFingerprint(publicKey);
    if (!fingerprint.startsWith(id)) return `key ${id} has the id of another key`;
    const before = prev === null ? undefined : this.#keys.get(prev);
    if (prev !== null && before === undefined) return `key ${id} is introduced by an unknown key`;
    if (!isSigned(before?.publicKey ?? publicKey, "sluice-key", signed)) {
      return `the statement of key ${id} is not signed by ${prev === null ? "itself" : `key ${prev}`}`;
    }
    const known = this.#keys.get(id);
    if (known !== undefined && !known.publicKey.equals(publicKey)) {
      return `there are two keys with the id ${id}`;
    }
    const isNamed = this.#fingerprints.some((digits) => fingerprint.startsWith(digits));
    const isTrusted = isNamed || known?.isTrusted === true || before?.isTrusted === true;
    this.#keys.set(id, { id, publicKey, isTrusted });
    return null;
  }
}

const FINGERPRINT = /^[0-9a-f]{16,64}$/;

/** How much of the given text is shown; the start of a PKCS#8 key is the same for all keys. */
const SHOWN_CHARS_MAX = 20;

/**
 * It may be a damaged private key, given by mistake: only a text that can be a name or an id is
 * shown.
 */
function refuseKey(text: string): SluiceError {
  const clipped = text.length > SHOWN_CHARS_MAX ? `${text.slice(0, SHOWN_CHARS_MAX)}…` : text;
  const shown = /\s|--/.test(text) ? "a text that is not shown" : JSON.stringify(clipped);
  const message = `this is not a ledger's public key: ${shown}, ${text.length} characters`;
  return new SluiceError("LEDGER_KEY", message, {
    hint: "Give an Ed25519 public key as PEM, or a key's id: 16 to 64 hex digits of its fingerprint.",
  });
}
