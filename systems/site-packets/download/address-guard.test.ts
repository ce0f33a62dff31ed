/** Which addresses are allowed, in every notation of an address. */
import type { LookupAddress } from "node:dns";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { makeAddressGuard, type ResolveName } from "./address-guard.ts";
import { decideUrl } from "./allowed-url.ts";
import { resolveTo } from "./fetch-rig.ts";

const strict = makeAddressGuard([]);

const PUBLIC = [
  "1.1.1.1",
  "8.8.8.8",
  "9.255.255.255",
  "11.0.0.0",
  "100.63.255.255",
  "100.128.0.0",
  "126.255.255.255",
  "128.0.0.0",
  "168.63.129.15",
  "169.253.255.255",
  "169.255.0.0",
  "172.15.255.255",
  "172.32.0.0",
  "192.167.255.255",
  "192.169.0.0",
  "198.17.255.255",
  "198.20.0.0",
  "223.255.255.255",
  "2001:200::1",
  "2001:4860:4860::8888",
  "2606:4700:4700::1111",
  "2a00:1450:4001:81b::200e",
];

const REFUSED = [
  "0.0.0.0",
  "0.1.2.3",
  "10.0.0.0",
  "10.255.255.255",
  "100.64.0.0",
  "100.100.100.200",
  "100.127.255.255",
  "127.0.0.1",
  "127.255.255.255",
  "168.63.129.16",
  "169.254.0.0",
  "169.254.169.254",
  "172.16.0.0",
  "172.31.255.255",
  "192.0.0.1",
  "192.0.0.192",
  "192.0.2.1",
  "192.88.99.1",
  "192.168.0.0",
  "192.168.255.255",
  "198.18.0.1",
  "198.19.255.255",
  "198.51.100.1",
  "203.0.113.1",
  "224.0.0.1",
  "239.255.255.255",
  "240.0.0.1",
  "255.255.255.255",
  "::",
  "::1",
  "::2",
  "::127.0.0.1",
  "::8.8.8.8",
  "::ffff:127.0.0.1",
  "::ffff:a9fe:a9fe",
  "::ffff:8.8.8.8",
  "::ffff:0:127.0.0.1",
  "64:ff9b::127.0.0.1",
  "64:ff9b::8.8.8.8",
  "64:ff9b:1::1",
  "100::1",
  "1fff::1",
  "2001::1",
  "2001:0:4136:e378:8000:63bf:3fff:fdd2",
  "2001:2::1",
  "2001:10::1",
  "2001:20::1",
  "2001:db8::1",
  "2002:7f00:1::1",
  "2002:808:808::1",
  "3fff::1",
  "4000::1",
  "5f00::1",
  "fc00::1",
  "fd00:ec2::254",
  "fe00::1",
  "fe80::1",
  "fe80::1%eth0",
  "2606:4700:4700::1111%eth0",
  "2620:4f:8000::1",
  "fec0::1",
  "ff02::1",
  // A socket does not accept these as addresses.
  "",
  "localhost",
  "127.1",
  "8.8.2056",
  "0x08080808",
  "134744072",
  "0x7f000001",
  "2130706433",
  "0177.0.0.1",
  "127.0.0.1 ",
  "[::1]",
];

test.each(PUBLIC)("a unicast address of the public internet is allowed: %s", (address) => {
  expect(strict.check(address)).toBeNull();
});

test.each(REFUSED)("every other address is refused: %s", (address) => {
  expect(strict.check(address)).toMatchObject({ code: "FORBIDDEN_ADDRESS" });
});

test("a refusal names the address, its kind, and the setting that would allow it", () => {
  expect(strict.check("169.254.169.254")).toEqual({
    code: "FORBIDDEN_ADDRESS",
    why: "169.254.169.254 is not a public address",
    remedy: "if it belongs to the site, add its range to allowPrivate",
  });
});

test("an allowed range allows its addresses, mapped ones too, and no others", () => {
  const guard = makeAddressGuard(["10.20.0.0/16", "fd12::/16"]);
  for (const address of ["10.20.0.1", "::ffff:10.20.255.255", "fd12::1"]) {
    expect(guard.check(address)).toBeNull();
  }
  const others = ["10.21.0.1", "::ffff:10.19.0.1", "fd13::1", "2002:a14:1::1", "64:ff9b::a14:1"];
  for (const address of others) expect(guard.check(address)).not.toBeNull();
});

test("a range of IPv6 allows no address of IPv4", () => {
  expect(makeAddressGuard(["::/0"]).check("10.0.0.1")).not.toBeNull();
});

test.each(["", "10.0.0.0", "10.0.0.0/33", "10/8", "10.0/8", "0x0a000000/8", "::/129", "/8", "a/8"])(
  "an invalid range is refused when the guard is made: %s",
  (range) => {
    expect(() => makeAddressGuard([range])).toThrow(
      expect.objectContaining({ code: "BAD_ADDRESS_RANGE" }),
    );
  },
);

describe("in any notation", () => {
  /** Written a second time, so that the code under test is not its own measure. */
  const SPECIAL: readonly (readonly [network: string, prefix: number])[] = [
    ["0.0.0.0", 8],
    ["10.0.0.0", 8],
    ["100.64.0.0", 10],
    ["127.0.0.0", 8],
    ["169.254.0.0", 16],
    ["172.16.0.0", 12],
    ["192.0.0.0", 24],
    ["192.0.2.0", 24],
    ["192.88.99.0", 24],
    ["192.168.0.0", 16],
    ["198.18.0.0", 15],
    ["198.51.100.0", 24],
    ["203.0.113.0", 24],
    ["224.0.0.0", 4],
    ["240.0.0.0", 4],
  ];
  const toNumber = (address: string): number =>
    address.split(".").reduce((sum, octet) => sum * 256 + Number(octet), 0);
  const special = fc
    .constantFrom(...SPECIAL)
    .chain(([network, prefix]) =>
      fc
        .integer({ min: 0, max: 2 ** (32 - prefix) - 1 })
        .map((offset) => toNumber(network) + offset),
    );
  const SPELLINGS: Readonly<Record<string, (a: number, o: readonly number[]) => string>> = {
    dotted: (_a, o) => o.join("."),
    "with the root's dot": (_a, o) => `${o.join(".")}.`,
    decimal: (a) => String(a),
    hex: (a) => `0x${a.toString(16)}`,
    octal: (a) => `0${a.toString(8)}`,
    "dotted hex": (_a, o) => o.map((octet) => `0X${octet.toString(16)}`).join("."),
    "dotted octal": (_a, o) => o.map((octet) => `0${octet.toString(8)}`).join("."),
    "of two parts": (a, o) => `${o[0]}.${a % 2 ** 24}`,
    "of three parts": (a, o) => `${o[0]}.${o[1]}.${a % 2 ** 16}`,
    "in full width": (_a, o) =>
      o.join(".").replace(/\d/gu, (digit) => String.fromCodePoint(0xff10 + Number(digit))),
    escaped: (_a, o) => o.join(".").replace(/\d/u, (digit) => `%3${digit}`),
    mapped: (_a, o) => `[::ffff:${o.join(".")}]`,
    compatible: (_a, o) => `[::${o.join(".")}]`,
    translated: (_a, o) => `[::ffff:0:${o.join(".")}]`,
    NAT64: (_a, o) => `[64:ff9b::${o.join(".")}]`,
    "local NAT64": (_a, o) => `[64:ff9b:1::${o.join(".")}]`,
    "6to4": (a) => `[2002:${(a >>> 16).toString(16)}:${(a % 2 ** 16).toString(16)}::1]`,
    Teredo: (_a, o) => `[2001::${o.join(".")}]`,
  };

  test.each(Object.entries(SPELLINGS))("no special IPv4 address is allowed: %s", (_name, spell) => {
    fc.assert(
      fc.property(special, (address) => {
        const octets = [24, 16, 8, 0].map((bits) => (address >>> bits) & 0xff);
        const origin = `http://${spell(address, octets)}`;
        // The address is the site's own host, so it is refused only because of the address.
        const decided = decideUrl("/x", { origin, hosts: [] }, strict);
        expect(decided).toMatchObject({ code: "FORBIDDEN_ADDRESS" });
      }),
      { numRuns: 300 },
    );
  });
});

describe("looking up a name", () => {
  interface Looked {
    readonly error: NodeJS.ErrnoException | null;
    readonly address: string | LookupAddress[];
    readonly family: number | undefined;
  }
  const lookUp = (
    resolve: ResolveName,
    options: { all?: boolean; family?: number | "IPv4" | "IPv6" } = { all: true },
    allowPrivate: readonly string[] = [],
  ): Promise<Looked> => {
    const { promise, resolve: done } = Promise.withResolvers<Looked>();
    const { lookup } = makeAddressGuard(allowPrivate, resolve);
    lookup("portal.test", options, (error, address, family) => done({ error, address, family }));
    return promise;
  };

  test("returns public addresses, all or the first, as requested", async () => {
    const resolve = resolveTo("1.1.1.1", "2606:4700::1");
    const one = { address: "1.1.1.1", family: 4 };
    const other = { address: "2606:4700::1", family: 6 };
    expect(await lookUp(resolve)).toMatchObject({ error: null, address: [one, other] });
    expect(await lookUp(resolve, {})).toMatchObject({ error: null, ...one });
    expect(await lookUp(resolve, { family: "IPv6" })).toMatchObject({ error: null, ...other });
    expect(await lookUp(resolve, { all: true, family: 4 })).toMatchObject({ address: [one] });
  });

  test.each([
    { found: ["10.0.0.1"] },
    { found: ["1.1.1.1", "10.0.0.1"] },
    { found: ["10.0.0.1", "1.1.1.1"] },
    { found: ["1.1.1.1", "::1"] },
    { found: ["1.1.1.1", "::ffff:10.0.0.1"] },
    { found: ["1.1.1.1", "nonsense"] },
  ])("refuses the name if one of its addresses is refused: $found", async ({ found }) => {
    for (const options of [{ all: true }, {}, { family: 4 }]) {
      const { error, address } = await lookUp(resolveTo(...found), options);
      expect(error).toMatchObject({ code: "FORBIDDEN_ADDRESS" });
      expect(error?.message).toMatch(/^portal\.test resolves to a refused address: /u);
      expect(address).toBe("");
    }
  });

  test("applies an allowed range to names as well", async () => {
    const looked = await lookUp(resolveTo("10.0.0.1"), {}, ["10.0.0.0/8"]);
    expect(looked).toMatchObject({ error: null, address: "10.0.0.1", family: 4 });
  });

  test("fails as not found for a name without an address, or without one of the family", async () => {
    expect((await lookUp(resolveTo())).error).toMatchObject({ code: "ENOTFOUND" });
    const { error } = await lookUp(resolveTo("1.1.1.1"), { family: 6 });
    expect(error).toMatchObject({ code: "ENOTFOUND" });
  });

  test("fails with the resolver's error", async () => {
    const failure = Object.assign(new Error("later"), { code: "EAI_AGAIN" });
    const { error } = await lookUp((_name, _options, callback) => callback(failure, []));
    expect(error).toBe(failure);
  });
});
