/** The addresses that webhooks may be sent to. */
import { describe, expect, test } from "vitest";
import { isClosedHost, isPublicAddress } from "./public-address.ts";

describe("an address is refused", () => {
  test.each([
    ["of this host", "127.0.0.1"],
    ["of this host", "127.255.255.254"],
    ["of this host", "0.0.0.0"],
    ["of this host", "0.1.2.3"],
    ["of this host", "::1"],
    ["of this host", "::"],
    ["of a private network", "10.0.0.1"],
    ["of a private network", "10.255.255.255"],
    ["of a private network", "172.16.0.1"],
    ["of a private network", "172.31.255.255"],
    ["of a private network", "192.168.1.1"],
    ["of a private network", "fc00::1"],
    ["of a private network", "fdff:ffff::1"],
    ["of a link", "169.254.0.1"],
    ["of a link", "fe80::1"],
    ["of a link", "fe80::1%eth0"],
    ["of a link", "febf::1"],
    ["of a site", "fec0::1"],
    ["of a cloud's metadata", "169.254.169.254"],
    ["of a cloud's metadata", "168.63.129.16"],
    ["of a cloud's metadata", "100.100.100.200"],
    ["of a cloud's metadata", "fd00:ec2::254"],
    ["of a carrier's network", "100.64.0.1"],
    ["of a carrier's network", "100.127.255.255"],
    ["of IPv4 mapped into IPv6", "::ffff:10.0.0.1"],
    ["of IPv4 mapped into IPv6", "::ffff:7f00:1"],
    ["of IPv4 mapped into IPv6", "::ffff:8.8.8.8"],
    ["of IPv4 within IPv6", "::10.0.0.1"],
    ["of IPv4 within IPv6", "64:ff9b::a00:1"],
    ["of IPv4 within IPv6", "64:ff9b:1::a00:1"],
    ["of IPv4 within IPv6", "2002:a00:1::"],
    ["of a tunnel", "2001::1"],
    ["of answers for private names", "2620:4f:8000::1"],
    ["for documents", "192.0.2.1"],
    ["for documents", "198.51.100.1"],
    ["for documents", "203.0.113.1"],
    ["for documents", "2001:db8::1"],
    ["for documents", "3fff::1"],
    ["for measurements", "198.18.0.1"],
    ["for groups", "224.0.0.1"],
    ["for groups", "ff02::1"],
    ["for everyone", "255.255.255.255"],
    ["that is reserved", "240.0.0.1"],
    ["that is a name", "example.com"],
    ["that is empty", ""],
    ["that is odd", "127.1"],
  ])("%s: %s", (_what, address) => {
    expect(isPublicAddress(address)).toBe(false);
  });
});

test.each([
  "1.1.1.1",
  "9.255.255.255",
  "11.0.0.0",
  "100.63.255.255",
  "100.128.0.0",
  "172.15.255.255",
  "172.32.0.0",
  "192.167.255.255",
  "223.255.255.255",
  "2606:4700:4700::1111",
  "2a00:1450:4001:81b::200e",
])("a public address is not refused: %s", (address) => {
  expect(isPublicAddress(address)).toBe(true);
});

test.each([
  "http://127.0.0.1/",
  "http://2130706433/",
  "http://0x7f.1/",
  "http://0177.0.0.1/",
  "http://127.1/",
  "http://0/",
  "http://%31%32%37.0.0.1/",
  "http://１２７.0.0.1/",
  "http://[::1]/",
  "http://[::ffff:10.0.0.1]/",
  "http://[0:0:0:0:0:0:0:1]/",
  "http://localhost/",
  "http://LOCALHOST./",
  "http://api.localhost:8080/",
  "http://169.254.169.254/latest/meta-data/",
])("a URL in an unusual form is checked after parsing: %s", (url) => {
  expect(isClosedHost(new URL(url).hostname)).toBe(true);
});

test("a name is not refused before its lookup", () => {
  for (const url of ["https://example.com/", "https://localhost.example.com/", "http://1.1.1.1/"]) {
    expect(isClosedHost(new URL(url).hostname)).toBe(false);
  }
});
