/**
 * The addresses that a webhook may be sent to. A URL or a name server must not direct the engine's
 * requests at its own network: the host itself, its neighbours, the cloud's metadata.
 *
 * Not with ipaddr.js: it reports every address without a known range as "unicast" (4000::1, a
 * cloud's 168.63.129.16), so these tables would still be needed.
 */
import { BlockList, isIP } from "node:net";

/** Everything that is not a unicast address of the public internet, by the registries of IANA. */
const CLOSED_IPV4: readonly (readonly [network: string, prefix: number])[] = [
  ["0.0.0.0", 8], // this host
  ["10.0.0.0", 8],
  ["100.64.0.0", 10], // carriers' own, and a cloud's metadata
  ["127.0.0.0", 8],
  ["168.63.129.16", 32], // a cloud's metadata, at a public address
  ["169.254.0.0", 16], // link-local, and most clouds' metadata
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24], // relays into IPv6
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
];

/**
 * All public IPv6 addresses are in here; mapped IPv4, local, link-local and translated ones are
 * not.
 */
const GLOBAL_IPV6 = ["2000::", 3] as const;

const CLOSED_IPV6: readonly (readonly [network: string, prefix: number])[] = [
  ["2001::", 23], // protocols of their own, tunnels among them
  ["2001:db8::", 32],
  ["2002::", 16], // IPv4 within IPv6
  ["2620:4f:8000::", 48], // answers for names of private addresses
  ["3fff::", 20],
];

const closed = new BlockList();
for (const [network, prefix] of CLOSED_IPV4) closed.addSubnet(network, prefix, "ipv4");
for (const [network, prefix] of CLOSED_IPV6) closed.addSubnet(network, prefix, "ipv6");
const global = new BlockList();
global.addSubnet(...GLOBAL_IPV6, "ipv6");

/**
 * Whether it is a unicast address of the public internet. Check the address that a name was
 * resolved to, in the `lookup` of the connection. False for a text that is not an address.
 */
export function isPublicAddress(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return !closed.check(address, "ipv4");
    case 6:
      // A zone is only used for addresses of this host's own links.
      if (address.includes("%")) return false;
      return global.check(address, "ipv6") && !closed.check(address, "ipv6");
    default:
      return false;
  }
}

/**
 * Whether a URL's host can be refused before its lookup. Parsing the URL has already converted
 * unusual forms (2130706433, 0x7f.1, 0177.0.0.1) into the usual address.
 */
export function isClosedHost(hostname: string): boolean {
  const bare = hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
  if (isIP(bare) !== 0) return !isPublicAddress(bare);
  return /(^|\.)localhost$/i.test(bare);
}
