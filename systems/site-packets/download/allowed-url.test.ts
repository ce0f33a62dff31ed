/** Which links are fetched for a site, and what is reported about the others. */
import { expect, test } from "vitest";
import { makeAddressGuard } from "./address-guard.ts";
import { decideUrl, describeUrl, type SiteOrigins } from "./allowed-url.ts";

const guard = makeAddressGuard(["10.1.0.0/16"]);
const site: SiteOrigins = {
  origin: "https://portal.example.org",
  hosts: ["files.example.org", "cdn.example.org:8443", "bücher.example", "Upper.Example.org."],
};

const decide = (text: string, where: SiteOrigins = site, base?: URL): string => {
  const decided = decideUrl(text, where, guard, base);
  return decided instanceof URL ? decided.href : decided.code;
};

test.each([
  ["/a.pdf", "https://portal.example.org/a.pdf"],
  ["a b.pdf", "https://portal.example.org/a%20b.pdf"],
  ["?id=1#page=2", "https://portal.example.org/?id=1"],
  ["../../a.pdf", "https://portal.example.org/a.pdf"],
  ["https://portal.example.org:443/a", "https://portal.example.org/a"],
  ["HTTPS://PORTAL.Example.ORG/a", "https://portal.example.org/a"],
  ["https://portal.example.org./a", "https://portal.example.org/a"],
  ["https:\\\\portal.example.org\\a", "https://portal.example.org/a"],
  ["ht\ntps://portal.example.org/a", "https://portal.example.org/a"],
  ["//files.example.org/a", "https://files.example.org/a"],
  ["https://cdn.example.org:8443/a", "https://cdn.example.org:8443/a"],
  ["https://xn--bcher-kva.example/a", "https://xn--bcher-kva.example/a"],
  ["https://BÜCHER.example/a", "https://xn--bcher-kva.example/a"],
  ["https://upper.example.org/a", "https://upper.example.org/a"],
])("a link to the site's origin or one of its hosts is allowed: %j", (text, href) => {
  expect(decide(text)).toBe(href);
});

test.each([
  "ftp://portal.example.org/a",
  "file:///etc/passwd",
  "data:text/plain,a",
  "javascript:alert(1)",
  "blob:https://portal.example.org/a",
  "ws://portal.example.org/",
  "https://",
  "https://a b/",
  "https://user@portal.example.org/a",
  "https://user:pass@portal.example.org/a",
  "https://:pass@portal.example.org/a",
  "https://portal.example.org@evil.example/a",
  "//evil.example/a",
  "\\\\evil.example\\a",
  "/\t/evil.example/a",
  "https://evil.example/https://portal.example.org/",
  "https://evil.portal.example.org/a",
  "https://portal.example.org.evil.example/a",
  "https://portal.example.org../a",
  "https://portal.example.org:444/a",
  "https://portal.example.org:80/a",
  "https://files.example.org:8443/a",
  "https://cdn.example.org/a",
  "https://pоrtal.example.org/a",
])("any other link is refused: %j", (text) => {
  expect(decide(text)).toBe("FORBIDDEN_URL");
});

test("a link that is too long is refused, before and after normalisation", () => {
  expect(decide(`/${"a".repeat(4_000)}`)).toMatch(/^https:/u);
  expect(decide(`/${"a".repeat(4_096)}`)).toBe("FORBIDDEN_URL");
  expect(decide(`/${"ü".repeat(1_000)}`)).toBe("FORBIDDEN_URL");
});

test("no link from https: leads to http:, not even to the site itself", () => {
  expect(decide("http://portal.example.org/a")).toBe("FORBIDDEN_URL");
  expect(decide("http://files.example.org/a")).toBe("FORBIDDEN_URL");
  const plain = { ...site, origin: "http://portal.example.org" };
  expect(decide("/a", plain)).toBe("http://portal.example.org/a");
  expect(decide("https://files.example.org/a", plain)).toBe("https://files.example.org/a");
  // A redirect from https: is judged by the page that redirects.
  const base = new URL("https://files.example.org/");
  expect(decide("http://portal.example.org/a", plain, base)).toBe("FORBIDDEN_URL");
});

test("http: and https: of one name are two servers, and a host without a port has the scheme's port", () => {
  const plain = { origin: "http://portal.example.org", hosts: ["files.example.org"] };
  expect(decide("https://portal.example.org/a", plain)).toBe("FORBIDDEN_URL");
  expect(decide("http://files.example.org/", plain)).toBe("http://files.example.org/");
  expect(decide("https://files.example.org/", plain)).toBe("https://files.example.org/");
});

test("a relative link of a redirect is resolved against the redirecting URL", () => {
  const base = new URL("https://files.example.org/one/two");
  expect(decide("three", site, base)).toBe("https://files.example.org/one/three");
});

test.each(["10.1.2.3", "0xa.1.2.3", "167838211", "10.66051", "[::ffff:10.1.2.3]", "10.1.2.3."])(
  "an address of an allowed range is allowed in any notation: %s",
  (host) => {
    expect(decide("/a", { origin: `http://${host}`, hosts: [] })).toMatch(/^http:/u);
  },
);

test.each(["127.0.0.1", "2130706433", "0x7f.1", "[::1]", "127.0.0.1..", "[::ffff:7f00:1]"])(
  "an address outside the allowed ranges is refused, even as one of the site's hosts: %s",
  (host) => {
    const named = { origin: "http://portal.example.org", hosts: [host, "127.0.0.1"] };
    expect(decide(`http://${host}/a`, named)).toBe("FORBIDDEN_ADDRESS");
  },
);

test("a refusal names the host and the fix, and no part of a query or of credentials", () => {
  const refused = [
    "https://evil.example/a?token=secret",
    "https://user:secret@portal.example.org/?secret",
    "http://portal.example.org/a?secret",
    "https://a b?secret",
    "data:secret",
    `https://portal.example.org/?${"secret".repeat(1_000)}`,
  ].map((text) => decideUrl(text, site, guard));
  expect(JSON.stringify(refused)).not.toContain("secret");
  expect(refused[0]).toEqual({
    code: "FORBIDDEN_URL",
    why: "https://evil.example is neither the site's origin nor one of its hosts",
    remedy: 'if it belongs to the site, add "evil.example" to the site\'s hosts',
  });
});

test("a printed URL has no query and is cut", () => {
  expect(describeUrl(new URL("https://a.example/b?c=d#e"))).toBe("https://a.example/b");
  expect(describeUrl(new URL(`https://a.example/${"b".repeat(1_000)}`))).toHaveLength(300);
});
