/** JSON as the second verifier reads it: simple, and by its own rules. */
import { createHash } from "node:crypto";

export type Fields = Record<string, unknown>;

export function must(condition: unknown, why: string): asserts condition {
  if (condition !== true) throw new Error(why);
}

export const sha = (text: string | Buffer): string =>
  createHash("sha256").update(text).digest("hex");
export const isHexOf = (value: unknown, digits: number): boolean =>
  typeof value === "string" && new RegExp(`^[0-9a-f]{${digits}}$`).test(value);
export const isWhole = (value: unknown): value is number =>
  Number.isSafeInteger(value) && Number(value) >= 0;

export function spell(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(spell).join(",")}]`;
  if (typeof value === "string") must(value.isWellFormed(), "half of a surrogate pair");
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${spell(name)}:${spell((value as Fields)[name])}`).join(",")}}`;
}

export function parse(line: string): Fields {
  const value = JSON.parse(line) as unknown;
  must(typeof value === "object" && value !== null && !Array.isArray(value), "no object");
  must(spell(value) === line, "not canonical");
  return value as Fields;
}

export function only(value: Fields, needed: string, optional = ""): void {
  const may = [...needed.split(" "), ...optional.split(" ")];
  for (const name of needed.split(" ")) must(Object.hasOwn(value, name), `no ${name}`);
  for (const name of Object.keys(value)) must(may.includes(name), `an invalid ${name}`);
}

export function signedOf(line: Fields, member: string): { body: string; signature: Buffer } {
  only(line, `${member} signature`);
  must(typeof line[member] === "string" && isHexOf(line["signature"], 128), "malformed signature");
  return { body: line[member], signature: Buffer.from(String(line["signature"]), "hex") };
}
