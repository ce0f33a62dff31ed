/**
 * Ed25519 keys by which signed heads are signed, and the statements that introduce them: the first key
 * speaks for itself, every later one is signed by the one before it. Who trusts the first trusts all
 * that follow from it.
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

/** Digits of a key's id: the beginning of its fingerprint, which is SHA-256 of its SPKI DER. */
export const KEY_ID_DIGITS = 16;
export const SIGNATURE_DIGITS = 128;
const VERSION = 1;

/** What is signed begins with its purpose, so that no signature serves for anything else. */
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

/** Introduces a key: by itself, or by the key that it takes the place of. */
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

/** The id of the key that a statement of ours introduces. */
export function readKeyId({ body }: Signed): string {
  return (JSON.parse(body) as { readonly key: string }).key;
}

/** Null when these bytes are no Ed25519 key. */
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

/** Whether these bytes are the one spelling of the key: DER allows others. */
export function isExactSpki(key: KeyObject, spki: string): boolean {
  return exportSpki(key).toString("hex") === spki;
}
