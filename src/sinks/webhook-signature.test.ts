/** Signatures of webhooks: which are genuine, and what is refused. */
import { describe, expect, test } from "vitest";
import {
  readSecret,
  signWebhook,
  verifyWebhook,
  type WebhookToVerify,
} from "./webhook-signature.ts";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const SENT_MS = 1_614_265_330_000;
const BODY = '{"test": 2432232314}';

function makeDelivery(changes: Partial<WebhookToVerify> = {}): WebhookToVerify {
  return {
    secret: SECRET,
    headers: {
      "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
      "webhook-timestamp": "1614265330",
      "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    },
    body: BODY,
    nowMs: SENT_MS,
    ...changes,
  };
}

function withHeader(name: string, value: string): WebhookToVerify {
  return makeDelivery({ headers: { ...makeDelivery().headers, [name]: value } });
}

const BAD = expect.objectContaining({ code: "BAD_SIGNATURE" }) as Error;

describe("a signature", () => {
  test("is the one of the Standard Webhooks convention", () => {
    const key = readSecret(SECRET);
    const content = {
      id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
      timestamp: "1614265330",
      body: BODY,
    };
    expect(signWebhook(key!, content)).toBe("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
  });

  test("verifies with every kind of headers and body", () => {
    const event = { test: 2432232314 };
    expect(verifyWebhook(makeDelivery())).toEqual(event);
    const headers = makeDelivery().headers as Record<string, string>;
    expect(verifyWebhook(makeDelivery({ headers: new Headers(headers) }))).toEqual(event);
    expect(verifyWebhook(makeDelivery({ body: Buffer.from(BODY) }))).toEqual(event);
    const upper = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value]),
    );
    expect(verifyWebhook(makeDelivery({ headers: upper }))).toEqual(event);
  });

  test("is found among several, while a sender rotates its secret", () => {
    const good = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    const several = `v1a,zzzz v1,${Buffer.alloc(32).toString("base64")} ${good}`;
    expect(verifyWebhook(withHeader("webhook-signature", several))).toBeDefined();
  });

  test("does not match another id, time, body or secret", () => {
    const others = [
      withHeader("webhook-id", "msg_other"),
      withHeader("webhook-timestamp", "1614265331"),
      makeDelivery({ body: `${BODY} ` }),
      makeDelivery({ secret: `whsec_${Buffer.alloc(24).toString("base64")}` }),
    ];
    for (const delivery of others)
      expect(() => verifyWebhook(delivery)).toThrow("no signature matches");
  });

  test.each([
    "",
    "v1",
    "v1,",
    "v1,AAAA",
    "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    "g0hM",
  ])("that is malformed is refused: %j", (signature) => {
    expect(() => verifyWebhook(withHeader("webhook-signature", signature))).toThrow(BAD);
  });

  test("is refused when it is older or newer than the tolerance", () => {
    const at = (nowMs: number, toleranceMs?: number): unknown =>
      verifyWebhook(makeDelivery({ nowMs, ...(toleranceMs === undefined ? {} : { toleranceMs }) }));
    expect(at(SENT_MS + 300_000)).toBeDefined();
    expect(at(SENT_MS - 300_000)).toBeDefined();
    expect(() => at(SENT_MS + 300_001)).toThrow("too old");
    expect(() => at(SENT_MS - 300_001)).toThrow("too old");
    expect(() => at(SENT_MS + 1_001, 1_000)).toThrow("too old");
    expect(() => at(Number.NaN)).toThrow("too old");
    expect(() => verifyWebhook(withHeader("webhook-timestamp", "soon"))).toThrow("too old");
    expect(() => verifyWebhook(withHeader("webhook-timestamp", "1e9"))).toThrow("too old");
  });

  test("without its headers is refused", () => {
    for (const name of ["webhook-id", "webhook-timestamp", "webhook-signature"]) {
      expect(() => verifyWebhook(withHeader(name, ""))).toThrow(`the header ${name} is missing`);
    }
  });
});

describe("a secret", () => {
  test("is a text, or base64 after whsec_", () => {
    expect(readSecret("a".repeat(24))).toEqual(Buffer.from("a".repeat(24)));
    const key = Buffer.from("0123456789abcdef01234567");
    expect(readSecret(`whsec_${key.toString("base64")}`)).toEqual(key);
  });

  test.each([
    ["too short", "a".repeat(23)],
    ["too short in base64", `whsec_${Buffer.alloc(23).toString("base64")}`],
    ["not base64", `whsec_${"?".repeat(40)}`],
    ["not base64 at its end", `whsec_${"A".repeat(40)} BBBB`],
    ["empty", ""],
    ["missing", undefined],
    ["no text", 123_456_789_012_345_678_901_234n],
  ])("that is %s is invalid", (_what, secret) => {
    expect(readSecret(secret)).toBeNull();
  });

  test("that is too short for a receiver is refused without being shown", () => {
    expect(() => verifyWebhook(makeDelivery({ secret: "hunter2" }))).toThrow(
      "the webhook is refused: the secret has fewer than 24 bytes",
    );
  });
});
