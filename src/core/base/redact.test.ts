import { describe, expect, it } from "vitest";
import {
  holdsSecret,
  isSecretName,
  listSecrets,
  makeRedact,
  REDACTED,
  redactText,
  redactValue,
} from "./redact.ts";

const C = "c4nary-9f8e7d";

describe("a secret that is recognised by its shape", () => {
  it.each([
    `connect to postgres://app:${C}@db.local:5432/jobs failed`,
    `connect to postgres://app:p@${C}@db.local/jobs failed`,
    `GET https://${C}@example.test/hook answered 500`,
    `GET https://example.test/hook?token=${C}&page=2`,
    `GET https://example.test/hook?page=2&sig=${C}`,
    `password=${C}`,
    `PGPASSWORD=${C} psql`,
    `{"password":"${C}","user":"a"}`,
    `{"dbPassword": "x y ${C}"}`,
    `{\\"apiKey\\":\\"${C}\\"}`,
    `{ clientSecret: '${C}' }`,
    `authorization: Bearer ${C}abcdef`,
    `Authorization: Basic ${C}abcdef`,
    `sent Bearer ${C}abcdef to it`,
    `x-api-key: ${C}`,
    `set-cookie: session=${C}; path=/`,
    `aws_secret_access_key = ${C}`,
    `-----BEGIN RSA PRIVATE KEY-----\n${C}\n-----END RSA PRIVATE KEY-----`,
    `bad token eyJhbGciOiJIUzI1NiJ9.${C}.sig`,
    `bad token ghp_${C.replaceAll("-", "")}0123`,
  ])("%s", (text) => {
    const safe = redactText(text);
    expect(safe).not.toContain(C);
    expect(safe).not.toContain(C.replaceAll("-", ""));
    expect(safe).toContain(REDACTED);
  });

  it("text without secrets stays unchanged", () => {
    const texts = [
      "the header of line 4 has no comma",
      "postgres://app@db.local:5432/jobs is not there",
      "https://example.test/a/b?page=2 answered 404",
      "unexpected token in JSON at position 4",
      "password: expected",
      "the token was not accepted",
      "    at refill (file:///app/token-bucket.ts:112:14)",
      "retry in 3 s; see https://example.test/docs:80/",
    ];
    for (const text of texts) expect(redactText(text)).toBe(text);
  });

  it("host and path in the text stay readable", () => {
    expect(redactText(`connect to postgres://app:${C}@db.local:5432/jobs failed`)).toBe(
      `connect to postgres://app:${REDACTED}@db.local:5432/jobs failed`,
    );
  });

  it("redacting twice gives the same text as once", () => {
    const once = redactText(`{"password":"${C}"} token=${C} https://u:${C}@h/`);
    expect(redactText(once)).toBe(once);
  });

  it("redacting a hostile text takes linear time", () => {
    const started = performance.now();
    redactText(`${"password".repeat(5_000)} ${"a:/".repeat(20_000)}${"token='".repeat(5_000)}`);
    redactText(`https://${"x".repeat(100_000)}`);
    redactText("-----BEGIN PRIVATE KEY-----".repeat(2_000));
    expect(performance.now() - started).toBeLessThan(20_000);
  });
});

describe("a secret that the caller names", () => {
  it("is removed as it is, and as URLs and JSON spell it", () => {
    const redact = makeRedact(['s3 cr"et/v']);
    expect(redact('a s3 cr"et/v b')).toBe(`a ${REDACTED} b`);
    expect(redact("a s3%20cr%22et%2Fv b")).toBe(`a ${REDACTED} b`);
    expect(redact('a s3 cr\\"et/v b')).toBe(`a ${REDACTED} b`);
  });

  it("the longer one is removed first, where one contains the other", () => {
    expect(makeRedact(["abcdef", "abcdef-ghi"])("x abcdef-ghi y")).toBe(`x ${REDACTED} y`);
  });

  it("a named secret that is too short is ignored: it would blank out ordinary words", () => {
    expect(makeRedact(["a", "dev"])("a developer")).toBe("a developer");
  });
});

describe("secrets of a value", () => {
  it("are the values of names that look secret, however deep", () => {
    const item = {
      id: "document-1",
      auth: { user: "alice-smith", pass_phrase: "no", password: "hunter22" },
      headers: [{ Authorization: "Bearer abcdefgh" }],
      tokens: ["first-token", "second-token"],
      tokenCount: "123456",
    };
    expect(listSecrets(item)).toEqual([
      "alice-smith",
      "hunter22",
      "Bearer abcdefgh",
      "first-token",
      "second-token",
    ]);
  });

  it("survive cycles and hostile getters", () => {
    const loop: Record<string, unknown> = { password: "abcdefgh" };
    loop["self"] = loop;
    expect(listSecrets(loop)).toContain("abcdefgh");
    const hostile = Object.defineProperty({}, "password", {
      enumerable: true,
      get: () => {
        throw new Error("no");
      },
    });
    expect(listSecrets(hostile)).toEqual([]);
  });

  it("names that only describe secrets hold none", () => {
    const names = ["tokenCount", "passwordMaxLength", "monkey", "keyboard", "tokenExpiresAt"];
    expect(names.filter(isSecretName)).toEqual([]);
    expect(["password", "DB_PASSWORD", "x-api-key", "key", "sig"].every(isSecretName)).toBe(true);
  });
});

describe("redacted plain data", () => {
  it("keeps its form and loses values of secret names, and values that look like secrets", () => {
    const input = {
      site: 12,
      url: `https://me:${C}@portal.test/list`,
      login: { password: C, pin: "12", tokens: [C, null] },
      pages: ["a", `token=${C}`],
    };
    expect(redactValue(input)).toEqual({
      site: 12,
      url: `https://me:${REDACTED}@portal.test/list`,
      login: { password: REDACTED, pin: "12", tokens: [REDACTED, null] },
      pages: ["a", `token=${REDACTED}`],
    });
  });

  it("is blank where it is too deep to be searched, and may contain cycles", () => {
    const loop: Record<string, unknown> = { name: "x" };
    loop["self"] = loop;
    expect(JSON.stringify(redactValue(loop))).toContain(REDACTED);
  });

  it("finds a secret under a name, or in a text", () => {
    const redact = makeRedact([C]);
    expect(holdsSecret({ a: [{ b: `with ${C}` }] }, redact)).toBe(true);
    expect(holdsSecret({ headers: { authorization: "abcdefgh" } }, redact)).toBe(true);
    expect(holdsSecret({ a: [{ b: "with nothing" }], key: "a" }, redact)).toBe(false);
  });
});
