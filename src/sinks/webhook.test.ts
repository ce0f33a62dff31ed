/** The options of a webhook, and that it keeps its secrets. */
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { webhookSink } from "./webhook.ts";

const SECRET = "this is a secret of thirty bytes";
const URL_TEXT = "https://hooks.example.com/services/T0/B0/path-secret?token=query-secret";

test("all problems of a webhook are reported at once, without a secret", () => {
  const options = {
    url: "http://user:pass@127.0.0.1/",
    secret: "hunter2",
    timeoutMs: 0,
    attempts: 1.5,
    allowPrivate: "yes",
    events: [],
    headers: { "webhook-id": "x", "bad name": "y", authorization: "Bearer hunter3\n" },
    timeuotMs: 5,
  };
  expect(() => webhookSink(options as never)).toThrow(
    expect.objectContaining({
      code: "BAD_OPTION",
      field: "sink",
      message: [
        "webhookSink has 11 problems:",
        "  - timeuotMs is not an option. Did you mean timeoutMs?",
        "  - allowPrivate must be true or false (got a text)",
        "  - url must not hold a user or a password: send an authorization in headers",
        "  - url names 127.0.0.1, which is not a public address: allowPrivate: true allows it",
        "  - secret must have 24 bytes or more: as text, or as whsec_ and base64",
        "  - timeoutMs must be a whole number from 1 to 3600000 (got 0)",
        "  - the header webhook-id is set by the sink: remove it",
        '  - the header "bad name" is not valid',
        '  - the header "authorization" is not valid',
        '  - events must be a list of events, for example ["batch.ended"]',
        "  - attempts must be a whole number from 1 to 1000 (got 1.5)",
      ].join("\n"),
    }) as Error,
  );
});

test.each(["ftp://example.com/", "file:///etc/passwd", "javascript:1", "example.com", "", 5])(
  "a URL that is not http or https is refused: %s",
  (url) => {
    expect(() => webhookSink({ url: url as string, secret: SECRET })).toThrow(
      "url must be an http or https URL",
    );
  },
);

test.each([
  "http://localhost:3000/",
  "http://2130706433/",
  "http://0x7f.1/",
  "http://[::ffff:10.0.0.1]/",
  "http://169.254.169.254/latest/",
])("a URL that names a closed address is refused at once, unless that is allowed: %s", (url) => {
  expect(() => webhookSink({ url, secret: SECRET })).toThrow("is not a public address");
  expect(webhookSink({ url, secret: SECRET, allowPrivate: true }).kind).toBe("webhook");
});

test("a webhook is tried eight times, for ten seconds each, with all events by default", () => {
  const sink = webhookSink({ url: URL_TEXT, secret: SECRET });
  expect(sink.retry.attempts).toBe(8);
  expect(sink.events).toBeNull();
});

test("printing a webhook shows neither its secret nor the path of its URL", () => {
  const sink = webhookSink({
    url: URL_TEXT,
    secret: SECRET,
    headers: { authorization: "Bearer header-secret" },
  });
  const printed = inspect(sink, { depth: 10, showHidden: true }) + JSON.stringify(sink);
  expect(printed).toContain("https://hooks.example.com");
  for (const secret of [SECRET, "path-secret", "query-secret", "header-secret"]) {
    expect(printed).not.toContain(secret);
  }
});
