/**
 * Ed25519 keys that sign heads, and the statements that introduce them: the first key signs its own
 * statement, every later one is signed by the key before it. A reader who trusts the first key
 * trusts all that follow from it.
 */
import {
  createPublicKey,
  generateKeyPairSync,
  hash,
  type KeyObject,
  sign,
  verify,
} from "node:crypto";
import { canonicalize } from "../../core/base/canonical-json.ts";

/**
 * Length of a key's id in hex digits: the start of its fingerprint, the SHA-256 of its SPKI DER.
 */
export const KEY_ID_DIGITS = 16;
export const SIGNATURE_DIGITS = 128;
const VERSION = 1;

/** Signed bytes begin with their purpose, so that a signature is valid for nothing else. */
export type Purpose = "sluice-signed-head" | "sluice-key";

export interface SigningKey {
  readonly id: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

/** Text with its signature, as hex. */
export interface Signed {
  readonly body: string;
  readonly signature: string;
}

export function makeKey(): KeyObject {
  return generateKeyPairSync("ed25519").privateKey;
}

export function toSigningKey(privateKey: KeyObject): SigningKey {
  const publicKey = createPublicKey(privateKey);
  return { id: computeFingerprint(publicKey).slice(0, KEY_ID_DIGITS), privateKey, publicKey };
}

export function computeFingerprint(publicKey: KeyObject): string {
  return hash("sha256", exportSpki(publicKey), "hex");
}

function exportSpki(publicKey: KeyObject): Buffer {
  return publicKey.export({ type: "spki", format: "der" });
}

export function signText({ privateKey }: SigningKey, purpose: Purpose, body: string): Signed {
  const signature = sign(null, Buffer.from(`${purpose}\n${body}`), privateKey).toString("hex");
  return { body, signature };
}

export function isSigned(publicKey: KeyObject, purpose: Purpose, signed: Signed): boolean {
  const bytes = Buffer.from(`${purpose}\n${signed.body}`);
  return verify(null, bytes, publicKey, Buffer.from(signed.signature, "hex"));
}

/** Introduces a key: signed by itself, or by the key that it replaces. */
export function introduceKey(key: SigningKey, by: SigningKey | null, at: string): Signed {
  const body = canonicalize({
    v: VERSION,
    key: key.id,
    public: exportSpki(key.publicKey).toString("hex"),
    prev: by === null ? null : by.id,
    at,
  });
  return signText(by ?? key, "sluice-key", body);
}

/** The id of the key that one of our own statements introduces. */
export function readKeyId({ body }: Signed): string {
  return (JSON.parse(body) as { readonly key: string }).key;
}

/** Null when these bytes are not an Ed25519 key. */
export function readPublicKey(
  from: { readonly spki: string } | { readonly pem: string },
): KeyObject | null {
  try {
    const key =
      "spki" in from
        ? createPublicKey({ key: Buffer.from(from.spki, "hex"), format: "der", type: "spki" })
        : createPublicKey(from.pem);
    return key.asymmetricKeyType === "ed25519" ? key : null;
  } catch {
    return null;
  }
}

/** Whether these bytes are the canonical encoding of the key: DER allows others. */
export function isExactSpki(key: KeyObject, spki: string): boolean {
  return exportSpki(key).toString("hex") === spki;
}
