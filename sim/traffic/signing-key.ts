/**
 * The key that signs the ledgers of these worlds. It is not secret, and always the same: Ed25519
 * signatures use no randomness, so one seed is still one history.
 */
import { createPrivateKey } from "node:crypto";
import type { KeyFile } from "../../src/ledger/keys/key-file.ts";
import { introduceKey, toSigningKey } from "../../src/ledger/format/signing-key.ts";

/** From the first test of RFC 8032, after the PKCS#8 prefix. */
const SEED = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
const PKCS8 = Buffer.from(`302e020100300506032b657004220420${SEED}`, "hex");

const key = toSigningKey(createPrivateKey({ key: PKCS8, format: "der", type: "pkcs8" }));
const keyFile: KeyFile = {
  key,
  statements: [introduceKey(key, null, "2026-01-01T00:00:00.000Z")],
};

export const SIGNING_KEY_ID = key.id;

export const openSigningKey = (): KeyFile => keyFile;
