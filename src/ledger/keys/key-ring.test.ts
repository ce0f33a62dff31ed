import { describe, expect, test } from "vitest";
import type { SluiceError } from "../../core/base/errors.ts";
import { KeyRing } from "./key-ring.ts";
import { makeKey } from "../format/signing-key.ts";

/** The message and hint of the refusal. */
function readRefusal(trusted: string): string {
  let told = "";
  const refuse = (): KeyRing => new KeyRing([trusted]);
  expect(refuse).toThrow(
    expect.toSatisfy(({ code, message, hint }: SluiceError) => {
      told = `${message}\n${hint}`;
      return code === "LEDGER_KEY";
    }) as Error,
  );
  return told;
}

describe("an invalid trusted key", () => {
  const pem = String(makeKey().export({ type: "pkcs8", format: "pem" }));
  const [head = "", body = ""] = pem.split("\n");

  test.each([
    ["whose end is cut", `${head}\n${body.slice(0, -8)}\n`],
    ["whose first line is damaged", pem.replace("-----BEGIN", "----BEGIN")],
    ["without its first line", pem.slice(head.length + 1)],
    ["without its first line, nor line ends", body],
    ["on one line", `${head}${body.slice(4)}`],
    ["on one line with blanks", `${head} ${body} -----END`],
    ["behind something else", `key: ${pem.replace("M", "")}`],
  ])("a private key %s is refused, without showing its secret part", (_, damaged) => {
    const told = readRefusal(damaged);
    // The first 22 digits are the same in all Ed25519 keys.
    const secret = body.slice(22);
    for (let at = 0; at + 6 <= secret.length; at++) {
      expect(told).not.toContain(secret.slice(at, at + 6));
    }
  });

  test("a text that looks like a name is shown, in part", () => {
    expect(readRefusal("missing.pem")).toContain('"missing.pem"');
    const long = readRefusal("0123456789abcdef".repeat(5));
    expect(long).toContain('"0123456789abcdef0123…"');
    expect(long).not.toContain("0123456789abcdef01234");
    expect(long).toContain("80 characters");
  });
});
