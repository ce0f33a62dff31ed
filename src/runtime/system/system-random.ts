/** Real randomness. */
import { randomBytes } from "node:crypto";
import type { Random } from "../../ports/random.ts";

const ALPHABET = "abcdefghijklmnopqrstuvwxyz234567";
const ID_CHARS = 12;

export const systemRandom: Random = {
  next: () => Math.random(),
  id: () => Array.from(randomBytes(ID_CHARS), (byte) => ALPHABET[byte & 31]).join(""),
};
