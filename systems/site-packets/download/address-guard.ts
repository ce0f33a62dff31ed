/**
 * Which addresses may be connected to. A portal's link, a redirect or a name server must not be able
 * to turn the pipeline against the network it stands in: the host itself, its neighbours, the
 * cloud's metadata. Everything that is no unicast address of the public internet is refused, unless
 * an explicitly allowed range holds it.
 */
import dns, { type LookupAddress } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";
import { SluiceError } from "sluice";
import type { Refusal } from "./refusal.ts";

export interface AddressGuard {
  /** Null when the address may be connected to. */
  check(address: string): Refusal | null;
  /**
   * For sockets, in the place of `dns.lookup`. What it answers is what was vetted, and it is what the
   * socket connects to: a name server cannot say one thing to the check and another to the socket.
   */
  readonly lookup: LookupFunction;
}

/** All addresses of a name, of both families, as `dns.lookup` answers them. */
export type ResolveName = (
  hostname: string,
  options: { readonly all: true; readonly hints: number },
  callback: (error: Error | null, addresses: readonly LookupAddress[]) => void,
) => void;

/** The lookup's error; the code that asked for the connection knows the link. */
export class RefusedAddressError extends Error {
  override readonly name = "RefusedAddressError";
  readonly code = "FORBIDDEN_ADDRESS";
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.why);
    this.refusal = refusal;
  }
}

/** `allowPrivate`: ranges such as "10.20.0.0/16" whose addresses may be connected to all the same. */
export function makeAddressGuard(
  allowPrivate: readonly string[],
  resolve: ResolveName = dns.lookup,
): AddressGuard {
  const allowed = allowPrivate.map(parseRange);
  const check = (address: string): Refusal | null => checkAddress(address, allowed);
  return { check, lookup: makeLookup(check, resolve) };
}

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Range = readonly [network: Address, prefix: number];

/** All public IPv6 is in here. The library calls everything unicast that it has no name for. */
const GLOBAL_IPV6 = ipaddr.IPv6.parseCIDR("2000::/3");
/** Public by its number, but it is a cloud's own service for the machine that asks. */
const CLOUD_HOST_SERVICE = "168.63.129.16";

function checkAddress(text: string, allowed: readonly Range[]): Refusal | null {
  // The library also reads "127.1" and "0x7f000001", which sockets read as names.
  if (isIP(text) === 0) return refuseAddress(text, "no address");
  // A zone names one of this host's own links.
  if (text.includes("%")) return refuseAddress(text, "an address with a zone");
  const address = ipaddr.parse(text);
  const spellings = [address, ...listMapped(address)];
  if (spellings.some((one) => allowed.some((range) => isWithin(one, range)))) return null;
  const kind = nameKind(address);
  return kind === "unicast" ? null : refuseAddress(text, `not a public address (${kind})`);
}

function nameKind(address: Address): string {
  const kind = address.range();
  if (kind !== "unicast") return kind;
  if (address.kind() === "ipv6") return isWithin(address, GLOBAL_IPV6) ? kind : "unassigned";
  return address.toString() === CLOUD_HOST_SERVICE ? "a cloud's metadata" : kind;
}

/** ::ffff:10.0.0.1 connects to 10.0.0.1: where that one is allowed, so is this. */
function listMapped(address: Address): readonly Address[] {
  if (!(address instanceof ipaddr.IPv6) || !address.isIPv4MappedAddress()) return [];
  return [address.toIPv4Address()];
}

function isWithin(address: Address, [network, prefix]: Range): boolean {
  return address.kind() === network.kind() && address.match(network, prefix);
}

function refuseAddress(address: string, what: string): Refusal {
  return {
    code: "FORBIDDEN_ADDRESS",
    why: `${address} is ${what}`,
    remedy: "if it belongs to the site, add its range to allowPrivate",
  };
}

function parseRange(text: string): Range {
  const network = text.slice(0, Math.max(0, text.lastIndexOf("/")));
  if (isIP(network) !== 0 && ipaddr.isValidCIDR(text)) return ipaddr.parseCIDR(text);
  throw new SluiceError("BAD_ADDRESS_RANGE", `allowPrivate: ${JSON.stringify(text)} is no range`, {
    hint: 'Write it as an address and a prefix, for example "10.20.0.0/16" or "fd00::/8".',
  });
}

const FAMILIES: Readonly<Record<string, number>> = { IPv4: 4, IPv6: 6 };

/** Both families are asked for, whichever is wanted, and all that is found is vetted. */
function makeLookup(check: AddressGuard["check"], resolve: ResolveName): LookupFunction {
  return (hostname, { all, family = 0, hints = 0 }, callback) => {
    const wanted = FAMILIES[family] ?? Number(family);
    resolve(hostname, { all: true, hints }, (error, addresses) => {
      const failure = error ?? refuseName(hostname, addresses, check);
      if (failure !== null) return callback(failure, "");
      const vetted = addresses
        .map(({ address }) => ({ address, family: isIP(address) }))
        .filter((one) => wanted === 0 || one.family === wanted);
      const [first] = vetted;
      if (first === undefined) callback(makeNotFound(hostname), "");
      else if (all === true) callback(null, vetted);
      else callback(null, first.address, first.family);
    });
  };
}

/** One refused address among public ones is enough: who connects does not choose among them. */
function refuseName(
  hostname: string,
  addresses: readonly LookupAddress[],
  check: AddressGuard["check"],
): RefusedAddressError | null {
  for (const { address } of addresses) {
    const refusal = check(address);
    if (refusal === null) continue;
    return new RefusedAddressError({ ...refusal, why: `${hostname} leads to ${refusal.why}` });
  }
  return null;
}

/** As `dns.lookup` says it, so that it is classified as that is. */
function makeNotFound(hostname: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`no address of ${hostname}`), { code: "ENOTFOUND", hostname });
}
